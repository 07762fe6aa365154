//! Keyrings written by version 1 of their format open forever. A whole vault is in
//! `collection/tests/golden.rs`.

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

fn opened(name: &str, unlock: &Unlock) -> Keyring {
    let file = fixtures().join(name);
    Keyring::open(&fs::read(&file).unwrap(), unlock, &file).unwrap()
}

#[test]
fn the_first_keyrings_of_owners_still_open() {
    let recovery = Unlock::Recovery(RecoveryCode::parse(RECOVERY_CODE).unwrap());
    for (name, unlock) in [
        ("keyring-passphrase-v1", passphrase(PASSPHRASE)),
        ("keyring-key-file-v1", key_file(0x42)),
        ("keyring-recovery-v1", recovery),
    ] {
        let keyring = opened(name, &unlock);
        let KeyringSecret::Master(master) = keyring.secret else { panic!("an owner's keyring") };
        assert_eq!(master.expose(), &counting(0), "{name}");
        assert_eq!(keyring.data.expose(), &counting(32), "{name}");
    }
}

#[test]
fn the_first_keyring_of_a_query_vault_still_opens() {
    let keyring = opened("keyring-query-v1", &key_file(0x42));
    assert!(matches!(&keyring.secret, KeyringSecret::Epoch(it) if it.expose() == &[9; 32]));
    assert_eq!(keyring.data.expose(), &counting(0));
}

#[test]
#[ignore = "writes the fixtures anew, for a new version of the format only"]
fn write_keyrings() {
    let write = |name: &str, keyring: &Keyring, unlock: &Unlock, mut rng: CountingRng| {
        let bytes = keyring.seal(unlock, lowest_cost(), &mut rng).unwrap();
        fs::write(fixtures().join(name), bytes).unwrap();
    };
    let recovery = Unlock::Recovery(RecoveryCode::parse(RECOVERY_CODE).unwrap());
    for (name, unlock) in [
        ("keyring-passphrase-v1", passphrase(PASSPHRASE)),
        ("keyring-key-file-v1", key_file(0x42)),
        ("keyring-recovery-v1", recovery),
    ] {
        let mut rng = CountingRng(0);
        write(name, &Keyring::generate(&mut rng), &unlock, rng);
    }
    let mut rng = CountingRng(0);
    let keyring = Keyring::of_epoch(EpochSecret::from_bytes(&[9; 32]), &mut rng);
    write("keyring-query-v1", &keyring, &key_file(0x42), rng);
}
