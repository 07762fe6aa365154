//! Copies of a blind vault brought together over a server that keeps blobs.

use std::convert::Infallible;
use std::sync::Mutex;

use shard_protocol::{Limits, MessageKind, Revision, message_kind};
use shard_server::Server;
use shard_store::MemoryRows;

use super::*;
use crate::blind::tests::{World, contents, vector};
use crate::blind::{Record, compact, set_records, stored_records};
use crate::collection::rekey;
use crate::progress::UNWATCHED;
use crate::remote::claim::{root_to_keep, take};

/// A server that is told which commit is published.
struct Told {
    server: Server,
    state: Mutex<CollectionState>,
}

impl Transport for Told {
    type Error = Infallible;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, Infallible> {
        if message_kind(&message) == Ok(MessageKind::Describe) {
            return Ok(self.state.lock().unwrap().encode());
        }
        Ok(self.server.handle(&shard_protocol::CollectionName::default(), &message))
    }
}

impl Told {
    fn new() -> Self {
        let server = Server::new(std::sync::Arc::new(MemoryRows::new()), Limits::default());
        let state = CollectionState {
            revision: Revision(0),
            turn: 0,
            commit: None,
            unfinished: None,
            current: None,
            epochs: Vec::new(),
            damage: None,
        };
        Self { server, state: state.into() }
    }

    /// Leaves the sealed state of a vault, as who publishes does.
    fn publish(&self, world: &World) {
        let snapshot = world.vault.snapshot().unwrap();
        let header = snapshot.root().header;
        take(header.vault, self).unwrap();
        let kept = blobs::list(self).unwrap();
        blobs::send_values(&snapshot, &kept, self, UNWATCHED).unwrap();
        let name = blobs::state_name(header.commit);
        blobs::put(self, &name, root_to_keep(&snapshot, self).unwrap()).unwrap();
        let mut state = self.state.lock().unwrap();
        state.revision = Revision(header.generation);
        state.commit = Some(header.commit);
    }
}

fn new(number: usize, seed: u64, length: f32) -> (usize, Vec<f32>) {
    (number, vector(seed, length, false))
}

/// Two copies of a published vault.
fn two(server: &Told) -> (World, World) {
    let one = World::with(40);
    server.publish(&one);
    let two = one.copy(11);
    (one, two)
}

#[test]
fn a_blind_copy_that_is_behind_is_brought_to_the_very_same_commit() {
    let server = Told::new();
    let (mut one, mut two) = two(&server);
    one.put([new(3, 100, 1.0), new(200, 101, 5.0)].into_iter());
    one.delete(10..20);
    compact(&mut one.vault, UNWATCHED, &mut one.rng).unwrap();
    rekey(&mut one.vault, UNWATCHED, &mut one.rng).unwrap();
    server.publish(&one);
    pull(&mut two.vault, &server, UNWATCHED, &mut two.rng).unwrap();
    assert_eq!(two.vault.head().unwrap(), one.vault.head().unwrap());
    two.model = one.model;
    two.check();
}

#[test]
fn blind_copies_that_parted_merge() {
    let server = Told::new();
    let (mut one, mut two) = two(&server);
    // Both put new documents into the places that they freed, and one outgrows the grid.
    one.delete([4, 5, 12].into_iter());
    one.put([new(3, 100, 1.0), new(7, 101, 6.0), new(200, 102, 1.0)].into_iter());
    two.delete([5, 20].into_iter());
    two.put([new(7, 110, 1.0), new(9, 111, 1.0), new(300, 112, 3.0)].into_iter());
    two.put([new(301, 113, 1.0)].into_iter());
    server.publish(&one);

    let mut expected = one.model.clone();
    for id in ["doc-007", "doc-009", "doc-300", "doc-301"] {
        expected.insert(id.to_owned(), two.model[id].clone());
    }
    expected.remove("doc-020");
    let pulled = pull(&mut two.vault, &server, UNWATCHED, &mut two.rng).unwrap();
    assert_eq!((pulled.put_again, pulled.deleted_again, pulled.contested), (4, 1, 2));
    two.model = expected;
    two.check();
    let theirs = one.collection();
    let merged = two.collection();
    assert_eq!(merged.position().commit_at(theirs.revision()), Some(theirs.commit()));
    // Blocks that the merge did not touch are the published ones.
    let same = theirs.blocks().iter().zip(merged.blocks());
    assert!(same.filter(|(a, b)| a.tag.expose() == b.tag.expose()).count() > 0);

    server.publish(&two);
    pull(&mut one.vault, &server, UNWATCHED, &mut one.rng).unwrap();
    assert_eq!(one.vault.head().unwrap(), two.vault.head().unwrap());
    assert!(contents(&one.vault) == contents(&two.vault));
}

#[test]
fn an_epoch_or_a_compaction_of_one_copy_is_given_up_in_a_merge() {
    let server = Told::new();
    let (mut one, mut two) = two(&server);
    one.put([new(200, 102, 1.0)].into_iter());
    server.publish(&one);
    two.delete(0..10);
    compact(&mut two.vault, UNWATCHED, &mut two.rng).unwrap();
    rekey(&mut two.vault, UNWATCHED, &mut two.rng).unwrap();
    let pulled = pull(&mut two.vault, &server, UNWATCHED, &mut two.rng).unwrap();
    assert!(pulled.epoch_dropped);
    assert_eq!((pulled.put_again, pulled.deleted_again), (0, 10));
    two.model = one.model.clone();
    two.model.retain(|id, _| id.as_str() >= "doc-010");
    two.check();
    let (theirs, merged) = (one.collection(), two.collection());
    assert_eq!((merged.epoch(), merged.context()), (theirs.epoch(), theirs.context()));
}

