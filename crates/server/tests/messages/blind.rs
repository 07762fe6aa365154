//! Blind collections: real publishes and searches, and what is refused of them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use shard_protocol::{
    BlindAnswer, BlobName, Blobs, CollectionName, CollectionState, Epoch, FetchBlobs,
    FetchSharedMany, Leak, Limits, MessageKind, PutBlob, PutBlobs, Refusal, RefusalCode,
    ResetCollection, Transport, declassify, message_kind,
};
use shard_rlwe::blind::{QueryRank, Shape};
use shard_server::{Asked, Embedded, PeerError, Peers, Server, View};
use shard_store::{MemoryRows, RowStore, WorkerId};

use crate::commits::{Commit, EPOCH, list_of, row, shape};
use crate::hooked::HookedRows;

fn main_collection() -> CollectionName {
    CollectionName::default()
}

fn empty() -> Server {
    Server::new(Arc::new(MemoryRows::new()), Limits::default())
}

fn send(server: &Server, message: &[u8]) -> Result<Vec<u8>, Refusal> {
    let answer = server.handle(&main_collection(), message);
    match message_kind(&answer).unwrap() {
        MessageKind::Refusal => Err(Refusal::decode(&answer, &Limits::default()).unwrap()),
        _ => Ok(answer),
    }
}

fn publish(server: &Server, commit: &Commit, from: Option<&Commit>) {
    for message in commit.publish(from) {
        assert_eq!(send(server, &message).unwrap(), MessageKind::Accepted.bare());
    }
}

/// A server at a commit.
fn serving(commit: &Commit) -> Server {
    let server = empty();
    publish(&server, commit, None);
    server
}

