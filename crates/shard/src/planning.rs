//! What the ways to search a collection cost, and what each shows: before anything is built. What searches of
//! some cells find (`compare_probes`), and how many machines a size takes (`capacity`). All of it for a vault is
//! `Vault::plan`, and for a size `Wanted::plan`.
//!
//! Bytes are those of the formats, without the headers of messages and the seals of hints. Times are estimates
//! for one core of the machine that docs/BENCHMARKS.md was measured on; what they are to each other hardly
//! depends on it.

mod capacity;
mod planned;
mod probes;

pub use capacity::{Capacity, Prices, Wanted, Year, capacity};
pub use planned::Planned;
pub use probes::{Probe, Probes, compare_probes};

use serde::Serialize;
use shard_client::{BlindCollection, SECRET_BYTES};
use shard_rlwe::blind::{
    BLOCK_RANK, Choice, CostModel, DEGREE, Link, Precision, QueryRank, Security, Shape, ShapeError,
    choose_tile, tolerance,
};
use shard_rlwe::{Objective, OperandBound, OperandScale, Workload, plan};

use crate::Opened;

/// Candidates and active cells of a typical rotated search.
const CANDIDATES: usize = 128;
const ACTIVE_CELLS: usize = 40;

/// Seconds of one core for a word of six bytes in a pass over blocks for one query (docs/CAPACITY.md).
const WORD_SECONDS: f64 = 0.32e-9;

/// Seconds of one core to open a block from its tag and hint; with its secrets kept a fifth of that.
const OPEN_SECONDS: f64 = 19e-6;

/// Seconds of one core for a coordinate of a local scan.
const SCAN_SECONDS: f64 = 0.2e-9;

/// Bytes that a client keeps of a block besides its hint and its ids.
const TAG_BYTES: usize = 32;

/// One way to search.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Way {
    /// What it is called.
    pub name: &'static str,
    /// Bytes of a request.
    pub bytes_up: usize,
    /// Bytes of its answer.
    pub bytes_down: usize,
    /// Bytes that a client fetches once.
    pub bytes_once: usize,
    /// Milliseconds of one core of the server for a search.
    pub server_ms: f64,
    /// Milliseconds of one core of the client for a search.
    pub client_ms: f64,
    /// Bytes of memory that the server needs.
    pub server_memory: usize,
    /// Bytes that the client keeps on disk.
    pub client_keeps: usize,
    /// Bytes of memory of a client that stays open, once it has searched.
    pub client_memory: usize,
    /// What the server learns.
    pub server_learns: &'static str,
    /// What the client must hold.
    pub client_holds: &'static str,
}

/// Security of ciphertexts by cost model, in bits.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Bits {
    /// The cost model.
    pub model: &'static str,
    /// Of stored rows.
    pub rows: f64,
    /// Of queries.
    pub queries: f64,
}

/// Three ways to search a collection, side by side.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Ways {
    /// Documents.
    pub rows: usize,
    /// Coordinates of each.
    pub dimension: usize,
    /// Without a server.
    pub local: Way,
    /// Blind.
    pub blind: Way,
    /// The paper's construction.
    pub rotated: Way,
    /// Width of a blind collection's tiles, and what follows from it.
    pub tile: String,
    /// The fastest width for the link, where it is another than the vault has or a new one would be given.
    pub other_tile: Option<usize>,
    /// Megabits in a second of the link.
    pub megabits: f64,
    /// Deviation of a blind score's error, in units of the longest document times the query.
    pub precision: f64,
    /// How far a server can move a blind score without being caught, in the same units.
    pub tolerance: f64,
    /// Security of a blind collection.
    pub security: Vec<Bits>,
    /// What to take, in words.
    pub recommendation: String,
}

/// Compares the ways to search so many documents of a dimension, for a link of so many megabits in a
/// second.
///
/// # Errors
/// When there is no such shape.
pub fn compare_ways(
    rows: usize,
    dimension: usize,
    megabits: Option<f64>,
) -> Result<Ways, ShapeError> {
    let link = link(megabits);
    let choice = fastest(rows, dimension, QueryRank::One, link)?;
    let usual = fastest(rows, dimension, QueryRank::One, Link::default())?.shape.tile();
    let other_tile = Some(choice.shape.tile()).filter(|tile| *tile != usual);
    Ok(Ways { other_tile, ..ways(rows, dimension, link, &Searched::whole(choice)) })
}

