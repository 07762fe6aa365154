//! `shard-lab bench store`: what the server's rows cost on a disk.
//!
//! A kill leaves the files as they are at that moment; to open after one, the files of an engine
//! that is open are copied and the copy is opened.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use shard_protocol::{
    Advance, Candidates, CellHandle, CollectionName, CommitName, Epoch, Leak, Revision, Row,
    RowBatch, RowHandle, RowMac, declassify,
};
use shard_store::{RedbRows, RowStore, StoreOptions};

use super::arguments::Store;
use super::clock::timed;
use shard_cli::output::{Output, bytes, grouped, percentile, progress, table};

const EPOCH: Epoch = Epoch(1);
const FIRST: Advance =
    Advance { from: None, to: CommitName([1; 16]), revision: Revision(1), turn: 0 };

pub fn run(arguments: &Store, output: &Output<'_>) -> Result<()> {
    ensure!(arguments.active <= arguments.candidates, "more active cells than candidates");
    ensure!(arguments.active <= arguments.cells, "more active cells than cells");
    ensure!(arguments.cells <= arguments.rows, "more cells than rows");
    let temporary = match &arguments.directory {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir(),
    };
    let temporary = temporary.context("cannot make a directory to measure in")?;
    let directory = temporary.path().join("rows");
    let rows = RedbRows::open(&directory, StoreOptions::default())?;
    let corpus = Corpus::new(arguments);
    let write = corpus.write(&rows, arguments)?;
    let file = rows.metrics().file_bytes;

    let crashed = temporary.path().join("crashed");
    copy_directory(&directory, &crashed)?;
    let (opened, open) = timed(|| RedbRows::open(&crashed, StoreOptions::default()));
    drop(opened?);
    fs::remove_dir_all(&crashed)?;

    let mut random = StdRng::seed_from_u64(2026);
    let requests: Vec<Candidates> =
        (0..arguments.trials).map(|_| corpus.request(arguments, &mut random)).collect();
    let cold = fetches(&rows, &requests)?;
    let warm = fetches(&rows, &requests)?;
    let read = rows.metrics().disk_rows_read;
    ensure!(fetches(&rows, &requests).is_ok() && rows.metrics().disk_rows_read == read);

    let deleted: Vec<RowHandle> = corpus.handles.iter().copied().step_by(3).collect();
    let later = Advance { from: Some(FIRST.to), ..FIRST };
    let (gone, delete) = timed(|| rows.delete(&CollectionName::default(), &later, EPOCH, &deleted));
    gone?;
    let (compaction, compact) = timed(|| rows.compact());
    let compaction = compaction?;

    let seconds = |spent: Duration| spent.as_secs_f64();
    let rate = arguments.rows as f64 / seconds(write);
    let milliseconds = |samples: &[f64], share| 1e3 * percentile(samples, share);
    let line = |what: &str, figure: String| vec![what.to_owned(), figure];
    output.line(table(
        &["the server's rows on this disk", ""],
        &[
            line("rows written per second", grouped(rate as usize)),
            line("bytes of the file", bytes(file as f64)),
            line("open after a kill, ms", format!("{:.1}", 1e3 * seconds(open.wall))),
            line("cold fetch, ms (median)", format!("{:.3}", milliseconds(&cold, 0.5))),
            line("warm fetch, ms (median)", format!("{:.3}", milliseconds(&warm, 0.5))),
            line("deleting a third, s", format!("{:.2}", seconds(delete.wall))),
            line("compacting, s", format!("{:.2}", seconds(compact.wall))),
            line("bytes after it", bytes(compaction.bytes_after as f64)),
        ],
    ))?;
    let fetch = |samples: &[f64]| {
        json!({
            "p50": milliseconds(samples, 0.5),
            "p95": milliseconds(samples, 0.95),
            "p99": milliseconds(samples, 0.99),
        })
    };
    output.result(&json!({
        "rows": arguments.rows,
        "width": arguments.width,
        "cells": arguments.cells,
        "batch": arguments.batch,
        "candidates": arguments.candidates,
        "active_cells": arguments.active,
        "write_seconds": seconds(write),
        "rows_per_second": rate,
        "file_bytes": file,
        "open_after_kill_ms": 1e3 * seconds(open.wall),
        "cold_fetch_ms": fetch(&cold),
        "warm_fetch_ms": fetch(&warm),
        "deleted": deleted.len(),
        "delete_seconds": seconds(delete.wall),
        "compact_seconds": seconds(compact.wall),
        "compacted_bytes": compaction.bytes_after,
    }))
}

