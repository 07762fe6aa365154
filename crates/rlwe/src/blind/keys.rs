//! The keys of an epoch: what all blocks and queries have in common.

use hkdf::{Hkdf, HkdfExtract};
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::kernel::Fold;
use super::modulus::{DEGREE, MODULUS, inverse_of, reduce_signed, subtract, transform};
use super::shape::Shape;
use crate::sample::{Stream, fill_trits, fill_uniform, wipe};
use crate::simd::dispatch;

/// Secrets that hide a block.
pub const BLOCK_RANK: usize = 2;

/// The secret of an epoch of a collection, from which everything else derives. Wiped on drop, prints
/// redacted, cannot be compared.
#[derive(ZeroizeOnDrop)]
pub struct EpochKey([u8; 32]);

impl EpochKey {
    /// The key of 32 secret bytes that serve nothing else.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A key for one purpose.
    pub(super) fn derive(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        let hkdf = Hkdf::<Sha256>::from_prk(&self.0).expect("32 bytes are long enough");
        let mut key = Zeroizing::new([0; 32]);
        hkdf.expand(purpose.as_bytes(), &mut *key).expect("32 bytes are short enough");
        key
    }

    /// Uniform polynomials for one purpose, as evaluations.
    pub(super) fn uniform(&self, purpose: &str, polynomials: usize) -> Vec<Vec<u64>> {
        let seed = self.derive(purpose);
        let column = |t: usize| {
            let mut values = vec![0; DEGREE];
            fill_uniform(&mut values, &seed, Stream::Uniform(t as u32), MODULUS);
            values
        };
        (0..polynomials).map(column).collect()
    }
}

impl std::fmt::Debug for EpochKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EpochKey(..)")
    }
}

/// HMAC-SHA-256 over parts that are given one after the other; extraction of HKDF is that.
pub(super) struct Prf(HkdfExtract<Sha256>);

impl Prf {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self(HkdfExtract::new(Some(key)))
    }

    pub(super) fn input(&mut self, bytes: &[u8]) {
        self.0.input_ikm(bytes);
    }

    pub(super) fn number(&mut self, number: u64) {
        self.input(&number.to_le_bytes());
    }

    pub(super) fn integers(&mut self, integers: &[i32]) {
        let mut bytes = Zeroizing::new([0_u8; 4096]);
        for integers in integers.chunks(bytes.len() / 4) {
            for (bytes, integer) in bytes.as_chunks_mut().0.iter_mut().zip(integers) {
                *bytes = integer.to_le_bytes();
            }
            self.input(&bytes[..4 * integers.len()]);
        }
    }

    pub(super) fn finish(self) -> [u8; 32] {
        self.0.finalize().0.into()
    }
}

/// Everything that is common to the blocks and queries of an epoch, expanded.
pub struct Keys {
    pub(super) shape: Shape,
    pub(super) fold: Fold,
    /// Keys the tags of blocks.
    pub(super) tag_key: Zeroizing<[u8; 32]>,
    /// Keys the likenesses of rows.
    pub(super) likeness_key: Zeroizing<[u8; 32]>,
    /// Keys the turns of checks.
    pub(super) turn_key: Zeroizing<[u8; 32]>,
    /// Keys the tags of checks.
    pub(super) check_key: Zeroizing<[u8; 32]>,
    /// Goes into the secrets of queries, so that those of two epochs have nothing in common.
    pub(super) query_key: Zeroizing<[u8; 32]>,
    /// `a[t]`, `a'[t]`, as evaluations.
    pub(super) block_matrix: [Vec<Vec<u64>>; BLOCK_RANK],
    /// `a2[t]`, and `a2'[t]` at rank two.
    pub(super) query_matrix: Vec<Vec<Vec<u64>>>,
}

impl Keys {
    /// Expands the key of an epoch.
    pub fn expand(key: &EpochKey, shape: Shape) -> Self {
        let matrix = |purpose: String| key.uniform(&purpose, shape.tiles());
        Self {
            shape,
            fold: Fold::to(shape.rows_per_block()),
            tag_key: key.derive("block tags"),
            likeness_key: key.derive("row likenesses"),
            turn_key: key.derive("check turns"),
            check_key: key.derive("check tags"),
            query_key: key.derive("queries"),
            block_matrix: std::array::from_fn(|secret| matrix(format!("block matrix {secret}"))),
            query_matrix: (0..shape.query_rank().secrets())
                .map(|secret| matrix(format!("query matrix {secret}")))
                .collect(),
        }
    }

    /// How rows lie in blocks.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// `w^-1`, by which factors are divided.
    pub(super) fn unfold(&self) -> u64 {
        inverse_of(self.shape.tile())
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.block_matrix.iter_mut().chain(&mut self.query_matrix).for_each(Zeroize::zeroize);
    }
}

/// Ternary secret number `at` of a seed, as evaluations.
pub(super) fn ternary_secret(seed: &[u8; 32], at: usize) -> Zeroizing<Vec<u64>> {
    let mut secret = Zeroizing::new(vec![0; DEGREE]);
    fill_secret(&mut secret, seed, at);
    secret
}

/// [`ternary_secret`] into existing memory.
pub(super) fn fill_secret(secret: &mut [u64], seed: &[u8; 32], at: usize) {
    let mut trits = [0_i8; DEGREE];
    fill_trits(&mut trits, seed, Stream::Trits(at as u32));
    fill_evaluations(secret, &trits);
    wipe(&mut trits);
}

/// Takes the pad of polynomial `t`, `sum_i a_i[t] s_i`, from evaluations.
pub(super) fn take_pad(
    values: &mut [u64],
    t: usize,
    matrix: &[Vec<Vec<u64>>],
    secrets: &[Zeroizing<Vec<u64>>],
) {
    let mut pad = Zeroizing::new(vec![0_u64; DEGREE]);
    for (column, secret) in matrix.iter().zip(secrets) {
        transform().multiply_accumulate(&mut pad, &column[t], secret);
    }
    dispatch(
        #[inline(always)]
        || {
            for (value, &pad) in values.iter_mut().zip(pad.iter()) {
                *value = subtract(*value, pad);
            }
        },
    );
}

/// A secret of ternary coefficients, as evaluations.
pub(super) fn evaluations_of(trits: &[i8; DEGREE]) -> Zeroizing<Vec<u64>> {
    let mut secret = Zeroizing::new(vec![0; DEGREE]);
    fill_evaluations(&mut secret, trits);
    secret
}

fn fill_evaluations(secret: &mut [u64], trits: &[i8; DEGREE]) {
    dispatch(
        #[inline(always)]
        || {
            for (value, &trit) in secret.iter_mut().zip(trits) {
                *value = reduce_signed(i64::from(trit));
            }
        },
    );
    transform().forward(secret);
}
