//! How many machines a blind collection of a size takes, and what they cost in a year.
//!
//! Bytes follow from the formats, times from the constants that the comparison of ways uses, prices from a
//! file. Nothing is measured here.

use serde::{Deserialize, Serialize};
use shard_client::ClientError;
use shard_protocol::{BlockList, Limits};
use shard_rlwe::blind::{QueryRank, Shape};
use shard_server::{REQUEST_MILLISECONDS, RESIDUE_SECONDS};

use super::{OPEN_SECONDS, TAG_BYTES, WORD_SECONDS, check_rows, fastest, link, scored};

const MOST_CELLS: usize = BlockList::MOST_CELLS as usize;

const GB: f64 = 1e9;
const HOURS_OF_A_YEAR: f64 = 24.0 * 365.0;
const DAYS_OF_A_YEAR: f64 = 365.0;

/// What machines, disks and traffic cost.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// As of when.
    pub date: String,
    /// In what money.
    pub currency: String,
    /// A worker for an hour.
    pub worker_hour: f64,
    /// Its cores.
    pub worker_cores: usize,
    /// A GB of disk for a month.
    pub storage_gb_month: f64,
    /// A GB of answers that leaves the machines.
    pub traffic_gb: f64,
}

impl Prices {
    /// Placeholders, to be replaced: round numbers that are nobody's offer. As a file they are `prices.toml` beside
    /// the command's `plan`.
    pub fn placeholders() -> Self {
        Self {
            date: "2026-11-17".to_owned(),
            currency: "EUR".to_owned(),
            worker_hour: 1.0,
            worker_cores: 16,
            storage_gb_month: 0.1,
            traffic_gb: 0.1,
        }
    }

    fn check(&self) -> Result<(), ClientError> {
        let prices = [self.worker_hour, self.storage_gb_month, self.traffic_gb];
        let are_sound = prices.iter().all(|price| *price >= 0.0 && price.is_finite());
        if are_sound && self.worker_cores > 0 {
            return Ok(());
        }
        let problem = "prices are zero or more, and a worker has a core";
        Err(ClientError::Setting(problem.to_owned()))
    }
}

/// What a collection is to be like.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wanted {
    /// Documents.
    pub rows: usize,
    /// Coordinates of each.
    pub dimension: usize,
    /// Cells of a collection, and how many of them a search asks for; all documents where there are none.
    pub cells: Option<(usize, usize)>,
    /// Bytes of memory of a worker.
    pub worker_memory: f64,
    /// Searches in a day.
    pub searches: f64,
    /// Megabits in a second to a client; that of the planner if `None`.
    pub megabits: Option<f64>,
}

impl Wanted {
    fn check(&self) -> Result<(), ClientError> {
        let rows = self.rows;
        check_rows(rows)?;
        let problem = if let Some((cells, probe)) = self.cells
            && (probe == 0 || probe > cells || cells > rows)
        {
            format!(
                "{probe} of {cells} cells of {rows} documents: a search asks for 1 to {cells} cells, and \
                 there are at most {rows}"
            )
        } else if let Some((cells, _)) = self.cells
            && cells > MOST_CELLS
        {
            format!("{cells} cells: a collection has at most {MOST_CELLS}")
        } else if !(self.worker_memory > 0.0 && self.worker_memory.is_finite()) {
            "the memory of a worker must be more than 0".to_owned()
        } else if !(self.searches >= 0.0 && self.searches.is_finite()) {
            "searches in a day must be 0 or more".to_owned()
        } else {
            return Ok(());
        };
        Err(ClientError::Setting(problem))
    }
}

