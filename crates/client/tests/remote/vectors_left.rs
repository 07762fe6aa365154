//! Vaults that leave their vectors with the server: nothing goes before it came back, and nothing else is
//! taken for it.

use std::sync::Arc;

use shard_client::remote::{fetch_vectors_from, leave_vectors};
use shard_client::vault::VaultError;
use shard_client::{ClientError, Settings, Transport, UNWATCHED, stored_documents, verify_vault};
use shard_protocol::{Blobs, CollectionName, Limits, MessageKind};

use crate::blind::search;
use crate::blind_lies::Liar;
use crate::support::{CutOff, Served};
use crate::vaults::Owner;

type Stored = (Vec<String>, Vec<f32>);

/// A vault of five blocks that does not keep its vectors, published, and what is in it.
fn published() -> (Arc<Served>, Owner, Stored) {
    let settings = Settings { keep_vectors: false, ..Settings::blind() };
    let (served, owner) = (Served::new(None), Owner::blind_with(settings, 3, 38));
    let stored = stored(&owner).unwrap();
    owner.publish(&*served).unwrap();
    (served, owner, stored)
}

fn stored(owner: &Owner) -> Result<Stored, ClientError> {
    let (ids, vectors) = stored_documents(&owner.vault)?;
    Ok((ids, vectors.values().to_vec()))
}

fn elsewhere(owner: &Owner) -> usize {
    verify_vault(&owner.vault, UNWATCHED).unwrap().elsewhere
}

/// Blobs with one bit of the last changed, or without it.
fn altered(message: Vec<u8>, absent: bool) -> Vec<u8> {
    let mut blobs = Blobs::decode(&message, &Limits::default()).unwrap().blobs;
    match blobs.last_mut().unwrap() {
        blob if absent => *blob = None,
        Some(bytes) => *bytes.last_mut().unwrap() ^= 1,
        None => {}
    }
    Blobs { blobs }.encode()
}

#[test]
fn vectors_go_once_they_came_back_and_are_the_same_from_the_server() {
    let (served, mut owner, before) = published();
    assert!(leave_vectors(&mut owner.vault, &*served, UNWATCHED).unwrap() > 0);
    assert_eq!(leave_vectors(&mut owner.vault, &*served, UNWATCHED).unwrap(), 0);
    assert_eq!(elsewhere(&owner), 5);
    let away = |error| matches!(error, ClientError::Vault(VaultError::Elsewhere { .. }));
    assert!(stored(&owner).is_err_and(away));
    fetch_vectors_from(&mut owner.vault, served.clone());
    assert_eq!(stored(&owner).unwrap(), before);
    search(&mut owner, &served).unwrap();
    // What changes is here until it is published, and the rest stays where it is.
    owner.put("7");
    let after = stored(&owner).unwrap();
    assert_ne!(after, before);
    assert_eq!(leave_vectors(&mut owner.vault, &*served, UNWATCHED).unwrap(), 0, "not published");
    owner.publish(&*served).unwrap();
    assert!(leave_vectors(&mut owner.vault, &*served, UNWATCHED).unwrap() > 0);
    assert_eq!(stored(&owner).unwrap(), after);
    owner.rekey();
    owner.publish(&*served).unwrap();
    search(&mut owner, &served).unwrap();
    assert_eq!(stored(&owner).unwrap(), after);
}

#[test]
fn a_vault_that_keeps_its_vectors_leaves_none() {
    let (served, mut owner) = (Served::new(None), Owner::blind(3, 38));
    owner.publish(&*served).unwrap();
    assert_eq!(leave_vectors(&mut owner.vault, &*served, UNWATCHED).unwrap(), 0);
    assert_eq!(elsewhere(&owner), 0);
}

#[test]
fn what_does_not_come_back_as_it_was_stays_here() {
    for absent in [false, true] {
        let (served, mut owner, before) = published();
        let liar = Liar::new(&served, MessageKind::Blobs, |message| altered(message, absent));
        let error = leave_vectors(&mut owner.vault, &liar, UNWATCHED).unwrap_err();
        assert!(matches!(error, ClientError::Backup(_)), "{error}");
        assert_eq!((elsewhere(&owner), stored(&owner).unwrap()), (0, before));
    }
}

#[test]
fn a_connection_that_breaks_anywhere_loses_nothing() {
    let (served, mut owner, before) = published();
    for cut in 0.. {
        let broken = CutOff::anywhere(cut, &served);
        let done = leave_vectors(&mut owner.vault, &broken, UNWATCHED);
        if done.is_ok() {
            break;
        }
        assert_eq!((elsewhere(&owner), stored(&owner).unwrap()), (0, before.clone()));
    }
    fetch_vectors_from(&mut owner.vault, served.clone());
    assert_eq!(stored(&owner).unwrap(), before);
}

/// A server that owns what it lies about.
struct Altering(Arc<Served>);

impl Transport for Altering {
    type Error = ClientError;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        let lie = |message| altered(message, false);
        Liar::new(&self.0, MessageKind::Blobs, lie).exchange(message)
    }
}

#[test]
fn other_vectors_are_taken_for_them_from_no_server() {
    let (served, mut owner, before) = published();
    leave_vectors(&mut owner.vault, &*served, UNWATCHED).unwrap();
    fetch_vectors_from(&mut owner.vault, Arc::new(Altering(served.clone())));
    let broken = |error| matches!(error, ClientError::Vault(VaultError::SealBroken { .. }));
    assert!(stored(&owner).is_err_and(broken));
    assert!(verify_vault(&owner.vault, UNWATCHED).is_err_and(broken));
    fetch_vectors_from(&mut owner.vault, served);
    assert_eq!(stored(&owner).unwrap(), before);
}

/// Another copy was published over it: what the server was told to forget is not there any more, so nothing
/// is put in its place before everything has been found.
#[test]
fn a_replacement_begins_only_when_every_vector_can_be_had() {
    let (served, mut owner, _) = published();
    leave_vectors(&mut owner.vault, &*served, UNWATCHED).unwrap();
    fetch_vectors_from(&mut owner.vault, served.clone());
    let mut other = owner.copy(12);
    fetch_vectors_from(&mut other.vault, served.clone());
    other.put("3");
    other.publish(&*served).unwrap();
    owner.put("20");
    let name = CollectionName::default();
    let commit = served.rows().describe(&name).unwrap().commit;
    let error = owner.replace(&*served).unwrap_err();
    assert!(matches!(error, ClientError::Vault(VaultError::Missing { .. })), "{error}");
    assert_eq!(served.rows().describe(&name).unwrap().commit, commit, "nothing was reset");
    search(&mut other, &served).unwrap();
}
