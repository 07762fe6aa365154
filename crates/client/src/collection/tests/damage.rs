//! A vault with documents whose database was damaged: an error that names it, or the very same
//! documents.

use std::path::PathBuf;

use super::*;

/// Bytes between two that are damaged. Odd, so that all places within a page are met.
const STEP: usize = 151;

/// A copy of a vault at rest, to be damaged over and over.
struct Victim {
    _parent: TempDir,
    directory: PathBuf,
    database: PathBuf,
    sound: Vec<u8>,
    documents: Vec<(String, Vec<f32>)>,
}

fn documents(vault: &Vault) -> Result<Vec<(String, Vec<f32>)>, ClientError> {
    verify_vault(vault, UNWATCHED)?;
    let collection = Collection::open(vault)?;
    let vectors = stored_vectors(vault)?;
    let rows = collection.index().ids().enumerate();
    Ok(rows.map(|(row, id)| (id.to_owned(), vectors.row(row).to_vec())).collect())
}

impl Victim {
    fn of(mut world: World) -> Self {
        world.delete(&["doc-1"]).unwrap();
        let documents = documents(&world.vault).unwrap();
        let directory = world.vault.directory().to_owned();
        let database = directory.join("vault.sqlite");
        let sound = std::fs::read(&database).unwrap();
        Self { _parent: world.directory, directory, database, sound, documents }
    }

    /// Opens and verifies the vault with this database. Whether it is whole; if it is, it is the
    /// same.
    fn survives(&self, bytes: &[u8], what: &str) -> bool {
        for beside in ["vault.sqlite-wal", "vault.sqlite-shm", "vault.sqlite-journal"] {
            let _ = std::fs::remove_file(self.directory.join(beside));
        }
        std::fs::write(&self.database, bytes).unwrap();
        let opened = Vault::open(&self.directory, &unlock()).map_err(ClientError::from);
        match opened.and_then(|vault| documents(&vault)) {
            Ok(found) => {
                assert!(found == self.documents, "{what}: other documents");
                true
            }
            Err(error) => {
                let words = error.to_string();
                assert!(words.contains("vault.sqlite"), "{what}: {words}");
                assert!(!words.contains('\n'), "{what}: {words}");
                false
            }
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_noticed_or_means_nothing() {
    let victim = Victim::of(World::with(CellCount::Cells(2), 40));
    assert!(victim.survives(&victim.sound, "nothing"));
    // All of SQLite's own header and of the first page's, and every so many bytes after it.
    let places = (0..120).chain((120..victim.sound.len()).step_by(STEP));
    let (mut noticed, mut flips) = (0, 0);
    for at in places {
        let mut bytes = victim.sound.clone();
        bytes[at] ^= 1 << (at % 8);
        let whole = victim.survives(&bytes, &format!("byte {at}"));
        (noticed, flips) = (noticed + usize::from(!whole), flips + 1);
    }
    assert!(victim.survives(&victim.sound, "nothing"));
    println!("{noticed} of {flips} flips in {} bytes were noticed", victim.sound.len());
    assert!(flips > 500, "{flips} flips");
    assert!(noticed > flips / 10, "{noticed} of {flips}");
}

#[test]
fn a_database_with_a_page_overwritten_or_exchanged_is_noticed_or_the_same() {
    let victim = Victim::of(World::with(CellCount::Cells(2), 40));
    let page = 32 << 10;
    let pages = victim.sound.len() / page;
    assert_eq!((victim.sound.len() % page, pages > 2), (0, true));
    for one in 0..pages {
        for filler in [0, 0xff] {
            let mut bytes = victim.sound.clone();
            bytes[one * page..(one + 1) * page].fill(filler);
            victim.survives(&bytes, &format!("page {one} of {filler}"));
        }
        for other in (0..pages).filter(|other| *other != one) {
            let mut bytes = victim.sound.clone();
            bytes.copy_within(other * page..(other + 1) * page, one * page);
            victim.survives(&bytes, &format!("page {other} over page {one}"));
        }
    }
}

#[test]
fn a_log_that_is_cut_or_damaged_leaves_the_commit_before_or_after() {
    let mut world = World::with(CellCount::Cells(2), 20);
    let before = documents(&world.vault).unwrap();
    let directory = world.vault.directory().to_owned();
    let database = std::fs::read(directory.join("vault.sqlite")).unwrap();
    // A reader in the middle keeps the log from being moved into the file.
    let reader = world.vault.snapshot().unwrap();
    world.delete(&["doc-1"]).unwrap();
    let after = documents(&world.vault).unwrap();
    let log = std::fs::read(directory.join("vault.sqlite-wal")).unwrap();
    assert!(!log.is_empty() && before != after);
    let keyring = std::fs::read(directory.join("KEYRING")).unwrap();
    drop(reader);

    let copy = world.directory.path().join("copy");
    let mut seen = [false; 2];
    let mut check = |log: &[u8], what: &str| {
        let _ = std::fs::remove_dir_all(&copy);
        std::fs::create_dir(&copy).unwrap();
        std::fs::write(copy.join("vault.sqlite"), &database).unwrap();
        std::fs::write(copy.join("KEYRING"), &keyring).unwrap();
        std::fs::write(copy.join("vault.sqlite-wal"), log).unwrap();
        let found = documents(&Vault::open(&copy, &unlock()).unwrap()).unwrap();
        let which = [&before, &after].iter().position(|state| **state == found);
        seen[which.unwrap_or_else(|| panic!("{what}: other documents"))] = true;
    };
    for length in (0..log.len()).step_by(997).chain([log.len()]) {
        check(&log[..length], &format!("a log of {length} bytes"));
    }
    for at in (0..log.len()).step_by(1009) {
        let mut bytes = log.clone();
        bytes[at] ^= 1 << (at % 8);
        check(&bytes, &format!("byte {at} of the log"));
    }
    assert_eq!(seen, [true; 2]);
}
