//! `shard-lab bench crash`: kills a server at random moments, over and over, and counts what it lost.
//!
//! A round starts the server, lets several clients work on it at once, kills it with SIGKILL after
//! a random time, starts it again and compares what it holds with everything it had acknowledged:
//!
//! * two writers insert, replace and delete rows of one collection, each its own;
//! * a third gives a second collection new epochs, batch by batch, and activates them;
//! * a fourth has the server compact its rows and take snapshots all the while.
//!
//! A change that was under way when the server died may have happened or not, but not by half.
//! Samples of rows are scored under encryption, so that it is the rows that are compared and not
//! only their MACs; snapshots that were acknowledged are verified, and in the end the directory.
//! A server that ends by itself, or refuses what it should do, fails the run as well.
//!
//! `--protection blind` does the same to a blind collection ([`blind`]): one client changes documents
//! and publishes them, now and then under new keys, two search all the while, and one compacts and
//! takes snapshots.
//!
//! SIGKILL ends the process and not the machine: what the process had handed to the operating
//! system survives. That a commit is on the disk when it is acknowledged rests on redb, which
//! syncs before a commit returns.

mod blind;
mod check;
mod ledger;
mod work;

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use shard_client::remote::Remote;
use shard_protocol::Epoch;

use super::arguments::Crash;
use super::served::{Served, Site, shard};
pub use check::{misscored, state};
pub use ledger::{CELLS, Versions, mix};
use shard_cli::output::{Output, progress};
pub use work::{FIRST, LATER, activate, publish, publish_rows};

use shard_cli::ProtectionName;
use shard_cli::output::percentile;

use ledger::Faults;
use work::{Rekeyer, Writer};

/// Collection of the two writers.
const WRITTEN: &str = "written";

/// Collection that gets new epochs.
const REKEYED: &str = "rekeyed";

/// Rows of the collection that gets new epochs: an epoch takes a few hundred milliseconds, so that
/// kills fall into all of its steps.
const REKEYED_ROWS: usize = 3000;

/// How long a server is left alive, in milliseconds: mostly too short to finish a compaction or a
/// snapshot of many rows, so that kills fall into them, and in some rounds long enough, so that
/// what comes after them is seen too.
const LIFE: Range<u64> = 30..1500;
const LONG_LIFE: Range<u64> = 3000..8000;

/// Every so many rounds a long one.
const LONG_EVERY: usize = 5;

/// What the driver prints.
#[derive(Serialize, Default)]
struct Report {
    rounds: usize,
    rows: usize,
    /// Rows whose writing or deletion was acknowledged.
    acknowledged: usize,
    lost: usize,
    resurrected: usize,
    torn: usize,
    misscored: usize,
    /// Problems that a verification found.
    damaged: usize,
    epochs_activated: usize,
    compactions: usize,
    snapshots: usize,
    restart_ms_max: f64,
    restart_ms_median: f64,
    seed: u64,
    seconds: f64,
}

/// Clients of a server that is killed under them, and what they know.
trait Clients {
    /// Gives the server what it holds first.
    fn fill(&mut self, server: &Served) -> Result<()>;

    /// Works on the server until it is killed, after so long. What a client was doing at that moment
    /// fails, and is in doubt. Returns the snapshots that were acknowledged.
    fn round(&mut self, server: &mut Served, round: usize, life: Duration) -> Result<Vec<String>>;

    /// Compares what the server holds with what was acknowledged.
    fn compare(&mut self, server: &Served) -> Result<()>;
}

/// What came of all rounds.
struct Survived {
    restarts: Vec<f64>,
    /// Problems that verifications found, of snapshots and in the end of the directory.
    damaged: usize,
}

impl Survived {
    fn restart_ms_max(&self) -> f64 {
        self.restarts.iter().copied().fold(0.0, f64::max)
    }

    fn restart_ms_median(&self) -> f64 {
        percentile(&self.restarts, 0.5)
    }
}

pub fn run(arguments: &Crash, output: &Output<'_>) -> Result<()> {
    let kept = tempfile::Builder::new().prefix("shard-crash-").tempdir()?;
    let directory = arguments.directory.as_deref().unwrap_or(kept.path());
    std::fs::create_dir_all(directory)?;
    if std::fs::read_dir(directory)?.next().is_some() {
        bail!("{} is not empty", directory.display());
    }
    match arguments.protection {
        ProtectionName::Rotated => rotated(arguments, directory, output),
        ProtectionName::Blind => blind::run(arguments, directory, output),
    }
}

