//! Blind collections: what the vault holds of them, and what changes them.
//!
//! Rows lie in blocks of `P`, each row in a *place*: row number `block * P + place in the block`. A
//! block is encrypted when it is published; it follows from its name (context, number, revision,
//! grid) and the integers of its rows, so the vault keeps no ciphertexts. For whoever may search it
//! has the head and, of every block, the tag and the ids of its places; for the owner also the
//! vectors. A change writes the blocks that it touches under its own revision, with tags made anew.
//!
//! | module | content |
//! |---|---|
//! | `head`, `places`, `cells` | the values that a search reads |
//! | `block` | a block while it is written |
//! | `change` | rows put into places, and places freed |
//! | `epoch`, `compact` | all blocks written anew: the first ingest, a rekey, fewer blocks |
//! | `vectors` | the documents' own vectors |
//! | `verify` | every tag computed again |
//! | `publish`, `checks`, `seal` | blocks, hints and checks for a server |
//! | `search`, `rank` | a query's journey |
//! | `ready`, `hints` | what it needs of the server once |
//! | `records` | what documents bring back, sealed, and fetched without saying which |
//! | `metadata` | fields of records, to filter by |
//! | `embedded` | a server in this process, filled |

mod block;
mod cells;
mod change;
mod checks;
mod compact;
mod embedded;
mod epoch;
mod head;
mod hints;
mod many;
mod metadata;
mod places;
mod publish;
mod rank;
mod ready;
mod records;
mod seal;
mod search;
#[cfg(test)]
pub(crate) mod tests;
mod vectors;
mod verify;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use shard_protocol::{CommitName, Epoch, Revision};
use shard_rlwe::blind::{BlockName, EpochKey, Grid, Keys, RecordKeys, Shape};
use zeroize::Zeroizing;

use crate::collection::{Position, unusable};
use crate::error::ClientError;
use crate::keys::{SaltedEpoch, VaultId, blind_key, blind_seal_key, epoch_secret, record_name_key};
use crate::payload::PayloadError;
use crate::settings::{CellCount, Choice, Settings};
use crate::vault::{EpochSecret, Slot, Snapshot, Vault};

use self::cells::group;
use self::metadata::BlockFields;
use self::seal::Sealer;

pub use cells::BlindCells;
pub use compact::{Compacted, compact};
pub use embedded::{Filling, fill_server};
pub use head::BlindHead;
pub use hints::Hints;
pub use metadata::{Metadata, NOT_FIELDS};
pub use places::{BlockPlaces, block_file_name};
pub use records::{
    FetchCost, FetchWay, Fetched, MAX_RECORD_BYTES, Record, Records, SLOT_BYTES, SLOT_PAYLOAD,
    set_records, stored_records, stored_records_of,
};
pub use search::{BlindSearcher, SECRET_BYTES};

pub(crate) use change::BlindChange;
#[cfg(feature = "remote")]
pub(crate) use change::GivenRecord;
#[cfg(feature = "remote")]
pub(crate) use checks::{CheckSet, Checks};
pub(crate) use epoch::{first, rekey};
#[cfg(feature = "remote")]
pub(crate) use hints::retired_sets;
#[cfg(feature = "remote")]
pub(crate) use publish::{SentBlocks, check_names, missing_blocks, send_blocks};
pub(crate) use records::{check_records, not_of_rotated};
#[cfg(feature = "remote")]
pub(crate) use records::{record_blobs, records_are_whole, records_of, send_records};
pub(crate) use vectors::documents_of;
pub(crate) use verify::verify;

/// A blind collection opened for use. It borrows nothing, so it can be shared between threads.
pub struct BlindCollection {
    head: BlindHead,
    blocks: Vec<BlockPlaces>,
    cells: Option<BlindCells>,
    /// The blocks of every cell; of one, where they are not grouped by cell.
    groups: Vec<Vec<u32>>,
    /// Documents in every cell.
    cell_rows: Vec<usize>,
    keys: BlockKeys,
    records: Option<Records>,
    record_keys: OnceLock<RecordKeys>,
    /// The fields of documents by block, as they are stored.
    fields: BTreeMap<u32, BlockFields>,
    metadata: OnceLock<Metadata>,
    epoch: Epoch,
    position: Position,
}