fn search(server: &Server, commit: &Commit, queries: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Refusal> {
    let bytes = send(server, &commit.query(queries.to_vec()).encode())?;
    let length = commit.list.answer_bytes();
    let answer = BlindAnswer::decode(&bytes, queries.len(), length, &Limits::default()).unwrap();
    Ok(answer.into_answers())
}

/// Whether a server answers as the construction does.
fn answers(server: &Server, commit: &Commit) -> bool {
    let (query, _) = commit.encrypt(&row(777));
    search(server, commit, std::slice::from_ref(&query)) == Ok(vec![commit.expected(&query)])
}

fn refused(server: &Server, message: &[u8]) -> (RefusalCode, String) {
    let refusal = send(server, message).unwrap_err();
    (refusal.code, refusal.text)
}

fn state(server: &Server) -> CollectionState {
    server.rows().describe(&main_collection()).unwrap()
}

#[test]
fn a_search_is_answered_as_the_construction_does_and_opens_to_inner_products() {
    let commit = Commit::new(1, 0..100);
    let server = serving(&commit);
    let sent: Vec<_> =
        (200..208).map(|number| (row(number), commit.encrypt(&row(number)))).collect();
    let queries: Vec<Vec<u8>> = sent.iter().map(|(_, (query, _))| query.clone()).collect();
    let found = search(&server, &commit, &queries).unwrap();
    for ((vector, (query, opening)), answer) in sent.iter().zip(&found) {
        assert_eq!(*answer, commit.expected(query));
        let scores = commit.open(opening, answer);
        for (stored, score) in commit.rows.iter().zip(scores) {
            let exact: f64 = stored.iter().zip(vector).map(|(&x, &y)| f64::from(x * y)).sum();
            assert!((score - exact).abs() < 1e-4, "{score} for {exact}");
        }
    }
    let counts = server.blocks();
    assert_eq!((counts.passes, counts.queries), (1, 8), "one pass for a message");
    assert_eq!((counts.collections, counts.bytes), (1, commit.list.block_bytes()));
    let held = state(&server).epochs[0];
    assert_eq!((held.blocks, held.rows), (commit.blocks.len() as u64, 0));
}

#[test]
fn sizes_depend_on_the_collection_alone() {
    let commit = Commit::new(1, 0..100);
    let server = serving(&commit);
    let zero = vec![0.0; row(0).len()];
    let large: Vec<f32> = row(3).iter().map(|x| x * 1e9).collect();
    let sizes = [zero, large, row(3), commit.rows[50].clone()].map(|query| {
        let message = commit.search(&query);
        (message.len(), send(&server, &message).unwrap().len())
    });
    let query = 40 + shape().query_bytes();
    let answer = 16 + shape().answer_bytes(commit.blocks.len());
    assert_eq!(sizes, [(query, answer); 4]);
}

#[test]
fn a_search_of_another_commit_or_epoch_is_told_so() {
    let (one, two) = (Commit::new(1, 0..40), Commit::new(2, 0..41));
    let server = empty();
    let early = refused(&server, &one.search(&row(1)));
    assert_eq!(early.0, RefusalCode::UnknownCollection);
    publish(&server, &one, None);
    let (code, text) = refused(&server, &two.search(&row(1)));
    assert_eq!(code, RefusalCode::Stale, "not published yet");
    assert!(text.contains("pull and ask again"), "{text}");
    publish(&server, &two, Some(&one));
    assert!(answers(&server, &two));
    assert_eq!(refused(&server, &one.search(&row(1))).0, RefusalCode::Stale);
    let of_epoch = |epoch: u64| {
        let mut message = two.search(&row(1));
        message[8..16].copy_from_slice(&epoch.to_le_bytes());
        refused(&server, &message).0
    };
    assert_eq!(of_epoch(EPOCH.0 - 1), RefusalCode::Stale);
    assert_eq!(of_epoch(EPOCH.0 + 1), RefusalCode::UnknownEpoch);
    // Rows are not blocks.
    let rows = crate::support::server(Arc::new(MemoryRows::new()), Limits::default());
    let mut message = two.search(&row(1));
    message[8..16].copy_from_slice(&crate::support::EPOCH.0.to_le_bytes());
    let (code, text) = refused(&rows, &message);
    assert_eq!((code, text.contains("no blocks")), (RefusalCode::UnknownEpoch, true), "{text}");
}

#[test]
fn queries_that_are_none_and_searches_that_cost_too_much_are_refused() {
    let commit = Commit::new(1, 0..40);
    let server = serving(&commit);
    let (query, _) = commit.encrypt(&row(1));
    let short = commit.query(vec![query[1..].to_vec()]).encode();
    assert_eq!(refused(&server, &short).0, RefusalCode::Malformed);
    let words = commit.query(vec![vec![0xff; query.len()]]).encode();
    assert_eq!(refused(&server, &words).0, RefusalCode::Malformed, "above the modulus");
    let eight = commit.query(vec![query.clone(); 8]).encode();
    // 9 blocks of one tile: 18,432 residues, 0.08 ms for eight queries.
    let slow = serving_with(&commit, |server| server.with_request_milliseconds(0));
    assert!(send(&slow, &eight).is_ok());
    let many = Commit::new(1, 0..8000);
    let slow = serving_with(&many, |server| server.with_request_milliseconds(1));
    let eight = many.query(vec![query.clone(); 8]).encode();
    let (code, text) = refused(&slow, &eight);
    assert_eq!((code, text.contains("2 ms")), (RefusalCode::TooLarge, true), "{text}");
    assert!(send(&slow, &many.query(vec![query]).encode()).is_ok());
}

fn serving_with(commit: &Commit, with: impl Fn(Server) -> Server) -> Server {
    let server = with(empty());
    publish(&server, commit, None);
    server
}

#[test]
fn an_answer_longer_than_a_message_is_refused() {
    let commit = Commit::new(1, 0..4000);
    let rows: Arc<dyn RowStore> = Arc::new(MemoryRows::new());
    publish(&Server::new(rows.clone(), Limits::default()), &commit, None);
    // Room for eight queries, 98,352 bytes, and for seven answers of 12,672.
    let server = Server::new(rows, Limits { bytes: 98_400, ..Limits::default() });
    let (query, _) = commit.encrypt(&row(1));
    assert!(send(&server, &commit.query(vec![query.clone(); 7]).encode()).is_ok());
    let (code, text) = refused(&server, &commit.query(vec![query; 8]).encode());
    assert_eq!(code, RefusalCode::TooLarge);
    assert!(text.contains("bytes of the answer"), "{text}");
}

#[test]
fn a_list_that_names_a_missing_or_malformed_block_changes_nothing() {
    let (one, two) = (Commit::new(1, 0..40), Commit::new(2, 0..80));
    let server = serving(&one);
    let before = state(&server);
    send(&server, &two.begin(Some(&one))).unwrap();
    let (code, _) = refused(&server, &two.activate(Some(&one)));
    assert_eq!(code, RefusalCode::WrongWidth, "no list: rows are expected, in an epoch of blocks");
    send(&server, &two.put_list()).unwrap();
    let (code, text) = refused(&server, &two.activate(Some(&one)));
    let missing = BlobName::block(two.list.names()[1]);
    assert_eq!(code, RefusalCode::UnknownBlob);
    assert!(text.contains(missing.as_str()), "{text}");
    send(&server, &two.put_blocks()).unwrap();
    let sound = two.blocks[1].to_bytes();
    let put = |bytes: Vec<u8>| {
        let blob = declassify(vec![(missing.clone(), bytes)], Leak::SealedBlobs);
        send(&server, &PutBlobs::new(blob).encode()).unwrap();
    };
    for bad in [sound[1..].to_vec(), vec![0xff; sound.len()], Vec::new()] {
        put(bad);
        let (code, text) = refused(&server, &two.activate(Some(&one)));
        assert_eq!(code, RefusalCode::Malformed);
        assert!(text.contains(missing.as_str()), "{text}");
        assert!(answers(&server, &one), "the commit of before is still searched");
        let now = state(&server);
        assert_eq!((now.commit, now.epochs), (before.commit, before.epochs.clone()));
    }
    put(sound);
    send(&server, &two.activate(Some(&one))).unwrap();
    send(&server, &two.activate(Some(&one))).expect("it can be repeated");
    assert!(answers(&server, &two));
}

#[test]
fn what_was_loaded_before_something_was_missing_is_not_loaded_again() {
    let one = Commit::new(1, 0..200);
    let rows = Arc::new(MemoryRows::new());
    let first = Server::new(rows.clone(), Limits::default());
    publish(&first, &one, None);
    let names: Vec<BlobName> = one.list.names().iter().map(|&name| BlobName::block(name)).collect();
    let (begin, end) = (&names[0], names.last().unwrap());
    let put =
        |name: &BlobName, bytes: &[u8]| rows.put_blob(&main_collection(), name, bytes).unwrap();
    let gone = |name: &BlobName| rows.delete_blob(&main_collection(), name).unwrap();
    let last = rows.blob(&main_collection(), end).unwrap();
    // Another server follows while the next publish has removed a block already.
    let second = Server::new(rows.clone(), Limits::default());
    gone(end);
    assert_eq!(second.follow(None).unwrap().len(), 1, "it cannot be followed");
    assert!(!answers(&second, &one));
    assert_eq!(second.blocks().bytes, one.list.block_bytes() / names.len() * (names.len() - 1));
    gone(begin);
    put(end, &last);
    assert!(second.follow(None).unwrap().is_empty());
    assert!(answers(&second, &one));
    assert_eq!(second.blocks().bytes, one.list.block_bytes());
    assert!(second.drop_collection(&main_collection()).unwrap());
    assert_eq!(second.blocks().bytes, 0);
}

/// Rows that give out so many blocks, and how many they still do.
fn giving(blocks: usize) -> (Arc<HookedRows>, Arc<AtomicUsize>) {
    let left = Arc::new(AtomicUsize::new(blocks));
    let hook = left.clone();
    let rows = HookedRows::away(move |_, blob| {
        let one_less = |left: usize| left.checked_sub(1);
        blob.is_some_and(|name| name.as_str().starts_with("block."))
            && hook.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_err()
    });
    (Arc::new(rows), left)
}

#[test]
fn what_an_activation_had_loaded_before_it_was_cut_off_is_freed() {
    let (one, two) = (Commit::new(1, 0..40), Commit::new(2, 0..8000));
    let (rows, left) = giving(usize::MAX);
    let server = Server::new(rows, Limits::default());
    publish(&server, &one, None);
    let [begin, blocks, list, activate] = two.publish(Some(&one));
    for message in [begin, blocks, list] {
        send(&server, &message).unwrap();
    }
    left.store(100, Ordering::SeqCst);
    assert_eq!(refused(&server, &activate).0, RefusalCode::Busy);
    assert_eq!(server.blocks().bytes, one.list.block_bytes());
    assert!(answers(&server, &one));
    left.store(usize::MAX, Ordering::SeqCst);
    send(&server, &activate).unwrap();
    assert!(answers(&server, &two));
}

/// Others that are asked for nothing.
struct Others(Mutex<Arc<View>>);

impl Others {
    fn set(&self, others: &[u64]) {
        let others = others.iter().copied().map(WorkerId);
        *self.0.lock().unwrap() = Arc::new(View::new(WorkerId(1), others, 1));
    }
}

impl Peers for Others {
    fn view(&self) -> Arc<View> {
        self.0.lock().unwrap().clone()
    }

    fn next_view(&self) -> Arc<View> {
        self.view()
    }

    fn ask(&self, _: WorkerId, _: &CollectionName, _: Vec<u8>, _: usize) -> Asked {
        Box::new(|| Err(PeerError::Unreachable("a test".to_owned())))
    }

    fn suspect(&self, _: WorkerId, _: &str) {}
}

#[test]
fn what_was_loaded_of_a_larger_share_stays_until_the_rest_comes() {
    let one = Commit::new(1, 0..16_000);
    let (rows, left) = giving(usize::MAX);
    let others = Arc::new(Others(Mutex::new(Arc::new(View::new(WorkerId(1), [], 1)))));
    others.set(&[2]);
    let server = Server::new(rows, Limits::default()).with_peers(others.clone());
    publish(&server, &one, None);
    let share = server.blocks().bytes;
    assert!(share > 0 && share < one.list.block_bytes());
    others.set(&[]);
    left.store(100, Ordering::SeqCst);
    assert_eq!(server.share_all(false).len(), 1);
    let more = server.blocks().bytes;
    assert!(more > share && more < one.list.block_bytes());
    // The commit that is held is still the one to follow.
    assert!(server.follow(None).unwrap().is_empty());
    assert_eq!(server.blocks().bytes, more);
    left.store(0, Ordering::SeqCst);
    assert_eq!(server.share_all(false).len(), 1, "each collection once");
    left.store(usize::MAX, Ordering::SeqCst);
    assert!(server.share_all(false).is_empty());
    assert_eq!(server.blocks().bytes, one.list.block_bytes());
    let read = usize::MAX - left.load(Ordering::SeqCst);
    let each = one.list.block_bytes() / one.list.names().len();
    assert_eq!(read * each, one.list.block_bytes() - more, "nothing twice");
    assert!(answers(&server, &one));
}

#[test]
fn what_another_server_dropped_or_reset_is_let_go_of() {
    let (one, main) = (Commit::new(1, 0..200), main_collection());
    for (named, is_reset) in [(true, false), (false, true), (true, true), (false, false)] {
        let rows = Arc::new(MemoryRows::new());
        let servers = [(); 2].map(|()| Server::new(rows.clone(), Limits::default()));
        publish(&servers[0], &one, None);
        assert!(servers[1].follow(None).unwrap().is_empty());
        assert!(answers(&servers[1], &one));
        if is_reset {
            let from = declassify(Some(one.name), Leak::CollectionShape);
            send(&servers[0], &ResetCollection::new(from).encode()).unwrap();
        } else {
            assert!(servers[0].drop_collection(&main).unwrap());
        }
        let some = named.then(|| [main.clone()]);
        let failed = servers[1].follow(some.as_ref().map(|some| &some[..])).unwrap();
        assert!(failed.is_empty(), "{failed:?}");
        assert_eq!(servers[1].blocks().bytes, 0);
        assert!(!answers(&servers[1], &one));
    }
}

#[test]
fn what_was_begun_of_one_collection_does_not_take_the_memory_of_another() {
    let one = Commit::new(1, 0..200);
    let rows = Arc::new(MemoryRows::new());
    publish(&Server::new(rows.clone(), Limits::default()), &one, None);
    let end = BlobName::block(*one.list.names().last().unwrap());
    rows.delete_blob(&main_collection(), &end).unwrap();
    let server = Server::new(rows, Limits::default()).with_block_bytes(one.list.block_bytes());
    assert_eq!(server.follow(None).unwrap().len(), 1, "it cannot be followed");
    assert!(server.blocks().bytes > 0);
    let other: CollectionName = "other".parse().unwrap();
    let kind = |message: &Vec<u8>| message_kind(&server.handle(&other, message)).unwrap();
    let kinds: Vec<MessageKind> = one.publish(None).iter().map(kind).collect();
    assert_eq!(kinds, [MessageKind::Accepted; 4]);
    assert_eq!(server.blocks().bytes, one.list.block_bytes());
}

#[test]
fn a_list_of_another_epoch_or_that_cannot_be_read_is_refused() {
    let one = Commit::new(1, 0..40);
    let server = empty();
    send(&server, &one.begin(None)).unwrap();
    send(&server, &one.put_blocks()).unwrap();
    let name = || declassify(BlobName::blocks(one.name), Leak::SealedBlobs);
    let put = |bytes: Vec<u8>| {
        let bytes = declassify(bytes, Leak::SealedBlobs);
        send(&server, &PutBlob::new(name(), bytes).encode()).unwrap();
        let refusal = refused(&server, &one.activate(None));
        assert_eq!(refusal.0, RefusalCode::Malformed, "{}", refusal.1);
        assert_eq!(state(&server).commit, None);
    };
    put(b"no list".to_vec());
    let other = list_of(Epoch(6), shape(), one.list.names().to_vec(), one.list.checks());
    put(other.encode());
    // Blocks of another shape are not those of this list.
    let wide = Shape::new(100, 64, QueryRank::One).unwrap();
    put(list_of(EPOCH, wide, one.list.names().to_vec(), one.list.checks()).encode());
    send(&server, &one.put_list()).unwrap();
    send(&server, &one.activate(None)).unwrap();
    assert!(answers(&server, &one));
}

#[test]
fn a_collection_over_the_budget_is_refused_with_figures_before_it_is_loaded() {
    let (one, two) = (Commit::new(1, 0..40), Commit::new(2, 0..80));
    let budget = one.list.block_bytes() + 100;
    let server = serving_with(&one, |server| server.with_block_bytes(budget));
    send(&server, &two.begin(Some(&one))).unwrap();
    // Its blocks are not even there.
    send(&server, &two.put_list()).unwrap();
    let (code, text) = refused(&server, &two.activate(Some(&one)));
    assert_eq!(code, RefusalCode::TooLarge);
    for figure in [two.list.block_bytes(), budget] {
        assert!(text.contains(&figure.to_string()), "{text}");
    }
    assert!(text.contains("block-mib"), "{text}");
    assert!(answers(&server, &one), "nothing has changed");
    // What one collection takes, another one cannot have, until it is dropped.
    let other: CollectionName = "other".parse().unwrap();
    let publish = |message: &Vec<u8>| message_kind(&server.handle(&other, message)).unwrap();
    let kinds: Vec<MessageKind> = one.publish(None).iter().map(publish).collect();
    assert_eq!(kinds[3], MessageKind::Refusal);
    assert!(server.drop_collection(&main_collection()).unwrap());
    assert_eq!(server.blocks().bytes, 0);
    assert_eq!(publish(&one.activate(None)), MessageKind::Accepted);
}

#[test]
fn blocks_that_fit_only_in_the_place_of_the_old_ones_replace_them_at_activation() {
    let (one, two) = (Commit::new(1, 0..80), Commit::new(2, 1000..1080));
    let (old, new) = (one.list.block_bytes(), two.list.block_bytes());
    // Beside the old ones, a byte short of it, and just in their place.
    for budget in [old + new, old + new - 1, new] {
        let server = serving_with(&one, |server| server.with_block_bytes(budget));
        send(&server, &two.begin(Some(&one))).unwrap();
        send(&server, &two.put_list()).unwrap();
        assert_eq!(refused(&server, &two.activate(Some(&one))).0, RefusalCode::UnknownBlob);
        assert!(answers(&server, &one), "{budget}: nothing has changed");
        send(&server, &two.put_blocks()).unwrap();
        assert!(answers(&server, &one), "{budget}: until the activation");
        let since = std::time::Instant::now();
        send(&server, &two.activate(Some(&one))).unwrap();
        assert!(since.elapsed().as_secs() < 5, "there is nobody to wait for");
        assert_eq!(server.blocks().bytes, new, "{budget}");
        assert!(answers(&server, &two), "{budget}");
    }
}

#[test]
fn a_reset_and_an_epoch_of_rows_free_the_blocks() {
    let one = Commit::new(1, 0..40);
    let server = serving(&one);
    let from = declassify(Some(one.name), Leak::CollectionShape);
    send(&server, &ResetCollection::new(from).encode()).unwrap();
    assert_eq!(server.blocks().collections, 0);
    assert_eq!(refused(&server, &one.search(&row(1))).0, RefusalCode::UnknownCollection);
    let server = serving(&one);
    let advance = one.advance(None);
    let next = shard_protocol::Advance {
        from: Some(one.name),
        to: shard_protocol::CommitName([9; 16]),
        revision: shard_protocol::Revision(2),
        turn: advance.turn,
    };
    let epoch = Epoch(EPOCH.0 + 1);
    let batch = shard_protocol::RowBatch::new(
        declassify(epoch, Leak::CollectionShape),
        declassify(1, Leak::CollectionShape),
        declassify(Vec::new(), Leak::StoredRows),
    );
    server.rows().upsert(&main_collection(), &next, batch, &[]).unwrap();
    let next = declassify(next, Leak::CollectionShape);
    let epoch = declassify(epoch, Leak::CollectionShape);
    send(&server, &shard_protocol::ActivateEpoch::new(next, epoch).encode()).unwrap();
    assert_eq!(server.blocks().collections, 0);
    assert_eq!(refused(&server, &one.search(&row(1))).0, RefusalCode::Stale);
}

#[test]
fn every_answer_is_of_one_commit_while_activations_swap_it() {
    // Ever new contents under ever new commits: with room for two of them, and for one.
    let commits: Vec<Commit> =
        (1..=12).map(|revision| Commit::new(revision, revision * 5..revision * 5 + 200)).collect();
    let most = commits.iter().map(|commit| commit.list.block_bytes()).max().unwrap();
    for budget in [2 * most, most] {
        let server = serving_with(&commits[0], |server| server.with_block_bytes(budget));
        swap_under_searches(&server, &commits);
    }
}

fn swap_under_searches(server: &Server, commits: &[Commit]) {
    let ended = AtomicBool::new(false);
    let (served, stale) = thread::scope(|scope| {
        let search_all = || {
            let (mut served, mut stale) = (0, 0);
            while !ended.load(Ordering::SeqCst) {
                for commit in commits {
                    let (query, _) = commit.encrypt(&row(served));
                    match search(server, commit, std::slice::from_ref(&query)) {
                        Ok(answers) => {
                            assert_eq!(answers, [commit.expected(&query)]);
                            served += 1;
                        }
                        Err(refusal) => {
                            assert_eq!(refusal.code, RefusalCode::Stale, "{refusal}");
                            stale += 1;
                        }
                    }
                }
            }
            (served, stale)
        };
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(search_all)).collect();
        for pair in commits.windows(2) {
            publish(server, &pair[1], Some(&pair[0]));
            assert!(answers(server, &pair[1]));
        }
        ended.store(true, Ordering::SeqCst);
        let counts = threads.into_iter().map(|thread| thread.join().unwrap());
        counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    });
    assert!(served > 0 && stale > 0, "{served} {stale}");
    assert_eq!(server.blocks().bytes, commits[11].list.block_bytes(), "the others are freed");
}

