//! Copies of a blind vault brought together over a server that keeps blobs.

use std::convert::Infallible;
use std::sync::Mutex;

use shard_protocol::{Limits, MessageKind, Revision, message_kind};
use shard_server::Server;
use shard_store::MemoryRows;

use super::*;
use crate::blind::compact;
use crate::blind::tests::{World, contents, vector};
use crate::collection::rekey;
use crate::progress::UNWATCHED;
use crate::remote::claim::take;

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
        blobs::put(self, &name, snapshot.sealed_root().unwrap()).unwrap();
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