/// The keys and the names of an epoch's blocks.
struct BlockKeys {
    keys: Arc<Keys>,
    sealer: Sealer,
    /// Vault, epoch and salt: tells these blocks from those of every other epoch.
    context: Vec<u8>,
    /// What the keys of fetches are expanded from.
    record_key: EpochKey,
    /// Keys the names of pages and hints of records.
    record_names: Zeroizing<[u8; 32]>,
}

impl BlockKeys {
    fn new(secret: &EpochSecret, vault: VaultId, epoch: &SaltedEpoch, shape: Shape) -> Self {
        let context = [&vault.0[..], &epoch.epoch.0.to_le_bytes(), &epoch.salt].concat();
        let keys = Arc::new(Keys::expand(&blind_key(secret), shape));
        let (record_key, record_names) = (blind_key(secret), record_name_key(secret));
        Self {
            keys,
            sealer: Sealer::new(&blind_seal_key(secret)),
            context,
            record_key,
            record_names,
        }
    }

    /// Those of an epoch of an owner's vault.
    fn of_owner(
        vault: &Vault,
        id: VaultId,
        epoch: &SaltedEpoch,
        shape: Shape,
    ) -> Result<Self, ClientError> {
        Ok(Self::new(&epoch_secret(vault.master()?, epoch), id, epoch, shape))
    }

    fn name(&self, block: u32, revision: u64, grid: Grid) -> BlockName<'_> {
        BlockName { context: &self.context, block, revision, grid }
    }
}

/// The settings of a query vault, as far as its head knows them.
pub(crate) fn settings_of_head(snapshot: &Snapshot) -> Result<Settings, ClientError> {
    let shape = BlindHead::read(snapshot)?.shape;
    let (tile, query_rank) = (Choice::Fixed(shape.tile()), shape.query_rank());
    let defaults = Settings::blind();
    let cells = BlindCells::read(snapshot, shape.dimension())?;
    let count = cells.as_ref().map_or(defaults.cells, |cells| CellCount::Cells(cells.count()));
    let probe = cells.as_ref().map(BlindCells::probe);
    Ok(Settings { tile, query_rank, cells: count, probe, ..defaults })
}

fn contradiction(file: &'static str, problem: &str) -> ClientError {
    unusable(file)(PayloadError::Invalid(problem.to_owned()))
}

impl BlindCollection {
    /// Reads the head and the places of a vault's latest commit.
    ///
    /// # Errors
    /// When nothing was ingested yet, the vault is rotated, or it is damaged.
    pub fn open(vault: &Vault) -> Result<Self, ClientError> {
        Self::read(vault, &vault.snapshot()?)
    }

    /// Reads the head and the places of a commit.
    pub(crate) fn read(vault: &Vault, snapshot: &Snapshot) -> Result<Self, ClientError> {
        let head = BlindHead::read(snapshot)?;
        let header = &snapshot.root().header;
        let epoch = header.epoch.ok_or_else(|| contradiction("root", "it has no epoch"))?;
        let numbers: Vec<u32> = snapshot.root().numbered(Slot::Places).collect();
        if !numbers.iter().copied().eq(0..head.blocks) {
            return Err(contradiction("places", "its blocks are not those of the head"));
        }
        let places = head.shape.rows_per_block();
        let decode =
            |_, bytes: &[u8]| BlockPlaces::decode(bytes, places).map_err(unusable("places"));
        let mut blocks = Vec::with_capacity(numbers.len());
        snapshot.each(Slot::Places, &numbers, decode, |_, block| {
            blocks.push(block);
            Ok(())
        })?;
        let rows = blocks.iter().map(|block| block.rows() as u64).sum::<u64>();
        if rows != head.rows {
            let problem = format!("{rows} rows where {} belong", head.rows);
            return Err(contradiction("places", &problem));
        }
        let cells = BlindCells::read(snapshot, head.shape.dimension())?;
        let groups = group(cells.as_ref(), &blocks)?;
        let rows = |group: &Vec<u32>| group.iter().map(|&at| blocks[at as usize].rows()).sum();
        let cell_rows = groups.iter().map(rows).collect();
        let id = header.vault;
        let keys = match vault.epoch_secret() {
            Some(secret) => BlockKeys::new(secret, id, &epoch, head.shape),
            None => BlockKeys::of_owner(vault, id, &epoch, head.shape)?,
        };
        let records = Records::read(snapshot, &head)?;
        let fields = Self::read_fields(snapshot, places as u32, head.blocks)?;
        Ok(Self {
            head,
            blocks,
            cells,
            groups,
            cell_rows,
            keys,
            records,
            record_keys: OnceLock::new(),
            fields,
            metadata: OnceLock::new(),
            epoch: epoch.epoch,
            position: Position::of(vault, snapshot)?,
        })
    }

