//! A blind collection under kills: publishes, rekeys, searches, compactions, snapshots.
//!
//! A publish is one step for searches: whatever was killed, the server is afterwards at the commit that
//! was acknowledged last or, if a publish was under way, at that publish's. Answers are compared with exact
//! search of the documents of the commit they are of, during a round and after it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;
use serde::Serialize;
use shard_cli::output::Output;
use shard_client::remote::{PublishOptions, Remote, publish};
use shard_client::vault::Vault;
use shard_client::{
    BlindSearcher, ClientError, Documents, Hints, MissingIds, SearchOptions, UNWATCHED,
    delete_documents, ingest, rekey,
};
use shard_geometry::VectorSet;

use super::check::state;
use super::ledger::mix;
use super::work::operate;
use super::{Clients, Survived, survive};
use crate::bench::arguments::Crash;
use crate::bench::corpus::Corpus;
use crate::bench::owner::{BlindOwner, Truth};
use crate::bench::served::Served;

const COLLECTION: &str = "blind";

/// Documents of one publish, at most.
const CHANGE: u64 = 40;

/// Every so many publishes one under new keys.
const REKEY_EVERY: usize = 7;

/// How long a reader waits between searches, so that publishes get their share of the cores.
const PAUSE: Duration = Duration::from_millis(20);

/// What the driver prints.
#[derive(Serialize, Default)]
struct Report {
    rounds: usize,
    rows: usize,
    /// Publishes that were acknowledged, and how many of them were of a new epoch.
    acknowledged: usize,
    epochs_activated: usize,
    /// Publishes that were under way at a kill and had been completed.
    completed_in_doubt: usize,
    /// Searches that were answered, and those that were told to pull first.
    searches: usize,
    stale: usize,
    /// Acknowledged publishes that were gone.
    lost: usize,
    /// Answers that were not those of exact search.
    misscored: usize,
    damaged: usize,
    compactions: usize,
    snapshots: usize,
    restart_ms_max: f64,
    restart_ms_median: f64,
    seed: u64,
    seconds: f64,
}

pub(super) fn run(arguments: &Crash, directory: &Path, output: &Output<'_>) -> Result<()> {
    let start = Instant::now();
    let corpus = Corpus::synthetic(arguments.rows, arguments.dim, arguments.seed)?;
    let owner = BlindOwner::of(&corpus.documents)?;
    let acknowledged = Arc::new(Truth::of(&owner.vault)?);
    let report = Report {
        rounds: arguments.rounds,
        rows: arguments.rows,
        seed: arguments.seed,
        ..Report::default()
    };
    let mut random = arguments.seed;
    let mut driver = Driver {
        owner,
        acknowledged,
        queries: corpus.queries,
        random: mix(&mut random),
        next: arguments.rows,
        changes: 0,
        report,
    };
    let survived = survive(arguments, directory, &mut driver, &mut random)?;
    let report = driver.report.with(&survived, start.elapsed());
    output.line(format!(
        "{} rounds, {} documents: {} publishes acknowledged, {} of them under new keys, {} lost; {} \
         searches answered, {} wrongly; {} damaged",
        report.rounds,
        report.rows,
        report.acknowledged,
        report.epochs_activated,
        report.lost,
        report.searches,
        report.misscored,
        report.damaged,
    ))?;
    output.line(format!(
        "{} publishes completed although the kill came first, {} searches told to pull, {} \
         compactions, {} snapshots; ready again after {:.0} ms (median), {:.0} ms (worst)",
        report.completed_in_doubt,
        report.stale,
        report.compactions,
        report.snapshots,
        report.restart_ms_median,
        report.restart_ms_max,
    ))?;
    output.result(&report)?;
    if report.lost + report.misscored + report.damaged > 0 {
        bail!("the server did not keep what it acknowledged");
    }
    Ok(())
}

