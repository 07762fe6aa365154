//! Several servers over one database, under load, while something is killed over and over.
//!
//! Brings up three PostgreSQL under Patroni and three nodes of Garage, or, when it is to be small, one PostgreSQL
//! and a directory of objects; some servers; and a balancer that takes each connection to the next server that
//! accepts it. One owner adds a document with every publish, clients search what was published last and compare
//! with exact search.

mod balancer;
mod cloud;
mod garage;
mod patroni;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;
use serde::Serialize;
use shard_cli::output::Output;
use shard_client::remote::{PublishOptions, Remote, publish};
use shard_client::{
    BlindSearcher, ClientError, Documents, Hints, SearchOptions, UNWATCHED, ingest,
};
use shard_geometry::VectorSet;
use shard_server::Embedded;

use super::arguments::{Cluster, Victim};
use super::corpus::Corpus;
use super::crash::{mix, state};
use super::owner::{BlindOwner, Truth};
use cloud::Cloud;

/// Time between two publishes.
const BETWEEN_PUBLISHES: Duration = Duration::from_millis(300);

/// How long the network is cut.
const CUT: Duration = Duration::from_secs(10);

/// How long until searches are answered and publishes acknowledged after a kill.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the bench prints.
#[derive(Serialize, Default)]
struct Report {
    workers: usize,
    replicas: usize,
    rows: usize,
    dimension: usize,
    clients: usize,
    /// Queries whose best ten are those of a server in this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    compared: Option<Compared>,
    killed: &'static str,
    kills: usize,
    /// Publishes that were acknowledged, and those of them that were gone in the end.
    acknowledged: usize,
    lost: usize,
    /// Searches that were answered, and of them those that were not those of exact search.
    searches: usize,
    wrong: usize,
    /// Searches of a commit that a publish had replaced, or that the server asked did not have yet.
    superseded: usize,
    /// Searches that failed after all repetitions of the client.
    failed_after_retry: usize,
    /// Publishes that did; each is repeated with the next one.
    publishes_failed: usize,
    /// From a kill to the first answer of a search that began after it; with the network cut, the slowest search.
    gap_ms: Spread,
    /// From a kill to the first publish that was acknowledged after it.
    publish_gap_ms: Spread,
    /// Searches in a second: before the first kill, until the last, and after it.
    qps: [f64; 3],
    /// Processor time of all servers for a search, before the first kill.
    server_cpu_ms_per_search: f64,
    /// Memory of each server before the first kill.
    resident_bytes: Vec<u64>,
    /// From its start until a server was ready.
    load_ms: Spread,
    search_ms: Spread,
    seconds: f64,
}

/// What two servers said to the same queries.
#[derive(Serialize, Default, Clone, Copy)]
struct Compared {
    queries: usize,
    equal: usize,
    /// Those besides whose lists differ in documents that are closer to each other than the error of a score, which
    /// is drawn anew with every search.
    equal_but_for_ties: usize,
}

/// Some of many times.
#[derive(Serialize, Default, Clone, Copy)]
struct Spread {
    median: f64,
    p95: f64,
    most: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            values.get(((values.len() as f64 - 1.0).max(0.0) * share) as usize).copied()
        };
        Self {
            median: at(0.5).unwrap_or_default(),
            p95: at(0.95).unwrap_or_default(),
            most: at(1.0).unwrap_or_default(),
        }
    }
}

