//! Records of blind collections: fetches against lookup, and what is refused.

use std::sync::Arc;

use shard_protocol::{
    BlindAnswer, BlindQuery, BlobName, CollectionName, Epoch, Leak, Limits, MessageKind, PutBlob,
    PutBlobs, RecordList, Refusal, RefusalCode, Table, declassify, message_kind,
};
use shard_rlwe::blind::{EpochKey, PAGE_SLOTS, QueryEntropy, QueryRank, RecordKeys, RecordShape};
use shard_server::Server;
use shard_store::MemoryRows;

use crate::commits::{Commit, EPOCH};

const SLOT_BYTES: usize = 22;

/// The records of a commit, by the seed of each page.
struct Records<'a> {
    commit: &'a Commit,
    epoch: Epoch,
    seeds: Vec<u8>,
}

fn page(seed: u8) -> Vec<u8> {
    (0..PAGE_SLOTS * SLOT_BYTES).map(|at| (at * 7 + usize::from(seed) * 31) as u8).collect()
}

impl Records<'_> {
    fn slots(&self) -> Vec<u8> {
        self.seeds.iter().flat_map(|&seed| page(seed)).collect()
    }

    fn shape(&self) -> RecordShape {
        RecordShape::new(self.seeds.len(), SLOT_BYTES, QueryRank::One).unwrap()
    }

    /// By seed and by place: the same page twice has two names.
    fn names(&self) -> Vec<[u8; 16]> {
        let name = |(at, &seed): (usize, &u8)| (at as u128 * 256 + u128::from(seed)).to_le_bytes();
        self.seeds.iter().enumerate().map(name).collect()
    }

    fn put_pages(&self) -> Vec<u8> {
        let blobs = self.names().into_iter().map(BlobName::page);
        let blobs = blobs.zip(self.seeds.iter().map(|&seed| page(seed))).collect();
        PutBlobs::new(declassify(blobs, Leak::SealedBlobs)).encode()
    }

    fn put_list(&self) -> Vec<u8> {
        let list = RecordList::new(
            declassify(self.epoch, Leak::CollectionShape),
            declassify(SLOT_BYTES, Leak::CollectionShape),
            declassify(QueryRank::One, Leak::CollectionShape),
            declassify(self.names(), Leak::BlockChanges),
        );
        let commit = declassify(self.commit.name, Leak::CollectionShape);
        PutBlob::record_list(commit, &list.unwrap()).encode()
    }

    /// All messages of a publish.
    fn publish(&self, from: Option<&Commit>) -> Vec<Vec<u8>> {
        let [begin, blocks, list, activate] = self.commit.publish(from);
        vec![begin, blocks, self.put_pages(), self.put_list(), list, activate]
    }

    fn query(&self, queries: Vec<Vec<u8>>) -> Vec<u8> {
        let epoch = declassify(EPOCH, Leak::CollectionShape);
        let commit = declassify(self.commit.name, Leak::CollectionShape);
        BlindQuery::new(Table::Records, epoch, commit, queries).encode()
    }

    /// Fetches columns and holds them against lookup.
    fn check(&self, server: &Server, columns: &[usize]) {
        let (shape, slots) = (self.shape(), self.slots());
        let keys = RecordKeys::expand(&EpochKey::new([9; 32]), shape);
        let segment = |segment| {
            let pages = shape.pages_of(segment);
            &slots[pages.start * shape.page_bytes()..pages.end * shape.page_bytes()]
        };
        let hints: Vec<Vec<u8>> =
            (0..shape.segments()).map(|number| keys.hint(segment(number))).collect();
        let sent: Vec<_> = columns
            .iter()
            .map(|&column| keys.encrypt(QueryEntropy::from_os().unwrap(), column))
            .collect();
        let message = self.query(sent.iter().map(|(query, _)| query.to_bytes()).collect());
        let answer = send(server, &message).unwrap();
        let limits = Limits::default();
        let answers = BlindAnswer::decode(&answer, columns.len(), shape.answer_bytes(), &limits);
        for ((column, (_, opening)), answer) in
            columns.iter().zip(&sent).zip(answers.unwrap().answers())
        {
            for (segment, slot) in keys.open(opening, answer, &hints).unwrap().iter().enumerate() {
                match shape.slot_at(segment, *column) {
                    Some(at) => assert_eq!(slot[..], slots[at * SLOT_BYTES..][..SLOT_BYTES]),
                    None => assert!(slot.iter().all(|&byte| byte == 0)),
                }
            }
        }
    }
}

fn send(server: &Server, message: &[u8]) -> Result<Vec<u8>, Refusal> {
    let answer = server.handle(&CollectionName::default(), message);
    match message_kind(&answer).unwrap() {
        MessageKind::Refusal => Err(Refusal::decode(&answer, &Limits::default()).unwrap()),
        _ => Ok(answer),
    }
}