#[test]
fn a_server_over_an_engine_that_holds_a_commit_serves_it() {
    let commit = Commit::new(1, 0..40);
    let rows: Arc<dyn RowStore> = Arc::new(MemoryRows::new());
    publish(&Server::new(rows.clone(), Limits::default()), &commit, None);
    // At start, or when a search comes.
    let server = Server::new(rows.clone(), Limits::default());
    assert!(server.load_blocks().unwrap().is_empty());
    assert_eq!(server.blocks().collections, 1);
    assert!(answers(&server, &commit));
    let server = Server::new(rows.clone(), Limits::default());
    assert!(answers(&server, &commit));
    // What is not there any more is damage, and the others are loaded all the same.
    let gone = BlobName::block(commit.list.names()[0]);
    assert_eq!(rows.delete_blob(&main_collection(), &gone), Ok(true));
    let server = Server::new(rows.clone(), Limits::default());
    let failed = server.load_blocks().unwrap();
    assert_eq!(failed.len(), 1);
    let (code, text) = refused(&server, &commit.search(&row(1)));
    assert_eq!(code, RefusalCode::Damaged);
    assert!(text.contains(gone.as_str()), "{text}");
    let small = Server::new(rows, Limits::default()).with_block_bytes(10);
    assert_eq!(small.load_blocks().unwrap()[0].1.code(), RefusalCode::TooLarge);
}

