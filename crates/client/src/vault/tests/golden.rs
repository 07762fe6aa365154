//! Vaults written by version 1 of the format open forever.

use super::*;

const PASSPHRASE: &str = "fixture passphrase";

/// The code of bytes 0 to 31.
const RECOVERY_CODE: &str = "000G-40R4-0M30-E209-185G-R38E-1W81-24GK-2GAH-C5RR-34D1-P70X-3RFZ-FY5T";

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
    assert_eq!((vault.generation(), vault.access()), (2, VaultAccess::Owner));
    assert_eq!(vault.manifest.entries.len(), 5);
    assert_eq!(vault.master().unwrap().expose(), &counting(0));
    assert_eq!(vault.keyring.data.expose(), &counting(32));
    for kind in FileKind::ALL.into_iter().filter(|&kind| vault.contains(kind)) {
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
    let KeyringSecret::Master(master) = keyring.secret else { panic!("an owner's keyring") };
    assert_eq!(master.expose(), &counting(0));
    assert_eq!(keyring.data.expose(), &counting(32));
}

#[test]
fn the_first_recovery_keyring_still_opens() {
    let file = fixtures().join("keyring-recovery-v1");
    let unlock = Unlock::Recovery(RecoveryCode::parse(RECOVERY_CODE).unwrap());
    let keyring = Keyring::open(&fs::read(&file).unwrap(), &unlock, &file).unwrap();
    assert!(matches!(&keyring.secret, KeyringSecret::Master(it) if it.expose() == &counting(0)));
    assert_eq!(keyring.data.expose(), &counting(32));
}

#[test]
fn the_first_keyring_of_a_query_vault_still_opens() {
    let file = fixtures().join("keyring-query-v1");
    let keyring = Keyring::open(&fs::read(&file).unwrap(), &key_file(0x42), &file).unwrap();
    assert!(matches!(&keyring.secret, KeyringSecret::Epoch(it) if it.expose() == &[9; 32]));
    assert_eq!(keyring.data.expose(), &counting(0));
}

#[test]
#[ignore = "writes the fixtures anew, for a new version of the format only"]
fn write_fixtures_of_other_keyrings() {
    let mut rng = CountingRng(0);
    let unlock = Unlock::Recovery(RecoveryCode::parse(RECOVERY_CODE).unwrap());
    let bytes = Keyring::generate(&mut rng).seal(&unlock, lowest_cost(), &mut rng).unwrap();
    fs::write(fixtures().join("keyring-recovery-v1"), bytes).unwrap();

    let mut rng = CountingRng(0);
    let keyring = Keyring::of_epoch(EpochSecret::from_bytes(&[9; 32]), &mut rng);
    let bytes = keyring.seal(&key_file(0x42), lowest_cost(), &mut rng).unwrap();
    fs::write(fixtures().join("keyring-query-v1"), bytes).unwrap();
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
