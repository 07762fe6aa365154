//! Publishing blind collections: what is sent, what a cut-off one leaves, and what a server that lies
//! about the commit before can do.

use std::collections::BTreeMap;
use std::sync::Mutex;

use shard_client::remote::describe;
use shard_client::{ClientError, Transport};
use shard_protocol::{
    BlobName, BlockList, CollectionName, Limits, MessageKind, PutBlobs, message_kind,
};
use shard_rlwe::blind::{Block, MODULUS};

use crate::blind::{PLACES, collection, counts, search, search_with, searcher};
use crate::support::{CutOff, Served};
use crate::vaults::Owner;

/// All names of blobs of blocks that a server has.
pub fn blobs_of_blocks(served: &Served) -> Vec<BlobName> {
    let all = served.rows().blobs(&CollectionName::default(), None, 10_000).unwrap();
    let of_blocks = |name: &BlobName| {
        ["block.", "hint.", "blocks.", "checks."].iter().any(|kind| name.as_str().starts_with(kind))
    };
    all.into_iter().map(|(name, _)| name).filter(of_blocks).collect()
}

fn list(served: &Served, owner: &Owner) -> BlockList {
    let name = BlobName::blocks(collection(owner).commit());
    let bytes = served.rows().blob(&CollectionName::default(), &name).unwrap();
    BlockList::decode(&bytes, &Limits::default()).unwrap()
}

/// Asserts that the server has the blocks of a vault's commit, and no others.
fn assert_holds(served: &Served, owner: &Owner) {
    let (collection, list) = (collection(owner), list(served, owner));
    assert_eq!(describe(served).unwrap().commit, Some(collection.commit()));
    let rows = list.names().len() - list.checks();
    let ours: Vec<[u8; 16]> = collection.blocks().iter().map(|block| block.file_name()).collect();
    assert_eq!(list.names()[..rows], ours);
    let mut expected: Vec<BlobName> = list.names().iter().copied().map(BlobName::block).collect();
    expected.extend(ours.into_iter().map(BlobName::hint));
    expected.push(BlobName::blocks(collection.commit()));
    expected.push(BlobName::checks(collection.commit()));
    expected.sort();
    assert_eq!(blobs_of_blocks(served), expected);
}

/// Changes a stored blob.
pub fn change(served: &Served, name: &BlobName, change: impl Fn(&mut Vec<u8>)) {
    let all = CollectionName::default();
    let mut bytes = served.rows().blob(&all, name).unwrap();
    change(&mut bytes);
    served.rows().put_blob(&all, name, &bytes).unwrap();
}

#[test]
fn a_publish_sends_the_blocks_that_changed_and_the_search_sees_it() {
    let served = Served::new(None);
    let mut owner = Owner::blind(3, 38);
    let done = owner.publish(&*served).unwrap();
    assert_eq!(counts(&done), (5, 0, 0));
    assert!(done.blind && done.activated);
    let kept = searcher(&*served);
    search_with(&kept, &mut owner).unwrap();
    let checks = list(&served, &owner).checks();

    served.take_seen();
    let done = owner.publish(&*served).unwrap();
    assert_eq!((counts(&done), done.bytes, done.activated), ((0, 0, 5), 0, false));
    let seen = served.take_seen();
    for kind in [MessageKind::PutBlob, MessageKind::PutBlobs, MessageKind::ActivateEpoch] {
        assert!(!seen.contains(&kind), "{kind:?}");
    }

    let steps: [fn(&mut Owner); 4] = [
        |owner| owner.put("new"),
        |owner| owner.put("3"),
        |owner| owner.delete("20"),
        |owner| owner.put("another"),
    ];
    for step in steps {
        step(&mut owner);
        let done = owner.publish(&*served).unwrap();
        // The block of before goes, and the checks of before.
        assert_eq!(counts(&done), (1, 1 + checks, 4));
        assert_holds(&served, &owner);
        search_with(&kept, &mut owner).unwrap();
        search(&mut owner, &served).unwrap();
    }
    owner.add(2 * PLACES);
    let done = owner.publish(&*served).unwrap();
    assert_eq!(done.uploaded + done.unchanged, 7);
    assert_holds(&served, &owner);
    search_with(&kept, &mut owner).unwrap();
}