/// What it takes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Capacity {
    /// Width of tiles.
    pub tile: usize,
    /// Blocks, checks included.
    pub blocks: usize,
    /// Collections that so many blocks are divided into: a list has room for about a million. A search asks
    /// all of them.
    pub collections: usize,
    /// Bytes of memory for all blocks.
    pub memory: f64,
    /// Bytes of disk for blocks and hints.
    pub disk: f64,
    /// Workers: as many as hold the blocks and compute the searches.
    pub workers: usize,
    /// Of these, as many as memory asks for, also when one of several is gone; the others are there for
    /// computing.
    pub workers_for_memory: usize,
    /// Bytes of a query, sent to every collection.
    pub bytes_up: f64,
    /// Bytes of its answers.
    pub bytes_down: f64,
    /// Milliseconds of one core of the servers for a query.
    pub server_core_ms: f64,
    /// Milliseconds of one core of the client for a query.
    pub client_core_ms: f64,
    /// Bytes of hints and tags that a client comes to hold when it has asked for everything.
    pub client_bytes: f64,
    /// Whether an answer is within what servers send at once.
    pub answer_fits: bool,
    /// Whether a search is within what servers compute for one request.
    pub work_fits: bool,
    /// What a year costs.
    pub year: Year,
}

/// What a year costs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Year {
    /// Machines.
    pub workers: f64,
    /// Disk.
    pub storage: f64,
    /// Answers.
    pub traffic: f64,
    /// All of it.
    pub total: f64,
}

/// What a blind collection takes.
///
/// # Errors
/// When there is no shape for the dimension, a collection cannot have so many cells, or prices, memory or searches are
/// none.
pub fn capacity(wanted: &Wanted, prices: &Prices) -> Result<Capacity, ClientError> {
    wanted.check()?;
    prices.check()?;
    let (cells, probe) = wanted.cells.unwrap_or((1, 1));
    let scored = scored(wanted.rows, (cells, probe));
    let shape = fastest(scored, wanted.dimension, QueryRank::One, link(wanted.megabits)?)?;
    // Every cell ends in a block that is, on the average, half empty, and has checks of its own.
    let halves = if wanted.cells.is_some() { cells / 2 } else { 0 };
    let checks = cells * 2 * shape.checks();
    let full = shape.blocks(wanted.rows);
    let collections = full.div_ceil(BlockList::MOST - halves - checks);
    let of_rows = full + collections * halves;
    let blocks = of_rows + collections * checks;
    let asked = blocks as f64 * probe as f64 / cells as f64;
    let opened = of_rows as f64 * probe as f64 / cells as f64;
    let memory = blocks as f64 * shape.block_bytes() as f64;
    let server_core_ms = asked * words(&shape) * WORD_SECONDS * 1e3;
    let workers_for_memory = match (memory / wanted.worker_memory).ceil() as usize {
        several @ 2.. => several + 1, // what is left when one is gone holds everything
        _ => 1,
    };
    let busy = wanted.searches / 86_400.0 * server_core_ms / 1e3;
    let for_computing = (busy / prices.worker_cores as f64).ceil() as usize;
    let workers = workers_for_memory.max(for_computing);
    let disk = memory + of_rows as f64 * shape.hint_bytes() as f64;
    let bytes_down = asked * shape.answer_bytes(1) as f64;
    let counted_ms = asked * words(&shape) / collections as f64 * RESIDUE_SECONDS * 1e3;
    Ok(Capacity {
        tile: shape.tile(),
        blocks,
        collections,
        memory,
        disk,
        workers,
        workers_for_memory,
        bytes_up: (collections * shape.query_bytes()) as f64,
        bytes_down,
        server_core_ms,
        client_core_ms: opened * OPEN_SECONDS * 1e3,
        client_bytes: of_rows as f64 * (shape.hint_bytes() + TAG_BYTES) as f64,
        answer_fits: bytes_down / collections as f64 <= Limits::default().bytes as f64,
        work_fits: counted_ms <= REQUEST_MILLISECONDS as f64,
        year: year(prices, workers, disk, wanted.searches * DAYS_OF_A_YEAR * bytes_down),
    })
}

fn words(shape: &Shape) -> f64 {
    shape.block_bytes() as f64 / 6.0
}