/// Starts, kills and compares, round after round.
fn survive(
    arguments: &Crash,
    directory: &Path,
    clients: &mut impl Clients,
    random: &mut u64,
) -> Result<Survived> {
    let site = Site::new(directory)?;
    let mut server = site.start(shard()?, "127.0.0.1:0", &[])?;
    clients.fill(&server).context("cannot fill the server")?;
    let mut survived = Survived { restarts: Vec::new(), damaged: 0 };
    let bar = progress("rounds", arguments.rounds);
    for round in 0..arguments.rounds {
        let life = if round.is_multiple_of(LONG_EVERY) { LONG_LIFE } else { LIFE };
        let life = life.start + mix(random) % (life.end - life.start);
        let snapshots = clients.round(&mut server, round, Duration::from_millis(life))?;
        server = site.start(shard()?, "127.0.0.1:0", &[])?;
        survived.restarts.push(server.starting.as_secs_f64() * 1e3);
        clients.compare(&server)?;
        survived.damaged += work::verify_snapshots(directory, &snapshots)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    server.kill()?;
    survived.damaged += shard_store::verify(directory)?.problems.len();
    Ok(survived)
}

fn rotated(arguments: &Crash, directory: &Path, output: &Output<'_>) -> Result<()> {
    let start = Instant::now();
    let mut driver = Driver::new(arguments)?;
    let mut random = driver.random;
    let survived = survive(arguments, directory, &mut driver, &mut random)?;
    let mut report = driver.report;
    report.damaged = survived.damaged;
    report.restart_ms_max = survived.restart_ms_max();
    report.restart_ms_median = survived.restart_ms_median();
    report.seconds = start.elapsed().as_secs_f64();
    output.line(format!(
        "{} rounds, {} rows: {} changes of rows acknowledged, {} lost, {} resurrected, {} torn, {} \
         scored wrongly, {} damaged",
        report.rounds,
        report.rows,
        report.acknowledged,
        report.lost,
        report.resurrected,
        report.torn,
        report.misscored,
        report.damaged,
    ))?;
    output.line(format!(
        "{} epochs activated, {} compactions, {} snapshots; ready again after {:.0} ms (median), \
         {:.0} ms (worst)",
        report.epochs_activated,
        report.compactions,
        report.snapshots,
        report.restart_ms_median,
        report.restart_ms_max,
    ))?;
    output.result(&report)?;
    let wrong = report.lost + report.resurrected + report.torn + report.misscored + report.damaged;
    if wrong > 0 {
        bail!("the server did not keep what it acknowledged");
    }
    Ok(())
}

/// The clients, and what they know.
struct Driver {
    writers: [Writer; 2],
    rekeyer: Rekeyer,
    report: Report,
    random: u64,
    width: usize,
}

impl Driver {
    fn new(arguments: &Crash) -> Result<Self> {
        let (seed, width) = (arguments.seed, arguments.dim);
        let mut random = seed;
        let mut next = || mix(&mut random);
        let writers = [Writer::new(0, width, next()), Writer::new(1, width, next())];
        let rekeyer = Rekeyer::new(REKEYED_ROWS.min(arguments.rows), width);
        let report =
            Report { rounds: arguments.rounds, rows: arguments.rows, seed, ..Report::default() };
        Ok(Self { writers, rekeyer, report, random, width })
    }
}

impl Clients for Driver {
    fn fill(&mut self, server: &Served) -> Result<()> {
        let rows = self.report.rows;
        let remote = server.connect(WRITTEN)?;
        let bar = progress("filling", rows);
        for writer in &mut self.writers {
            self.report.acknowledged +=
                writer.fill(&remote, rows / 2, &|done| bar.inc(done as u64))?;
        }
        bar.finish_and_clear();
        activate(&remote, Epoch(1), FIRST)?;
        let acknowledged = &mut self.report.acknowledged;
        self.rekeyer.next_epoch(&server.connect(REKEYED)?, acknowledged)?;
        self.report.epochs_activated += 1;
        Ok(())
    }

    fn round(&mut self, server: &mut Served, round: usize, life: Duration) -> Result<Vec<String>> {
        let [first, second] = &mut self.writers;
        let rekeyer = &mut self.rekeyer;
        let over = AtomicBool::new(false);
        let connect =
            |collection| Ok::<_, anyhow::Error>(Remote::connect(server.options_once(collection)?)?);
        let (for_first, for_second) = (connect(WRITTEN)?, connect(WRITTEN)?);
        let (for_third, for_fourth) = (connect(REKEYED)?, connect(WRITTEN)?);
        let (writes, epochs, calls) = thread::scope(|scope| -> Result<_> {
            let one = scope.spawn(|| first.work(&for_first, &over));
            let two = scope.spawn(|| second.work(&for_second, &over));
            let three = scope.spawn(|| rekeyer.work(&for_third, &over));
            let four = scope.spawn(|| work::operate(&for_fourth, round, &over));
            thread::sleep(life);
            // SIGKILL while all four are at it: they end by themselves when their calls fail.
            let killed = server.kill();
            over.store(true, Ordering::Relaxed);
            let writes = [one, two].map(|writer| writer.join().expect("writers do not panic"));
            let epochs = three.join().expect("rekeyers do not panic");
            let calls = four.join().expect("operators do not panic");
            killed?;
            Ok((writes, epochs, calls))
        })?;
        for acknowledged in writes {
            self.report.acknowledged += acknowledged?;
        }
        let epochs = epochs?;
        self.report.acknowledged += epochs.rows;
        self.report.epochs_activated += epochs.activated;
        self.report.compactions += calls.compactions;
        self.report.snapshots += calls.snapshots.len();
        Ok(calls.snapshots)
    }

    fn compare(&mut self, server: &Served) -> Result<()> {
        let remote = server.connect(WRITTEN)?;
        let all = check::macs(&remote, Epoch(1))?;
        let mut faults = Faults::default();
        for writer in &mut self.writers {
            faults += writer.settle(&all);
        }
        for writer in &self.writers {
            let sample = writer.sample(&mut self.random);
            self.report.misscored += misscored(&remote, &sample, Epoch(1), self.width)?;
        }
        faults += self.rekeyer.settle(&server.connect(REKEYED)?)?;
        self.report.lost += faults.lost;
        self.report.resurrected += faults.resurrected;
        self.report.torn += faults.torn;
        Ok(())
    }
}