#[test]
fn sums_that_went_on_check_what_sums_from_nothing_check() {
    let (old, new) = (Served::new(None), Served::new(None));
    let mut owner = Owner::blind(3, 30);
    owner.publish(&*old).unwrap();
    for step in 0..6 {
        owner.put(&step.to_string());
        owner.delete(&(10 + step).to_string());
        owner.add(1);
        owner.publish(&*old).unwrap();
    }
    for number in 16..26 {
        owner.delete(&number.to_string());
    }
    shard_client::compact(&mut owner.vault, shard_client::UNWATCHED, &mut owner.rng).unwrap();
    for served in [&old, &new] {
        owner.publish(&**served).unwrap();
        assert_holds(served, &owner);
        search(&mut owner, served).unwrap();
        // From what is on disk alone.
        served.restart();
        search(&mut owner, served).unwrap();
    }
}

#[test]
fn a_longer_row_changes_the_grid_and_all_blocks() {
    let served = Served::new(None);
    let mut owner = Owner::blind(3, 30);
    owner.publish(&*served).unwrap();
    let long = shard_geometry::VectorSet::new(24, vec![3.0; 24]).unwrap();
    let documents =
        shard_client::Documents { ids: &["long".to_owned()], vectors: &long, sample_queries: None };
    shard_client::ingest(&mut owner.vault, &documents, shard_client::UNWATCHED, &mut owner.rng)
        .unwrap();
    let done = owner.publish(&*served).unwrap();
    assert_eq!((done.uploaded, done.unchanged), (4, 0));
    assert_holds(&served, &owner);
    search(&mut owner, &served).unwrap();
}

/// Every block that was ever sent, of rows or of checks, by the name that follows from its tag.
#[derive(Default)]
struct Sent(Mutex<BTreeMap<BlobName, Vec<u8>>>);

impl Sent {
    /// A connection on which blocks are noted, whether they arrive or not.
    fn by<'a, T>(&'a self, transport: &'a T) -> Noted<'a, T> {
        Noted { transport, sent: self }
    }

    /// Another content under the tag of a block that was sent would have its name.
    fn note(&self, name: &BlobName, bytes: &[u8]) {
        let mut sent = self.0.lock().unwrap();
        let before = sent.entry(name.clone()).or_insert_with(|| bytes.to_vec());
        assert!(before == bytes, "two contents of {name}, so two under one pad");
    }

    /// Asserts that no two blocks of rows among these have a pad in common: what is left of their difference would be
    /// the difference of their rows, and small.
    fn assert_pads_differ(&self, rows: &[[u8; 16]]) {
        let sent = self.0.lock().unwrap();
        let block = |name: &[u8; 16]| {
            let bytes = &sent[&BlobName::block(*name)];
            Block::from_bytes(1, bytes).expect("a block of one tile").coefficients(0)
        };
        let blocks: Vec<Vec<u64>> = rows.iter().map(block).collect();
        for (at, one) in blocks.iter().enumerate() {
            for other in &blocks[..at] {
                assert!(!is_small_difference(one, other), "two blocks under one pad");
            }
        }
    }
}

/// Whether all coefficients of a difference are small beside the modulus: those of rows are below `2^31`.
fn is_small_difference(one: &[u64], other: &[u64]) -> bool {
    let small = |(&a, &b): (&u64, &u64)| {
        let difference = (a + MODULUS - b) % MODULUS;
        difference.min(MODULUS - difference) < 1 << 36
    };
    one.iter().zip(other).all(small)
}

struct Noted<'a, T> {
    transport: &'a T,
    sent: &'a Sent,
}

impl<T: Transport<Error = ClientError>> Transport for Noted<'_, T> {
    type Error = ClientError;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        if message_kind(&message)? == MessageKind::PutBlobs {
            let put = PutBlobs::decode(&message, &Limits::default())?;
            let blocks = put.blobs().iter().filter(|(name, _)| name.as_str().starts_with("block."));
            blocks.for_each(|(name, bytes)| self.sent.note(name, bytes));
        }
        self.transport.exchange(message)
    }
}

