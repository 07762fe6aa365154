//! Vaults written by version 1 of the format open forever.

use super::*;

const PASSPHRASE: &str = "fixture passphrase";

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Counting bytes from `first`: the secrets the fixtures were made with.
fn counting(first: u8) -> [u8; 32] {
    std::array::from_fn(|index| first + index as u8)
}

#[test]
fn the_first_vault_with_a_passphrase_still_opens() {
    let directory = fixtures().join("vault-v1");
    let vault = Vault::open(&directory, &passphrase(PASSPHRASE)).unwrap();
    assert_eq!(vault.generation(), 2);
    assert_eq!(vault.master().expose(), &counting(0));
    assert_eq!(vault.keyring.data.expose(), &counting(32));
    for kind in FileKind::ALL {
        let expected = match kind {
            FileKind::Index => String::new(),
            _ => format!("the {kind} of the first format"),
        };
        assert_eq!(&vault.read(kind).unwrap()[..], expected.as_bytes());
    }
}

#[test]
fn the_first_keyring_with_a_key_file_still_opens() {
    let file = fixtures().join("keyring-key-file-v1");
    let bytes = fs::read(&file).unwrap();
    let keyring = Keyring::open(&bytes, &key_file(0x42), &file).unwrap();
    assert_eq!(keyring.master.expose(), &counting(0));
    assert_eq!(keyring.data.expose(), &counting(32));
}

#[test]
#[ignore = "writes the fixtures anew, for a new version of the format only"]
fn write_fixtures() {
    let mut rng = CountingRng(0);
    let directory = fixtures().join("vault-v1");
    let unlock = passphrase(PASSPHRASE);
    let mut vault = Vault::create(&directory, &unlock, lowest_cost(), &mut rng).unwrap();
    // Two generations, so that the manifest lists files of both.
    for kinds in [&FileKind::ALL[..], &[FileKind::Model, FileKind::Index][..]] {
        let mut transaction = vault.transaction().unwrap();
        for &kind in kinds {
            let payload = format!("the {kind} of the first format");
            let length = if kind == FileKind::Index { 0 } else { payload.len() };
            transaction.write(kind, &payload.as_bytes()[..length], &mut rng).unwrap();
        }
        transaction.commit(&mut rng).unwrap();
    }

    let mut rng = CountingRng(0);
    let bytes = Keyring::generate(&mut rng).seal(&key_file(0x42), lowest_cost(), &mut rng).unwrap();
    fs::write(fixtures().join("keyring-key-file-v1"), bytes).unwrap();
}
