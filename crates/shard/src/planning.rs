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
use shard_client::{BlindCollection, ClientError, SECRET_BYTES};
use shard_rlwe::blind::{
    BLOCK_RANK, Choice, CostModel, DEGREE, Link, Precision, QueryRank, Security, Shape,
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
    /// Whether a blind search names cells to the server.
    pub names_cells: bool,
    /// Megabits in a second of the link.
    pub megabits: f64,
    /// Deviation of a blind score's error, in units of the longest document times the query.
    pub precision: f64,
    /// How far a check of a blind answer may be off, in the same units: a server that moves a score by more than
    /// twice as much is caught.
    pub tolerance: f64,
    /// Security of a blind collection.
    pub security: Vec<Bits>,
    /// What to take, in words.
    pub recommendation: String,
}

/// Documents that can be planned for.
const MOST_ROWS: usize = 1_000_000_000_000;

/// Compares the ways to search so many documents of a dimension, for a link of so many megabits in a
/// second.
///
/// # Errors
/// When there is no such shape or link, or there are too many documents to plan for.
pub fn compare_ways(
    rows: usize,
    dimension: usize,
    megabits: Option<f64>,
) -> Result<Ways, ClientError> {
    compare_ways_in_cells(rows, dimension, None, megabits)
}

/// The same for a collection of so many cells, of which a search asks for some.
fn compare_ways_in_cells(
    rows: usize,
    dimension: usize,
    cells: Option<(usize, usize)>,
    megabits: Option<f64>,
) -> Result<Ways, ClientError> {
    check_rows(rows)?;
    let link = link(megabits)?;
    let scored = scored(rows, cells.unwrap_or((1, 1)));
    let shape = fastest(scored, dimension, QueryRank::One, link)?;
    let usual = fastest(scored, dimension, QueryRank::One, Link::default())?.tile();
    let other_tile = Some(shape.tile()).filter(|tile| *tile != usual);
    let searched = Searched::to_be(shape, rows, cells, link);
    Ok(Ways { other_tile, ..ways(rows, dimension, link, &searched) })
}

/// The same for a collection as it is: of a blind one with its own tiles, secrets, cells and free places.
///
/// # Errors
/// When there is no such shape or link.
pub fn compare_ways_of(collection: &Opened, megabits: Option<f64>) -> Result<Ways, ClientError> {
    compare_ways_measured(collection, None, megabits)
}

/// The same with the blocks that searches of some cells were measured to meet; otherwise those of cells of the mean
/// size.
fn compare_ways_measured(
    collection: &Opened,
    measured: Option<&Probe>,
    megabits: Option<f64>,
) -> Result<Ways, ClientError> {
    let (rows, dimension) = (collection.documents(), collection.dimension());
    let Some(blind) = collection.blind() else { return compare_ways(rows, dimension, megabits) };
    let (link, shape) = (link(megabits)?, blind.shape());
    let searched = Searched::of(blind, measured, link);
    let scored = scored(rows, (searched.cells.1.max(1), searched.cells.0));
    let fastest = fastest(scored, dimension, shape.query_rank(), link)?.tile();
    let other_tile = Some(fastest).filter(|tile| *tile != shape.tile());
    Ok(Ways { other_tile, ..ways(rows, dimension, link, &searched) })
}

fn check_rows(rows: usize) -> Result<(), ClientError> {
    if rows <= MOST_ROWS {
        return Ok(());
    }
    let problem = format!("{rows} documents: at most {MOST_ROWS} can be planned for");
    Err(ClientError::Setting(problem))
}

fn link(megabits: Option<f64>) -> Result<Link, ClientError> {
    match megabits {
        None => Ok(Link::default()),
        Some(megabits) if megabits > 0.0 && megabits.is_finite() => Ok(Link { megabits }),
        Some(megabits) => {
            let problem = format!("a link of {megabits} Mbit/s: it must be more than 0");
            Err(ClientError::Setting(problem))
        }
    }
}

/// Documents that a search scores which asks for some cells. Tiles are chosen for these.
fn scored(rows: usize, (cells, probe): (usize, usize)) -> usize {
    (rows as f64 * probe as f64 / cells as f64).ceil().max(1.0) as usize
}