#[cfg(feature = "durable")]
#[test]
fn a_restart_serves_the_same() {
    use shard_store::{RedbRows, StoreOptions};
    let directory = tempfile::tempdir().unwrap();
    let (one, two) = (Commit::new(1, 0..40), Commit::new(2, 0..41));
    let open = || {
        let rows = RedbRows::open(directory.path(), StoreOptions::default()).unwrap();
        Server::new(Arc::new(rows), Limits::default())
    };
    let server = open();
    publish(&server, &one, None);
    publish(&server, &two, Some(&one));
    let before = state(&server);
    drop(server);
    let server = open();
    assert!(server.load_blocks().unwrap().is_empty());
    assert_eq!(state(&server), before);
    assert!(answers(&server, &two));
    assert_eq!(refused(&server, &one.search(&row(1))).0, RefusalCode::Stale);
}

#[test]
fn an_embedded_server_answers_also_from_within_a_pool_of_threads() {
    use rayon::prelude::*;
    let commit = Commit::new(1, 0..500);
    let server = Embedded::empty(EPOCH);
    for message in commit.publish(None) {
        assert_eq!(server.exchange(message).unwrap(), MessageKind::Accepted.bare());
    }
    let search = |number: u64| {
        let (query, _) = commit.encrypt(&row(number));
        let answer = server.exchange(commit.query(vec![query.clone()]).encode()).unwrap();
        let length = commit.list.answer_bytes();
        let answer = BlindAnswer::decode(&answer, 1, length, &Limits::default()).unwrap();
        assert_eq!(answer.answers()[0], commit.expected(&query));
    };
    (0..40).into_par_iter().for_each(search);
    thread::scope(|scope| {
        (0..8).for_each(|number| drop(scope.spawn(move || search(number))));
    });
}

