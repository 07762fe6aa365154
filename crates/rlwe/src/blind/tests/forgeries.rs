//! The construction against servers that forge answers.

use super::*;

/// A forger of answers: everything a server can do is to add to what it returns.
struct Forger<'a> {
    world: &'a World,
    opening: Opening,
    honest: Vec<u64>,
}

impl<'a> Forger<'a> {
    fn new(world: &'a World, query: &[f32]) -> Self {
        let (opening, bytes) = world.ask(query);
        assert!(world.open(&opening, &bytes).is_ok());
        let honest = bytes
            .as_chunks::<3>()
            .0
            .iter()
            .map(|b| u64::from_le_bytes([b[0], b[1], b[2], 0, 0, 0, 0, 0]));
        Self { world, honest: honest.collect(), opening }
    }

    fn is_caught(&self, forge: impl Fn(usize, usize) -> u64) -> bool {
        let places = self.world.keys.shape().rows_per_block();
        let forged = self.honest.iter().enumerate().flat_map(|(at, &honest)| {
            let value = (honest + forge(at / places, at % places)) & 0xff_ffff;
            value.to_le_bytes()[..3].to_vec()
        });
        self.world.open(&self.opening, &forged.collect::<Vec<u8>>()).is_err()
    }
}

#[test]
fn every_forgery_above_the_tolerance_is_caught() {
    let world = World::new(shape(24, 32), rows(1000, 24, 16, |_| 1.0));
    let blocks = world.blocks.len();
    let query = rows(1, 24, 17, |_| 1.0).remove(0);
    let forger = Forger::new(&world, &query);
    let tolerance =
        (2.0 * tolerance(blocks) / scale::ROOM * 2_f64.powi(SCORE_BITS as i32)).ceil() as u64;
    let half = 1_u64 << (SCORE_BITS - 1);
    assert!(!forger.is_caught(|_, _| 0));
    assert!(
        forger.is_caught(|block, place| if (block, place) == (3, 5) { tolerance } else { 0 }),
        "one"
    );
    assert!(forger.is_caught(|block, _| if block < 2 { half } else { 0 }), "half, two blocks");
    assert!(forger.is_caught(|block, _| if block + 1 < blocks { half } else { 0 }), "all but one");
    assert!(forger.is_caught(|block, _| if block < blocks { half } else { 0 }), "all");
    assert!(forger.is_caught(|_, _| tolerance), "everything");
    assert!(forger.is_caught(|block, _| if block >= blocks { tolerance } else { 0 }), "the checks");
    // Random combinations.
    let mut words = vec![0; 40 * (blocks + 2)];
    fill_words(&mut words, &[1; 32], Stream::Turns(0));
    for words in words.chunks(blocks + 2) {
        let share = words[blocks] % 8 + 1;
        let forge = |block: usize, place: usize| match words.get(block) {
            Some(word) if block < blocks && word % 8 < share => {
                let step = (word >> (place % 32)) % (half - tolerance) + tolerance;
                if word >> 60 & 1 == 1 { (1 << SCORE_BITS) - step } else { step }
            }
            _ => 0,
        };
        let touched = words[..blocks].iter().any(|word| word % 8 < share);
        assert!(!touched || forger.is_caught(forge));
    }
}

#[test]
fn a_server_that_computes_on_other_blocks_is_caught() {
    let world = World::new(shape(24, 32), rows(640, 24, 18, |_| 1.0));
    let query = rows(1, 24, 19, |_| 1.0).remove(0);
    let entropy = QueryEntropy::from_os().unwrap();
    let (sent, opening) = world.keys.encrypt_query(entropy, &query, world.grid, world.longest);
    let prepared = world.server.prepare(&sent.to_bytes()).unwrap();
    let caught = |blocks: &[&Block]| {
        let answer = world.server.answer(blocks, &[&prepared]).remove(0);
        world.open(&opening, &answer).is_err()
    };
    let honest = world.stored();
    assert!(!caught(&honest));
    let mut swapped = honest.clone();
    swapped.swap(2, 5);
    assert!(caught(&swapped), "two blocks swapped");
    let mut replayed = honest.clone();
    replayed[4] = honest[3];
    assert!(caught(&replayed), "a block in place of another");
    let name = BlockName { revision: 0, ..world.name(1) };
    let (_, old) = world.keys.encrypt_block(&name, &world.integers(1));
    let mut stale = honest.clone();
    stale[1] = &old;
    assert!(caught(&stale), "an old block");
    let zero = Block::zero(world.keys.shape().tiles());
    let mut dropped = honest.clone();
    dropped[0] = &zero;
    assert!(caught(&dropped), "a block left out");
}

