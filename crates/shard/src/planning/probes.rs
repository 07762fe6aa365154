//! What a search of some cells finds and costs, measured on an owner's own vectors.
//!
//! Within the asked cells a search is exact, so nothing has to be encrypted for it: what it finds of the true
//! best is what lies in those cells.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;
use shard_client::{BlindCollection, ClientError};
use shard_geometry::{VectorSet, exact_top_k};

use super::{OPEN_SECONDS, WORD_SECONDS};
use crate::{Documents, Error};

/// Documents that are looked for again, at most.
const SAMPLE: usize = 200;

/// How deep recall is measured.
const DEPTH: usize = 10;

/// A number of cells that a search may ask for, and what follows from it. Figures are means over the queries.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Probe {
    /// Cells.
    pub probe: usize,
    /// The share of the true best ten that a search finds.
    pub recall10: f64,
    /// Documents that are scored.
    pub documents: f64,
    /// Blocks that are opened.
    pub opened: f64,
    /// Blocks that are multiplied, checks included.
    pub blocks: f64,
    /// Bytes of a query.
    pub bytes_up: usize,
    /// Bytes of its answer.
    pub bytes_down: f64,
    /// Milliseconds of one core of the server.
    pub server_ms: f64,
    /// Milliseconds of one core of the client.
    pub client_ms: f64,
}

/// What every number of cells would find and cost.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Probes {
    /// Cells of the collection.
    pub cells: usize,
    /// Those that a search asks for unless it says how many.
    pub probe: usize,
    /// Queries that recall was measured with.
    pub queries: usize,
    /// Whether they were the owner's; otherwise they are documents, of which others are looked for.
    pub owners_queries: bool,
    /// By the number of cells: 1, 2, 4 and so on, and all of them.
    pub probes: Vec<Probe>,
}

impl Probes {
    /// The number of cells that a search asks for unless it says how many.
    pub(super) fn usual(&self) -> Option<&Probe> {
        self.probes.iter().find(|probe| probe.probe == self.probe)
    }
}

/// Measures what searches of some cells find, with queries or, without any, with a sample of the documents.
/// `None` where blocks are not grouped by cell.
///
/// # Errors
/// When queries are not as wide as the documents.
pub fn compare_probes(
    collection: &BlindCollection,
    documents: &Documents,
    queries: Option<&VectorSet>,
) -> Result<Option<Probes>, Error> {
    let Some(cells) = collection.cells() else { return Ok(None) };
    let per_block = collection.shape().rows_per_block();
    let cell_of = |row: u32| collection.blocks()[row as usize / per_block].cell.unwrap_or(0);
    let held: HashMap<&str, u32> = collection.ids().map(|(row, id)| (id, cell_of(row))).collect();
    let missing =
        || ClientError::Setting("the documents are not those of the collection".to_owned());
    let rows_in: Vec<u32> = documents
        .ids()
        .iter()
        .map(|id| held.get(id.as_str()).copied().ok_or_else(missing))
        .collect::<Result<_, _>>()?;
    let vectors = documents.vectors();
    let sampled: Vec<usize> = match queries {
        Some(_) => Vec::new(),
        None => (0..vectors.rows()).step_by(vectors.rows().div_ceil(SAMPLE).max(1)).collect(),
    };
    let asked: Vec<(&[f32], Option<u32>)> = match queries {
        Some(queries) => (0..queries.rows()).map(|row| (queries.row(row), None)).collect(),
        None => sampled.iter().map(|&row| (vectors.row(row), Some(row as u32))).collect(),
    };
    // Of every query, the cells of the true best.
    let best = |(query, itself): &(&[f32], Option<u32>)| -> Result<Vec<u32>, Error> {
        let found = exact_top_k(vectors, query, DEPTH + usize::from(itself.is_some()))?;
        let others = found.iter().map(|hit| hit.row).filter(|row| Some(*row) != *itself);
        Ok(others.take(DEPTH).map(|row| rows_in[row as usize]).collect())
    };
    let best: Vec<Vec<u32>> = asked.iter().map(best).collect::<Result<_, _>>()?;
    let mut counts: BTreeSet<usize> =
        (0..).map(|power| 1 << power).take_while(|&n| n < cells.count()).collect();
    counts.extend([cells.probe(), cells.count()]);
    let probes = counts.into_iter().map(|probe| measure(collection, &asked, &best, probe));
    Ok(Some(Probes {
        cells: cells.count(),
        probe: cells.probe(),
        queries: asked.len(),
        owners_queries: queries.is_some(),
        probes: probes.collect(),
    }))
}

fn measure(
    collection: &BlindCollection,
    asked: &[(&[f32], Option<u32>)],
    best: &[Vec<u32>],
    probe: usize,
) -> Probe {
    let shape = collection.shape();
    let (mut found, mut wanted) = (0, 0);
    let (mut documents, mut opened, mut blocks) = (0, 0, 0);
    for ((query, _), best) in asked.iter().zip(best) {
        let cells = collection.nearest_cells(query, probe);
        let cells = cells.unwrap_or_else(|| (0..collection.cell_count() as u32).collect());
        found += best.iter().filter(|cell| cells.contains(cell)).count();
        wanted += best.len();
        for cell in cells {
            let of_rows = collection.blocks_of(cell).len();
            documents += collection.rows_of(cell);
            opened += of_rows;
            blocks += if of_rows > 0 { of_rows + 2 * shape.checks() } else { 0 };
        }
    }
    let mean = |sum: usize| sum as f64 / asked.len().max(1) as f64;
    let words = shape.block_bytes() as f64 / 6.0;
    Probe {
        probe,
        recall10: found as f64 / wanted.max(1) as f64,
        documents: mean(documents),
        opened: mean(opened),
        blocks: mean(blocks),
        bytes_up: shape.query_bytes(),
        bytes_down: mean(blocks) * shape.answer_bytes(1) as f64,
        server_ms: mean(blocks) * words * WORD_SECONDS * 1e3,
        client_ms: mean(opened) * OPEN_SECONDS * 1e3,
    }
}