/// Rows by pseudorandom handles, in cells in turn.
struct Corpus {
    handles: Vec<RowHandle>,
    cells: Vec<CellHandle>,
}

impl Corpus {
    fn new(arguments: &Store) -> Self {
        let mut random = StdRng::seed_from_u64(1);
        let mut words = |count| (0..count).map(|_| random.random()).collect::<Vec<u64>>();
        let mut handles: Vec<RowHandle> =
            words(arguments.rows).into_iter().map(RowHandle).collect();
        handles.sort_unstable(); // the order in which they are published
        let mut cells: Vec<CellHandle> =
            words(arguments.cells).into_iter().map(CellHandle).collect();
        cells.sort_unstable();
        Self { handles, cells }
    }

    /// Writes all rows batch by batch; returns the time that the engine took.
    fn write(&self, rows: &RedbRows, arguments: &Store) -> Result<Duration> {
        let mut random = StdRng::seed_from_u64(2);
        let bar = progress("writing", self.handles.len());
        let mut spent = Duration::ZERO;
        for (at, handles) in self.handles.chunks(arguments.batch).enumerate() {
            let row = |(index, &handle): (usize, &RowHandle)| Row {
                handle,
                cell: declassify(
                    self.cells[(at * arguments.batch + index) % self.cells.len()],
                    Leak::CellMembership,
                ),
                coordinates: (0..arguments.width).map(|_| random.random()).collect(),
            };
            let batch = RowBatch::new(
                declassify(EPOCH, Leak::CollectionShape),
                declassify(arguments.width, Leak::CollectionShape),
                declassify(handles.iter().enumerate().map(row).collect(), Leak::StoredRows),
            );
            let macs = vec![RowMac([0; 16]); handles.len()];
            let (stored, took) =
                timed(|| rows.upsert(&CollectionName::default(), &FIRST, batch, &macs));
            stored?;
            spent += took.wall;
            bar.inc(handles.len() as u64);
        }
        rows.activate(&CollectionName::default(), &FIRST, EPOCH)?;
        Ok(spent)
    }

    /// Candidates in some cells, spread over them.
    fn request(&self, arguments: &Store, random: &mut StdRng) -> Candidates {
        let (cells, active) = (self.cells.len(), arguments.active);
        let first = random.random_range(0..cells);
        let mut asked = vec![Vec::new(); active];
        for candidate in 0..arguments.candidates {
            let cell = (first + candidate % active) % cells;
            let turn = random.random_range(0..(self.handles.len() - cell).div_ceil(cells));
            asked[candidate % active].push(self.handles[cell + cells * turn]);
        }
        asked.iter_mut().for_each(|rows| {
            rows.sort_unstable();
            rows.dedup();
        });
        let named = (0..active).map(|cell| self.cells[(first + cell) % cells]).collect();
        Candidates::new(
            declassify(named, Leak::ActiveCells),
            declassify(asked, Leak::CandidateHandles),
        )
        .expect("cells and rows named once")
    }
}

/// Seconds of each fetch.
fn fetches(rows: &RedbRows, requests: &[Candidates]) -> Result<Vec<f64>> {
    let fetch = |request| {
        let (found, took) = timed(|| rows.fetch(&CollectionName::default(), EPOCH, request));
        found?;
        Ok(took.wall.as_secs_f64())
    };
    requests.iter().map(fetch).collect()
}

fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let copy = to.join(path.file_name().context("a file")?);
        fs::copy(&path, &copy)?;
        // Or whoever syncs next pays for the copy.
        fs::File::open(&copy)?.sync_all()?;
    }
    Ok(())
}
