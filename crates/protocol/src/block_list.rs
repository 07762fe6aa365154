//! Which blocks a commit of a blind collection has: what makes a publish of them one step.
//!
//! The list is stored as a blob ([`BlobName::blocks`](crate::BlobName::blocks)) and read by the server
//! when the commit is activated.

use std::collections::HashSet;

use shard_rlwe::blind::{QueryRank, Shape};

use crate::blind::cell_numbers;
use crate::leak::{Disclosed, Leak, declassify};
use crate::names::{CommitName, Epoch};
use crate::wire::{DecodeError, Limits, MessageKind, Reader, Writer};

/// A list that cannot be.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
pub enum BlockListError {
    /// No block, or too many.
    #[error("a list of {0} blocks: from 1 to {most} are possible", most = BlockList::MOST)]
    Blocks(usize),
    /// More checks than blocks.
    #[error("{checks} checks among {blocks} blocks")]
    Checks {
        /// Checks at the end of the list.
        checks: usize,
        /// Blocks, checks included.
        blocks: usize,
    },
    /// A block is listed twice.
    #[error("block {} is listed twice", CommitName(*.0))]
    Repeated([u8; 16]),
    /// Not one cell for every block.
    #[error("cells of {cells} blocks in a list of {blocks}")]
    Cells {
        /// Blocks whose cell is given.
        cells: usize,
        /// Blocks, checks included.
        blocks: usize,
    },
    /// A cell of too high a number.
    #[error("a block of cell {0}: cells have numbers below {most}", most = BlockList::MOST_CELLS)]
    NoSuchCell(u32),
}

/// The shape of a commit's blocks and their names, in the order in which they are answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockList {
    epoch: Disclosed<Epoch>,
    shape: Disclosed<Shape>,
    checks: Disclosed<usize>,
    names: Disclosed<Vec<[u8; 16]>>,
    cells: Option<Disclosed<Vec<u32>>>,
}

impl BlockList {
    /// Blocks of a commit at most, checks included.
    pub const MOST: usize = 1 << 20;

    /// Cells of a commit at most.
    pub const MOST_CELLS: u32 = 4096;

    /// The blocks of a commit; the last `checks` of them are checks.
    ///
    /// # Panics
    /// When something was declassified as another leak than it is.
    pub fn new(
        epoch: Disclosed<Epoch>,
        shape: Disclosed<Shape>,
        checks: Disclosed<usize>,
        names: Disclosed<Vec<[u8; 16]>>,
    ) -> Result<Self, BlockListError> {
        if !(1..=Self::MOST).contains(&names.len()) {
            return Err(BlockListError::Blocks(names.len()));
        }
        if *checks > names.len() {
            return Err(BlockListError::Checks { checks: *checks, blocks: names.len() });
        }
        let mut seen = HashSet::with_capacity(names.len());
        if let Some(twice) = names.iter().find(|name| !seen.insert(**name)) {
            return Err(BlockListError::Repeated(*twice));
        }
        Ok(Self {
            epoch: epoch.accounted_under(Leak::CollectionShape),
            shape: shape.accounted_under(Leak::CollectionShape),
            checks: checks.accounted_under(Leak::CollectionShape),
            names: names.accounted_under(Leak::BlockChanges),
            cells: None,
        })
    }

    /// The same with the cell of every block, checks included: a search may then ask for the blocks of some
    /// cells.
    ///
    /// # Errors
    /// When there is not one cell for every block, or there is no such cell.
    ///
    /// # Panics
    /// When cells were declassified as another leak than they are.
    pub fn with_cells(self, cells: Disclosed<Vec<u32>>) -> Result<Self, BlockListError> {
        let (actual, blocks) = (cells.len(), self.names.len());
        if actual != blocks {
            return Err(BlockListError::Cells { cells: actual, blocks });
        }
        if let Some(&cell) = cells.iter().find(|cell| **cell >= Self::MOST_CELLS) {
            return Err(BlockListError::NoSuchCell(cell));
        }
        Ok(Self { cells: Some(cells.accounted_under(Leak::CellMembership)), ..self })
    }

    /// The epoch of the blocks.
    pub fn epoch(&self) -> Epoch {
        *self.epoch
    }

    /// How rows lie in them.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How many at the end are checks.
    pub fn checks(&self) -> usize {
        *self.checks
    }

    /// The names of all blocks, checks last.
    pub fn names(&self) -> &[[u8; 16]] {
        &self.names
    }

    /// The cell of every block, checks included, where blocks are grouped by cell.
    pub fn cells(&self) -> Option<&[u32]> {
        self.cells.as_ref().map(|cells| &cells[..])
    }

    /// Bytes that the blocks take, in memory as in the blobs.
    pub fn block_bytes(&self) -> usize {
        self.names.len().saturating_mul(self.shape.block_bytes())
    }

    /// Bytes of the answer to one query.
    pub fn answer_bytes(&self) -> usize {
        self.shape.answer_bytes(self.names.len())
    }

    /// The bytes of the blob.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::BlockList);
        writer.bytes.reserve(32 + 16 * self.names.len());
        writer.u64(self.epoch.0);
        writer.count(self.shape.dimension());
        writer.count(self.shape.tile());
        writer.u8(self.shape.query_rank().secrets() as u8);
        writer.count(*self.checks);
        writer.count(self.names.len());
        self.names.iter().for_each(|name| writer.raw(name));
        for cell in self.cells.iter().flat_map(|cells| cells.iter()) {
            writer.raw(&cell.to_le_bytes());
        }
        writer.bytes
    }

    /// Reads the bytes of the blob.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::BlockList, limits)?;
        let epoch = reader.epoch()?;
        let dimension = reader.count("dimensions of a row", limits.width)?;
        let tile = reader.count("width of a tile", limits.width)?;
        let rank = reader.query_rank()?;
        let shape = Shape::new(dimension, tile, rank)?;
        let checks = reader.count("checks", Self::MOST)?;
        let count = reader.count("blocks", Self::MOST)?;
        let names = reader.fields(count, 16)?;
        let names = names.map(|name| name.try_into().expect("sixteen bytes")).collect();
        let cells: Option<Vec<u32>> = if count > 0 && reader.holds(4) {
            Some(cell_numbers(reader.fields(count, 4)?).collect())
        } else {
            None
        };
        reader.finish()?;
        let shape = declassify(shape, Leak::CollectionShape);
        let checks = declassify(checks, Leak::CollectionShape);
        let list = Self::new(epoch, shape, checks, declassify(names, Leak::BlockChanges));
        let list = match cells {
            Some(cells) => {
                list.and_then(|it| it.with_cells(declassify(cells, Leak::CellMembership)))
            }
            None => list,
        };
        list.map_err(|error| {
            DecodeError::Invalid(match error {
                BlockListError::Blocks(_) => "a list of no blocks",
                BlockListError::Checks { .. } => "more checks than blocks",
                BlockListError::Repeated(_) => "a block that is listed twice",
                BlockListError::Cells { .. } => "another number of cells than of blocks",
                BlockListError::NoSuchCell(_) => "a block of a cell that there cannot be",
            })
        })
    }
}

impl Reader<'_> {
    /// How many secrets hide a query.
    pub(crate) fn query_rank(&mut self) -> Result<QueryRank, DecodeError> {
        match self.u8()? {
            1 => Ok(QueryRank::One),
            2 => Ok(QueryRank::Two),
            _ => Err(DecodeError::Invalid("a rank of queries that is neither 1 nor 2")),
        }
    }
}
