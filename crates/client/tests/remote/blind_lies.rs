//! Servers of blind collections that lie: an alarm, or the right result.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use shard_client::{CellCount, ClientError, SearchOptions, Settings, Transport};
use shard_protocol::{
    BlindAnswer, Blob, BlobName, Blobs, CollectionName, Limits, MessageKind, message_kind,
};
use shard_rlwe::blind::SCORE_BITS;

use crate::blind::{PLACES, assert_exact, collection, search, search_with, searcher};
use crate::blind_publish::{blobs_of_blocks, change};
use crate::support::Served;
use crate::vaults::Owner;

/// Bytes of a number of an answer.
const NUMBER: usize = SCORE_BITS as usize / 8;
/// Bytes of the answer of a block.
const BLOCK: usize = PLACES * NUMBER;
/// Half the modulus of answers.
const HALF: u32 = 1 << (SCORE_BITS - 1);
/// Blocks of rows.
const ROWS: usize = 5;

/// A connection on which something happens to answers of one kind while it lies.
pub struct Liar<'a, L: Fn(Vec<u8>) -> Vec<u8> + Send + Sync> {
    served: &'a Served,
    kind: MessageKind,
    lies: AtomicBool,
    lie: L,
}

impl<'a, L: Fn(Vec<u8>) -> Vec<u8> + Send + Sync> Liar<'a, L> {
    pub fn new(served: &'a Served, kind: MessageKind, lie: L) -> Self {
        Self { served, kind, lies: AtomicBool::new(true), lie }
    }

    pub fn lies(&self, lies: bool) {
        self.lies.store(lies, Ordering::SeqCst);
    }
}

impl<L: Fn(Vec<u8>) -> Vec<u8> + Send + Sync> Transport for Liar<'_, L> {
    type Error = ClientError;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        let answer = self.served.exchange(message)?;
        let changed = self.lies.load(Ordering::SeqCst) && message_kind(&answer)? == self.kind;
        Ok(if changed { (self.lie)(answer) } else { answer })
    }
}

/// Blocks of checks of a cell: two sets of eleven.
const CHECKS: usize = 22;

/// A vault of four cells, two of which a search asks for, published.
pub fn published_in_cells() -> (std::sync::Arc<Served>, Owner) {
    let settings = Settings { cells: CellCount::Cells(4), probe: Some(2), ..Settings::blind() };
    let (served, owner) = (Served::new(None), Owner::blind_with(settings, 3, 62));
    owner.publish(&*served).unwrap();
    (served, owner)
}

/// Both, with the number of cells that a search asks for.
fn worlds() -> [(std::sync::Arc<Served>, Owner, usize); 2] {
    let ((served, owner), (celled, owner_of_cells)) = (published(), published_in_cells());
    [(served, owner, 1), (celled, owner_of_cells, 2)]
}

/// A vault of five blocks, published.
pub fn published() -> (std::sync::Arc<Served>, Owner) {
    let (served, owner) = (Served::new(None), Owner::blind(3, ROWS * PLACES - 2));
    owner.publish(&*served).unwrap();
    (served, owner)
}

/// The numbers of the answers of a message.
fn all_numbers(message: &[u8], queries: usize) -> Vec<Vec<u8>> {
    let limits = Limits::default();
    let found = (0..=message.len() / BLOCK)
        .find_map(|blocks| BlindAnswer::decode(message, queries, blocks * BLOCK, &limits).ok());
    found.expect("answers of whole blocks").into_answers()
}

/// The numbers of the only answer of a message.
fn numbers(message: &[u8]) -> Vec<u8> {
    all_numbers(message, 1).remove(0)
}

pub fn with_numbers(message: &[u8], lie: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut answer = numbers(message);
    lie(&mut answer);
    BlindAnswer::new(vec![answer]).encode()
}

/// Adds to a number of an answer, modulo a power of two.
pub fn add(answer: &mut [u8], place: usize, steps: u32) {
    let bytes = &mut answer[place * NUMBER..][..NUMBER];
    let value = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]).wrapping_add(steps);
    bytes.copy_from_slice(&value.to_le_bytes()[..NUMBER]);
}

/// Adds to all numbers of blocks.
fn add_to(answer: &mut [u8], blocks: std::ops::Range<usize>, steps: u32) {
    (blocks.start * PLACES..blocks.end * PLACES).for_each(|place| add(answer, place, steps));
}

/// Twice the deviation that a check of the rows allows, in steps of an answer.
fn twice_the_tolerance() -> u32 {
    (2.0 * 8.0 * ((ROWS + 1) as f64 / 12.0).sqrt()).ceil() as u32
}