impl Report {
    fn with(self, survived: &Survived, time: Duration) -> Self {
        Self {
            damaged: survived.damaged,
            restart_ms_max: survived.restart_ms_max(),
            restart_ms_median: survived.restart_ms_median(),
            seconds: time.as_secs_f64(),
            ..self
        }
    }
}

struct Driver {
    owner: BlindOwner,
    /// What the server acknowledged last.
    acknowledged: Arc<Truth>,
    queries: VectorSet,
    random: u64,
    /// The number of the next new document.
    next: usize,
    /// Changes that were made to the vault.
    changes: usize,
    report: Report,
}

impl Clients for Driver {
    fn fill(&mut self, server: &Served) -> Result<()> {
        let remote = server.connect(COLLECTION)?;
        publish(&self.owner.vault, PublishOptions::default(), &remote, UNWATCHED)?;
        self.report.acknowledged += 1;
        Ok(())
    }

    fn round(&mut self, server: &mut Served, round: usize, life: Duration) -> Result<Vec<String>> {
        let connect = || Ok::<_, anyhow::Error>(Remote::connect(server.options_once(COLLECTION)?)?);
        let remotes = [connect()?, connect()?, connect()?, connect()?];
        let [for_publisher, for_first, for_second, for_operator] = remotes;
        let over = AtomicBool::new(false);
        let current = Mutex::new(self.acknowledged.clone());
        let (queries, seeds) =
            (self.queries.clone(), [mix(&mut self.random), mix(&mut self.random)]);
        let readers =
            [for_first, for_second].map(|remote| Reader::new(&current, &queries, &over, remote));
        let (calls, searched) = thread::scope(|scope| -> Result<_> {
            let publisher =
                scope.spawn(|| self.publish_until_gone(&for_publisher, &current, &over));
            let [one, two] = &readers;
            let one = scope.spawn(move || one.search_until_gone(seeds[0]));
            let two = scope.spawn(move || two.search_until_gone(seeds[1]));
            // Compactions hold publishes up, so there are rounds without them.
            let operator = round
                .is_multiple_of(2)
                .then(|| scope.spawn(|| operate(&for_operator, round / 2, &over)));
            thread::sleep(life);
            // SIGKILL while all four are at it: they end by themselves when their calls fail.
            let killed = server.kill();
            over.store(true, Ordering::Relaxed);
            let published = publisher.join().expect("publishers do not panic");
            let searched = [one, two].map(|reader| reader.join().expect("readers do not panic"));
            let calls = operator.map(|calls| calls.join().expect("operators do not panic"));
            killed?;
            published?;
            Ok((calls.unwrap_or_default(), searched))
        })?;
        for outcome in searched {
            outcome?;
        }
        for reader in &readers {
            self.report.searches += reader.answered.load(Ordering::Relaxed);
            self.report.stale += reader.stale.load(Ordering::Relaxed);
            self.report.misscored += reader.wrong.load(Ordering::Relaxed);
        }
        drop(readers);
        self.acknowledged = current.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.report.compactions += calls.compactions;
        self.report.snapshots += calls.snapshots.len();
        Ok(calls.snapshots)
    }

    fn compare(&mut self, server: &Served) -> Result<()> {
        let remote = server.connect(COLLECTION)?;
        let held = state(&remote)?.commit;
        if held != Some(self.acknowledged.collection.commit()) {
            let ahead = Truth::of(&self.owner.vault)?;
            if held != Some(ahead.collection.commit()) {
                self.report.lost += 1;
                return Ok(());
            }
            self.report.completed_in_doubt += 1;
            self.acknowledged = Arc::new(ahead);
        }
        let searcher = BlindSearcher::new(remote, Hints::in_memory());
        let query = self.queries.row(mix(&mut self.random) as usize % self.queries.rows());
        let options = SearchOptions::default();
        let answer = searcher.search(&self.acknowledged.collection, query, &options)?;
        self.report.searches += 1;
        let exact = self.acknowledged.is_answered_by(query, options.top, &answer)?;
        self.report.misscored += usize::from(!exact);
        Ok(())
    }
}

