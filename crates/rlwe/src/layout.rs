//! The coefficient layout: many inner products in one polynomial product.
//!
//! A vector of width `d` is cut into `g` tiles of `w = ceil(d / g)` coordinates. Up to `b` query
//! vectors share a ciphertext, each in a block of its own: tile by tile
//!
//! ```text
//! m(X) = sum_k sum_j t_kj X^(k w + j) ,            k < b: the query's block.
//! ```
//!
//! A response has targets `s_i = i S`, a stride `S >= b w` apart. Operand `i`, meant for the
//! query in block `k`, is written backwards from its target, shifted by the block:
//!
//! ```text
//! D(X) = sum_i sum_j z_ij X^(s_i - k w - j)        (X^-e = -X^(N-e)),
//! ```
//!
//! so coefficient `s_i` of `m(X) D(X)` is `sum_j t_kj z_ij`. Every other pair of a block and an
//! operand lands less than `b w <= S` away from the operand's own target, so never on a target.
//! Products of all tiles and of all ciphertexts add up in one response; it holds `floor(N / S)`
//! inner products. `b = 1` and `S = w` is the densest layout.
//!
//! A *merged* response folds many such products into one ciphertext (see `merge`). Its stride is
//! a power of two, and leaf `l` of `2^v` moves its targets by `bitrev_v(l) S / 2^v`.

use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::parameters::RingDegree;
use crate::ring::reduce_signed;

/// Integer coefficients of one query ciphertext.
pub(crate) type Message = Zeroizing<Vec<i64>>;

/// Encoded query vectors: what [`RequestKey::encrypt`](crate::RequestKey::encrypt) takes.
pub struct Query {
    pub(crate) messages: Vec<Message>,
}

/// Widest vector a layout takes.
pub const MAX_WIDTH: usize = 65_536;

/// Why a layout cannot be built.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
pub enum LayoutError {
    /// Width zero or above the limit.
    #[error("a vector of width {0} cannot be laid out (1 to {MAX_WIDTH} are supported)")]
    Width(usize),
    /// No tile, more tiles than coordinates, or blocks that do not fit the ring.
    #[error(
        "{blocks} blocks and {tiles} tiles of a vector of width {width} do not fit a ring of degree {degree}"
    )]
    Misfit {
        /// Requested tiles.
        tiles: usize,
        /// Requested blocks.
        blocks: usize,
        /// Vector width.
        width: usize,
        /// Ring degree.
        degree: RingDegree,
    },
}

/// How vectors of one width sit in polynomials of one degree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    degree: RingDegree,
    width: usize,
    tiles: usize,
    tile_width: usize,
    blocks: usize,
    stride: usize,
    merged: bool,
}

impl Layout {
    /// One query per ciphertext, in `tiles` tiles: the densest layout.
    pub fn new(degree: RingDegree, width: usize, tiles: usize) -> Result<Self, LayoutError> {
        Self::packed(degree, width, tiles, 1, false)
    }

    /// `blocks` queries per ciphertext; responses merged if `merged`.
    pub fn packed(
        degree: RingDegree,
        width: usize,
        tiles: usize,
        blocks: usize,
        merged: bool,
    ) -> Result<Self, LayoutError> {
        if !(1..=MAX_WIDTH).contains(&width) {
            return Err(LayoutError::Width(width));
        }
        let misfit = LayoutError::Misfit { tiles, blocks, width, degree };
        if tiles == 0 || tiles > width || blocks == 0 {
            return Err(misfit);
        }
        let tile_width = width.div_ceil(tiles);
        let dense = tile_width.saturating_mul(blocks);
        if dense > degree.coefficients() || tile_width * (tiles - 1) >= width {
            return Err(misfit);
        }
        let stride = if merged { dense.next_power_of_two() } else { dense };
        Ok(Self { degree, width, tiles, tile_width, blocks, stride, merged })
    }

    /// The layout with the fewest tiles that leaves room for the vector.
    pub fn fewest_tiles(degree: RingDegree, width: usize) -> Result<Self, LayoutError> {
        Self::new(degree, width, width.div_ceil(degree.coefficients()).max(1))
    }

    /// Ring degree.
    pub fn degree(&self) -> RingDegree {
        self.degree
    }

    /// Coordinates of a vector.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Ciphertexts per block of queries.
    pub fn tiles(&self) -> usize {
        self.tiles
    }