#[test]
fn a_false_answer_is_an_alarm() {
    // Of an answer, and how many of its blocks are of rows.
    type Lie = (&'static str, fn(&mut Vec<u8>, usize));
    let lies: [Lie; 16] = [
        ("one score up", |answer, _| add(answer, 11, twice_the_tolerance())),
        ("one score down", |answer, _| add(answer, 0, twice_the_tolerance().wrapping_neg())),
        ("the last row's score", |answer, rows| {
            add(answer, rows * PLACES - 1, twice_the_tolerance());
        }),
        ("one score by half", |answer, _| add(answer, 3, HALF)),
        ("two scores against each other", |answer, _| {
            add(answer, 3, 1 << 20);
            add(answer, PLACES + 3, (1_u32 << 20).wrapping_neg());
        }),
        ("two places swapped", |answer, _| {
            let (one, two) = answer.split_at_mut(NUMBER);
            one.swap_with_slice(&mut two[..NUMBER]);
        }),
        ("two blocks swapped", |answer, _| {
            let (one, two) = answer.split_at_mut(BLOCK);
            one.swap_with_slice(&mut two[..BLOCK]);
        }),
        ("one block for another", |answer, _| answer.copy_within(0..BLOCK, BLOCK)),
        ("half added to two blocks", |answer, _| add_to(answer, 0..2, HALF)),
        ("half added to all but one", |answer, rows| add_to(answer, 0..rows - 1, HALF)),
        ("half added to all rows", |answer, rows| add_to(answer, 0..rows, HALF)),
        ("half added to everything", |answer, _| {
            let blocks = answer.len() / BLOCK;
            add_to(answer, 0..blocks, HALF);
        }),
        ("a constant added to all rows", |answer, rows| add_to(answer, 0..rows, 1000)),
        ("a constant added to everything", |answer, _| {
            let blocks = answer.len() / BLOCK;
            add_to(answer, 0..blocks, 1000);
        }),
        ("zeros", |answer, _| answer.fill(0)),
        ("the checks alone", |answer, rows| add(answer, rows * PLACES, 100)),
    ];
    for (served, mut owner, cells) in worlds() {
        for (name, lie) in lies {
            let liar = Liar::new(&served, MessageKind::BlindAnswer, |message| {
                with_numbers(&message, |answer| {
                    let rows = answer.len() / BLOCK - CHECKS * cells;
                    lie(answer, rows);
                })
            });
            let searcher = searcher(&liar);
            let error = search_with(&searcher, &mut owner).unwrap_err();
            assert!(matches!(error, ClientError::Forged), "{name}, {cells} cells: {error}");
            liar.lies(false);
            search_with(&searcher, &mut owner).unwrap();
        }
    }
}

/// Answers before it are used, none after it is, and however many are false, one set of checks is spent.
#[test]
fn a_false_answer_among_those_of_a_message_is_an_alarm() {
    let (served, mut owner) = published();
    let queries = owner.queries(6);
    type Lie = (usize, fn(&mut Vec<Vec<u8>>));
    let lies: [Lie; 3] = [
        (2, |answers| answers[2..].iter_mut().for_each(|answer| add(answer, 3, HALF))),
        (0, |answers| answers.swap(0, 1)),
        (5, |answers| answers[5] = answers[4].clone()),
    ];
    for (honest, lie) in lies {
        let liar = Liar::new(&served, MessageKind::BlindAnswer, |message| {
            let mut answers = all_numbers(&message, 6);
            lie(&mut answers);
            BlindAnswer::new(answers).encode()
        });
        let (searcher, collection) = (searcher(&liar), collection(&owner));
        let mut seen = 0;
        let each = |_, _| {
            seen += 1;
            ControlFlow::Continue(())
        };
        let options = SearchOptions::default();
        let error = searcher.search_many(&collection, &queries, &options, 1, each).unwrap_err();
        assert!(matches!(error, ClientError::Forged), "{error}");
        assert_eq!(seen, honest);
        liar.lies(false);
        search_with(&searcher, &mut owner).expect("the other set is left");
    }
}

/// Every single score, at the stated limit.
#[test]
fn no_score_moves_by_twice_the_tolerance_unnoticed() {
    for (served, mut owner, cells) in worlds() {
        for place in 0..ROWS * PLACES {
            let liar = Liar::new(&served, MessageKind::BlindAnswer, |answer| {
                with_numbers(&answer, |answer| {
                    let rows = answer.len() / BLOCK - CHECKS * cells;
                    add(answer, place % (rows * PLACES), twice_the_tolerance());
                })
            });
            let error = search_with(&searcher(&liar), &mut owner).unwrap_err();
            assert!(matches!(error, ClientError::Forged), "{place}: {error}");
        }
    }
}

#[test]
fn answers_that_are_not_well_formed_are_refused() {
    let lies: [fn(Vec<u8>) -> Vec<u8>; 7] = [
        |answer| with_numbers(&answer, |answer| answer.truncate(answer.len() - BLOCK)),
        |answer| with_numbers(&answer, |answer| drop(answer.drain(..BLOCK))),
        |answer| with_numbers(&answer, |answer| answer.extend([0; BLOCK])),
        |answer| BlindAnswer::new(vec![numbers(&answer); 2]).encode(),
        |answer| answer[..answer.len() - 1].to_vec(),
        |_| MessageKind::Accepted.bare(),
        |_| Vec::new(),
    ];
    for (served, mut owner, _) in worlds() {
        for (number, lie) in lies.into_iter().enumerate() {
            let liar = Liar::new(&served, MessageKind::BlindAnswer, lie);
            let searcher = searcher(&liar);
            let error = search_with(&searcher, &mut owner).unwrap_err();
            assert!(matches!(error, ClientError::Answer(_)), "lie {number}: {error:?}");
            liar.lies(false);
            search_with(&searcher, &mut owner).unwrap();
        }
    }
}

/// An answer to another query, and an answer of the commit before: false, or of other cells and so of another
/// length.
#[test]
fn an_answer_that_is_replayed_is_an_alarm() {
    for (served, mut owner, _) in worlds() {
        let kept = std::sync::Mutex::new(Vec::new());
        let record = Liar::new(&served, MessageKind::BlindAnswer, |answer| {
            kept.lock().unwrap().clone_from(&answer);
            answer
        });
        search_with(&searcher(&record), &mut owner).unwrap();
        let replay = Liar::new(&served, MessageKind::BlindAnswer, |_| kept.lock().unwrap().clone());
        let error = search_with(&searcher(&replay), &mut owner).unwrap_err();
        assert!(matches!(error, ClientError::Forged | ClientError::Answer(_)), "{error}");
        owner.put("3");
        owner.publish(&*served).unwrap();
        let error = search_with(&searcher(&replay), &mut owner).unwrap_err();
        assert!(matches!(error, ClientError::Forged | ClientError::Answer(_)), "{error}");
    }
}

/// A server that computes honestly with blocks of before: the query is that of the new commit.
#[test]
fn an_answer_computed_from_old_blocks_is_an_alarm() {
    let (served, mut owner) = published();
    let all = CollectionName::default();
    let old = collection(&owner).blocks()[0].file_name();
    let old = served.rows().blob(&all, &BlobName::block(old)).unwrap();
    owner.put("3");
    owner.publish(&*served).unwrap();
    let new = BlobName::block(collection(&owner).blocks()[0].file_name());
    change(&served, &new, |bytes| bytes.clone_from(&old));
    served.restart();
    let error = search(&mut owner, &served).unwrap_err();
    assert!(matches!(error, ClientError::Forged), "{error}");
}

#[test]
fn false_hints_are_alarms_and_are_fetched_again() {
    for (served, mut owner, _) in worlds() {
        let limits = Limits::default();
        type Lie = fn(&mut Vec<Option<Vec<u8>>>);
        let lies: [Lie; 4] = [
            |hints| hints[1].as_mut().unwrap()[200] ^= 1,
            |hints| hints.swap(0, 1),
            |hints| *hints.last_mut().unwrap() = hints[0].clone(),
            |hints| hints.last_mut().unwrap().as_mut().unwrap().fill(0),
        ];
        for lie in lies {
            for budget in [usize::MAX, 0] {
                let liar = Liar::new(&served, MessageKind::Blobs, |answer| {
                    let mut blobs = Blobs::decode(&answer, &limits).unwrap();
                    lie(&mut blobs.blobs);
                    blobs.encode()
                });
                let searcher = searcher(&liar).with_secret_bytes(budget);
                let error = search_with(&searcher, &mut owner).unwrap_err();
                assert!(matches!(error, ClientError::Forged), "{error}");
                liar.lies(false);
                // There may be more than one, and each is found when it is opened.
                let again = (0..ROWS).find_map(|_| search_with(&searcher, &mut owner).ok());
                assert!(again.is_some(), "the true ones are fetched");
            }
        }
        let liar = Liar::new(&served, MessageKind::Blobs, |answer| {
            let mut blobs = Blobs::decode(&answer, &limits).unwrap();
            blobs.blobs[0] = None;
            blobs.encode()
        });
        let error = search_with(&searcher(&liar), &mut owner).unwrap_err();
        assert!(matches!(error, ClientError::Outdated { .. }), "{error}");
    }
}

#[test]
fn false_and_stale_checks_are_alarms() {
    for (served, mut owner, _) in worlds() {
        let all = CollectionName::default();
        let checks = |owner: &Owner| {
            served.rows().blob(&all, &BlobName::checks(collection(owner).commit())).unwrap()
        };
        let old = checks(&owner);
        owner.put("3");
        owner.publish(&*served).unwrap();
        let sound = checks(&owner);
        let mut flipped = sound.clone();
        flipped[100] ^= 8;
        for lie in [old, flipped, sound[..sound.len() - 1].to_vec(), Vec::new()] {
            let liar =
                Liar::new(&served, MessageKind::Blob, |_| Blob { sealed: lie.clone() }.encode());
            let searcher = searcher(&liar);
            let error = search_with(&searcher, &mut owner).unwrap_err();
            assert!(matches!(error, ClientError::Forged), "{error}");
            liar.lies(false);
            search_with(&searcher, &mut owner).unwrap();
        }
    }
}

/// What came of searches of a collection of which a bit was changed.
#[derive(Default)]
struct Flipped {
    alarms: usize,
    others: usize,
    passed: usize,
}

/// A published collection, to change bits of.
struct Bits<'a> {
    served: &'a Served,
    owner: &'a Owner,
    query: &'a [f32],
}