pub fn run(arguments: &Cluster, output: &Output<'_>) -> Result<()> {
    check(arguments)?;
    let start = Instant::now();
    let corpus = match (&arguments.docs, &arguments.queries) {
        (Some(documents), Some(queries)) => Corpus::read(documents, queries)?,
        _ => Corpus::synthetic(arguments.rows, arguments.dim, arguments.seed)?,
    };
    let mut site = Cloud::start(arguments)?;
    let owner = BlindOwner::of(&corpus.documents)?;
    let mut report = Report {
        workers: arguments.workers,
        replicas: arguments.replicas,
        rows: corpus.documents.rows(),
        dimension: corpus.documents.width(),
        clients: arguments.clients,
        killed: arguments.kill.name(),
        kills: if arguments.kill == Victim::None { 0 } else { arguments.kills },
        ..Report::default()
    };
    let remote = site.connect()?;
    publish(&owner.vault, PublishOptions::default(), &remote, UNWATCHED)?;
    site.until_divided()?;
    let load = Load::new(Arc::new(Truth::of(&owner.vault)?), &corpus.queries);
    if arguments.compare {
        let truth = locked(&load.current).clone();
        let compared = compare(&owner, &truth, site.connect()?, &corpus.queries)?;
        output.line(format!(
            "{} of {} queries rank as embedded, {} more but for documents closer than the error of a score",
            compared.equal, compared.queries, compared.equal_but_for_ties,
        ))?;
        if compared.equal + compared.equal_but_for_ties < compared.queries {
            bail!("the servers rank otherwise than one in this process");
        }
        report.compared = Some(compared);
    }
    let owner = thread::scope(|scope| -> Result<BlindOwner> {
        let writer = scope.spawn(|| load.write(owner, &remote, arguments));
        let mut readers = Vec::new();
        for client in 0..arguments.clients {
            let remote = site.connect()?;
            let load = &load;
            let think = Duration::from_millis(arguments.think);
            readers.push(scope.spawn(move || load.search(remote, client as u64, think)));
        }
        let played = play(&mut site, &load, arguments, &mut report);
        load.over.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().expect("readers do not panic")?;
        }
        let owner = writer.join().expect("writers do not panic")?;
        played?;
        Ok(owner)
    })?;
    let acknowledged = locked(&load.current).clone();
    report.lost = lost(&owner, &acknowledged, &site, &corpus.queries)?;
    report.acknowledged = 1 + locked(&load.acknowledged).len();
    report.wrong = load.wrong.load(Ordering::Relaxed);
    report.superseded = load.superseded.load(Ordering::Relaxed);
    report.failed_after_retry = load.searches_failed.load(Ordering::Relaxed);
    report.publishes_failed = load.publishes_failed.load(Ordering::Relaxed);
    let done = locked(&load.done);
    report.searches = done.len();
    report.search_ms = Spread::of(done.iter().map(|search| search.milliseconds()).collect());
    report.load_ms = Spread::of(site.loads.clone());
    report.seconds = start.elapsed().as_secs_f64();
    output.line(format!(
        "{} servers, {} documents, {} kills ({}): {} publishes acknowledged, {} lost, {} failed after all repetitions; {} \
         searches, {} wrong, {} failed after all repetitions; gap {:.0} ms (median), {:.0} ms (worst), of publishes {:.0} and {:.0} ms; {:.1} ms of \
         server time for a search; {:.0} searches a second before, {:.0} while it was killed, {:.0} after",
        report.workers,
        report.rows,
        report.kills,
        report.killed,
        report.acknowledged,
        report.lost,
        report.publishes_failed,
        report.searches,
        report.wrong,
        report.failed_after_retry,
        report.gap_ms.median,
        report.gap_ms.most,
        report.publish_gap_ms.median,
        report.publish_gap_ms.most,
        report.server_cpu_ms_per_search,
        report.qps[0],
        report.qps[1],
        report.qps[2],
    ))?;
    for failure in locked(&load.failures).iter().take(5) {
        output.line(format!("failed: {failure}"))?;
    }
    output.result(&report)?;
    if report.lost + report.wrong > 0 {
        bail!("the servers did not keep what they acknowledged, or answered wrongly");
    }
    let failed = report.failed_after_retry;
    if failed > 0 && matches!(arguments.kill, Victim::None | Victim::Restart) {
        bail!("{failed} searches failed, and nothing vanished without a warning");
    }
    Ok(())
}

/// Refuses what cannot be killed.
fn check(arguments: &Cluster) -> Result<()> {
    let kill = arguments.kill.name();
    match arguments.kill {
        Victim::Object if arguments.small => {
            bail!("--kill {kill}: the directory of objects of --small has no node to kill")
        }
        Victim::Worker | Victim::Restart | Victim::Link if arguments.workers < 2 => {
            bail!(
                "--kill {kill} needs --workers 2 at least: nobody answers for a server that is alone"
            )
        }
        _ => Ok(()),
    }
}

/// A quiet time, kills, and a quiet time again.
fn play(site: &mut Cloud, load: &Load<'_>, arguments: &Cluster, report: &mut Report) -> Result<()> {
    let quiet = Duration::from_secs_f64(arguments.quiet);
    // Everybody has fetched what it needs once.
    thread::sleep(quiet / 2);
    let (cpu, from) = (site.cpu_seconds()?, Instant::now());
    thread::sleep(quiet);
    let (first, before) = (Instant::now(), load.answered_since(from));
    report.server_cpu_ms_per_search = 1e3 * (site.cpu_seconds()? - cpu) / before.max(1) as f64;
    report.resident_bytes = site.resident_bytes()?;
    let (mut gaps, mut publish_gaps) = (Vec::new(), Vec::new());
    for round in 0..report.kills {
        let killed = site.kill(arguments.kill, round)?;
        gaps.push(gap(killed, "search was answered", || load.first_answer_after(killed))?);
        // One PostgreSQL does not come back by itself.
        let alone = site.is_down();
        if alone {
            site.mend(arguments.kill, round)?;
        }
        if !arguments.read_only {
            let acknowledged =
                || locked(&load.acknowledged).iter().find(|&&then| then > killed).copied();
            publish_gaps.push(gap(killed, "publish was acknowledged", acknowledged)?);
        }
        if arguments.kill == Victim::Link {
            // Who asks the other side has its answers at once; the gap is that of the slowest search.
            thread::sleep(CUT);
        }
        if !alone {
            site.mend(arguments.kill, round)?;
        }
        if arguments.kill == Victim::Link {
            load.until_all_that_began_before(Instant::now())?;
            gaps[round] = gaps[round].max(load.slowest_since(killed));
        }
        thread::sleep(Duration::from_secs_f64(arguments.pause));
    }
    let last = Instant::now();
    thread::sleep(quiet);
    let rate = |from: Instant, until: Instant| {
        load.answered_between(from, until) as f64 / until.duration_since(from).as_secs_f64()
    };
    report.gap_ms = Spread::of(gaps);
    report.publish_gap_ms = Spread::of(publish_gaps);
    report.qps = [rate(from, first), rate(first, last), rate(last, Instant::now())]
        .map(|rate| if rate.is_finite() { rate } else { 0.0 });
    Ok(())
}

