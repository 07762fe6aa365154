//! How rows lie in blocks, and how many bytes that makes.

use super::modulus::DEGREE;
use super::words::Block;
use crate::pack::packed_len;

/// The widest row.
pub const MAX_DIMENSION: usize = 4096;

/// Widths a tile can have.
pub const TILES: [usize; 6] = [8, 16, 32, 64, 128, 256];

/// Bits of a score in an answer.
pub const SCORE_BITS: u32 = 24;

/// Bits of a coefficient of a hint.
pub(super) const HINT_BITS: u32 = 28;

/// How many secrets hide a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum QueryRank {
    /// One: 147 bits against classical attacks, 137 or 102 against quantum ones, by cost model.
    #[default]
    One,
    /// Two, as for stored rows: the hint doubles, and a client does one more product per block.
    Two,
}

impl QueryRank {
    /// The number of secrets.
    pub fn secrets(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }
}

/// A shape that cannot be.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
pub enum ShapeError {
    /// No width at all, or too wide.
    #[error("vectors of {0} dimensions: from 2 to {MAX_DIMENSION} are supported")]
    Dimension(usize),
    /// Not one of [`TILES`].
    #[error("tiles of width {0}: a power of two from 8 to 256 is supported")]
    Tile(usize),
}

/// Rows of `d` coordinates, cut into `g` tiles of width `w`; `P = N / w` rows share a block.
///
/// Coordinate `j` of tile `t` of row `r` is the coefficient of `X^(r w - j)` in polynomial `t` of the
/// block. A query has coordinate `j` of its tile `t` at `X^j`, so that coefficient `r w` of the sum of
/// products is the inner product with row `r`: two rows are `w` apart, and a tile is no wider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    dimension: usize,
    tile: usize,
    query_rank: QueryRank,
}

impl Shape {
    /// Checks dimension and width of a tile.
    pub fn new(dimension: usize, tile: usize, query_rank: QueryRank) -> Result<Self, ShapeError> {
        if !(2..=MAX_DIMENSION).contains(&dimension) {
            return Err(ShapeError::Dimension(dimension));
        }
        if !TILES.contains(&tile) {
            return Err(ShapeError::Tile(tile));
        }
        Ok(Self { dimension, tile, query_rank })
    }

    /// Coordinates of a row.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Width of a tile, `w`.
    pub fn tile(&self) -> usize {
        self.tile
    }

    /// How many secrets hide a query.
    pub fn query_rank(&self) -> QueryRank {
        self.query_rank
    }

    /// Tiles of a row, `g`: polynomials of a block.
    pub fn tiles(&self) -> usize {
        self.dimension.div_ceil(self.tile)
    }

    /// Rows of a block, `P`.
    pub fn rows_per_block(&self) -> usize {
        DEGREE / self.tile
    }

    /// Blocks that hold so many rows.
    pub fn blocks(&self, rows: usize) -> usize {
        rows.div_ceil(self.rows_per_block())
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> usize {
        Block::byte_len(self.tiles())
    }

    /// Bytes of an encrypted query.
    pub fn query_bytes(&self) -> usize {
        Block::byte_len(self.tiles())
    }

    /// Bytes of the answer of so many blocks, checks included.
    pub fn answer_bytes(&self, blocks: usize) -> usize {
        blocks * self.block_answer_bytes()
    }

    /// Bytes of the answer of one block.
    pub(super) fn block_answer_bytes(&self) -> usize {
        packed_len(self.rows_per_block(), SCORE_BITS)
    }

    /// Bytes of a block's hint, before it is sealed.
    pub fn hint_bytes(&self) -> usize {
        self.query_rank.secrets() * packed_len(DEGREE, HINT_BITS)
    }

    /// Checks that find a forged combination except with a probability of `2^-42`: each has one chance
    /// in `2P`.
    pub fn checks(&self) -> usize {
        42_u32.div_ceil((2 * self.rows_per_block()).ilog2()) as usize
    }

    /// Where coordinate `j` of row `r` is, in polynomial `j / w`: the coefficient, and whether it is
    /// negated (`X^-j = -X^(N - j)`).
    #[inline(always)]
    pub fn place(&self, row: usize, coordinate: usize) -> (usize, bool) {
        let j = coordinate % self.tile;
        if row == 0 && j > 0 { (DEGREE - j, true) } else { (row * self.tile - j, false) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        let new = |dimension, tile| Shape::new(dimension, tile, QueryRank::One);
        assert_eq!(new(1, 32), Err(ShapeError::Dimension(1)));
        assert_eq!(new(4097, 32), Err(ShapeError::Dimension(4097)));
        assert_eq!(new(384, 24), Err(ShapeError::Tile(24)));
        assert!(new(2, 8).is_ok() && new(4096, 256).is_ok());
    }

    #[test]
    fn bytes_are_those_of_the_parameters_page() {
        let shape = Shape::new(384, 32, QueryRank::One).unwrap();
        assert_eq!((shape.tiles(), shape.rows_per_block(), shape.checks()), (12, 64, 6));
        assert_eq!(shape.blocks(100_000), 1563);
        assert_eq!(shape.query_bytes(), 147_456);
        assert_eq!(shape.answer_bytes(1563 + 6), 301_248);
        assert_eq!(shape.hint_bytes() * 1563, 11_203_584);
    }
}