#[test]
fn a_publish_that_is_cut_off_anywhere_leaves_the_old_commit_and_is_finished_by_the_next() {
    let mut owner = Owner::blind(3, 30);
    let first = owner.copy(11);
    owner.add(3);
    owner.put("7");
    owner.delete("9");
    let sent = Sent::default();
    for late in [false, true] {
        for cut in 0.. {
            let mut first = first.copy(12);
            let served = Served::new(None);
            first.publish(&sent.by(&*served)).unwrap();
            let kept = searcher(&*served);
            search_with(&kept, &mut first).unwrap();
            let broken = CutOff { late, ..CutOff::anywhere(cut, &served) };
            if owner.publish(&sent.by(&broken)).is_ok() {
                // A sweep that fails is left to the next publish.
                assert!(cut > 10, "blocks, checks and the state had to be sent");
                break;
            }
            let (before, after) = (collection(&first).commit(), collection(&owner).commit());
            let is_new = describe(&*served).unwrap().commit == Some(after);
            let searched = if is_new { &mut owner } else { &mut first };
            assert!(is_new || describe(&*served).unwrap().commit == Some(before));
            search_with(&kept, searched).unwrap();
            served.restart();
            search(searched, &served).unwrap();
            owner.publish(&sent.by(&*served)).unwrap();
            assert_holds(&served, &owner);
            search(&mut owner, &served).unwrap();
            first.pull(&*served).unwrap();
            search_with(&kept, &mut first).unwrap();
        }
    }
}

/// The owner's machine fails between writing a commit and sending all of it, comes back, changes the documents once
/// more, and publishes. However often that happens, and whatever arrived, no two contents are sent under one pad.
#[test]
fn a_change_after_a_publish_that_was_cut_off_is_sent_under_pads_of_its_own() {
    let mut owner = Owner::blind(3, 30);
    let first = owner.copy(11);
    owner.put("7");
    let (sent, mut rows) = (Sent::default(), Vec::new());
    let mut note_rows = |owner: &Owner| {
        rows.extend(collection(owner).blocks().iter().map(|block| block.file_name()));
        rows.sort_unstable();
        rows.dedup();
    };
    note_rows(&first);
    note_rows(&owner);
    let mut cuts = 0;
    for late in [false, true] {
        for cut in 0.. {
            let served = Served::new(None);
            first.publish(&sent.by(&*served)).unwrap();
            let broken = CutOff { late, ..CutOff::anywhere(cut, &served) };
            if owner.publish(&sent.by(&broken)).is_ok() {
                break;
            }
            cuts += 1;
            served.restart();
            // The same document in the same block again, as a fork of what the rounds before did: other rows, the
            // same number of the block, the same revision.
            let mut again = owner.copy(100 + 2 * cut as u64 + u64::from(late));
            again.put("7");
            again.publish(&sent.by(&*served)).unwrap();
            assert_holds(&served, &again);
            search(&mut again, &served).unwrap();
            note_rows(&again);
        }
    }
    // Four blocks at first, one that every commit since then has of its own.
    assert_eq!(rows.len(), 4 + 1 + cuts);
    // And two sets of eleven checks that every commit has of its own.
    assert_eq!(sent.0.lock().unwrap().len(), rows.len() + 22 * (2 + cuts));
    sent.assert_pads_differ(&rows);
    // It would be found.
    let one = Block::from_bytes(1, &sent.0.lock().unwrap()[&BlobName::block(rows[0])]).unwrap();
    let one = one.coefficients(0);
    let other: Vec<u64> = (0..).zip(&one).map(|(at, &x)| (x + (at << 20)) % MODULUS).collect();
    assert!(is_small_difference(&one, &other));
}