/// The same for a collection as it is: of a blind one with its own tiles, secrets, cells and free places.
///
/// # Errors
/// When there is no such shape.
pub fn compare_ways_of(collection: &Opened, megabits: Option<f64>) -> Result<Ways, ShapeError> {
    let (rows, dimension) = (collection.documents(), collection.dimension());
    let Some(blind) = collection.blind() else { return compare_ways(rows, dimension, megabits) };
    let (link, shape) = (link(megabits), blind.shape());
    let searched = Searched::of(blind, link);
    // Tiles are chosen for the documents that a search scores.
    let scored = (rows * searched.cells.0).div_ceil(searched.cells.1.max(1)).max(1);
    let fastest = fastest(scored, dimension, shape.query_rank(), link)?.shape.tile();
    let other_tile = Some(fastest).filter(|tile| *tile != shape.tile());
    Ok(Ways { other_tile, ..ways(rows, dimension, link, &searched) })
}

fn link(megabits: Option<f64>) -> Link {
    megabits.map_or_else(Link::default, |megabits| Link { megabits })
}

fn fastest(rows: usize, width: usize, rank: QueryRank, link: Link) -> Result<Choice, ShapeError> {
    Ok(choose_tile(rows, width, rank, link)?.swap_remove(0))
}

/// What a search of a blind collection meets.
struct Searched {
    /// Its shape; blocks are those that a search opens, hints and stored bytes those of all.
    choice: Choice,
    /// Blocks of all rows.
    held: usize,
    /// Blocks that the server multiplies, checks included.
    multiplied: usize,
    /// Blocks that a check adds up, at most.
    checked: usize,
    /// Cells that are asked for, and those that have blocks.
    cells: (usize, usize),
}

impl Searched {
    /// Everything, of a collection without free places.
    fn whole(choice: Choice) -> Self {
        let held = choice.blocks;
        let multiplied = held + 2 * choice.shape.checks();
        Self { choice, held, multiplied, checked: held, cells: (1, 1) }
    }

    /// As many cells as a search asks for unless it says so, each with the mean of blocks.
    fn of(collection: &BlindCollection, link: Link) -> Self {
        let shape = collection.shape();
        let blocks_of = |cell| collection.blocks_of(cell).len();
        let cells: Vec<usize> =
            (0..collection.cell_count() as u32).map(blocks_of).filter(|&count| count > 0).collect();
        let (held, used) = (cells.iter().sum::<usize>(), cells.len());
        let asked = collection.cells().map_or(used, |cells| cells.probe().min(used));
        let opened = (held * asked).div_ceil(used.max(1));
        let checks = 2 * shape.checks();
        let multiplied = opened + asked * checks;
        let choice = Choice {
            blocks: opened,
            down: shape.answer_bytes(multiplied),
            hints: held * shape.hint_bytes(),
            stored: (held + used * checks) * shape.block_bytes(),
            precision: Precision::of(shape, collection.grid(), collection.longest()),
            ..Choice::of(*shape, collection.rows(), link)
        };
        let checked = cells.iter().copied().max().unwrap_or(0);
        Self { choice, held, multiplied, checked, cells: (asked, used) }
    }

    /// Whether the server learns which cells a search asks for.
    fn names_cells(&self) -> bool {
        self.cells.0 < self.cells.1
    }
}

fn ways(rows: usize, dimension: usize, link: Link, searched: &Searched) -> Ways {
    let (local, rotated) = (local(rows, dimension), rotated(rows, dimension, link));
    let blind = blind(searched);
    let choice = &searched.choice;
    let bits = |model: CostModel| Bits {
        model: model.name(),
        rows: Security::of_rows().bits(model).floor(),
        queries: Security::of_queries(choice.shape.query_rank()).bits(model).floor(),
    };
    let mut tile = choice.explanation();
    if searched.names_cells() {
        let (asked, used) = searched.cells;
        tile = format!("{tile}; {asked} of {used} cells asked for");
    }
    Ways {
        rows,
        dimension,
        tile,
        other_tile: None,
        megabits: link.megabits,
        precision: choice.precision.refined,
        tolerance: tolerance(searched.checked),
        security: CostModel::ALL.map(bits).to_vec(),
        recommendation: recommendation(&local, &blind),
        local,
        blind,
        rotated,
    }
}

fn local(rows: usize, dimension: usize) -> Way {
    let held = rows * dimension * 2; // 16 bits each where that loses nothing
    Way {
        name: "local",
        bytes_up: 0,
        bytes_down: 0,
        bytes_once: held,
        server_ms: 0.0,
        client_ms: (rows * dimension) as f64 * SCAN_SECONDS * 1e3,
        server_memory: 0,
        client_keeps: held,
        client_memory: 2 * held, // in single precision
        server_learns: "nothing: it is not asked",
        client_holds: "all vectors",
    }
}

