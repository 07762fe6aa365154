//! A blind vault whose database was damaged: an error that names it, or the very same documents. And
//! what opening does not look at.

use super::*;
use crate::vault::VaultError;

/// Bytes between two that are damaged. Odd, so that all places within a page are met.
const STEP: usize = 151;

#[test]
fn a_flipped_bit_anywhere_is_noticed_or_means_nothing() {
    let mut world = World::with(40);
    world.delete([1].into_iter());
    let sound = contents(&world.vault);
    let directory = world.vault.directory().to_owned();
    let database = directory.join("vault.sqlite");
    let bytes = std::fs::read(&database).unwrap();
    let survives = |bytes: &[u8], at: usize| {
        for beside in ["vault.sqlite-wal", "vault.sqlite-shm", "vault.sqlite-journal"] {
            let _ = std::fs::remove_file(directory.join(beside));
        }
        std::fs::write(&database, bytes).unwrap();
        let opened = Vault::open(&directory, &unlock()).map_err(ClientError::from);
        let verified = opened.and_then(|vault| {
            verify_vault(&vault, UNWATCHED)?;
            Ok(contents(&vault))
        });
        match verified {
            Ok(found) => assert!(found == sound, "byte {at}: other documents"),
            Err(error) => {
                let words = error.to_string();
                assert!(words.contains("vault.sqlite"), "byte {at}: {words}");
                return false;
            }
        }
        true
    };
    let (mut noticed, mut flips) = (0, 0);
    for at in (0..120).chain((120..bytes.len()).step_by(STEP)) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        noticed += usize::from(!survives(&damaged, at));
        flips += 1;
    }
    assert!(survives(&bytes, 0));
    assert!(flips > 500 && noticed > flips / 10, "{noticed} of {flips}");
}

/// Damages a value in place.
fn damage(vault: &Vault, slot: Slot) {
    let file = vault.directory().join("vault.sqlite");
    let db = rusqlite::Connection::open(file).unwrap();
    let read = "SELECT value FROM vals WHERE id = ?1";
    let mut value: Vec<u8> = db.query_row(read, [slot.id()], |row| row.get(0)).unwrap();
    *value.last_mut().unwrap() ^= 1;
    let write = "UPDATE vals SET value = ?2 WHERE id = ?1";
    assert_eq!(db.execute(write, (slot.id(), value)).unwrap(), 1);
}

#[test]
fn opening_reads_the_head_and_the_places_and_no_vectors() {
    let world = World::with(40);
    let broken = |error: ClientError, slot: Slot| match error {
        ClientError::Vault(VaultError::SealBroken { value, .. }) => value == slot.to_string(),
        _ => false,
    };
    for slot in [Slot::Blind, Slot::Places(0), Slot::Places(4)] {
        let victim = world.copy(1);
        damage(&victim.vault, slot);
        assert!(broken(BlindCollection::open(&victim.vault).unwrap_err(), slot), "{slot}");
    }
    // None of the others is looked at, but by who asks for it.
    let victim = world.copy(1);
    (0..5).for_each(|block| damage(&victim.vault, Slot::Vectors(block)));
    damage(&victim.vault, Slot::Settings);
    damage(&victim.vault, Slot::Journal(2));
    let collection = victim.collection();
    assert!(collection.ids().eq(world.collection().ids()));
    let snapshot = victim.vault.snapshot().unwrap();
    for block in 0..5 {
        let error = collection.integers(&snapshot, block).unwrap_err();
        assert!(broken(error, Slot::Vectors(block as u32)));
    }
    assert!(verify_vault(&victim.vault, UNWATCHED).is_err());
}
