//! Several servers over one database, under load, while something is killed over and over.
//!
//! Brings up a PostgreSQL and a directory of objects of its own, some servers, and a balancer that takes each
//! connection to the next server that accepts it. One owner adds a document with every publish, clients search
//! what was published last and compare with exact search.

mod balancer;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;
use serde::Serialize;
use shard_cli::output::Output;
use shard_client::remote::{PublishOptions, Remote, RemoteOptions, publish};
use shard_client::{
    BlindSearcher, ClientError, Documents, Hints, SearchOptions, UNWATCHED, ingest,
};
use shard_geometry::VectorSet;
use shard_store::conformance::Cluster as Postgres;
use tempfile::TempDir;

use super::arguments::{Cluster, Victim};
use super::corpus::Corpus;
use super::crash::{mix, state};
use super::owner::{BlindOwner, Truth};
use super::served::{Served, Site, finished, shard};
use balancer::Balancer;

const COLLECTION: &str = "blind";

/// Time between two publishes.
const BETWEEN_PUBLISHES: Duration = Duration::from_millis(300);

/// How long a server has to be ready, or to end when it is told to.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the bench prints.
#[derive(Serialize, Default)]
struct Report {
    workers: usize,
    replicas: usize,
    rows: usize,
    dimension: usize,
    clients: usize,
    killed: &'static str,
    kills: usize,
    /// Publishes that were acknowledged, and those of them that were gone in the end.
    acknowledged: usize,
    lost: usize,
    /// Searches that were answered, and of them those that were not those of exact search.
    searches: usize,
    wrong: usize,
    /// Searches and publishes that failed after all repetitions of the client.
    failed_after_retry: usize,
    /// From a kill to the first answer of a search that began after it.
    gap_ms: Spread,
    /// The slowest search of all.
    slowest_search_ms: f64,
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
    let owner = thread::scope(|scope| -> Result<BlindOwner> {
        let writer = scope.spawn(|| load.write(owner, &remote, arguments));
        let mut readers = Vec::new();
        for client in 0..arguments.clients {
            let remote = site.connect()?;
            let load = &load;
            readers.push(scope.spawn(move || load.search(remote, client as u64)));
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
    report.acknowledged = 1 + load.acknowledged.load(Ordering::Relaxed);
    report.wrong = load.wrong.load(Ordering::Relaxed);
    report.failed_after_retry = load.failed.load(Ordering::Relaxed);
    let done = locked(&load.done);
    report.searches = done.len();
    report.search_ms = Spread::of(done.iter().map(|search| search.milliseconds()).collect());
    report.slowest_search_ms = report.search_ms.most;
    report.load_ms = Spread::of(site.loads.clone());
    report.seconds = start.elapsed().as_secs_f64();
    output.line(format!(
        "{} servers, {} documents, {} kills ({}): {} publishes acknowledged, {} lost; {} searches, {} wrong, {} failed \
         after all repetitions; gap {:.0} ms (median), {:.0} ms (worst); {:.1} ms of server time for a search",
        report.workers,
        report.rows,
        report.kills,
        report.killed,
        report.acknowledged,
        report.lost,
        report.searches,
        report.wrong,
        report.failed_after_retry,
        report.gap_ms.median,
        report.gap_ms.most,
        report.server_cpu_ms_per_search,
    ))?;
    for failure in locked(&load.failures).iter().take(5) {
        output.line(format!("failed: {failure}"))?;
    }
    output.result(&report)?;
    if report.lost + report.wrong > 0 {
        bail!("the servers did not keep what they acknowledged, or answered wrongly");
    }
    Ok(())
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
    let mut gaps = Vec::new();
    for round in 0..report.kills {
        let killed = site.kill(arguments, round)?;
        let since = Instant::now();
        gaps.push(loop {
            if let Some(answered) = load.first_answer_after(killed) {
                break answered.duration_since(killed).as_secs_f64() * 1e3;
            }
            if since.elapsed() > PATIENCE {
                bail!("no search was answered within {} s of a kill", PATIENCE.as_secs());
            }
            thread::sleep(Duration::from_millis(2));
        });
        site.mend(arguments, round)?;
        thread::sleep(Duration::from_secs_f64(arguments.pause));
    }
    let last = Instant::now();
    thread::sleep(quiet);
    let rate = |from: Instant, until: Instant| {
        load.answered_between(from, until) as f64 / until.duration_since(from).as_secs_f64()
    };
    report.gap_ms = Spread::of(gaps);
    report.qps = [rate(from, first), rate(first, last), rate(last, Instant::now())]
        .map(|rate| if rate.is_finite() { rate } else { 0.0 });
    Ok(())
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
        let query = queries.row(query);
        let answer = searcher.search(&truth.collection, query, &SearchOptions::default())?;
        lost += usize::from(!truth.is_answered_by(query, &answer)?);
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
    acknowledged: AtomicUsize,
    failed: AtomicUsize,
    wrong: AtomicUsize,
    done: Mutex<Vec<Search>>,
    failures: Mutex<Vec<String>>,
}

impl<'a> Load<'a> {
    fn new(truth: Arc<Truth>, queries: &'a VectorSet) -> Self {
        Self {
            current: Mutex::new(truth),
            queries,
            over: AtomicBool::new(false),
            acknowledged: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
            wrong: AtomicUsize::new(0),
            done: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    fn fail(&self, error: &ClientError) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        locked(&self.failures).push(error.to_string());
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
                    self.acknowledged.fetch_add(1, Ordering::Relaxed);
                    *locked(&self.current) = Arc::new(Truth::of(&owner.vault)?);
                }
                Err(error) => self.fail(&error),
            }
        }
        Ok(owner)
    }

    fn search(&self, server: Remote, client: u64) -> Result<()> {
        let searcher = BlindSearcher::new(server, Hints::in_memory());
        let mut random = client;
        while !self.over.load(Ordering::Relaxed) {
            let truth = locked(&self.current).clone();
            let query = self.queries.row(mix(&mut random) as usize % self.queries.rows());
            let began = Instant::now();
            match searcher.search(&truth.collection, query, &SearchOptions::default()) {
                Ok(answer) => {
                    locked(&self.done).push(Search { began, ended: Instant::now() });
                    if !truth.is_answered_by(query, &answer)? {
                        self.wrong.fetch_add(1, Ordering::Relaxed);
                    }
                }
                // A publish came first: the next search is of its commit.
                Err(ClientError::Outdated { .. } | ClientError::Unpublished { .. }) => {}
                Err(error) => self.fail(&error),
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

    fn first_answer_after(&self, moment: Instant) -> Option<Instant> {
        let done = locked(&self.done);
        done.iter().rev().take(1000).filter(|done| done.began > moment).map(|d| d.ended).min()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A database, servers over it, and a balancer before them.
struct Cloud {
    postgres: Postgres,
    store: String,
    directory: TempDir,
    first: Site,
    servers: Vec<Option<Served>>,
    balancer: Balancer,
    replicas: usize,
    /// What servers took to be ready, in milliseconds.
    loads: Vec<f64>,
}

impl Cloud {
    fn start(arguments: &Cluster) -> Result<Self> {
        let postgres =
            Postgres::start().context("there is no PostgreSQL on this machine (.ci/postgres)")?;
        let directory = tempfile::Builder::new().prefix("shard-cluster-").tempdir()?;
        fs::create_dir(directory.path().join("objects"))?;
        let first = Site::new(&directory.path().join("0"))?;
        let store = postgres.database();
        let mut cloud = Self {
            store,
            postgres,
            first,
            directory,
            servers: Vec::new(),
            balancer: Balancer::start()?,
            replicas: arguments.replicas,
            loads: Vec::new(),
        };
        for number in 0..arguments.workers {
            cloud.servers.push(None);
            cloud.start_server(number)?;
        }
        Ok(cloud)
    }

    fn place(&self, number: usize) -> PathBuf {
        self.directory.path().join(number.to_string())
    }

    fn start_server(&mut self, number: usize) -> Result<()> {
        let objects = format!("file://{}", self.directory.path().join("objects").display());
        let replicas = self.replicas.to_string();
        let more = ["--store", &self.store, "--objects", &objects, "--replicas", &replicas];
        if number > 0 && !self.place(number).exists() {
            copy(&self.place(0), &self.place(number))?;
        }
        let start = Instant::now();
        let site = self.first.at(&self.place(number));
        let server = site.start(shard()?, "127.0.0.1:0", &more)?;
        let address = server.address()?;
        self.servers[number] = Some(server);
        // Whoever is counted on has loaded its share.
        self.until_divided()?;
        self.loads.push(start.elapsed().as_secs_f64() * 1e3);
        self.balancer.set(number, Some(address));
        Ok(())
    }

    /// Waits until every server that runs counts on all others.
    fn until_divided(&self) -> Result<()> {
        let servers = self.running().count();
        self.running().try_for_each(|server| server.until_it_sees(servers, PATIENCE))
    }

    fn server(&self, number: usize) -> Result<&Served> {
        self.servers[number].as_ref().context("a server that runs")
    }

    fn connect(&self) -> Result<Remote> {
        let mut options: RemoteOptions = self.server(0)?.options(COLLECTION)?;
        options.address = format!("https://{}/{COLLECTION}", self.balancer.address()).parse()?;
        Ok(Remote::connect(options)?)
    }

    fn running(&self) -> impl Iterator<Item = &Served> {
        self.servers.iter().flatten()
    }

    fn cpu_seconds(&self) -> Result<f64> {
        self.running().map(Served::cpu_seconds).sum()
    }

    fn resident_bytes(&self) -> Result<Vec<u64>> {
        self.running().map(Served::resident_bytes).collect()
    }

    /// Kills what is to be killed. Returns when it was gone, or was told to go.
    fn kill(&mut self, arguments: &Cluster, round: usize) -> Result<Instant> {
        let number = round % arguments.workers;
        match arguments.kill {
            Victim::None => {}
            Victim::Worker => {
                self.servers[number].as_mut().context("a server that runs")?.kill()?;
                self.servers[number] = None;
            }
            Victim::Restart => {
                // As an orchestrator does: no new connections, then the signal.
                self.balancer.set(number, None);
                let mut server = self.servers[number].take().context("a server that runs")?;
                let told = Instant::now();
                server.terminate(PATIENCE)?;
                return Ok(told);
            }
            Victim::Postgres => self.postgres.kill(),
        }
        Ok(Instant::now())
    }

    /// Starts again what was killed.
    fn mend(&mut self, arguments: &Cluster, round: usize) -> Result<()> {
        match arguments.kill {
            Victim::None => Ok(()),
            Victim::Worker | Victim::Restart => self.start_server(round % arguments.workers),
            Victim::Postgres => {
                self.postgres.restart();
                Ok(())
            }
        }
    }
}

/// Copies tokens and certificate of one server for another.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut copy = Command::new("cp");
    copy.arg("-r").arg(from).arg(to);
    finished(&mut copy)?;
    Ok(())
}