fn blind(searched: &Searched) -> Way {
    let Searched { choice, held, multiplied, .. } = searched;
    let words = choice.shape.block_bytes() / 6;
    let client_keeps = choice.hints + held * TAG_BYTES;
    Way {
        name: "blind",
        bytes_up: choice.up,
        bytes_down: choice.down,
        bytes_once: choice.hints,
        server_ms: *multiplied as f64 * words as f64 * WORD_SECONDS * 1e3,
        client_ms: choice.blocks as f64 * OPEN_SECONDS * 1e3,
        server_memory: choice.stored,
        client_keeps,
        client_memory: client_keeps + secrets_kept(&choice.shape, *held),
        server_learns: if searched.names_cells() {
            "sizes and times; which blocks change; which cells a search asks for"
        } else {
            "sizes and times; which blocks change"
        },
        client_holds: "ids, the epoch's secret, hints",
    }
}

/// Bytes of what opening needs of blocks, which a client that stays open keeps of as many as its budget has
/// room for: secrets of the block and hints, a word of six bytes for every coefficient.
fn secrets_kept(shape: &Shape, blocks: usize) -> usize {
    let each = (BLOCK_RANK + shape.query_rank().secrets()) * DEGREE * 6;
    blocks.min(SECRET_BYTES / each) * each
}

fn rotated(rows: usize, dimension: usize, link: Link) -> Way {
    let width = (dimension - dimension / 4).max(1);
    let groups: Vec<usize> = (0..ACTIVE_CELLS)
        .map(|cell| CANDIDATES / ACTIVE_CELLS + usize::from(cell < CANDIDATES % ACTIVE_CELLS))
        .collect();
    let workload = Workload {
        width,
        groups: &groups,
        operands: OperandScale::for_norm(1.0),
        bound: OperandBound::of(&[1 << 20]),
        precision: 2e-6,
        keys: None,
        merging: true,
        session_requests: 64,
    };
    let estimate = plan(&workload, Objective::Link(link.megabits * 1e6)).estimate;
    Way {
        name: "rotated",
        bytes_up: estimate.bytes_up,
        bytes_down: estimate.bytes_down,
        bytes_once: estimate.bytes_once,
        server_ms: estimate.server * 1e3,
        client_ms: estimate.client * 1e3,
        server_memory: rows * width * 4,
        client_keeps: rows * (dimension / 4 * 3 + 24),
        client_memory: rows * (dimension / 4 * 4 + 24),
        server_learns: "rotated residuals, cells, candidates: they can be linked, aligned and named",
        client_holds: "ids, prefixes of all vectors, the epoch's secret",
    }
}

/// Where all vectors fit comfortably, searching at home is simpler and shows less.
fn recommendation(local: &Way, blind: &Way) -> String {
    let megabytes = |bytes: usize| bytes.div_ceil(1_000_000);
    let vectors = megabytes(local.client_keeps);
    if local.client_keeps <= 64_000_000 {
        format!(
            "local, if whoever searches may hold the vectors: they are {vectors} MB; blind for clients that should not"
        )
    } else {
        format!(
            "blind: a client keeps {} MB instead of {vectors} MB of vectors, and needs {} MB of memory instead of {} MB \
             while it stays open; local for an owner who has them anyway",
            megabytes(blind.client_keeps),
            megabytes(blind.client_memory),
            megabytes(local.client_memory),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_are_those_of_the_parameters_page() {
        let ways = compare_ways(100_000, 384, None).unwrap();
        assert_eq!(ways.blind.bytes_up, 147_456);
        assert!(ways.blind.bytes_up + ways.blind.bytes_down < 460_000);
        assert!(ways.blind.client_keeps < ways.local.client_keeps / 5);
        assert!(ways.rotated.bytes_up > 0 && ways.local.bytes_up == 0);
        assert!(ways.recommendation.starts_with("blind"));
        let small = compare_ways(5000, 384, Some(20.0)).unwrap();
        assert!(small.recommendation.starts_with("local"));
        assert!(small.blind.bytes_up < ways.blind.bytes_up);
        assert!(compare_ways(10, 1, None).is_err());
    }

    #[test]
    fn a_client_that_stays_open_keeps_secrets_of_blocks_within_its_budget() {
        let memory = |rows| {
            let blind = compare_ways(rows, 384, None).unwrap().blind;
            blind.client_memory - blind.client_keeps
        };
        assert_eq!(memory(100_000), 1563 * 36_864, "three polynomials a block");
        let most = memory(100_000_000);
        assert!(most <= SECRET_BYTES && most > SECRET_BYTES - 36_864);
        let two = Shape::new(384, 32, QueryRank::Two).unwrap();
        assert_eq!(secrets_kept(&two, 10), 10 * 49_152);
    }

    #[test]
    fn a_link_that_wants_other_tiles_than_vaults_are_given_is_told() {
        let other = |megabits| compare_ways(100_000, 384, megabits).unwrap().other_tile;
        assert_eq!([None, Some(200.0)].map(other), [None; 2]);
        assert!(other(Some(20.0)).is_some_and(|tile| tile > 32));
    }
}