    /// Queries per ciphertext.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Whether responses are merged.
    pub fn is_merged(&self) -> bool {
        self.merged
    }

    /// Distance of targets.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Inner products per product of polynomials.
    pub fn slots(&self) -> usize {
        self.degree.coefficients() / self.stride
    }

    /// Ciphertexts for this many queries.
    pub fn ciphertexts(&self, queries: usize) -> usize {
        queries.div_ceil(self.blocks) * self.tiles
    }

    /// Products for this many operands, before merging.
    pub fn leaves(&self, operands: usize) -> usize {
        operands.div_ceil(self.slots())
    }

    /// Inner products a response can hold.
    pub(crate) fn capacity(&self) -> usize {
        if self.merged { self.slots() * self.stride } else { self.slots() }
    }

    /// Responses for this many operands.
    pub fn responses(&self, operands: usize) -> usize {
        operands.div_ceil(self.capacity())
    }

    /// Operands of response number `response` out of `operands` in all. Operands are numbered
    /// through the queries in order, which keeps those of one query together, so that few
    /// products are needed.
    pub fn used_slots(&self, response: usize, operands: usize) -> usize {
        operands.saturating_sub(response * self.capacity()).min(self.capacity())
    }

    /// Levels of merging for this many operands of one response.
    pub fn levels(&self, operands: usize) -> u32 {
        if self.merged { self.leaves(operands).max(1).next_power_of_two().ilog2() } else { 0 }
    }

    /// The coefficients that hold the `used` inner products of a response, in order.
    pub fn targets(&self, used: usize) -> Vec<usize> {
        let levels = self.levels(used);
        let slots = self.slots();
        (0..used)
            .map(|index| {
                let (leaf, slot) = (index / slots, index % slots);
                let reversed =
                    if levels == 0 { 0 } else { leaf.reverse_bits() >> (usize::BITS - levels) };
                slot * self.stride + reversed * (self.stride >> levels)
            })
            .collect()
    }

    /// Which block of ciphertexts, and which block within it, a query has.
    pub(crate) fn block_of(&self, query: usize) -> (usize, usize) {
        (query / self.blocks, query % self.blocks)
    }

    /// `round(scale t)` for one query vector.
    ///
    /// # Panics
    /// When the vector has another width.
    pub fn encode_query(&self, vector: &[f64], scale: f64) -> Query {
        assert_eq!(vector.len(), self.width, "one vector");
        self.encode_queries(vector, scale)
    }

    /// `round(scale t)` for query vectors that follow one another in `vectors`.
    ///
    /// # Panics
    /// When `vectors` is not a whole number of vectors.
    pub fn encode_queries(&self, vectors: &[f64], scale: f64) -> Query {
        assert!(vectors.len().is_multiple_of(self.width), "a whole number of vectors");
        let message = |(pack, tile): (&[f64], usize)| {
            let mut message: Message = Zeroizing::new(vec![0; self.tile_width * self.blocks]);
            for (block, vector) in pack.chunks(self.width).enumerate() {
                let part = self.tile(vector, tile);
                let out = &mut message[block * self.tile_width..][..part.len()];
                out.iter_mut().zip(part).for_each(|(m, t)| *m = (t * scale).round() as i64);
            }
            message
        };
        let messages = vectors
            .par_chunks(self.width * self.blocks)
            .flat_map_iter(|pack| (0..self.tiles).map(move |tile| (pack, tile)))
            .map(message)
            .collect();
        Query { messages }
    }