#[test]
fn checks_of_some_blocks_are_about_these_wherever_they_stand_in_an_answer() {
    let world = World::new(shape(24, 32), rows(640, 24, 22, |_| 1.0));
    let query = rows(1, 24, 23, |_| 1.0).remove(0);
    let entropy = QueryEntropy::from_os().unwrap();
    let (sent, opening) = world.keys.encrypt_query(entropy, &query, world.grid, world.longest);
    let prepared = world.server.prepare(&sent.to_bytes()).unwrap();
    let numbers = [1_u32, 4, 7];
    let mut sums = CheckSums::empty(&world.keys, 9);
    for number in numbers {
        sums.add(&world.keys, number, &world.blocks[number as usize]);
    }
    let sealed = sums.seal(&world.keys, CONTEXT, 1);
    let tags: Vec<CheckTag> = sealed.iter().map(|(tag, _)| tag.clone()).collect();
    let checker = Checker::of_blocks(&world.keys, 9, &tags, &numbers);
    // Blocks 7, 0, 1 and 4, then the checks.
    let passes = |blocks: [usize; 4], positions: [usize; 3], set: &Checker| {
        let rows = blocks.iter().map(|&block| &world.blocks[block]);
        let stored: Vec<&Block> = rows.chain(sealed.iter().map(|(_, block)| block)).collect();
        let answer = world.server.answer(&stored, &[&prepared]).remove(0);
        let answer = Answer::from_bytes(world.keys.shape(), stored.len(), &answer).unwrap();
        set.check_at(&world.keys, &opening, &answer, &positions, 4).is_ok()
    };
    assert!(passes([7, 0, 1, 4], [2, 3, 0], &checker));
    assert!(passes([7, 9, 1, 4], [2, 3, 0], &checker), "a block that is not theirs");
    assert!(!passes([7, 0, 4, 1], [2, 3, 0], &checker), "two swapped");
    assert!(!passes([7, 0, 1, 4], [3, 2, 0], &checker), "two taken for each other");
    assert!(!passes([7, 0, 1, 9], [2, 3, 0], &checker), "one of other checks");
    let other = Checker::of_blocks(&world.keys, 10, &tags, &numbers);
    assert!(!passes([7, 0, 1, 4], [2, 3, 0], &other), "turns of another set");
    // The first blocks are the special case.
    let tags: Vec<CheckTag> = world.checks.iter().map(|(tag, _)| tag.clone()).collect();
    let all: Vec<u32> = (0..world.blocks.len() as u32).collect();
    let (asked, answer) = world.ask(&query);
    let blocks = world.blocks.len() + world.checks.len();
    let answer = Answer::from_bytes(world.keys.shape(), blocks, &answer).unwrap();
    let same = Checker::of_blocks(&world.keys, 3, &tags, &all);
    assert!(same.check(&world.keys, &asked, &answer, world.blocks.len()).is_ok());
}

#[test]
fn sums_follow_changes_and_come_back_from_what_is_stored() {
    let mut world = World::new(shape(24, 64), rows(200, 24, 20, |_| 1.0));
    let stored: Vec<(&CheckTag, &Block)> =
        world.checks.iter().map(|(tag, block)| (tag, block)).collect();
    let mut sums = CheckSums::open(&world.keys, CONTEXT, 1, 3, &stored).unwrap();
    assert!(CheckSums::open(&world.keys, CONTEXT, 2, 3, &stored).is_none());
    assert!(CheckSums::open(&world.keys, CONTEXT, 1, 4, &stored).is_none());
    assert!(CheckSums::open(&world.keys, b"another", 1, 3, &stored).is_none());
    let swapped: Vec<_> = stored.iter().rev().copied().collect();
    assert!(CheckSums::open(&world.keys, CONTEXT, 1, 3, &swapped).is_none());
    let name = BlockName { revision: 2, ..world.name(1) };
    let (tag, block) = world.keys.encrypt_block(&name, &world.integers(0));
    sums.remove(&world.keys, 1, &world.blocks[1]);
    sums.add(&world.keys, 1, &block);
    world.secrets[1] = world.keys.block_secrets(&tag, &world.keys.hint(&block)).unwrap();
    world.blocks[1] = block;
    world.tags[1] = tag;
    world.checks = sums.seal(&world.keys, CONTEXT, 2);
    let again = world.sums().seal(&world.keys, CONTEXT, 2);
    assert_eq!(world.checks[0].1, again[0].1);
    let query = rows(1, 24, 21, |_| 1.0).remove(0);
    let (opening, answer) = world.ask(&query);
    let scores = world.open(&opening, &answer).unwrap();
    assert!((scores[32] - dot(&world.rows[0], &query)).abs() < 1e-4);
}
