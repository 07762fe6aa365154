//! Blocks of rows: their tags, their encryption, their hints.

use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::keys::{BLOCK_RANK, Keys, Prf, fill_secret, take_pad, ternary_secret};
use super::modulus::{DEGREE, MODULUS, Switch, centred, reduce_signed, transform};
use super::scale::Grid;
use super::shape::HINT_BITS;
use super::words::Block;
use crate::pack::{PackError, pack, packed_len, unpack};
use crate::sample::{Stream, each_error, wipe};
use crate::simd::dispatch;

/// Largest magnitude of an encoded coordinate: more than any scale gives.
const MAX_COORDINATE: i64 = 1 << 30;

/// Which block it is: everything besides its rows that its pad depends on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BlockName<'a> {
    /// What tells the collection and the epoch from all others.
    pub context: &'a [u8],
    /// Number of the block.
    pub block: u32,
    /// Revision that wrote it.
    pub revision: u64,
    /// The grid of its rows.
    pub grid: Grid,
}

/// `PRF(epoch key; context, block, revision, N, q, w, d, Sr, ranks, integers)`: the seed of a block's
/// secrets and errors, and what proves that a block is the one that was written. Secret.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Tag([u8; 32]);

impl Tag {
    /// Bytes of a tag.
    pub const BYTES: usize = 32;

    /// A tag that was kept, sealed.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes to keep, sealed.
    pub fn expose(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

impl std::fmt::Debug for Tag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tag(..)")
    }
}

/// A hint is not one.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone, Copy)]
#[error("a hint of a block is malformed: {0}")]
pub struct HintError(#[from] PackError);

/// What opening takes of a block, as evaluations: its hints, then its two secrets. Wiped on drop.
pub struct BlockSecrets(pub(super) Block);

impl BlockSecrets {
    /// Bytes it takes in memory.
    pub fn bytes(&self) -> usize {
        Block::byte_len(self.0.polynomials())
    }
}

impl Drop for BlockSecrets {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

impl std::fmt::Debug for BlockSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BlockSecrets(..)")
    }
}

impl Keys {
    /// The tag of rows of a block: `P` rows of `d` integers, zeros where a slot is free.
    ///
    /// # Panics
    /// If the rows are not as many.
    pub fn tag(&self, name: &BlockName<'_>, rows: &[i32]) -> Tag {
        let shape = &self.shape;
        assert_eq!(rows.len(), shape.rows_per_block() * shape.dimension(), "a block of rows");
        let mut prf = Prf::new(&self.tag_key);
        prf.number(name.context.len() as u64);
        prf.input(name.context);
        for number in [
            u64::from(name.block),
            name.revision,
            DEGREE as u64,
            MODULUS,
            shape.tile() as u64,
            shape.dimension() as u64,
            name.grid.scale().to_bits(),
            BLOCK_RANK as u64,
            shape.query_rank().secrets() as u64,
        ] {
            prf.number(number);
        }
        prf.integers(rows);
        Tag(prf.finish())
    }

    /// `PRF(epoch key; integers)` of one row, cut to 32 bits: the same for equal rows, wherever they are
    /// stored, and for others once in `2^32` times. It tells whose scores are equal, which scores with
    /// errors do not. Secret.
    pub fn likeness(&self, row: &[i32]) -> u32 {
        let mut prf = Prf::new(&self.likeness_key);
        prf.integers(row);
        let [a, b, c, d, ..] = prf.finish();
        u32::from_le_bytes([a, b, c, d])
    }

    /// Encrypts the rows of a block, under a tag made for exactly them.
    pub fn encrypt_block(&self, name: &BlockName<'_>, rows: &[i32]) -> (Tag, Block) {
        let tag = self.tag(name, rows);
        let secrets = self.secrets(&tag);
        let mut block = Block::zero(self.shape.tiles());
        let mut values = Zeroizing::new(vec![0_u64; DEGREE]);
        for t in 0..self.shape.tiles() {
            self.encode_tile(rows, t, &mut values);
            each_error(&mut values[..], &tag.0, Stream::Error(t as u32), 0, |value, error| {
                *value = reduce_signed(*value as i64 + error);
            });
            transform().forward(&mut values);
            take_pad(&mut values, t, &self.block_matrix, &secrets);
            block.put(t, &values);
        }
        (tag, block)
    }

    /// The rows of a block that was stored under a tag; `None` if it is not that block: the tag is
    /// computed again from the rows that come out.
    pub fn open_block(
        &self,
        name: &BlockName<'_>,
        tag: &Tag,
        block: &Block,
    ) -> Option<Zeroizing<Vec<i32>>> {
        let shape = &self.shape;
        if block.polynomials() != shape.tiles() {
            return None;
        }
        let secrets = self.secrets(tag);
        let mut rows = Zeroizing::new(vec![0; shape.rows_per_block() * shape.dimension()]);
        let mut values = Zeroizing::new(vec![0_u64; DEGREE]);
        let mut again = Zeroizing::new(vec![0_u64; DEGREE]);
        let mut sound = true;
        for t in 0..shape.tiles() {
            block.take(t, &mut values);
            for (column, secret) in self.block_matrix.iter().zip(&secrets) {
                transform().multiply_accumulate(&mut values, &column[t], secret);
            }
            transform().inverse(&mut values);
            each_error(&mut values[..], &tag.0, Stream::Error(t as u32), 0, |value, error| {
                *value = (centred(*value) - error) as u64;
            });
            sound &= values.iter().all(|&value| (value as i64).abs() <= MAX_COORDINATE);
            self.decode_tile(&values, t, &mut rows);
            // What lies beside the rows must be nothing.
            self.encode_tile(&rows, t, &mut again);
            sound &= values[..] == again[..];
        }
        let again = self.tag(name, &rows);
        (sound && bool::from(again.0[..].ct_eq(&tag.0[..]))).then_some(rows)
    }