impl Bits<'_> {
    /// Changes a bit of a blob, searches, and changes it back: an error, or the result that is right.
    fn flip(&self, name: &BlobName, at: usize, found: &mut Flipped) {
        let flip = |bytes: &mut Vec<u8>| bytes[at] ^= 1 << (at % 8);
        let options = SearchOptions { top: usize::MAX, ..SearchOptions::default() };
        change(self.served, name, flip);
        self.served.restart();
        match searcher(self.served).search(&collection(self.owner), self.query, &options) {
            Ok(answer) => {
                assert_exact(&answer, self.query, self.owner);
                found.passed += 1;
            }
            Err(ClientError::Forged) => found.alarms += 1,
            Err(error) => {
                let of_blocks =
                    ["blocks.", "block."].iter().any(|kind| name.as_str().starts_with(kind));
                assert!(of_blocks, "byte {at} of {name}: {error}");
                found.others += 1;
            }
        }
        change(self.served, name, flip);
    }
}

/// A bit of anything that the server keeps for searches: of every blob at a few places, and every byte of the list
/// of blocks, of the checks, and of where a hint begins and ends.
#[test]
fn one_bit_changed_in_anything_stored_is_never_a_wrong_result() {
    let (served, mut owner) = published();
    let query = owner.queries(1);
    let bits = Bits { served: &served, owner: &owner, query: query.row(0) };
    let all = blobs_of_blocks(&served);
    let length =
        |name: &BlobName| served.rows().blob(&CollectionName::default(), name).unwrap().len();
    let of_kind = |kind| all.iter().filter(move |name| name.as_str().starts_with(kind));
    let mut few = Flipped::default();
    for name in &all {
        let length = length(name);
        for at in [0, 20, length / 3, length / 2, length - 1] {
            let before = few.passed;
            bits.flip(name, at, &mut few);
            assert!(few.passed == before || name.as_str().starts_with("block."), "{name}");
        }
    }
    // Blocks of the spare set are not looked at: eleven of them, at five places.
    assert!(few.passed <= 11 * 5, "{} passed", few.passed);
    assert!(few.alarms > 5 * (ROWS + ROWS + 11), "{} alarms, {} others", few.alarms, few.others);

    // The checks are sealed, and so are hints: whatever is changed of them is an alarm.
    for name in of_kind("checks.") {
        let mut sealed = Flipped::default();
        (0..length(name)).for_each(|at| bits.flip(name, at, &mut sealed));
        assert_eq!(sealed.alarms, length(name));
    }
    let hint = of_kind("hint.").next().unwrap();
    let mut sealed = Flipped::default();
    let ends = (0..64).chain(length(hint) - 16..length(hint));
    ends.for_each(|at| bits.flip(hint, at, &mut sealed));
    assert_eq!(sealed.alarms, 80);

    // The list is the server's own. With another block in it the server has nothing to answer with; what is
    // said before the names may change nothing of an answer, and then the result is right.
    let list = of_kind("blocks.").next().unwrap();
    let (names, length) = (16 * (ROWS + CHECKS), length(list));
    let (mut before, mut named) = (Flipped::default(), Flipped::default());
    (0..length - names).for_each(|at| bits.flip(list, at, &mut before));
    (length - names..length).for_each(|at| bits.flip(list, at, &mut named));
    assert_eq!((named.passed, named.alarms + named.others), (0, names));
    assert!(before.passed < before.others, "{} of {}", before.passed, length - names);
    served.restart();
    search(&mut owner, &served).unwrap();
}