    /// How rows lie in blocks.
    pub fn shape(&self) -> &Shape {
        &self.head.shape
    }

    /// The grid on which rows are stored.
    pub fn grid(&self) -> Grid {
        self.head.grid
    }

    /// No row is longer.
    pub fn longest(&self) -> f64 {
        self.head.longest
    }

    /// What all blocks have in common.
    pub fn head(&self) -> &BlindHead {
        &self.head
    }

    /// The blocks, by number.
    pub fn blocks(&self) -> &[BlockPlaces] {
        &self.blocks
    }

    /// The keys of the epoch.
    pub fn keys(&self) -> &Arc<Keys> {
        &self.keys.keys
    }

    /// What tells the blocks of this vault and epoch from all others: the vault's id, the number of
    /// the epoch and its salt.
    pub fn context(&self) -> &[u8] {
        &self.keys.context
    }

    /// Everything besides its rows that a block depends on.
    pub fn block_name(&self, block: u32) -> BlockName<'_> {
        self.keys.name(block, self.blocks[block as usize].revision, self.head.grid)
    }

    /// Documents.
    pub fn rows(&self) -> usize {
        self.head.rows as usize
    }

    /// Places of all blocks, free ones included: rows have numbers below.
    pub fn places(&self) -> usize {
        self.head.places()
    }

    /// The id of the row in a place; `None` if the place is free or there is none.
    pub fn id(&self, place: usize) -> Option<&str> {
        let per_block = self.head.shape.rows_per_block();
        self.blocks.get(place / per_block)?.id(place % per_block)
    }

    /// Of a row: the same for rows that are equal on the grid, hence for every query.
    fn likeness(&self, place: usize) -> u32 {
        let per_block = self.head.shape.rows_per_block();
        self.blocks[place / per_block].likeness(place % per_block)
    }

    /// Every row by its place, with its id.
    pub fn ids(&self) -> impl Iterator<Item = (u32, &str)> {
        let all = (0..).zip(self.blocks.iter().flat_map(BlockPlaces::ids));
        all.filter_map(|(place, id)| Some((place, id?)))
    }

    /// The epoch of keys and blocks.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Which state of the vault this is: its generation.
    pub fn revision(&self) -> Revision {
        self.position.revision()
    }

    /// The name of that state.
    pub fn commit(&self) -> CommitName {
        self.position.commit()
    }

    /// Which commit of which vault it was read from.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// Seals and opens hints and checks of the epoch.
    pub(crate) fn sealer(&self) -> &Sealer {
        &self.keys.sealer
    }

    /// The integers of a block's places, row after row, from the vectors that are stored: zeros where
    /// a place is free.
    pub(crate) fn integers(
        &self,
        snapshot: &Snapshot,
        block: usize,
    ) -> Result<Zeroizing<Vec<i32>>, ClientError> {
        let bytes = snapshot.read(Slot::Vectors(block as u32))?;
        let vectors = self.blocks[block].spread(&bytes, &self.head.shape)?;
        Ok(self.encode(&vectors))
    }

    /// Vectors on the grid.
    fn encode(&self, vectors: &[f32]) -> Zeroizing<Vec<i32>> {
        Zeroizing::new(self.head.grid.encode(vectors).collect())
    }
}

impl std::fmt::Debug for BlindCollection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlindCollection").field("head", &self.head).finish_non_exhaustive()
    }
}