impl Driver {
    /// Changes the vault and publishes it, over and over. A server that refuses is at fault.
    fn publish_until_gone(
        &mut self,
        server: &Remote,
        current: &Mutex<Arc<Truth>>,
        over: &AtomicBool,
    ) -> Result<()> {
        while !over.load(Ordering::Relaxed) {
            let is_rekey = self.change()?;
            match publish(&self.owner.vault, PublishOptions::default(), server, UNWATCHED) {
                Ok(_) => {}
                Err(ClientError::Remote(_)) => break,
                Err(refused) => return Err(refused.into()),
            }
            self.report.acknowledged += 1;
            self.report.epochs_activated += usize::from(is_rekey);
            let truth = Arc::new(Truth::of(&self.owner.vault)?);
            *current.lock().unwrap_or_else(PoisonError::into_inner) = truth;
        }
        Ok(())
    }

    /// Puts documents, new ones and others in place of old ones, deletes some, or takes new keys.
    fn change(&mut self) -> Result<bool> {
        let mut rng = UnwrapErr(SysRng);
        let vault: &mut Vault = &mut self.owner.vault;
        self.changes += 1;
        if self.changes.is_multiple_of(REKEY_EVERY) {
            rekey(vault, UNWATCHED, &mut rng)?;
            return Ok(true);
        }
        let count = 1 + mix(&mut self.random) % CHANGE;
        let mut known = || (mix(&mut self.random) % self.next as u64).to_string();
        if self.changes.is_multiple_of(3) {
            let mut gone: Vec<String> = (0..count / 2 + 1).map(|_| known()).collect();
            gone.sort_unstable();
            gone.dedup();
            delete_documents(vault, &gone, MissingIds::Ignore, &mut rng)?;
            return Ok(false);
        }
        let mut ids: Vec<String> = (0..count / 2).map(|_| known()).collect();
        ids.extend((self.next..self.next + 1 + count as usize / 2).map(|id| id.to_string()));
        self.next += 1 + count as usize / 2;
        ids.sort_unstable();
        ids.dedup();
        let corpus = Corpus::synthetic(ids.len(), self.queries.width(), mix(&mut self.random))?;
        let documents = Documents { ids: &ids, vectors: &corpus.documents, sample_queries: None };
        ingest(vault, &documents, UNWATCHED, &mut rng)?;
        Ok(false)
    }
}

/// Somebody who searches what was published last.
struct Reader<'a> {
    current: &'a Mutex<Arc<Truth>>,
    queries: &'a VectorSet,
    over: &'a AtomicBool,
    searcher: BlindSearcher<Remote>,
    answered: AtomicUsize,
    stale: AtomicUsize,
    wrong: AtomicUsize,
}

impl<'a> Reader<'a> {
    fn new(
        current: &'a Mutex<Arc<Truth>>,
        queries: &'a VectorSet,
        over: &'a AtomicBool,
        server: Remote,
    ) -> Self {
        let searcher = BlindSearcher::new(server, Hints::in_memory());
        let (answered, stale, wrong) = Default::default();
        Self { current, queries, over, searcher, answered, stale, wrong }
    }

    /// An answer is of the commit that was asked for, or there is none because a publish came first.
    fn search_until_gone(&self, mut random: u64) -> Result<()> {
        while !self.over.load(Ordering::Relaxed) {
            let truth = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let query = self.queries.row(mix(&mut random) as usize % self.queries.rows());
            let options = SearchOptions::default();
            match self.searcher.search(&truth.collection, query, &options) {
                Ok(answer) => {
                    self.answered.fetch_add(1, Ordering::Relaxed);
                    if !truth.is_answered_by(query, options.top, &answer)? {
                        self.wrong.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Err(ClientError::Outdated { .. } | ClientError::Unpublished { .. }) => {
                    self.stale.fetch_add(1, Ordering::Relaxed);
                }
                Err(ClientError::Remote(_)) => break,
                Err(fault) => return Err(fault.into()),
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }
}
