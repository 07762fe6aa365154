//! `shard-lab bench vault`: what a vault costs on a disk.
//!
//! The vault is made, filled, searched and verified by `shard` itself, in processes of their own
//! and with a key file, so that no passphrase is stretched. Opening it and changing one document are
//! timed in this process. A change opens the vault as well; what is reported is what it takes beyond
//! that.
//!
//! `documents` makes the vectors; `process` watches processes; `report` has the figures.

mod documents;
mod process;
mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use shard::{Documents, FitOptions, MissingIds, Unlock, Vault};
use zeroize::Zeroizing;

use super::arguments::VaultStorage;
use super::clock::{Spent, timed};
use super::served::{finished, shard};
use documents::Drawn;
use process::{children_cpu_seconds, watched, written_bytes};
use report::{Report, text};
use shard_cli::output::{Output, percentile, progress};

/// How often each figure is taken; the median counts.
const TRIALS: usize = 5;

/// Steps of the progress bar: write the vectors, ingest, open, add, again, delete, search, verify.
const STEPS: usize = 8;

/// Milliseconds of a piece of work; CPU time is that of all cores.
#[derive(Clone, Copy)]
struct Milliseconds {
    wall: f64,
    cpu: f64,
}

impl Milliseconds {
    fn of(spent: Spent) -> Self {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        Self { wall: milliseconds(spent.wall), cpu: milliseconds(spent.cpu) }
    }

    /// What is left of it without another. Below zero, if the other happened to take longer.
    fn beyond(self, other: Self) -> Self {
        Self { wall: self.wall - other.wall, cpu: self.cpu - other.cpu }
    }

    /// The median on either clock.
    fn median(samples: &[Self]) -> Self {
        let of = |clock: fn(&Self) -> f64| {
            percentile(&samples.iter().map(clock).collect::<Vec<_>>(), 0.5)
        };
        Self { wall: of(|sample| sample.wall), cpu: of(|sample| sample.cpu) }
    }
}

pub fn run(arguments: &VaultStorage, output: &Output<'_>) -> Result<()> {
    let temporary = match &arguments.directory {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir(),
    };
    let temporary = temporary.context("cannot make a directory to measure in")?;
    let bar = progress("measuring", STEPS);
    let drawn = Drawn::write(arguments, temporary.path(), TRIALS)?;
    bar.inc(1);
    let bench = Bench::new(temporary.path())?;
    let ingest = bench.ingest(&drawn)?;
    let vault_bytes = bytes_of_files(&bench.vault)?;
    bar.inc(1);

    let opens = (0..TRIALS).map(|_| bench.open()).collect::<Result<Vec<_>>>()?;
    let open = Milliseconds::median(&opens);
    bar.inc(1);
    let new: Vec<Documents> = drawn
        .new
        .iter()
        .enumerate()
        .map(|(at, vector)| Documents::new([(format!("new-{at}"), vector)]))
        .collect::<Result<_, _>>()?;
    let add = bench.changes(&new, |document| bench.put(document, 1))?;
    bar.inc(1);
    let again = bench.changes(&new, |document| bench.put(document, 0))?;
    bar.inc(1);
    let old: Vec<String> =
        (0..TRIALS).map(|trial| (trial * drawn.rows / TRIALS).to_string()).collect();
    let delete = bench.changes(&old, |id| bench.delete(id))?;
    bar.inc(1);
    let search = bench.search(&drawn.query)?;
    bar.inc(1);
    let verify = watched(bench.shard("verify")?)?;
    bar.finish_and_clear();

    let report = Report {
        rows: drawn.rows,
        width: drawn.width,
        ingest_s: ingest.seconds,
        ingest_cpu_s: ingest.cpu_seconds,
        ingest_rss: ingest.peak_bytes,
        vault_bytes,
        vectors_bytes: drawn.bytes,
        open_ms: open.wall,
        open_cpu_ms: open.cpu,
        add_one_ms: add.took.wall,
        add_one_cpu_ms: add.took.cpu,
        add_one_bytes: add.written,
        again_ms: again.took.wall,
        again_bytes: again.written,
        delete_one_ms: delete.took.wall,
        delete_one_cpu_ms: delete.took.cpu,
        delete_one_bytes: delete.written,
        search_process_ms: search.wall,
        search_process_cpu_ms: search.cpu,
        verify_s: verify.seconds,
        verify_cpu_s: verify.cpu_seconds,
    };
    output.line(text(&report))?;
    output.result(&report)
}