fn year(prices: &Prices, workers: usize, disk: f64, answers: f64) -> Year {
    let workers = workers as f64 * prices.worker_hour * HOURS_OF_A_YEAR;
    let storage = disk / GB * prices.storage_gb_month * 12.0;
    let traffic = answers / GB * prices.traffic_gb;
    Year { workers, storage, traffic, total: workers + storage + traffic }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices() -> Prices {
        Prices {
            date: "today".to_owned(),
            currency: "EUR".to_owned(),
            worker_hour: 2.0,
            worker_cores: 10,
            storage_gb_month: 0.5,
            traffic_gb: 0.1,
        }
    }

    fn wanted(rows: usize, cells: Option<(usize, usize)>) -> Wanted {
        let (worker_memory, searches) = (64.0 * GB, 1e5);
        Wanted { rows, dimension: 768, cells, worker_memory, searches, megabits: None }
    }

    #[test]
    fn cells_take_some_memory_and_save_most_of_the_work() {
        let all = capacity(&wanted(100_000_000, None), &prices()).unwrap();
        let some = capacity(&wanted(100_000_000, Some((4096, 64))), &prices()).unwrap();
        assert!(some.memory > all.memory && some.memory < 1.2 * all.memory);
        assert!(some.server_core_ms < all.server_core_ms / 50.0);
        assert!(some.bytes_down < all.bytes_down / 50.0);
        assert!(some.year.total < all.year.total);
        assert!(some.answer_fits && !all.answer_fits && some.work_fits);
        let fits = |rows| capacity(&wanted(rows, None), &prices()).unwrap().work_fits;
        assert!(fits(5_800_000) && !fits(6_000_000), "2.5 seconds, as servers count them");
        let busy = Wanted { searches: 1e6, ..wanted(100_000_000, None) };
        let busy = capacity(&busy, &prices()).unwrap();
        assert!(busy.workers > busy.workers_for_memory, "a search of everything is computing");
        let more = capacity(&wanted(100_000_000, Some((4096, 256))), &prices()).unwrap();
        assert!(more.server_core_ms > 3.0 * some.server_core_ms);
    }

    #[test]
    fn several_servers_hold_everything_also_when_one_is_gone() {
        let servers = |rows| capacity(&wanted(rows, None), &prices()).unwrap();
        assert_eq!(servers(10_000_000).workers_for_memory, 1);
        let several = servers(100_000_000);
        assert!(several.memory <= (several.workers_for_memory - 1) as f64 * 64.0 * GB);
        assert!(several.memory > (several.workers_for_memory - 2) as f64 * 64.0 * GB);
    }

    #[test]
    fn collections_have_room_for_their_blocks_and_cells_for_no_more_than_they_can() {
        let one = capacity(&wanted(100_000_000, Some((4096, 64))), &prices()).unwrap();
        assert_eq!(one.collections, 1);
        let many = capacity(&wanted(1_000_000_000, Some((4096, 64))), &prices()).unwrap();
        assert!(many.collections > 1 && many.blocks <= many.collections * BlockList::MOST);
        assert!(many.blocks > (many.collections - 1) * BlockList::MOST);
        assert_eq!(many.bytes_up, many.collections as f64 * one.bytes_up, "tiles are the same");
        let refused = capacity(&wanted(100_000_000, Some((4097, 64))), &prices()).unwrap_err();
        assert!(refused.to_string().contains("4097 cells") && refused.to_string().contains("4096"));
    }

    #[test]
    fn a_year_is_the_sum_of_what_is_paid() {
        let held = capacity(&wanted(1_000_000, None), &prices()).unwrap();
        let year = &held.year;
        assert_eq!(year.workers, held.workers as f64 * 2.0 * 8760.0);
        assert!((year.storage - held.disk / 1e9 * 6.0).abs() < 1e-6);
        assert!((year.total - year.workers - year.storage - year.traffic).abs() < 1e-6);
        let ways = super::super::compare_ways(1_000_000, 768, None).unwrap();
        assert!((held.server_core_ms / ways.blind.server_ms - 1.0).abs() < 1e-9);
        assert_eq!(held.bytes_down as usize, ways.blind.bytes_down);
        assert_eq!(held.memory as usize, ways.blind.server_memory);
    }
}
