//! Vaults for those who may only search.

use super::*;
use crate::collection::{export_query_vault, stored_vectors, vault_settings};

fn colleague() -> Unlock {
    Unlock::KeyFile(Zeroizing::new(vec![3; MIN_KEY_FILE_BYTES]))
}

fn exported(world: &mut World) -> Vault {
    let directory = world.directory.path().join("query");
    export_query_vault(&world.vault, &directory, &colleague(), cost(), &mut world.rng).unwrap();
    Vault::open(&directory, &colleague()).unwrap()
}

#[test]
fn an_exported_vault_knows_the_places_and_keys_of_its_owners() {
    let mut world = World::with(40);
    world.delete([4, 5, 6].into_iter());
    let vault = exported(&mut world);
    let (owner, reader) = (world.collection(), BlindCollection::open(&vault).unwrap());
    assert_eq!(reader.position().access(), crate::vault::VaultAccess::Query);
    assert_eq!((reader.head(), reader.context()), (owner.head(), owner.context()));
    assert_eq!((reader.commit(), reader.revision()), (owner.commit(), owner.revision()));
    assert_eq!(reader.position().vault(), owner.position().vault());
    assert!(reader.ids().eq(owner.ids()));
    // The keys are the same: so are the tags that they make.
    let rows = vec![7; PLACES * WIDTH];
    let tag = |of: &BlindCollection| *of.keys().tag(&of.block_name(0), &rows).expose();
    assert_eq!(tag(&reader), tag(&owner));
    assert_eq!(verify_vault(&vault, UNWATCHED).unwrap().documents, 37);
    let settings = vault_settings(&vault).unwrap();
    assert_eq!(settings, vault_settings(&world.vault).unwrap());
}

#[test]
fn an_exported_vault_has_no_vectors_and_refuses_to_be_changed() {
    let mut world = World::with(16);
    let mut vault = exported(&mut world);
    let snapshot = vault.snapshot().unwrap();
    for slot in snapshot.root().entries.keys() {
        assert_eq!(snapshot.read(*slot).is_ok(), slot.is_shared(), "{slot}");
    }
    let collection = BlindCollection::read(&vault, &snapshot).unwrap();
    assert!(collection.integers(&snapshot, 0).is_err());
    drop(snapshot);
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let ids = [name(0)];
    for refusal in [
        stored_vectors(&vault).map(drop),
        stored_documents(&vault).map(drop),
        delete_documents(&mut vault, &ids, MissingIds::Refuse, &mut rng).map(drop),
        rekey(&mut vault, UNWATCHED, &mut rng).map(drop),
        compact(&mut vault, UNWATCHED, &mut rng).map(drop),
    ] {
        let words = refusal.unwrap_err().to_string();
        assert!(words.contains("query vault"), "{words}");
    }
}

#[test]
fn a_rekey_takes_the_keys_from_an_exported_vault() {
    let mut world = World::with(16);
    let vault = exported(&mut world);
    rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    let (owner, reader) = (world.collection(), BlindCollection::open(&vault).unwrap());
    let rows = vec![7; PLACES * WIDTH];
    // Even for the same name, its keys make other tags.
    let name = owner.block_name(0);
    assert_ne!(owner.keys().tag(&name, &rows).expose(), reader.keys().tag(&name, &rows).expose());
}