    fn tile<'v, T>(&self, vector: &'v [T], tile: usize) -> &'v [T] {
        let start = tile * self.tile_width;
        &vector[start..(start + self.tile_width).min(self.width)]
    }

    /// Writes tile `tile` of an operand, meant for the query in block `block`, backwards from
    /// the target of slot `slot` of a zeroed polynomial.
    pub(crate) fn write_operand(
        &self,
        operand: &[i32],
        tile: usize,
        block: usize,
        slot: usize,
        out: &mut [u64],
    ) {
        let part = self.tile(operand, tile);
        // The exponent of coordinate j is `start - j`; those below zero wrap with a minus sign.
        let n = out.len();
        let start = (slot * self.stride) as isize - (block * self.tile_width) as isize;
        let direct = part.len().min((start + 1).max(0) as usize);
        let (direct, wrapped) = part.split_at(direct);
        if let Ok(start) = usize::try_from(start) {
            let field = &mut out[start + 1 - direct.len()..=start];
            for (out, &z) in field.iter_mut().rev().zip(direct) {
                *out = reduce_signed(i64::from(z));
            }
        }
        let end = n.wrapping_add_signed((start + 1).min(0));
        for (out, &z) in out[end - wrapped.len()..end].iter_mut().rev().zip(wrapped) {
            *out = reduce_signed(-i64::from(z));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn impossible_layouts_are_refused() {
        let n = RingDegree::N2048;
        assert_eq!(Layout::new(n, 0, 1), Err(LayoutError::Width(0)));
        assert!(matches!(Layout::new(n, 10, 0), Err(LayoutError::Misfit { .. })));
        assert!(matches!(Layout::new(n, 10, 11), Err(LayoutError::Misfit { .. })));
        assert!(matches!(Layout::new(n, 2049, 1), Err(LayoutError::Misfit { .. })));
        assert!(matches!(Layout::packed(n, 288, 1, 8, false), Err(LayoutError::Misfit { .. })));
        assert!(matches!(Layout::packed(n, 288, 1, 0, false), Err(LayoutError::Misfit { .. })));
        // Five tiles of ceil(7/5) = 2 would leave the last one empty.
        assert!(matches!(Layout::new(n, 7, 5), Err(LayoutError::Misfit { .. })));
        assert_eq!(Layout::fewest_tiles(n, 2305).unwrap().tiles(), 2);
    }

    #[test]
    fn merged_targets_never_collide() {
        let layout = Layout::packed(RingDegree::N2048, 288, 1, 1, true).unwrap();
        assert_eq!((layout.stride(), layout.slots(), layout.capacity()), (512, 4, 2048));
        for used in [1, 4, 5, 100, 128, 129, 2048] {
            let mut targets = layout.targets(used);
            targets.sort_unstable();
            targets.dedup();
            assert_eq!(targets.len(), used);
            assert!(targets.iter().all(|&t| t < 2048));
        }
        assert_eq!((layout.levels(4), layout.levels(5), layout.levels(128)), (0, 1, 5));
        assert_eq!((layout.responses(2048), layout.responses(2049)), (1, 2));
    }

    proptest! {
        /// The layout over the integers, with a schoolbook product: every target of a product
        /// holds its inner product and nothing else, whatever shares the ciphertext.
        #[test]
        fn target_coefficients_are_inner_products(
            width in 1_usize..200,
            tiles in 1_usize..5,
            blocks in 1_usize..5,
            merged in any::<bool>(),
            seed in any::<u64>(),
        ) {
            const N: usize = 128;
            let degree = RingDegree::new(N).unwrap();
            let Ok(layout) = Layout::packed(degree, width, tiles, blocks, merged) else {
                return Ok(());
            };
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 40) as i64 % 100 - 50
            };
            let queries: Vec<f64> = (0..width * blocks).map(|_| next() as f64).collect();
            let operands: Vec<(usize, Vec<i32>)> = (0..layout.slots())
                .map(|_| {
                    let block = next().unsigned_abs() as usize % blocks;
                    (block, (0..width).map(|_| next() as i32).collect())
                })
                .collect();
            let messages = layout.encode_queries(&queries, 1.0).messages;
            prop_assert_eq!(messages.len(), tiles);
            let mut sum = [0_i64; N];
            for (tile, message) in messages.iter().enumerate() {
                let mut poly = vec![0_u64; N];
                for (slot, (block, operand)) in operands.iter().enumerate() {
                    layout.write_operand(operand, tile, *block, slot, &mut poly);
                }
                let signed = |v: u64| {
                    if v > crate::MODULUS / 2 { v as i64 - crate::MODULUS as i64 } else { v as i64 }
                };
                for (i, &m) in message.iter().enumerate() {
                    for (j, &z) in poly.iter().enumerate() {
                        let sign = if i + j < N { 1 } else { -1 };
                        sum[(i + j) % N] += sign * m * signed(z);
                    }
                }
            }
            for (slot, (block, operand)) in operands.iter().enumerate() {
                let query = &queries[block * width..][..width];
                let expected: i64 =
                    query.iter().zip(operand).map(|(q, z)| *q as i64 * i64::from(*z)).sum();
                prop_assert_eq!(sum[slot * layout.stride()], expected);
            }
        }
    }
}