fn fastest(rows: usize, width: usize, rank: QueryRank, link: Link) -> Result<Shape, ClientError> {
    Ok(choose_tile(rows, width, rank, link)?.swap_remove(0).shape)
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
    /// Of a collection that is to be, without free places but for cells: each ends in a block that is, on the
    /// average, half empty.
    fn to_be(shape: Shape, rows: usize, cells: Option<(usize, usize)>, link: Link) -> Self {
        let (used, asked) = cells.unwrap_or((1, 1));
        let held = shape.blocks(rows) + if cells.is_some() { used / 2 } else { 0 };
        let opened = (held * asked).div_ceil(used);
        let multiplied = opened + asked * 2 * shape.checks();
        let choice = Choice::of(shape, rows, link);
        Self::met(choice, held, (opened, multiplied), held.div_ceil(used), (asked, used))
    }

    /// Of a collection as it is, as many cells as a search asks for unless it says so: the blocks that were measured,
    /// or those of cells of the mean size.
    fn of(collection: &BlindCollection, measured: Option<&Probe>, link: Link) -> Self {
        let shape = collection.shape();
        let blocks_of = |cell| collection.blocks_of(cell).len();
        let cells: Vec<usize> =
            (0..collection.cell_count() as u32).map(blocks_of).filter(|&count| count > 0).collect();
        let (held, used) = (cells.iter().sum::<usize>(), cells.len());
        let asked = collection.cells().map_or(used, |cells| cells.probe().min(used));
        let (opened, multiplied) = match measured {
            Some(probe) => (probe.opened.ceil() as usize, probe.blocks.ceil() as usize),
            None => {
                let opened = (held * asked).div_ceil(used.max(1));
                (opened, opened + asked * 2 * shape.checks())
            }
        };
        let choice = Choice {
            precision: Precision::of(shape, collection.grid(), collection.longest()),
            ..Choice::of(*shape, collection.rows(), link)
        };
        let largest = cells.iter().copied().max().unwrap_or(0);
        Self::met(choice, held, (opened, multiplied), largest, (asked, used))
    }

    fn met(
        choice: Choice,
        held: usize,
        (opened, multiplied): (usize, usize),
        checked: usize,
        cells: (usize, usize),
    ) -> Self {
        let shape = choice.shape;
        let stored = held + cells.1 * 2 * shape.checks();
        let choice = Choice {
            blocks: opened,
            down: shape.answer_bytes(multiplied),
            hints: held * shape.hint_bytes(),
            stored: stored * shape.block_bytes(),
            ..choice
        };
        Self { choice, held, multiplied, checked, cells }
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
        names_cells: searched.names_cells(),
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
    fn cells_of_a_size_are_planned_as_they_are_priced() {
        let wanted = Wanted {
            rows: 1_000_000,
            dimension: 384,
            cells: Some((64, 4)),
            worker_memory: 64e9,
            searches: 1e5,
            megabits: Some(20.0),
        };
        let planned = wanted.plan(Prices::placeholders()).unwrap();
        let (ways, capacity) = (&planned.ways, planned.capacity.as_ref().unwrap());
        assert!(ways.names_cells && ways.blind.server_learns.contains("which cells"));
        assert!(ways.tile.starts_with(&format!("tiles of {}:", capacity.tile)), "{}", ways.tile);
        assert_eq!(ways.blind.server_memory as f64, capacity.memory);
        for (one, other) in [
            (ways.blind.bytes_up as f64, capacity.bytes_up),
            (ways.blind.bytes_down as f64, capacity.bytes_down),
            (ways.blind.server_ms, capacity.server_core_ms),
            (ways.blind.client_ms, capacity.client_core_ms),
        ] {
            assert!((one / other - 1.0).abs() < 0.01, "{one} and {other}");
        }
        let whole = compare_ways(wanted.rows, wanted.dimension, wanted.megabits).unwrap();
        assert!(!whole.names_cells && whole.blind.server_ms > 10.0 * ways.blind.server_ms);
    }

    #[test]
    fn what_cannot_be_planned_is_refused() {
        let wanted = Wanted {
            rows: 1000,
            dimension: 8,
            cells: None,
            worker_memory: 64e9,
            searches: 1e5,
            megabits: None,
        };
        assert!(wanted.plan(Prices::placeholders()).is_ok());
        let cells = |cells, probe| Wanted { cells: Some((cells, probe)), ..wanted };
        let refused = [
            (cells(0, 0), "0 of 0 cells"),
            (cells(4, 5), "5 of 4 cells"),
            (Wanted { rows: 10_000, ..cells(4097, 4) }, "at most 4096"),
            (Wanted { rows: usize::MAX, ..wanted }, "can be planned for"),
            (Wanted { megabits: Some(0.0), ..wanted }, "0 Mbit/s"),
            (Wanted { megabits: Some(f64::INFINITY), ..wanted }, "inf Mbit/s"),
            (Wanted { worker_memory: f64::NAN, ..wanted }, "memory of a worker"),
            (Wanted { searches: -1.0, ..wanted }, "searches in a day"),
        ];
        for (wanted, words) in refused {
            let error = wanted.plan(Prices::placeholders()).map(drop).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
        let prices = Prices { worker_hour: -1.0, ..Prices::placeholders() };
        let error = wanted.plan(prices).map(drop).unwrap_err();
        assert!(error.to_string().contains("prices"), "{error}");
    }

    #[test]
    fn a_link_that_wants_other_tiles_than_vaults_are_given_is_told() {
        let other = |megabits| compare_ways(100_000, 384, megabits).unwrap().other_tile;
        assert_eq!([None, Some(200.0)].map(other), [None; 2]);
        assert!(other(Some(20.0)).is_some_and(|tile| tile > 32));
    }
}
