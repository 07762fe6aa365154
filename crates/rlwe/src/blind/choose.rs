//! The width of tiles for a collection.
//!
//! Wide tiles make a query small and blocks many: fewer bytes up, more blocks to open, more hints to
//! keep. Narrow tiles are the other way round. What the server computes does not depend on it.

use super::scale::{Grid, Precision};
use super::shape::{QueryRank, Shape, ShapeError, TILES};

/// Seconds of one core that a block to open counts for in the choice: between those of a block of which nothing is
/// kept, which is most of the first search, and the fifth of them that a client takes which stays open.
const OPEN_SECONDS: f64 = 14e-6;

/// Cores that a client opens with.
const CLIENT_CORES: f64 = 2.0;

/// How fast bytes travel between a client and the server.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// Megabits in a second.
    pub megabits: f64,
}

impl Default for Link {
    /// 200 megabits in a second.
    fn default() -> Self {
        Self { megabits: 200.0 }
    }
}

/// A width of tiles, and what follows from it.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The shape.
    pub shape: Shape,
    /// Blocks of rows.
    pub blocks: usize,
    /// Bytes of a query.
    pub up: usize,
    /// Bytes of an answer, with its checks and the spare ones.
    pub down: usize,
    /// Bytes of all hints, fetched once.
    pub hints: usize,
    /// Bytes of the blocks and checks, on the server's disk and in its memory.
    pub stored: usize,
    /// Seconds that bytes travel, and those that blocks to open count for.
    pub seconds: f64,
    /// Deviation of the error of scores.
    pub precision: Precision,
}

impl Choice {
    /// What a shape means for so many rows.
    pub fn of(shape: Shape, rows: usize, link: Link) -> Self {
        let blocks = shape.blocks(rows);
        let all = blocks + 2 * shape.checks();
        let (up, down) = (shape.query_bytes(), shape.answer_bytes(all));
        let travel = (up + down) as f64 * 8.0 / (link.megabits * 1e6);
        Self {
            shape,
            blocks,
            up,
            down,
            hints: blocks * shape.hint_bytes(),
            stored: all * shape.block_bytes(),
            seconds: travel + blocks as f64 * OPEN_SECONDS / CLIENT_CORES,
            precision: Precision::of(&shape, Grid::for_length(&shape, 1.0), 1.0),
        }
    }

    /// Why this width, in a sentence.
    pub fn explanation(&self) -> String {
        format!(
            "tiles of {}: {} KB up and {} KB down a search, {:.1} MB of hints once, {} blocks to open",
            self.shape.tile(),
            self.up.div_ceil(1000),
            self.down.div_ceil(1000),
            self.hints as f64 / 1e6,
            self.blocks,
        )
    }
}

/// All widths for so many rows of a dimension, the fastest first. Tiles that are wider than a row
/// waste it and are left out, but for the narrowest.
pub fn choose_tile(
    rows: usize,
    dimension: usize,
    query_rank: QueryRank,
    link: Link,
) -> Result<Vec<Choice>, ShapeError> {
    let mut choices = Vec::new();
    for tile in TILES.into_iter().filter(|&tile| tile == TILES[0] || tile < 2 * dimension) {
        choices.push(Choice::of(Shape::new(dimension, tile, query_rank)?, rows, link));
    }
    choices.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    Ok(choices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(rows: usize, dimension: usize, megabits: f64) -> usize {
        let choices = choose_tile(rows, dimension, QueryRank::One, Link { megabits }).unwrap();
        choices[0].shape.tile()
    }

    #[test]
    fn slow_links_and_small_collections_want_wide_tiles() {
        assert_eq!(tile(100_000, 384, Link::default().megabits), 32);
        assert!(tile(100_000, 384, 20.0) > 32);
        assert!(tile(1000, 384, 20.0) > tile(1_000_000, 384, 20.0));
        assert!(tile(100_000, 384, 10_000.0) <= 16);
    }

    #[test]
    fn every_dimension_has_a_width() {
        for dimension in [2, 7, 8, 9, 100, 1536, 4096] {
            assert!(tile(10, dimension, 100.0) < 2 * dimension.max(8));
        }
        assert!(choose_tile(10, 1, QueryRank::One, Link::default()).is_err());
    }
}
