//! The coefficient layout: many inner products in one polynomial product.
//!
//! A vector of width `d` is cut into `g` tiles of `w = ceil(d / g)` coordinates. A query tile is
//! `m(X) = sum_j t_j X^j`. Operand number `i` of a response takes slot `i`: its tile is written
//! backwards into the block of `w` coefficients that ends at `s_i = (i + 1) w - 1`,
//!
//! ```text
//! D(X) = sum_i sum_j z_ij X^(s_i - j),
//! ```
//!
//! so coefficient `s_i` of `m(X) D(X)` is `sum_j t_j z_ij`: another block lies at least one
//! block away from every `s_i - j`, and nothing wraps because `m` has `w` coefficients and
//! `s_i >= w - 1`. Products of all tiles and of all queries add up in one response as long as
//! operands take different slots; a response holds `floor(N / w)` of them.

use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::parameters::{ParameterError, RingDegree};
use crate::ring::reduce_signed;

/// Integer coefficients of one query tile.
pub(crate) type Message = Zeroizing<Vec<i64>>;

/// Encoded query vectors, tile by tile: what [`RequestKey::encrypt`](crate::RequestKey::encrypt)
/// takes.
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
    /// No tile, more tiles than coordinates, or tiles that do not fit the ring.
    #[error("{tiles} tiles of a vector of width {width} do not fit a ring of degree {degree}")]
    Tiles {
        /// Requested tiles.
        tiles: usize,
        /// Vector width.
        width: usize,
        /// Ring degree.
        degree: RingDegree,
    },
    /// The ring itself is refused.
    #[error(transparent)]
    Parameters(#[from] ParameterError),
}

/// Where one operand's inner product is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// Which response.
    pub response: usize,
    /// Which slot of it.
    pub slot: usize,
}

/// How vectors of one width sit in polynomials of one degree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    degree: RingDegree,
    width: usize,
    tiles: usize,
    tile_width: usize,
}

impl Layout {
    /// `tiles` tiles for a vector of `width` coordinates.
    pub fn new(degree: RingDegree, width: usize, tiles: usize) -> Result<Self, LayoutError> {
        if !(1..=MAX_WIDTH).contains(&width) {
            return Err(LayoutError::Width(width));
        }
        let misfit = LayoutError::Tiles { tiles, width, degree };
        if tiles == 0 || tiles > width {
            return Err(misfit);
        }
        let tile_width = width.div_ceil(tiles);
        if tile_width > degree.coefficients() || tile_width * (tiles - 1) >= width {
            return Err(misfit);
        }
        Ok(Self { degree, width, tiles, tile_width })
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

    /// Ciphertexts per query vector.
    pub fn tiles(&self) -> usize {
        self.tiles
    }

    /// Inner products per response.
    pub fn slots(&self) -> usize {
        self.degree.coefficients() / self.tile_width
    }

    /// Responses for this many operands.
    pub fn responses(&self, operands: usize) -> usize {
        operands.div_ceil(self.slots())
    }

    /// Operands of response number `response` out of `operands` in all.
    pub fn used_slots(&self, response: usize, operands: usize) -> usize {
        operands.saturating_sub(response * self.slots()).min(self.slots())
    }

    /// Operand number `index` of a request, counted through its queries in order. Consecutive
    /// numbers keep the operands of one query together, so few products are needed.
    pub fn position(&self, index: usize) -> Position {
        Position { response: index / self.slots(), slot: index % self.slots() }
    }

    /// The coefficient that holds the inner product of a slot.
    pub(crate) fn coefficient(&self, slot: usize) -> usize {
        (slot + 1) * self.tile_width - 1
    }

    /// `round(scale t)` for one query vector.
    ///
    /// # Panics
    /// When the vector has another width.
    pub fn encode_query(&self, vector: &[f64], scale: f64) -> Query {
        self.encode_queries(vector, scale)
    }

    /// `round(scale t)` for query vectors that follow one another in `vectors`.
    ///
    /// # Panics
    /// When `vectors` is not a whole number of vectors.
    pub fn encode_queries(&self, vectors: &[f64], scale: f64) -> Query {
        assert!(vectors.len().is_multiple_of(self.width), "a whole number of vectors");
        let messages = vectors
            .par_chunks(self.width)
            .flat_map_iter(|vector| vector.chunks(self.tile_width))
            .map(|tile| Zeroizing::new(tile.iter().map(|t| (t * scale).round() as i64).collect()))
            .collect();
        Query { messages }
    }

    /// Writes tile `tile` of an operand into slot `slot` of a zeroed polynomial.
    pub(crate) fn write_operand(&self, operand: &[i32], tile: usize, slot: usize, out: &mut [u64]) {
        let start = tile * self.tile_width;
        let part = &operand[start..(start + self.tile_width).min(self.width)];
        let end = self.coefficient(slot) + 1;
        // The last tile may be short; it stays aligned to the end of the block.
        for (out, &z) in out[end - part.len()..end].iter_mut().rev().zip(part) {
            *out = reduce_signed(i64::from(z));
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
        assert!(matches!(Layout::new(n, 10, 0), Err(LayoutError::Tiles { .. })));
        assert!(matches!(Layout::new(n, 10, 11), Err(LayoutError::Tiles { .. })));
        assert!(matches!(Layout::new(n, 2049, 1), Err(LayoutError::Tiles { .. })));
        // Five tiles of ceil(7/5) = 2 would leave the last one empty.
        assert!(matches!(Layout::new(n, 7, 5), Err(LayoutError::Tiles { .. })));
        assert_eq!(Layout::fewest_tiles(n, 2305).unwrap().tiles(), 2);
    }

    proptest! {
        /// The layout over the integers, with a schoolbook product: every slot of every
        /// response holds its inner product and nothing else.
        #[test]
        fn product_coefficients_are_inner_products(
            width in 1_usize..200,
            tiles in 1_usize..5,
            seed in any::<u64>(),
        ) {
            let degree = RingDegree::new(64).unwrap();
            let Ok(layout) = Layout::new(degree, width, tiles) else { return Ok(()) };
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 40) as i64 % 100 - 50
            };
            let query: Vec<f64> = (0..width).map(|_| next() as f64).collect();
            let operands: Vec<Vec<i32>> =
                (0..layout.slots()).map(|_| (0..width).map(|_| next() as i32).collect()).collect();
            let messages = layout.encode_query(&query, 1.0).messages;
            prop_assert_eq!(messages.len(), tiles);
            let mut sum = [0_i64; 64];
            for (tile, message) in messages.iter().enumerate() {
                let mut poly = vec![0_u64; 64];
                for (slot, operand) in operands.iter().enumerate() {
                    layout.write_operand(operand, tile, slot, &mut poly);
                }
                let signed = |v: u64| {
                    if v > crate::MODULUS / 2 { v as i64 - crate::MODULUS as i64 } else { v as i64 }
                };
                for (i, &m) in message.iter().enumerate() {
                    for (j, &z) in poly.iter().enumerate() {
                        let sign = if i + j < 64 { 1 } else { -1 };
                        sum[(i + j) % 64] += sign * m * signed(z);
                    }
                }
            }
            for (slot, operand) in operands.iter().enumerate() {
                let expected: i64 = query.iter().zip(operand).map(|(q, z)| *q as i64 * i64::from(*z)).sum();
                prop_assert_eq!(sum[layout.coefficient(slot)], expected);
            }
        }
    }
}