    /// The hints of a block: `sum_t b[t] a2[t]` for every column of the query's matrix, packed.
    pub fn hint(&self, block: &Block) -> Vec<u8> {
        let switch = Switch::to(HINT_BITS);
        let mut hint = Vec::with_capacity(self.shape.hint_bytes());
        let mut values = vec![0; DEGREE];
        for column in &self.query_matrix {
            let mut sum = vec![0; DEGREE];
            for (t, a2) in column.iter().enumerate() {
                block.take(t, &mut values);
                transform().multiply_accumulate(&mut sum, &values, a2);
            }
            transform().inverse(&mut sum);
            pack(sum.iter().map(|&value| switch.apply(value)), HINT_BITS, &mut hint);
        }
        hint
    }

    /// What opening takes of a block, from its tag and its hint. The hint must have been sealed by
    /// whoever made the tag: it is multiplied with the secret of a query.
    pub fn block_secrets(&self, tag: &Tag, hint: &[u8]) -> Result<BlockSecrets, HintError> {
        if hint.len() != self.shape.hint_bytes() {
            let (expected, actual) = (self.shape.hint_bytes(), hint.len());
            return Err(PackError::Length { expected, actual }.into());
        }
        let switch = Switch::to(HINT_BITS);
        let hints = self.shape.query_rank().secrets();
        let mut all = BlockSecrets(Block::zero(hints + BLOCK_RANK));
        let mut values = vec![0; DEGREE];
        for (at, hint) in hint.chunks_exact(packed_len(DEGREE, HINT_BITS)).enumerate() {
            unpack(hint, HINT_BITS, DEGREE, |i, value| values[i] = value)?;
            dispatch(
                #[inline(always)]
                || values.iter_mut().for_each(|value| *value = switch.lift(*value)),
            );
            transform().forward(&mut values);
            all.0.put(at, &values);
        }
        for at in 0..BLOCK_RANK {
            fill_secret(&mut values, &tag.0, at);
            all.0.put(hints + at, &values);
        }
        wipe(&mut values);
        Ok(all)
    }

    /// `s`, `s'` as evaluations.
    fn secrets(&self, tag: &Tag) -> [Zeroizing<Vec<u64>>; BLOCK_RANK] {
        std::array::from_fn(|at| ternary_secret(&tag.0, at))
    }

    /// Tile `t` of all rows, as signed coefficients in two's complement.
    fn encode_tile(&self, rows: &[i32], t: usize, values: &mut [u64]) {
        values.fill(0);
        self.each_place(t, |at, place, negated| {
            let value = i64::from(rows[at]);
            values[place] = if negated { -value } else { value } as u64;
        });
    }

    fn decode_tile(&self, values: &[u64], t: usize, rows: &mut [i32]) {
        self.each_place(t, |at, place, negated| {
            let value = values[place] as i64;
            rows[at] = if negated { -value } else { value } as i32;
        });
    }

    /// Calls `sink(index into the rows, coefficient, negated)` for every coordinate of tile `t`.
    fn each_place(&self, t: usize, mut sink: impl FnMut(usize, usize, bool)) {
        let (d, w) = (self.shape.dimension(), self.shape.tile());
        for row in 0..self.shape.rows_per_block() {
            for coordinate in t * w..d.min((t + 1) * w) {
                let (place, negated) = self.shape.place(row, coordinate);
                sink(row * d + coordinate, place, negated);
            }
        }
    }

    /// `<e, query>` for a row: what the errors of its block add to its score, in units of the answer.
    /// `query` is encoded, [`Opening::query`](super::Opening::query).
    pub(super) fn error_of(&self, tag: &Tag, row: usize, query: &[i64]) -> i64 {
        let w = self.shape.tile();
        let mut errors = [0_i64; 256]; // the widest tile
        let errors = &mut errors[..w];
        let mut sum = 0;
        for (t, query) in query.chunks(w).enumerate() {
            // Coordinates w - 1, .., 0 lie at ascending coefficients, the last at r w.
            let fill = |errors: &mut [i64], first| {
                each_error(errors, &tag.0, Stream::Error(t as u32), first, |sum, e| *sum = e);
            };
            if row == 0 {
                fill(&mut errors[..w - 1], DEGREE - (w - 1));
                errors[..w - 1].iter_mut().for_each(|error| *error = -*error);
                fill(&mut errors[w - 1..], 0);
            } else {
                fill(errors, row * w - (w - 1));
            }
            sum += query.iter().zip(errors.iter().rev()).map(|(q, e)| q * e).sum::<i64>();
        }
        sum
    }
}