/// The best ten of every query from the servers, beside those from one in this process.
fn compare(
    owner: &BlindOwner,
    truth: &Truth,
    remote: Remote,
    queries: &VectorSet,
) -> Result<Compared> {
    let embedded = Embedded::empty(truth.collection.epoch());
    publish(&owner.vault, PublishOptions::default(), &embedded, UNWATCHED)?;
    let here = BlindSearcher::new(embedded, Hints::in_memory());
    let there = BlindSearcher::new(remote, Hints::in_memory());
    let mut compared = Compared { queries: queries.rows(), ..Compared::default() };
    for query in 0..queries.rows() {
        let (query, options) = (queries.row(query), SearchOptions::default());
        let one = here.search(&truth.collection, query, &options)?;
        let two = there.search(&truth.collection, query, &options)?;
        let is_exact = |answer| truth.is_answered_by(query, options.top, answer);
        if !is_exact(&one)? || !is_exact(&two)? {
            continue;
        }
        // Both are as long as they have to be.
        if one.hits.iter().zip(&two.hits).all(|(one, two)| one.id == two.id) {
            compared.equal += 1;
        } else {
            compared.equal_but_for_ties += 1;
        }
    }
    Ok(compared)
}

/// Milliseconds from a kill until something happened.
fn gap(killed: Instant, what: &str, happened: impl Fn() -> Option<Instant>) -> Result<f64> {
    loop {
        if let Some(then) = happened() {
            return Ok(then.duration_since(killed).as_secs_f64() * 1e3);
        }
        if killed.elapsed() > PATIENCE {
            bail!("no {what} within {} s of a kill", PATIENCE.as_secs());
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Publishes that were acknowledged and are gone: the servers must be at the commit that was acknowledged last, or
/// at the vault's where a later publish was cut off, and answer as exact search does.
fn lost(
    owner: &BlindOwner,
    acknowledged: &Truth,
    site: &Cloud,
    queries: &VectorSet,
) -> Result<usize> {
    let remote = site.connect()?;
    let truth = Truth::of(&owner.vault)?;
    let held = state(&remote)?.commit;
    let known = [acknowledged.collection.commit(), truth.collection.commit()];
    let mut lost = usize::from(!held.is_some_and(|held| known.contains(&held)));
    publish(&owner.vault, PublishOptions::default(), &remote, UNWATCHED)?;
    let searcher = BlindSearcher::new(remote, Hints::in_memory());
    for query in 0..queries.rows().min(20) {
        let (query, options) = (queries.row(query), SearchOptions::default());
        let answer = searcher.search(&truth.collection, query, &options)?;
        lost += usize::from(!truth.is_answered_by(query, options.top, &answer)?);
    }
    Ok(lost)
}

/// One search.
#[derive(Clone, Copy)]
struct Search {
    began: Instant,
    ended: Instant,
}

impl Search {
    fn milliseconds(&self) -> f64 {
        self.ended.duration_since(self.began).as_secs_f64() * 1e3
    }
}

/// What clients do, and what came of it.
struct Load<'a> {
    current: Mutex<Arc<Truth>>,
    queries: &'a VectorSet,
    over: AtomicBool,
    /// When publishes were acknowledged.
    acknowledged: Mutex<Vec<Instant>>,
    searches_failed: AtomicUsize,
    publishes_failed: AtomicUsize,
    wrong: AtomicUsize,
    superseded: AtomicUsize,
    done: Mutex<Vec<Search>>,
    /// When the search began that each client waits for.
    under_way: Mutex<Vec<Option<Instant>>>,
    failures: Mutex<Vec<String>>,
}

impl<'a> Load<'a> {
    fn new(truth: Arc<Truth>, queries: &'a VectorSet) -> Self {
        Self {
            current: Mutex::new(truth),
            queries,
            over: AtomicBool::new(false),
            acknowledged: Mutex::default(),
            searches_failed: AtomicUsize::new(0),
            publishes_failed: AtomicUsize::new(0),
            wrong: AtomicUsize::new(0),
            superseded: AtomicUsize::new(0),
            done: Mutex::default(),
            under_way: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    fn fail(&self, counter: &AtomicUsize, what: &str, error: &ClientError) {
        counter.fetch_add(1, Ordering::Relaxed);
        locked(&self.failures).push(format!("a {what}: {error}"));
    }

    /// Adds a document and publishes, over and over. One that failed is published again with the next.
    fn write(
        &self,
        mut owner: BlindOwner,
        server: &Remote,
        arguments: &Cluster,
    ) -> Result<BlindOwner> {
        let mut next = locked(&self.current).documents().rows();
        while !self.over.load(Ordering::Relaxed) {
            thread::sleep(BETWEEN_PUBLISHES);
            if arguments.read_only {
                continue;
            }
            let seed = arguments.seed.wrapping_add(next as u64);
            let one = Corpus::synthetic(1, self.queries.width(), seed)?;
            let ids = [next.to_string()];
            next += 1;
            let documents = Documents { ids: &ids, vectors: &one.documents, sample_queries: None };
            ingest(&mut owner.vault, &documents, UNWATCHED, &mut UnwrapErr(SysRng))?;
            match publish(&owner.vault, PublishOptions::default(), server, UNWATCHED) {
                Ok(_) => {
                    locked(&self.acknowledged).push(Instant::now());
                    *locked(&self.current) = Arc::new(Truth::of(&owner.vault)?);
                }
                Err(error) => self.fail(&self.publishes_failed, "publish", &error),
            }
        }
        Ok(owner)
    }

    fn search(&self, server: Remote, client: u64, think: Duration) -> Result<()> {
        let searcher = BlindSearcher::new(server, Hints::in_memory());
        let mut random = client;
        while !self.over.load(Ordering::Relaxed) {
            thread::sleep(think);
            let truth = locked(&self.current).clone();
            let query = self.queries.row(mix(&mut random) as usize % self.queries.rows());
            let (began, options) = (Instant::now(), SearchOptions::default());
            let _under_way = UnderWay::begin(self, client, began);
            match searcher.search(&truth.collection, query, &options) {
                Ok(answer) => {
                    locked(&self.done).push(Search { began, ended: Instant::now() });
                    if !truth.is_answered_by(query, options.top, &answer)? {
                        self.wrong.fetch_add(1, Ordering::Relaxed);
                    }
                }
                // A publish came first: the next search is of its commit.
                Err(ClientError::Outdated { .. } | ClientError::Unpublished { .. }) => {
                    self.superseded.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => self.fail(&self.searches_failed, "search", &error),
            }
        }
        Ok(())
    }

    fn answered_since(&self, from: Instant) -> usize {
        self.answered_between(from, Instant::now())
    }

    fn answered_between(&self, from: Instant, until: Instant) -> usize {
        locked(&self.done).iter().filter(|done| done.ended >= from && done.ended < until).count()
    }

    fn set_under_way(&self, client: u64, began: Option<Instant>) {
        let mut all = locked(&self.under_way);
        let client = client as usize;
        if all.len() <= client {
            all.resize(client + 1, None);
        }
        all[client] = began;
    }

    /// Waits until no search is under way that began before a moment.
    fn until_all_that_began_before(&self, moment: Instant) -> Result<()> {
        let early = |began: &Option<Instant>| began.is_some_and(|began| began < moment);
        while locked(&self.under_way).iter().any(early) {
            if moment.elapsed() > PATIENCE {
                bail!("a search was not answered within {} s", PATIENCE.as_secs());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn slowest_since(&self, from: Instant) -> f64 {
        let done = locked(&self.done);
        let since = done.iter().rev().take_while(|done| done.ended > from);
        since.map(Search::milliseconds).fold(0.0, f64::max)
    }

    fn first_answer_after(&self, moment: Instant) -> Option<Instant> {
        let done = locked(&self.done);
        done.iter().rev().take(1000).filter(|done| done.began > moment).map(|d| d.ended).min()
    }
}

/// A search that a client waits for, until this is dropped.
struct UnderWay<'a, 'b> {
    load: &'a Load<'b>,
    client: u64,
}

impl<'a, 'b> UnderWay<'a, 'b> {
    fn begin(load: &'a Load<'b>, client: u64, began: Instant) -> Self {
        load.set_under_way(client, Some(began));
        Self { load, client }
    }
}

impl Drop for UnderWay<'_, '_> {
    fn drop(&mut self) {
        self.load.set_under_way(self.client, None);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