#[test]
fn many_blobs_are_fetched_in_order_as_many_as_fit() {
    let server = empty();
    let name = |text: &str| -> BlobName { text.parse().unwrap() };
    let texts = ["hint.a", "hint.b", "hint.c", "block.a"];
    let blobs = texts.map(|text| (name(text), vec![7; 12 << 20])).to_vec();
    for blob in blobs {
        let put = PutBlobs::new(declassify(vec![blob], Leak::SealedBlobs));
        send(&server, &put.encode()).unwrap();
    }
    let names = |texts: &[&str]| {
        declassify(texts.iter().map(|text| name(text)).collect::<Vec<_>>(), Leak::SealedBlobs)
    };
    let lengths = |message: Vec<u8>| -> Vec<Option<usize>> {
        let answer = send(&server, &message).unwrap();
        let blobs = Blobs::decode(&answer, &Limits::default()).unwrap().blobs;
        blobs.iter().map(|blob| blob.as_ref().map(Vec::len)).collect()
    };
    let (all, large) = (names(&["hint.b", "none", "block.a", "hint.a"]), Some(12 << 20));
    assert_eq!(lengths(FetchBlobs::new(all).encode()), [large, None, large], "32 MiB");
    let shared = names(&["hint.z", "hint.c"]);
    assert_eq!(lengths(FetchSharedMany::new(shared).encode()), [None, large]);
    let mixed = FetchSharedMany::new(names(&["hint.a", "block.a"])).encode();
    assert_eq!(refused(&server, &mixed).0, RefusalCode::UnknownBlob);
}
