//! Fetches against plain lookup, the formula of the error, and whoever computes on other slots.

use proptest::prelude::*;

use super::super::kernel::{Fold, Kernel};
use super::super::keys::Prf;
use super::super::modulus::DEGREE;
use super::super::{EpochKey, QueryEntropy, QueryRank};
use super::*;
use crate::sample::{Stream, fill_words};

/// Records in memory, with what both sides have.
struct World {
    keys: RecordKeys,
    server: RecordServer,
    slots: Vec<u8>,
    segments: Vec<Segment>,
    hints: Vec<Vec<u8>>,
}

impl World {
    fn new(pages: usize, slot_bytes: usize, rank: QueryRank) -> Self {
        let shape = RecordShape::new(pages, slot_bytes, rank).unwrap();
        let mut words = vec![0; (shape.slots() * slot_bytes).div_ceil(8)];
        fill_words(&mut words, &[pages as u8; 32], Stream::Turns(slot_bytes as u32));
        let mut slots: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        slots.truncate(shape.slots() * slot_bytes);
        let keys = RecordKeys::expand(&EpochKey::new([7; 32]), shape);
        let server = RecordServer::new(shape);
        let mut world = Self { keys, server, slots, segments: Vec::new(), hints: Vec::new() };
        for segment in 0..shape.segments() {
            world.segments.push(world.expand(segment));
            world.hints.push(world.keys.hint(world.of(segment)));
        }
        world
    }

    fn shape(&self) -> &RecordShape {
        self.keys.shape()
    }

    /// The slots of a segment.
    fn of(&self, segment: usize) -> &[u8] {
        let pages = self.shape().pages_of(segment);
        let bytes = self.shape().page_bytes();
        &self.slots[pages.start * bytes..pages.end * bytes]
    }

    fn expand(&self, number: usize) -> Segment {
        let mut segment = Segment::zero(self.shape(), number);
        let tiles = self.of(number).chunks(DEGREE * self.shape().slot_bytes());
        tiles.enumerate().for_each(|(tile, slots)| segment.put(tile, slots));
        segment
    }

    fn slot(&self, slot: usize) -> &[u8] {
        &self.slots[slot * self.shape().slot_bytes()..][..self.shape().slot_bytes()]
    }

    fn answer(&self, queries: &[&PreparedFetch]) -> Vec<Vec<u8>> {
        let mut answers = vec![Vec::new(); queries.len()];
        for (number, segment) in self.segments.iter().enumerate() {
            // Cut anywhere.
            for words in [0..segment.rows() / 3, segment.rows() / 3..segment.rows()] {
                let parts = self.server.answer_part(number, segment, words, queries);
                answers.iter_mut().zip(parts).for_each(|(answer, part)| answer.extend(part));
            }
        }
        answers
    }

    /// What is opened of every segment for a column.
    fn fetch(&self, column: usize) -> Vec<Vec<u8>> {
        let (sent, opening) = self.keys.encrypt(QueryEntropy::from_os().unwrap(), column);
        let bytes = sent.to_bytes();
        assert_eq!(bytes.len(), self.shape().query_bytes());
        let prepared = self.server.prepare(&bytes).unwrap();
        let answer = self.answer(&[&prepared]).remove(0);
        assert_eq!(answer.len(), self.shape().answer_bytes());
        let opened = self.keys.open(&opening, &answer, &self.hints).unwrap();
        opened.iter().map(|slot| slot.to_vec()).collect()
    }
}

