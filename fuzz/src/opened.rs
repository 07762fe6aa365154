//! Blind collections with their keys: what opens answers.

use shard_protocol::BlindAnswer;
use shard_rlwe::blind::{
    Answer, Block, BlockName, BlockSecrets, CheckSums, CheckTag, Checker, EpochKey, FetchOpening,
    Grid, Keys, Opening, QueryEntropy, QueryRank, RecordKeys, RecordServer, RecordShape, Segment,
    Server, tolerance,
};

use crate::messages::{WIDTH, blind_shape};

const CONTEXT: &[u8] = b"a collection";
const SET: u64 = 3;

/// Blocks of rows.
const ROW_BLOCKS: usize = 2;

const QUERIES: [[f32; WIDTH]; 2] = [[0.5; WIDTH], [-0.1, 0.9, 0.0, 0.2, 0.3, -0.4]];

fn entropy() -> QueryEntropy {
    QueryEntropy::from_os().expect("the operating system has randomness")
}

/// Two searches of a blind collection, with what opens their answers.
pub struct Searches {
    /// The keys of the epoch.
    pub keys: Keys,
    /// What the server computes with.
    pub server: Server,
    /// The blocks of rows, then those of the checks.
    pub stored: Vec<Block>,
    checker: Checker,
    secrets: Vec<BlockSecrets>,
    openings: Vec<Opening>,
    sent: Vec<Vec<u8>>,
}

impl Default for Searches {
    fn default() -> Self {
        let shape = blind_shape();
        let keys = Keys::expand(&EpochKey::new([7; 32]), shape);
        let grid = Grid::for_length(&shape, 1.0);
        let (mut stored, mut secrets) = (Vec::new(), Vec::new());
        let mut sums = CheckSums::empty(&keys, SET);
        for number in 0..ROW_BLOCKS as u32 {
            let name = BlockName { context: CONTEXT, block: number, revision: 1, grid };
            let row = |at: usize| [0.4, -0.3, 0.1, 0.0, (at % 7) as f32 / 20.0, -0.2];
            let rows: Vec<f32> = (0..shape.rows_per_block()).flat_map(row).collect();
            let rows: Vec<i32> = grid.encode(&rows).collect();
            let (tag, block) = keys.encrypt_block(&name, &rows);
            let hint = keys.hint(&block);
            secrets.push(keys.block_secrets(&tag, &hint).expect("a hint of this shape"));
            sums.add(&keys, number, &block);
            stored.push(block);
        }
        let (tags, checks): (Vec<CheckTag>, Vec<Block>) =
            sums.seal(&keys, CONTEXT, 1).into_iter().unzip();
        stored.extend(checks);
        let checker = Checker::new(&keys, SET, &tags, ROW_BLOCKS);
        let (mut openings, mut sent) = (Vec::new(), Vec::new());
        for query in QUERIES {
            let (encrypted, opening) = keys.encrypt_query(entropy(), &query, grid, 1.0);
            sent.push(encrypted.to_bytes());
            openings.push(opening);
        }
        let server = Server::new(shape);
        Self { keys, server, stored, checker, secrets, openings, sent }
    }
}

impl Searches {
    /// The message with the sound answers.
    pub fn answers(&self) -> BlindAnswer {
        let stored: Vec<&Block> = self.stored.iter().collect();
        let prepare = |sent: &Vec<u8>| self.server.prepare(sent).expect("a query of this shape");
        let prepared: Vec<_> = self.sent.iter().map(prepare).collect();
        BlindAnswer::new(self.server.answer(&stored, &prepared.iter().collect::<Vec<_>>()))
    }

    /// Bytes of one of them.
    pub fn answer_bytes(&self) -> usize {
        self.keys.shape().answer_bytes(self.stored.len())
    }

    /// Opens answers of the right length: the scores of each, and whether they would be taken.
    pub fn open(&self, answers: &BlindAnswer) -> Vec<(Vec<f64>, bool)> {
        let secrets: Vec<&BlockSecrets> = self.secrets.iter().collect();
        let open = |(bytes, opening): (&Vec<u8>, &Opening)| {
            let answer = Answer::from_bytes(self.keys.shape(), self.stored.len(), bytes)
                .expect("any bytes of this length are an answer");
            let mut taken = self.checker.check(&self.keys, opening, &answer, ROW_BLOCKS).is_ok();
            let mut scores = Vec::new();
            self.keys.secret_products(opening, &secrets, |block, products| {
                taken &= opening.open(&answer, block, products, &mut scores).is_ok();
            });
            (scores, taken)
        };
        answers.answers().iter().zip(&self.openings).map(open).collect()
    }

    /// How far a score that is taken may be from the true one: twice the tolerance.
    pub fn most_moved(query: usize) -> f64 {
        let length = QUERIES[query].iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        2.0 * tolerance(ROW_BLOCKS) * length
    }
}

/// The fetch of a record, with what opens its answer.
pub struct Fetch {
    keys: RecordKeys,
    opening: FetchOpening,
    hints: Vec<Vec<u8>>,
    /// The message with the sound answer.
    pub answer: BlindAnswer,
    /// The slot that it has.
    pub slot: Vec<u8>,
}

impl Default for Fetch {
    fn default() -> Self {
        let shape = RecordShape::new(1, 24, QueryRank::One).expect("a page of small slots");
        let keys = RecordKeys::expand(&EpochKey::new([7; 32]), shape);
        let noise: Vec<u8> = (0..251).collect();
        let slots = crate::stretch(&noise, shape.page_bytes());
        let mut segment = Segment::zero(&shape, 0);
        segment.put(0, &slots);
        let hints = vec![keys.hint(&slots)];
        let (sent, opening) = keys.encrypt(entropy(), 11);
        let server = RecordServer::new(shape);
        let prepared = server.prepare(&sent.to_bytes()).expect("a query of this shape");
        let answer = BlindAnswer::new(server.answer_part(0, &segment, 0..12, &[&prepared]));
        Self { keys, opening, hints, answer, slot: slots[11 * 24..12 * 24].to_vec() }
    }
}

impl Fetch {
    /// Bytes of the answer.
    pub fn answer_bytes(&self) -> usize {
        self.keys.shape().answer_bytes()
    }

    /// Opens an answer of the right length.
    pub fn open(&self, answer: &BlindAnswer) -> Vec<u8> {
        let opened = self.keys.open(&self.opening, &answer.answers()[0], &self.hints);
        opened.expect("any bytes of this length are an answer").remove(0).to_vec()
    }
}
