//! What the ways to search a collection cost, and what each shows: before anything is built. What searches of
//! some cells find (`compare_probes`), and how many machines a size takes (`capacity`).
//!
//! Bytes are exact. Times are estimates for one core of the machine that docs/BENCHMARKS.md was
//! measured on; what they are to each other hardly depends on it.

mod capacity;
mod probes;

pub use capacity::{Capacity, Prices, Wanted, Year, capacity};
pub use probes::{Probe, Probes, compare_probes};

use serde::Serialize;
use shard_rlwe::blind::{
    Choice, CostModel, Link, QueryRank, Security, Shape, ShapeError, choose_tile, tolerance,
};
use shard_rlwe::{Objective, OperandBound, OperandScale, Workload, plan};

/// Candidates and active cells of a typical rotated search.
const CANDIDATES: usize = 128;
const ACTIVE_CELLS: usize = 40;

/// Seconds of one core for a word of six bytes in a pass over blocks.
const WORD_SECONDS: f64 = 0.52e-9;

/// Seconds of one core to open a block from its tag and hint.
const OPEN_SECONDS: f64 = 14e-6;

/// Seconds of one core for a coordinate of a local scan.
const SCAN_SECONDS: f64 = 0.2e-9;

/// Bytes that a client keeps of a row besides its id.
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
    /// Bytes that the client needs, on disk and in memory.
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
    /// Width of a blind collection's tiles, and why.
    pub tile: String,
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
    let link = megabits.map_or_else(Link::default, |megabits| Link { megabits });
    let choice = choose_tile(rows, dimension, QueryRank::One, link)?.swap_remove(0);
    let (local, rotated) = (local(rows, dimension), rotated(rows, dimension, link));
    let blind = blind(&choice);
    let bits = |model: CostModel| Bits {
        model: model.name(),
        rows: Security::of_rows().bits(model).floor(),
        queries: Security::of_queries(QueryRank::One).bits(model).floor(),
    };
    Ok(Ways {
        rows,
        dimension,
        tile: choice.explanation(),
        precision: choice.precision.refined,
        tolerance: tolerance(choice.blocks),
        security: CostModel::ALL.map(bits).to_vec(),
        recommendation: recommendation(&local, &blind),
        local,
        blind,
        rotated,
    })
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
        client_memory: held,
        server_learns: "nothing: it is not asked",
        client_holds: "all vectors",
    }
}

fn blind(choice: &Choice) -> Way {
    let Choice { shape, blocks, .. } = choice;
    let words = |shape: &Shape| shape.block_bytes() / 6;
    Way {
        name: "blind",
        bytes_up: choice.up,
        bytes_down: choice.down,
        bytes_once: choice.hints,
        server_ms: (blocks + 2 * shape.checks()) as f64 * words(shape) as f64 * WORD_SECONDS * 1e3,
        client_ms: *blocks as f64 * OPEN_SECONDS * 1e3,
        server_memory: choice.stored,
        client_memory: choice.hints + blocks * TAG_BYTES,
        server_learns: "sizes and times; which blocks change",
        client_holds: "ids, the epoch's secret, hints",
    }
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
        client_memory: rows * (dimension / 4 * 3 + 24),
        server_learns: "rotated residuals, cells, candidates: they can be linked, aligned and named",
        client_holds: "ids, prefixes of all vectors, the epoch's secret",
    }
}

/// Where all vectors fit comfortably, searching at home is simpler and shows less.
fn recommendation(local: &Way, blind: &Way) -> String {
    let megabytes = local.client_memory.div_ceil(1_000_000);
    if local.client_memory <= 64_000_000 {
        format!(
            "local, if whoever searches may hold the vectors: they are {megabytes} MB; blind for clients that should not"
        )
    } else {
        format!(
            "blind: a client holds {} MB instead of {megabytes} MB of vectors; local for an owner who has them anyway",
            blind.client_memory.div_ceil(1_000_000)
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
        assert!(ways.blind.client_memory < ways.local.client_memory / 5);
        assert!(ways.rotated.bytes_up > 0 && ways.local.bytes_up == 0);
        assert!(ways.recommendation.starts_with("blind"));
        let small = compare_ways(5000, 384, Some(20.0)).unwrap();
        assert!(small.recommendation.starts_with("local"));
        assert!(small.blind.bytes_up < ways.blind.bytes_up);
        assert!(compare_ways(10, 1, None).is_err());
    }
}