#[test]
fn shapes_that_cannot_be_are_refused_and_others_have_the_bytes_of_the_parameters_page() {
    let new = |pages, bytes| RecordShape::new(pages, bytes, QueryRank::One);
    assert_eq!(new(0, 64), Err(RecordShapeError::Pages(0)));
    assert_eq!(new((1 << 20) + 1, 64), Err(RecordShapeError::Pages((1 << 20) + 1)));
    assert_eq!(new(1, 63), Err(RecordShapeError::SlotBytes(63)));
    assert_eq!(new(1, 0), Err(RecordShapeError::SlotBytes(0)));
    let shape = new(3125, 1068).unwrap();
    assert_eq!((shape.slots(), shape.words()), (100_000, 534));
    assert_eq!((shape.segments(), shape.tiles(), shape.tiles_of(3)), (4, 16, 1));
    assert_eq!((shape.query_bytes(), shape.answer_bytes()), (196_608, 6408));
    assert_eq!((shape.hint_bytes(), shape.memory_bytes()), (3_827_712, 321_527_808));
    assert_eq!((shape.pages_of(2), shape.pages_of(3)), (2048..3072, 3072..3125));
    let small = new(1, 64).unwrap();
    assert_eq!((small.segments(), small.tiles(), small.pages_of(0)), (1, 1, 0..1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn a_fetch_is_a_lookup_whatever_the_shape(
        pages in prop_oneof![1_usize..130, Just(1024), 1025_usize..1100, Just(2100)],
        slot_bytes in (1_usize..20).prop_map(|words| 2 * words),
        rank in prop::sample::select(vec![QueryRank::One, QueryRank::Two]),
        wanted in any::<prop::sample::Index>(),
    ) {
        let world = World::new(pages, slot_bytes, rank);
        let shape = world.shape();
        let wanted = wanted.index(shape.slots());
        let (_, column) = shape.column_of(wanted);
        for column in [column, 0, shape.columns() - 1] {
            for (segment, opened) in world.fetch(column).iter().enumerate() {
                match shape.slot_at(segment, column) {
                    Some(slot) => prop_assert_eq!(&opened[..], world.slot(slot)),
                    None => prop_assert!(opened.iter().all(|&byte| byte == 0)),
                }
            }
        }
    }
}

#[test]
fn the_measured_error_of_a_word_follows_the_formula() {
    for (pages, rank) in [(64, QueryRank::One), (1024, QueryRank::One), (1024, QueryRank::Two)] {
        let world = World::new(pages, 200, rank);
        let shape = *world.shape();
        let (mut sum, mut count) = (0.0, 0.0);
        for column in (0..shape.slots()).step_by(shape.slots() / 12) {
            let (sent, opening) = world.keys.encrypt(QueryEntropy::from_os().unwrap(), column);
            let prepared = world.server.prepare(&sent.to_bytes()).unwrap();
            let answer = world.answer(&[&prepared]).remove(0);
            let raw = world.keys.opened_words(&opening, &answer, &world.hints[0]);
            for (raw, word) in raw.iter().zip(world.slot(column).as_chunks().0) {
                let off = raw - f64::from(u16::from_le_bytes(*word));
                let off = off - 65_536.0 * (off / 65_536.0).round();
                sum += off * off;
                count += 1.0;
            }
        }
        let ratio = (sum / count).sqrt() / shape.word_error();
        assert!((ratio - 1.0_f64).abs() < 0.08, "{pages} pages: {ratio}");
    }
}

#[test]
fn the_error_of_the_largest_segments_is_that_of_the_parameters_page() {
    for (rank, error, deviations) in
        [(QueryRank::One, 0.0038, 130.0), (QueryRank::Two, 0.0046, 108.0)]
    {
        let found = RecordShape::new(MOST_PAGES, 1068, rank).unwrap().word_error();
        assert!((found - error).abs() < 0.00005, "{rank:?}: {found}");
        assert!((0.5 / found - deviations).abs() < 1.5, "{rank:?}: {}", 0.5 / found);
    }
}

/// The hint is that of the slots: on any others every word that changed is noise, whatever is asked.
#[test]
fn a_changed_slot_breaks_the_same_words_of_every_column() {
    let mut world = World::new(64, 40, QueryRank::One);
    let honest = world.slots.clone();
    let changed = 300;
    let at = changed * 40 + 2 * 7;
    world.slots[at] ^= 1;
    world.segments[0] = world.expand(0);
    for column in [0, changed, 301, 2047] {
        let opened = world.fetch(column).remove(0);
        let expected = &honest[column * 40..][..40];
        let differs: Vec<usize> =
            (0..20).filter(|k| opened[2 * k..2 * k + 2] != expected[2 * k..2 * k + 2]).collect();
        assert_eq!(differs, [7], "column {column}");
    }
}

#[test]
fn fetches_that_share_a_pass_get_the_answers_they_get_alone() {
    let world = World::new(1030, 24, QueryRank::One);
    let prepared: Vec<PreparedFetch> = (0..9)
        .map(|column| {
            let (sent, _) = world.keys.encrypt(QueryEntropy::from_os().unwrap(), 17 * column);
            world.server.prepare(&sent.to_bytes()).unwrap()
        })
        .collect();
    let all: Vec<&PreparedFetch> = prepared.iter().collect();
    for (query, answer) in all.iter().zip(world.answer(&all)) {
        assert_eq!(world.answer(&[query])[0], answer);
    }
}

#[test]
fn bytes_of_other_lengths_are_refused() {
    let world = World::new(3, 24, QueryRank::One);
    assert!(world.server.prepare(&[0; 12]).is_err());
    assert!(world.server.prepare(&vec![255; world.shape().query_bytes()]).is_err());
    let (_, opening) = world.keys.encrypt(QueryEntropy::from_os().unwrap(), 0);
    let answer = vec![0; world.shape().answer_bytes()];
    assert!(world.keys.open(&opening, &answer[1..], &world.hints).is_err());
    assert!(world.keys.open(&opening, &answer, &[&world.hints[0][1..]]).is_err());
    assert!(world.keys.open(&opening, &answer, &[] as &[Vec<u8>]).is_err());
}

#[test]
fn a_random_state_used_twice_hides_two_columns_all_the_same() {
    let world = World::new(3, 24, QueryRank::One);
    let sent = |column| world.keys.encrypt(QueryEntropy::fixed([5; 32]), column).0.to_bytes();
    let (one, two) = (sent(3), sent(4));
    let equal = one.iter().zip(&two).filter(|(a, b)| a == b).count();
    assert!(equal < one.len() / 100, "{equal} equal bytes of {}", one.len());
    assert_eq!(one, sent(3));
}

/// Bytes that must not change: hints and queries of another build would not fit these.
#[test]
fn golden_vectors() {
    let mut world = World::new(1030, 24, QueryRank::Two);
    let (sent, _) = world.keys.encrypt(QueryEntropy::fixed([3; 32]), 12_345);
    let prepared = world.server.prepare(&sent.to_bytes()).unwrap();
    let digest = |bytes: &[u8]| {
        let mut prf = Prf::new(&[0; 32]);
        prf.input(bytes);
        u64::from_le_bytes(prf.finish()[..8].try_into().unwrap())
    };
    let found = [digest(&world.hints[1]), digest(&sent.to_bytes())];
    assert_eq!(found, [5_097_171_658_985_604_811, 4_521_708_261_092_262_667]);
    for kernel in Kernel::all() {
        world.server.fold = Fold::by(kernel, 1);
        let answer = digest(&world.answer(&[&prepared])[0]);
        assert_eq!(answer, 10_081_738_858_931_386_874, "{kernel:?}");
    }
}