fn send_all(server: &Server, messages: Vec<Vec<u8>>) -> Result<(), Refusal> {
    messages.iter().try_for_each(|message| send(server, message).map(drop))
}

fn empty() -> Server {
    Server::new(Arc::new(MemoryRows::new()), Limits::default())
}

#[test]
fn a_fetch_is_a_lookup_before_and_after_pages_change() {
    let server = empty();
    let one = Commit::new(1, 0..40);
    let mut records = Records { commit: &one, epoch: EPOCH, seeds: (0..70).collect() };
    send_all(&server, records.publish(None)).unwrap();
    records.check(&server, &[0, 5, 2047, 2048, 70 * 32 - 1]);
    let blocks = one.list.block_bytes();
    assert_eq!(server.blocks().bytes, blocks + records.shape().memory_bytes());
    // A page of the second tile changes, then pages come, then most go.
    let commits: Vec<Commit> = (2..5).map(|revision| Commit::new(revision, 0..40)).collect();
    let mut last = &one;
    for (commit, change) in commits.iter().zip(0..) {
        match change {
            0 => records.seeds[65] = 200,
            1 => records.seeds.extend(100..180),
            _ => records.seeds.truncate(3),
        }
        records.commit = commit;
        send_all(&server, records.publish(Some(last))).unwrap();
        let last_slot = records.shape().slots() - 1;
        records.check(&server, &[0, last_slot, last_slot / 2]);
        last = commit;
    }
    // A commit without records has none.
    let bare = Commit::new(5, 0..40);
    send_all(&server, bare.publish(Some(last)).to_vec()).unwrap();
    let query = vec![0; records.shape().query_bytes()];
    let refusal = send(&server, &Records { commit: &bare, ..records }.query(vec![query]));
    let refusal = refusal.unwrap_err();
    assert_eq!(refusal.code, RefusalCode::UnknownRow);
    assert!(refusal.text.contains("no records"), "{}", refusal.text);
    assert_eq!(server.blocks().bytes, blocks);
}

#[test]
fn lists_and_pages_that_do_not_go_together_are_refused_and_nothing_is_activated() {
    let commit = Commit::new(1, 0..40);
    let records = Records { commit: &commit, epoch: EPOCH, seeds: vec![1, 2, 3] };
    let without = |left_out: usize| {
        let mut messages = records.publish(None);
        messages.remove(left_out);
        send_all(&empty(), messages).unwrap_err()
    };
    assert_eq!(without(2).code, RefusalCode::UnknownBlob, "no pages");
    let other = Records { epoch: Epoch(EPOCH.0 + 1), seeds: vec![1, 2, 3], ..records };
    let refusal = send_all(&empty(), other.publish(None)).unwrap_err();
    assert!(refusal.text.contains("epoch"), "{}", refusal.text);
    let server = empty();
    let mut messages = records.publish(None);
    let short = (BlobName::page(records.names()[1]), page(2)[1..].to_vec());
    let short = PutBlobs::new(declassify(vec![short], Leak::SealedBlobs)).encode();
    messages.insert(3, short);
    let refusal = send_all(&server, messages).unwrap_err();
    assert_eq!(refusal.code, RefusalCode::Malformed);
    assert_eq!(server.blocks().collections, 0);
    // What is refused is no obstacle to what is sound.
    send_all(&server, records.publish(None)).unwrap();
    records.check(&server, &[40]);
}

#[test]
fn records_count_against_the_budget_and_fetches_against_the_time() {
    let commit = Commit::new(1, 0..40);
    let records =
        Records { commit: &commit, epoch: EPOCH, seeds: (0..700).map(|at| at as u8).collect() };
    let needed = commit.list.block_bytes() + records.shape().memory_bytes();
    let small = empty().with_block_bytes(needed - 1);
    assert_eq!(send_all(&small, records.publish(None)).unwrap_err().code, RefusalCode::TooLarge);
    let fits = empty().with_block_bytes(needed).with_request_milliseconds(0);
    send_all(&fits, records.publish(None)).unwrap();
    let query = vec![0; records.shape().query_bytes()];
    // A query takes 247,808 products: eight take a millisecond, one less.
    assert!(send(&fits, &records.query(vec![query.clone()])).is_ok());
    let costly = send(&fits, &records.query(vec![query.clone(); 8])).unwrap_err();
    assert_eq!(costly.code, RefusalCode::TooLarge);
    let short = send(&fits, &records.query(vec![query[1..].to_vec()])).unwrap_err();
    assert_eq!(short.code, RefusalCode::Malformed);
}
