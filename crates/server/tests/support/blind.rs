//! A blind collection: what its owner publishes, and what a client asks and opens.

#![allow(dead_code, reason = "every test program uses its own part of this")]

use shard_protocol::{
    ActivateEpoch, Advance, BeginPublish, BlindQuery, BlobName, BlockList, CommitName, Disclosed,
    Epoch, Leak, PutBlob, PutBlobs, Revision, Table, declassify,
};
use shard_rlwe::blind::{
    Answer, Block, BlockName, BlockSecrets, CheckSums, CheckTag, Checker, EpochKey, Grid, Keys,
    Opening, QueryEntropy, QueryRank, Server as Evaluator, Shape, Tag,
};

pub const DIMENSION: usize = 24;
pub const EPOCH: Epoch = Epoch(5);

const CONTEXT: &[u8] = b"a collection of tests";
const SET: u64 = 1;

/// One commit of a collection, with everything that both sides have.
pub struct Commit {
    pub name: CommitName,
    pub list: BlockList,
    pub blocks: Vec<Block>,
    pub rows: Vec<Vec<f32>>,
    keys: Keys,
    grid: Grid,
    tags: Vec<Tag>,
    check_tags: Vec<CheckTag>,
    revision: u64,
}

/// A row of length one that no other number has.
pub fn row(number: u64) -> Vec<f32> {
    let value = |at: u64| {
        let word = (number << 20 | at).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (word >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let values: Vec<f32> = (0..DIMENSION as u64).map(value).collect();
    let length = values.iter().map(|x| x * x).sum::<f32>().sqrt();
    values.iter().map(|x| x / length * 0.99).collect()
}

pub fn shape() -> Shape {
    Shape::new(DIMENSION, 64, QueryRank::One).unwrap()
}

fn shaped<T>(value: T) -> Disclosed<T> {
    declassify(value, Leak::CollectionShape)
}

/// A list of blocks of [`shape`].
pub fn list_of(epoch: Epoch, shape: Shape, names: Vec<[u8; 16]>, checks: usize) -> BlockList {
    let names = declassify(names, Leak::BlockChanges);
    BlockList::new(shaped(epoch), shaped(shape), shaped(checks), names).unwrap()
}

impl Commit {
    /// The commit of a revision: rows by number, those of the same numbers in the same blocks.
    pub fn new(revision: u64, numbers: impl IntoIterator<Item = u64>) -> Self {
        let (shape, rows) = (shape(), numbers.into_iter().map(row).collect::<Vec<_>>());
        let keys = Keys::expand(&EpochKey::new([7; 32]), shape);
        let grid = Grid::for_length(&shape, 1.0);
        let (mut names, mut blocks, mut tags) = (Vec::new(), Vec::new(), Vec::new());
        let mut sums = CheckSums::empty(&keys, SET);
        for (number, rows) in rows.chunks(shape.rows_per_block()).enumerate() {
            let mut integers: Vec<i32> = rows.iter().flat_map(|row| grid.encode(row)).collect();
            integers.resize(shape.rows_per_block() * DIMENSION, 0);
            // One revision for all: a block of the same rows is the same block.
            let name = BlockName { context: CONTEXT, block: number as u32, revision: 1, grid };
            let (tag, block) = keys.encrypt_block(&name, &integers);
            sums.add(&keys, number as u32, &block);
            names.push(tag.expose()[..16].try_into().unwrap());
            tags.push(tag);
            blocks.push(block);
        }
        let sealed = sums.seal(&keys, CONTEXT, revision);
        let checks = sealed.len();
        let mut check_tags = Vec::new();
        for (tag, block) in sealed {
            names.push(tag.expose()[..16].try_into().unwrap());
            check_tags.push(tag);
            blocks.push(block);
        }
        let list = list_of(EPOCH, shape, names, checks);
        let name = CommitName([revision as u8; 16]);
        Self { name, list, blocks, rows, keys, grid, tags, check_tags, revision }
    }

    pub fn advance(&self, from: Option<&Self>) -> Disclosed<Advance> {
        shaped(Advance {
            from: from.map(|commit| commit.name),
            to: self.name,
            revision: Revision(self.revision),
            turn: self.revision,
        })
    }

    pub fn begin(&self, from: Option<&Self>) -> Vec<u8> {
        BeginPublish::new(self.advance(from)).encode()
    }

    pub fn put_blocks(&self) -> Vec<u8> {
        let named = self.list.names().iter().zip(&self.blocks);
        let blobs = named.map(|(name, block)| (BlobName::block(*name), block.to_bytes()));
        PutBlobs::new(declassify(blobs.collect(), Leak::SealedBlobs)).encode()
    }

    pub fn put_list(&self) -> Vec<u8> {
        PutBlob::block_list(shaped(self.name), &self.list).encode()
    }

    pub fn activate(&self, from: Option<&Self>) -> Vec<u8> {
        ActivateEpoch::new(self.advance(from), shaped(EPOCH)).encode()
    }

    /// The messages of a publish, in their order.
    pub fn publish(&self, from: Option<&Self>) -> [Vec<u8>; 4] {
        [self.begin(from), self.put_blocks(), self.put_list(), self.activate(from)]
    }

    /// An encrypted query, and what opens its answer.
    pub fn encrypt(&self, query: &[f32]) -> (Vec<u8>, Opening) {
        let entropy = QueryEntropy::from_os().unwrap();
        let (sent, opening) = self.keys.encrypt_query(entropy, query, self.grid, 1.0);
        (sent.to_bytes(), opening)
    }

    pub fn query(&self, queries: Vec<Vec<u8>>) -> BlindQuery {
        BlindQuery::new(Table::Rows, shaped(EPOCH), shaped(self.name), queries)
    }

    /// A search for one query.
    pub fn search(&self, query: &[f32]) -> Vec<u8> {
        self.query(vec![self.encrypt(query).0]).encode()
    }

    /// What the construction answers to an encrypted query.
    pub fn expected(&self, query: &[u8]) -> Vec<u8> {
        let evaluator = Evaluator::new(shape());
        let prepared = evaluator.prepare(query).unwrap();
        evaluator.answer(&self.blocks.iter().collect::<Vec<_>>(), &[&prepared]).remove(0)
    }

    /// Checks an answer and opens it: the scores of all places.
    pub fn open(&self, opening: &Opening, bytes: &[u8]) -> Vec<f64> {
        let answer = Answer::from_bytes(&shape(), self.blocks.len(), bytes).unwrap();
        let data = self.tags.len();
        let checker = Checker::new(&self.keys, SET, &self.check_tags, data);
        checker.check(&self.keys, opening, &answer, data).unwrap();
        let secrets: Vec<BlockSecrets> = (self.tags.iter().zip(&self.blocks))
            .map(|(tag, block)| self.keys.block_secrets(tag, &self.keys.hint(block)).unwrap())
            .collect();
        let mut scores = Vec::new();
        let secrets: Vec<&BlockSecrets> = secrets.iter().collect();
        self.keys.secret_products(opening, &secrets, |block, products| {
            opening.open(&answer, block, products, &mut scores).unwrap();
        });
        scores
    }
}