fn set(world: &mut World, id: &str, bytes: &[u8]) {
    let record = Record { id: id.to_owned(), bytes: bytes.to_vec() };
    assert_eq!(set_records(&mut world.vault, vec![record], &mut world.rng).unwrap(), 1);
}

fn records(world: &World) -> Vec<(String, Vec<u8>)> {
    let stored = stored_records(&world.vault).unwrap();
    let mut stored: Vec<_> = stored.into_iter().map(|record| (record.id, record.bytes)).collect();
    stored.sort();
    stored
}

/// A record for every byte.
fn of(given: &[(&str, u8)]) -> Vec<(String, Vec<u8>)> {
    given.iter().map(|&(id, byte)| (id.to_owned(), vec![byte])).collect()
}

/// Two copies of a published vault where one document of two has a record.
fn two_with_records(server: &Told) -> (World, World) {
    let mut one = World::with(20);
    set(&mut one, "doc-003", &[1]);
    server.publish(&one);
    let two = one.copy(11);
    (one, two)
}

#[test]
fn a_vector_of_one_copy_and_a_record_of_the_other_both_survive() {
    for vector_first in [true, false] {
        let server = Told::new();
        let (mut one, mut two) = two_with_records(&server);
        let (vectors, recorder) =
            if vector_first { (&mut one, &mut two) } else { (&mut two, &mut one) };
        // With a record of before, and with none.
        vectors.put([new(3, 100, 1.0), new(4, 101, 1.0)].into_iter());
        set(recorder, "doc-003", &[2]);
        set(recorder, "doc-004", &[3]);
        let model = vectors.model.clone();
        server.publish(&one);
        let pulled = pull(&mut two.vault, &server, UNWATCHED, &mut two.rng).unwrap();
        assert_eq!((pulled.put_again, pulled.contested), (2, 0), "{vector_first}");
        two.model = model;
        two.check();
        assert_eq!(records(&two), of(&[("doc-003", 2), ("doc-004", 3)]), "{vector_first}");
    }
}

#[test]
fn what_both_changed_of_a_document_is_this_copys_and_documents_count_once() {
    let server = Told::new();
    let (mut one, mut two) = two_with_records(&server);
    set(&mut one, "doc-003", &[2]);
    set(&mut one, "doc-005", &[2]);
    one.put([new(6, 100, 1.0), new(7, 101, 1.0)].into_iter());
    server.publish(&one);
    set(&mut two, "doc-003", &[4]);
    set(&mut two, "doc-006", &[5]);
    two.put([new(3, 110, 1.0), new(7, 111, 1.0), new(50, 112, 1.0)].into_iter());
    set(&mut two, "doc-050", &[6]);
    let mut expected = one.model.clone();
    for id in ["doc-003", "doc-007", "doc-050"] {
        expected.insert(id.to_owned(), two.model[id].clone());
    }
    let pulled = pull(&mut two.vault, &server, UNWATCHED, &mut two.rng).unwrap();
    // Documents 3, 6, 7 and 50; both have another record of 3 and another vector of 7.
    assert_eq!((pulled.put_again, pulled.contested), (4, 2));
    two.model = expected;
    two.check();
    let all = [("doc-003", 4), ("doc-005", 2), ("doc-006", 5), ("doc-050", 6)];
    assert_eq!(records(&two), of(&all));
    // The other copy takes the merge as it is.
    server.publish(&two);
    pull(&mut one.vault, &server, UNWATCHED, &mut one.rng).unwrap();
    assert_eq!(records(&one), of(&all));
}

#[test]
fn a_changed_document_that_the_other_copy_deleted_comes_back_whole() {
    let server = Told::new();
    let (mut one, mut two) = two_with_records(&server);
    one.delete([3, 4].into_iter());
    server.publish(&one);
    two.put([new(3, 100, 1.0)].into_iter());
    set(&mut two, "doc-004", &[7]);
    let pulled = pull(&mut two.vault, &server, UNWATCHED, &mut two.rng).unwrap();
    assert_eq!((pulled.put_again, pulled.contested), (2, 2));
    two.check();
    assert_eq!(records(&two), of(&[("doc-003", 1), ("doc-004", 7)]));
}

#[test]
fn a_document_that_was_deleted_and_put_again_has_lost_its_record() {
    let server = Told::new();
    let (mut one, mut two) = two_with_records(&server);
    set(&mut one, "doc-004", &[2]);
    server.publish(&one);
    two.delete([3].into_iter());
    two.put([new(3, 100, 1.0)].into_iter());
    let pulled = pull(&mut two.vault, &server, UNWATCHED, &mut two.rng).unwrap();
    assert_eq!((pulled.put_again, pulled.contested), (1, 0));
    two.check();
    assert_eq!(records(&two), of(&[("doc-004", 2)]));
}
