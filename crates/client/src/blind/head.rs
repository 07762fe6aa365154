//! What all blocks of a blind collection have in common.

use shard_rlwe::blind::{Grid, Shape};

use crate::collection::{rotated_only_has_a_model, unusable};
use crate::error::ClientError;
use crate::payload::{PayloadError, Reader, Writer};
use crate::settings::rank_of;
use crate::vault::{Slot, Snapshot};

const VERSION: u16 = 1;

/// Rows may become this many times as long as the grid was made for.
const STRETCH: f64 = 2.0;

/// What all blocks of a blind collection have in common, and how many there are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BlindHead {
    /// How rows lie in blocks.
    pub shape: Shape,
    /// The grid on which they are stored.
    pub grid: Grid,
    /// No row is longer. Positive also where all rows are zero.
    pub longest: f64,
    /// Blocks of rows.
    pub blocks: u32,
    /// Rows in them.
    pub rows: u64,
}

impl BlindHead {
    /// Of a collection without blocks whose longest row is to have a length; none at all counts as
    /// one.
    pub(super) fn for_length(shape: Shape, length: f64) -> Self {
        let longest = if length > 0.0 { length } else { 1.0 };
        let grid = Grid::for_length(&shape, longest);
        Self { shape, grid, longest, blocks: 0, rows: 0 }
    }

    /// Rows that have room in its blocks.
    pub(super) fn places(&self) -> usize {
        self.blocks as usize * self.shape.rows_per_block()
    }

    /// The most blocks: the number of a row has 32 bits.
    fn most_blocks(shape: &Shape) -> u32 {
        u32::MAX / shape.rows_per_block() as u32
    }

    /// Counts one block more. Returns its number.
    pub(super) fn add_block(&mut self) -> Result<u32, ClientError> {
        let number = self.blocks;
        if number >= Self::most_blocks(&self.shape) {
            let problem = format!("there is no room for more than {} rows", self.places());
            return Err(ClientError::Setting(problem));
        }
        self.blocks += 1;
        Ok(number)
    }

    /// Takes note of a row of a length. Returns whether that makes another grid, under which all
    /// blocks are to be written.
    pub(super) fn admit(&mut self, length: f64) -> bool {
        self.longest = self.longest.max(length);
        let made_for = Grid::for_length(&self.shape, 1.0).scale() / self.grid.scale();
        let outgrown = self.longest > STRETCH * made_for;
        if outgrown {
            self.grid = Grid::for_length(&self.shape, self.longest);
        }
        outgrown
    }

    /// The head of a commit.
    pub(super) fn read(snapshot: &Snapshot) -> Result<Self, ClientError> {
        if snapshot.contains(Slot::Model) {
            return Err(rotated_only_has_a_model());
        }
        if !snapshot.contains(Slot::Blind) {
            return Err(ClientError::Empty);
        }
        Self::decode(&snapshot.read(Slot::Blind)?).map_err(unusable("head of the blocks"))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(VERSION);
        writer.u64(self.shape.dimension() as u64);
        writer.u64(self.shape.tile() as u64);
        writer.u64(self.shape.query_rank().secrets() as u64);
        writer.f64(self.grid.scale());
        writer.f64(self.longest);
        writer.u64(self.blocks.into());
        writer.u64(self.rows);
        writer.bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, PayloadError> {
        let invalid = |problem: String| PayloadError::Invalid(problem);
        let mut reader = Reader::new(bytes, VERSION)?;
        let (dimension, tile) = (reader.size()?, reader.size()?);
        let rank = reader.u64()?;
        let query_rank = rank_of(rank).ok_or_else(|| invalid(format!("queries of rank {rank}")))?;
        let shape =
            Shape::new(dimension, tile, query_rank).map_err(|error| invalid(error.to_string()))?;
        let scale = reader.f64()?;
        let grid = Grid::from_scale(scale).ok_or_else(|| invalid(format!("a scale of {scale}")))?;
        let longest = reader.f64()?;
        if !(longest > 0.0 && longest.is_finite()) {
            return Err(invalid(format!("a longest row of length {longest}")));
        }
        let blocks = reader.u64()?;
        let blocks = u32::try_from(blocks)
            .ok()
            .filter(|blocks| (1..=Self::most_blocks(&shape)).contains(blocks))
            .ok_or_else(|| invalid(format!("{blocks} blocks")))?;
        let rows = reader.u64()?;
        reader.finish()?;
        let head = Self { shape, grid, longest, blocks, rows };
        if !(1..=head.places() as u64).contains(&rows) {
            return Err(invalid(format!("{rows} rows in {blocks} blocks")));
        }
        Ok(head)
    }
}
