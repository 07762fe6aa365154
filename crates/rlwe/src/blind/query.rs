//! Queries: encrypted once, opened by what is left of their secret.

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::block::{BlockSecrets, Tag};
use super::evaluate::{Answer, Forged};
use super::keys::{BLOCK_RANK, Keys, Prf, take_pad, ternary_secret};
use super::modulus::{DEGREE, MODULUS, add, centred, reduce_signed, transform};
use super::scale::{Grid, RANGE, ROOM};
use super::words::{Block, Factor};
use crate::sample::{EntropyError, Stream, each_error, fill_from_os};

/// Randomness for exactly one query: moved into its encryption, never copied.
#[derive(ZeroizeOnDrop)]
pub struct QueryEntropy(pub(super) [u8; 32]);

impl QueryEntropy {
    /// Fresh bytes from the operating system's generator.
    pub fn from_os() -> Result<Self, EntropyError> {
        let mut bytes = [0; 32];
        fill_from_os(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Fixed bytes for golden vectors. A query encrypted with them is not protected.
    #[cfg(test)]
    pub(super) fn fixed(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl std::fmt::Debug for QueryEntropy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("QueryEntropy(..)")
    }
}

/// `b2[t]` for every tile, as evaluations: what is sent.
#[derive(Clone, Debug)]
pub struct EncryptedQuery(pub(super) Block);

impl EncryptedQuery {
    /// As it is sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_bytes()
    }
}

/// What is left of a query's secret: it opens the answer to that query and nothing else.
pub struct Opening {
    /// The encoded query.
    query: Zeroizing<Vec<i64>>,
    /// `s2`, then `k` and `k'`.
    factor: Factor,
    /// `b2`, to multiply the pads of checks with.
    pub(super) sent: Factor,
    /// What a unit of an opened place is worth.
    unit: f64,
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.factor.zeroize();
    }
}

impl std::fmt::Debug for Opening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Opening(..)")
    }
}

impl Keys {
    /// Encrypts a query for rows on a grid, none of them longer than `longest`.
    ///
    /// The secret and the errors come from fresh randomness and the query together: a random state
    /// that is used twice, by a restored machine say, gives the same ciphertext for the same query and
    /// unrelated ones for two.
    ///
    /// # Panics
    /// If the query has another width than the rows, or a coordinate that is not finite.
    pub fn encrypt_query(
        &self,
        entropy: QueryEntropy,
        query: &[f32],
        grid: Grid,
        longest: f64,
    ) -> (EncryptedQuery, Opening) {
        assert_eq!(query.len(), self.shape.dimension(), "a query as wide as the rows");
        let length = query.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        assert!(length.is_finite(), "a query of finite coordinates");
        let scale = grid.query_scale(longest);
        let encode = |&x: &f32| {
            let unit = if length > 0.0 { f64::from(x) / length } else { 0.0 };
            (unit * scale).round_ties_even() as i64
        };
        let query = Zeroizing::new(query.iter().map(encode).collect::<Vec<i64>>());
        let unit = length / (grid.scale() * scale);
        let key = self.query_key(entropy, &query, unit);
        let (sent, factor) = self.encrypt_encoded(&key, &query);
        let mut prepared = Factor::zero(self.shape.tiles());
        let mut values = vec![0; DEGREE];
        for t in 0..self.shape.tiles() {
            sent.take(t, &mut values);
            prepared.put(t, &values, self.unfold());
        }
        (EncryptedQuery(sent), Opening { query, factor, sent: prepared, unit })
    }

    /// `PRF(randomness; key of the epoch, what is encrypted)`.
    fn query_key(&self, entropy: QueryEntropy, query: &[i64], unit: f64) -> Zeroizing<[u8; 32]> {
        let mut prf = Prf::new(&entropy.0);
        prf.input(&self.query_key[..]);
        prf.number(unit.to_bits());
        query.iter().for_each(|&value| prf.number(value as u64));
        Zeroizing::new(prf.finish())
    }

    fn encrypt_encoded(&self, key: &[u8; 32], query: &[i64]) -> (Block, Factor) {
        let shape = &self.shape;
        let rank = shape.query_rank().secrets();
        let mut factor = Factor::zero(rank + self.block_matrix.len());
        let secrets: Vec<_> = (0..rank).map(|at| ternary_secret(key, at)).collect();
        for (at, secret) in secrets.iter().enumerate() {
            factor.put(at, secret, self.unfold());
        }
        let mut block = Block::zero(shape.tiles());
        let mut values = Zeroizing::new(vec![0_u64; DEGREE]);
        let mut products: [_; BLOCK_RANK] =
            std::array::from_fn(|_| Zeroizing::new(vec![0_u64; DEGREE]));
        for (t, query) in query.chunks(shape.tile()).enumerate() {
            values.fill(0);
            values.iter_mut().zip(query).for_each(|(value, &q)| *value = q as u64);
            each_error(&mut values[..], key, Stream::Error(t as u32), 0, |value, error| {
                *value = reduce_signed(*value as i64 + error);
            });
            transform().forward(&mut values);
            for (product, column) in products.iter_mut().zip(&self.block_matrix) {
                transform().multiply_accumulate(product, &column[t], &values);
            }
            take_pad(&mut values, t, &self.query_matrix, &secrets);
            block.put(t, &values);
        }
        for (at, product) in products.iter().enumerate() {
            factor.put(rank + at, product, self.unfold());
        }
        (block, factor)
    }

    /// The secret products of blocks, `s2 H + s k + s' k'` at every place. They do not wait for the
    /// answer. Calls `sink(block, products)`.
    pub fn secret_products(
        &self,
        opening: &Opening,
        blocks: &[&BlockSecrets],
        mut sink: impl FnMut(usize, &[u64]),
    ) {
        let blocks: Vec<&Block> = blocks.iter().map(|block| &block.0).collect();
        self.fold.products(&blocks, &[&opening.factor], |_, block, products| sink(block, products));
    }

    /// A score without the errors of its block.
    pub fn refine(&self, opening: &Opening, tag: &Tag, row: usize, score: f64) -> f64 {
        score - self.error_of(tag, row, &opening.query) as f64 * opening.unit
    }
}

impl Opening {
    /// Opens the places of one block with its secret products. Every place must be within [`RANGE`],
    /// or the answer is forged.
    pub fn open(
        &self,
        answer: &Answer,
        block: usize,
        products: &[u64],
        scores: &mut Vec<f64>,
    ) -> Result<(), Forged> {
        const BOUND: u64 = (RANGE / ROOM * MODULUS as f64) as u64;
        let mut within = true;
        for (&switched, &product) in answer.block(block).iter().zip(products) {
            let place = centred(add(switched, product));
            within &= place.unsigned_abs() <= BOUND;
            scores.push(place as f64 * self.unit);
        }
        if within { Ok(()) } else { Err(Forged) }
    }
}