#[test]
fn a_new_epoch_is_out_of_sight_until_it_is_whole() {
    let served = Served::new(None);
    let mut owner = Owner::blind(3, 30);
    owner.publish(&*served).unwrap();
    let mut old = owner.copy(11);
    owner.rekey();
    let broken = CutOff::after(0, &[MessageKind::ActivateEpoch], &served);
    assert!(owner.publish(&broken).is_err());
    search(&mut old, &served).unwrap();
    let done = owner.publish(&*served).unwrap();
    assert_eq!((done.uploaded, done.activated), (0, true));
    assert_holds(&served, &owner);
    search(&mut owner, &served).unwrap();
    let error = old.publish(&*served).unwrap_err();
    assert!(matches!(error, ClientError::Behind { .. }), "{error}");
}

/// Blocks of checks belong to a commit like its rows, and cannot be made twice for it.
#[test]
fn a_block_of_checks_that_the_server_lost_comes_with_fresh_checks() {
    for how in [0, 1] {
        let served = Served::new(None);
        let mut owner = Owner::blind(3, 30);
        owner.publish(&*served).unwrap();
        let last = BlobName::block(*list(&served, &owner).names().last().unwrap());
        match how {
            0 => drop(served.rows().delete_blob(&CollectionName::default(), &last).unwrap()),
            _ => change(&served, &last, |bytes| bytes.truncate(100)),
        }
        assert!(matches!(owner.publish(&*served), Err(ClientError::StaleChecks)));
        let done = owner.publish_with_fresh_checks(&*served, false).unwrap();
        assert_eq!((done.uploaded, done.activated), (0, true));
        served.restart();
        search(&mut owner, &served).unwrap();
    }
}

/// A server that changed what it keeps of the commit before: sums are then taken from nothing.
#[test]
fn what_is_false_of_the_commit_before_is_not_gone_on_from() {
    let mut owner = Owner::blind(3, 30);
    let first = owner.copy(11);
    owner.put("7");
    let before = collection(&first);
    let replaced = before.blocks()[0].file_name();
    assert_ne!(collection(&owner).blocks()[0].file_name(), replaced);
    let lies: [fn(&Served, &Owner, [u8; 16]); 5] = [
        |served, _, block| change(served, &BlobName::block(block), |bytes| bytes[100] ^= 1),
        |served, owner, _| {
            let names = list(served, owner).names().to_vec();
            change(served, &BlobName::block(*names.last().unwrap()), |bytes| bytes[9] ^= 4);
        },
        |served, owner, _| {
            let name = BlobName::checks(collection(owner).commit());
            change(served, &name, |bytes| bytes[60] ^= 1);
        },
        // Another block that is genuine.
        |served, owner, block| {
            let other = BlobName::block(collection(owner).blocks()[1].file_name());
            let bytes = served.rows().blob(&CollectionName::default(), &other).unwrap();
            change(served, &BlobName::block(block), |blob| blob.clone_from(&bytes));
        },
        |served, _, block| {
            let name = BlobName::block(block);
            served.rows().delete_blob(&CollectionName::default(), &name).unwrap();
        },
    ];
    for lie in lies {
        let served = Served::new(None);
        first.publish(&*served).unwrap();
        lie(&served, &first, replaced);
        owner.publish(&*served).unwrap();
        assert_holds(&served, &owner);
        search(&mut owner, &served).unwrap();
        served.restart();
        search(&mut owner, &served).unwrap();
    }
}

/// More blocks than are encrypted together, and the last of before is false: those that were sent
/// already are not sent, nor counted, again.
#[test]
fn blocks_are_sent_once_where_sums_are_begun_anew_midway() {
    let served = Served::new(None);
    let mut owner = Owner::blind(3, 70 * PLACES);
    owner.publish(&*served).unwrap();
    let last = BlobName::block(collection(&owner).blocks()[69].file_name());
    let ids: Vec<String> = (0..70 * PLACES).map(|id| id.to_string()).collect();
    owner.ingest(&ids);
    change(&served, &last, |bytes| bytes[0] ^= 1);
    let done = owner.publish(&*served).unwrap();
    assert_eq!((done.uploaded, done.unchanged), (70, 0));
    assert_holds(&served, &owner);
    search(&mut owner, &served).unwrap();
}