/// Changes of one kind.
struct Changes {
    /// Beyond opening, the median.
    took: Milliseconds,
    /// Bytes handed to the disk, the median. What processes share of SQLite's log is a file that
    /// goes when the last of them ends; on a busy machine its pages may reach the disk before that.
    written: u64,
}

/// A vault in a directory of its own.
struct Bench {
    vault: PathBuf,
    key_file: PathBuf,
    unlock: Unlock,
}

impl Bench {
    /// Makes the vault and the key file that opens it.
    fn new(directory: &Path) -> Result<Self> {
        let (vault, key_file) = (directory.join("vault"), directory.join("key"));
        let mut init = shard()?;
        init.args(["init", "--protection", "rotated"]).arg(&vault).arg("--key-file").arg(&key_file);
        finished(&mut init)?;
        let key = fs::read(&key_file).context("cannot read the key file")?;
        Ok(Self { vault, key_file, unlock: Unlock::KeyFile(Zeroizing::new(key)) })
    }

    /// A command on the vault.
    fn shard(&self, command: &str) -> Result<std::process::Command> {
        let mut shard = shard()?;
        shard.arg(command).arg(&self.vault).arg("--key-file").arg(&self.key_file);
        Ok(shard)
    }

    fn ingest(&self, drawn: &Drawn) -> Result<process::Watched> {
        let mut ingest = self.shard("ingest")?;
        ingest.arg(&drawn.file);
        watched(ingest)
    }

    /// Opens the vault and reads model and index.
    fn open(&self) -> Result<Milliseconds> {
        let (opened, spent) = timed(|| Vault::open(&self.vault, &self.unlock)?.collection());
        ensure!(opened?.is_some(), "the vault is empty after an ingest");
        Ok(Milliseconds::of(spent))
    }

    /// Opens the vault and ingests a document, of which so many are new.
    fn put(&self, document: &Documents, added: usize) -> Result<Milliseconds> {
        let (done, spent) = timed(|| {
            let mut vault = Vault::open(&self.vault, &self.unlock)?;
            vault.ingest(document, FitOptions::default())
        });
        ensure!(done?.added == added, "{added} documents were to be added");
        Ok(Milliseconds::of(spent))
    }

    /// Opens the vault and deletes a document.
    fn delete(&self, id: &str) -> Result<Milliseconds> {
        let ids = [id.to_owned()];
        let (done, spent) = timed(|| {
            let mut vault = Vault::open(&self.vault, &self.unlock)?;
            vault.delete(&ids, MissingIds::Refuse)
        });
        ensure!(done?.deleted == 1, "a document was to be deleted");
        Ok(Milliseconds::of(spent))
    }

    /// Makes changes, each right after the vault was opened without one, so that both meet the same
    /// load of the machine.
    fn changes<T>(
        &self,
        items: &[T],
        change: impl Fn(&T) -> Result<Milliseconds>,
    ) -> Result<Changes> {
        let (mut took, mut written) = (Vec::with_capacity(items.len()), Vec::new());
        for item in items {
            let open = self.open()?;
            let before = written_bytes()?;
            took.push(change(item)?.beyond(open));
            written.push(written_bytes()?.saturating_sub(before) as f64);
        }
        let written = percentile(&written, 0.5) as u64;
        Ok(Changes { took: Milliseconds::median(&took), written })
    }

    /// Searches in a process of its own, with a server in that process.
    fn search(&self, query: &Path) -> Result<Milliseconds> {
        let mut spent = Vec::with_capacity(TRIALS);
        for _ in 0..TRIALS {
            let mut search = self.shard("search")?;
            search.arg("--query").arg(query);
            let before = children_cpu_seconds()?;
            let (found, took) = timed(|| finished(&mut search));
            found?;
            let cpu = Duration::from_secs_f64((children_cpu_seconds()? - before).max(0.0));
            spent.push(Milliseconds::of(Spent { cpu, wall: took.wall }));
        }
        Ok(Milliseconds::median(&spent))
    }
}

/// Bytes of all files in a directory.
fn bytes_of_files(directory: &Path) -> Result<u64> {
    let listed = || fs::read_dir(directory)?.map(|entry| Ok(entry?.metadata()?.len())).sum();
    let sum: std::io::Result<u64> = listed();
    sum.with_context(|| format!("cannot list {}", directory.display()))
}
