//! `shard-lab bench serve`: a server in a process of its own, under load.
//!
//! The clients are in this process and the server is in another, on the same machine and over TLS,
//! so the figure is of both: what one machine does when it plays every part. In a closed loop each
//! client asks again as soon as it has its answer. In an open loop searches arrive at random at a
//! given rate, and a search's time counts from its arrival, so that a queue shows.
//!
//! What a blind collection answers is compared with exact search afterwards; of rotated ones
//! `bench rerank` does it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use cpu_time::ProcessTime;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rayon::ThreadPoolBuilder;
use serde::Serialize;
use shard_cli::ProtectionName;
use shard_client::remote::{PublishOptions, Remote, publish};
use shard_client::vault::Vault;
use shard_client::{Answer, BlindSearcher, ClientError, Hints, SearchOptions, Searcher};
use shard_geometry::VectorSet;

use super::arguments::Serve;
use super::corpus::Corpus;
use super::owner::{BlindOwner, Owner, Truth};
use super::served::{Served, Site, shard};
use shard_cli::output::{Output, bytes, follow, percentile, progress, table};

/// Numbers of concurrent searches of a ramp.
const RAMP: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// How often the server's memory is looked at.
const GLANCE: Duration = Duration::from_millis(200);

/// What is measured of one load.
#[derive(Serialize)]
struct Load {
    concurrency: usize,
    /// Arrivals per second of an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
    seconds: f64,
    requests: usize,
    errors: usize,
    qps: f64,
    ms: Quantiles,
    cpu_seconds: Sides,
    /// The same for one search, in milliseconds.
    cpu_ms_per_search: Sides,
    server_rss_bytes: Memory,
    bytes_per_search: f64,
}

#[derive(Serialize)]
struct Quantiles {
    p50: f64,
    p95: f64,
    p99: f64,
}

#[derive(Serialize)]
struct Sides {
    client: f64,
    server: f64,
}

#[derive(Serialize)]
struct Memory {
    start: u64,
    peak: u64,
    end: u64,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    load: Load,
    rows: usize,
    dimensions: usize,
    candidates: usize,
    /// Queries whose answers were compared with exact search, and those that differed.
    #[serde(skip_serializing_if = "Option::is_none")]
    compared: Option<Compared>,
    /// Seconds that publishing took.
    publish_seconds: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ramp: Vec<Load>,
}

#[derive(Serialize)]
struct Compared {
    queries: usize,
    different: usize,
}

/// What is searched.
enum Target {
    Rotated(Box<Owner>),
    Blind(Box<BlindTarget>),
}

/// A blind collection that is searched.
struct BlindTarget {
    owner: BlindOwner,
    truth: Truth,
    queries: VectorSet,
    options: SearchOptions,
}

/// How one client asks.
type Search<'a> = Box<dyn Fn(&[f32]) -> Result<Answer, ClientError> + Send + Sync + 'a>;

impl Target {
    fn of(arguments: &Serve) -> Result<Self> {
        let corpus = Corpus::of(&arguments.corpus)?;
        let options = SearchOptions {
            candidates: Some(arguments.corpus.candidates),
            probe: arguments.probe,
            objective: arguments.plan.objective(),
            layout: arguments.plan.layout(),
            ..SearchOptions::default()
        };
        if arguments.protection == ProtectionName::Rotated {
            return Ok(Self::Rotated(Box::new(Owner::of(&arguments.corpus, options, corpus)?)));
        }
        let owner = BlindOwner::of(&corpus.documents)?;
        let truth = Truth::of(&owner.vault)?;
        let (queries, options) = (corpus.queries, SearchOptions::default());
        Ok(Self::Blind(Box::new(BlindTarget { owner, truth, queries, options })))
    }

    fn vault(&self) -> &Vault {
        match self {
            Self::Rotated(owner) => &owner.vault,
            Self::Blind(blind) => &blind.owner.vault,
        }
    }

    fn rows(&self) -> usize {
        match self {
            Self::Rotated(owner) => owner.rows.rows().len(),
            Self::Blind(blind) => blind.truth.documents().rows(),
        }
    }

    fn queries(&self) -> &VectorSet {
        match self {
            Self::Rotated(owner) => &owner.queries,
            Self::Blind(blind) => &blind.queries,
        }
    }

    /// Through a connection, with what outlives a request in place.
    fn searcher(&self, server: Remote) -> Result<Search<'_>> {
        Ok(match self {
            Self::Rotated(owner) => {
                let searcher = Searcher::new(server);
                Box::new(move |query| searcher.search(&owner.collection, query, &owner.options))
            }
            Self::Blind(blind) => {
                let BlindTarget { truth, queries, options, .. } = &**blind;
                let searcher = BlindSearcher::new(server, Hints::in_memory());
                searcher.search(&truth.collection, queries.row(0), options)?;
                Box::new(move |query| searcher.search(&truth.collection, query, options))
            }
        })
    }
}

pub fn run(arguments: &Serve, output: &Output<'_>) -> Result<()> {
    if arguments.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
        bail!("--rate: must be a positive number of searches per second");
    }
    let target = Target::of(arguments)?;
    let directory = tempfile::Builder::new().prefix("shard-bench-").tempdir()?;
    let more = ["--workers", &arguments.workers.to_string()];
    let server = Site::new(directory.path())?.start(shard()?, "127.0.0.1:0", &more)?;

    let start = Instant::now();
    let bar = progress("publishing", target.rows());
    let connection = server.connect("bench")?;
    publish(target.vault(), PublishOptions::default(), &connection, &follow(&bar))?;
    bar.finish_and_clear();
    let publish_seconds = start.elapsed().as_secs_f64();

    let searchers = (0..arguments.connections)
        .map(|_| target.searcher(server.connect("bench")?))
        .collect::<Result<Vec<_>>>()?;
    let bench = LoadTest {
        queries: target.queries(),
        server: &server,
        searchers,
        first: Mutex::new(BTreeMap::new()),
    };
    let warm_up = Duration::from_secs(arguments.warm_up);
    if !warm_up.is_zero() {
        bench.measure(arguments.concurrency, None, warm_up)?;
    }
    let steps: &[usize] = if arguments.ramp.is_some() { &RAMP } else { &[] };
    let step = Duration::from_secs(arguments.ramp.unwrap_or(0) as u64);
    let mut ramp = Vec::new();
    for &concurrency in steps {
        ramp.push(bench.measure(concurrency, None, step)?);
    }
    let time = Duration::from_secs(arguments.seconds as u64);
    let load = bench.measure(arguments.concurrency, arguments.rate, time)?;

    let lines: Vec<Vec<String>> = ramp.iter().chain([&load]).map(line).collect();
    output.line(table(
        &[
            "at once",
            "searches/s",
            "p50 ms",
            "p95 ms",
            "p99 ms",
            "errors",
            "client ms",
            "server ms",
            "server memory",
        ],
        &lines,
    ))?;
    output.line("client ms, server ms: CPU time of one search on either side")?;
    let compared = bench.compared(&target)?;
    if let Some(Compared { queries, different }) = &compared {
        output.line(format!("{queries} queries compared with exact search: {different} differ"))?;
    }
    let different = compared.as_ref().map_or(0, |compared| compared.different);
    let candidates = match &target {
        Target::Rotated(_) => arguments.corpus.candidates,
        Target::Blind(_) => target.rows(),
    };
    output.result(&Report {
        load,
        rows: target.rows(),
        dimensions: target.queries().width(),
        candidates,
        compared,
        publish_seconds,
        ramp,
    })?;
    if different > 0 {
        bail!("the answers are not those of exact search");
    }
    Ok(())
}

fn line(load: &Load) -> Vec<String> {
    let ms = |value: f64| format!("{value:.1}");
    vec![
        match load.rate {
            Some(rate) => format!("{rate:.0}/s"),
            None => load.concurrency.to_string(),
        },
        format!("{:.1}", load.qps),
        ms(load.ms.p50),
        ms(load.ms.p95),
        ms(load.ms.p99),
        load.errors.to_string(),
        format!("{:.2}", load.cpu_ms_per_search.client),
        format!("{:.2}", load.cpu_ms_per_search.server),
        bytes(load.server_rss_bytes.peak as f64),
    ]
}

struct LoadTest<'a> {
    queries: &'a VectorSet,
    server: &'a Served,
    /// One for every connection.
    searchers: Vec<Search<'a>>,
    /// The first answer to every query.
    first: Mutex<BTreeMap<usize, Answer>>,
}

/// What the clients of one load noted.
#[derive(Default)]
struct Noted {
    milliseconds: Vec<f64>,
    bytes: usize,
    errors: usize,
    first_error: Option<String>,
}

impl LoadTest<'_> {
    /// Compares what was answered with exact search, where it must be the same.
    fn compared(&self, target: &Target) -> Result<Option<Compared>> {
        let Target::Blind(blind) = target else { return Ok(None) };
        let truth = &blind.truth;
        let first = self.first.lock().expect("clients do not panic");
        let mut different = 0;
        for (&query, answer) in first.iter() {
            let query = self.queries.row(query);
            let exact = truth.is_answered_by(query, blind.options.top, answer)?;
            different += usize::from(!exact);
        }
        Ok(Some(Compared { queries: first.len(), different }))
    }

    fn measure(&self, concurrency: usize, rate: Option<f64>, time: Duration) -> Result<Load> {
        let searchers = &self.searchers[..self.searchers.len().min(concurrency)];
        let noted = Mutex::new(Noted::default());
        let next = AtomicUsize::new(0);
        let memory_start = self.server.resident_bytes()?;
        let (cpu, server_cpu) = (ProcessTime::now(), self.server.cpu_seconds()?);
        let start = Instant::now();
        let end = start + time;
        let arrivals = rate.map(|rate| Mutex::new(Arrivals::new(start, rate)));

        let peak = thread::scope(|scope| -> Result<u64> {
            for client in 0..concurrency {
                let searcher = &searchers[client % searchers.len()];
                let (noted, next, arrivals) = (&noted, &next, arrivals.as_ref());
                scope.spawn(move || self.client(searcher, end, next, arrivals, noted));
            }
            let mut peak = memory_start;
            while Instant::now() < end {
                thread::sleep(GLANCE.min(end.saturating_duration_since(Instant::now())));
                peak = peak.max(self.server.resident_bytes()?);
            }
            Ok(peak)
        })?;

        let seconds = start.elapsed().as_secs_f64();
        let client = cpu.elapsed().as_secs_f64();
        let server = self.server.cpu_seconds()? - server_cpu;
        let noted = noted.into_inner().expect("clients do not panic");
        let requests = noted.milliseconds.len();
        if requests == 0 {
            bail!("no search succeeded: {}", noted.first_error.unwrap_or_default());
        }
        let each = |seconds: f64| seconds * 1e3 / requests as f64;
        let quantile = |fraction| percentile(&noted.milliseconds, fraction);
        Ok(Load {
            concurrency,
            rate,
            seconds,
            requests,
            errors: noted.errors,
            qps: requests as f64 / seconds,
            ms: Quantiles { p50: quantile(0.5), p95: quantile(0.95), p99: quantile(0.99) },
            cpu_ms_per_search: Sides { client: each(client), server: each(server) },
            cpu_seconds: Sides { client, server },
            server_rss_bytes: Memory {
                start: memory_start,
                peak,
                end: self.server.resident_bytes()?,
            },
            bytes_per_search: noted.bytes as f64 / requests as f64,
        })
    }

    /// One client: searches until the end.
    fn client(
        &self,
        searcher: &Search<'_>,
        end: Instant,
        next: &AtomicUsize,
        arrivals: Option<&Mutex<Arrivals>>,
        noted: &Mutex<Noted>,
    ) {
        // As clients on machines of their own would, without sharing the pieces of their work.
        let alone = ThreadPoolBuilder::new().num_threads(1).build().expect("one more thread");
        loop {
            let begun = match arrivals {
                None => Instant::now(),
                Some(arrivals) => {
                    let arrival = arrivals.lock().expect("arrivals do not panic").next();
                    thread::sleep(arrival.saturating_duration_since(Instant::now()));
                    arrival
                }
            };
            if begun >= end {
                return;
            }
            let query = next.fetch_add(1, Ordering::Relaxed) % self.queries.rows();
            let answer = alone.install(|| searcher(self.queries.row(query)));
            let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
            let mut noted = noted.lock().expect("clients do not panic");
            match answer {
                Ok(answer) => {
                    noted.milliseconds.push(milliseconds);
                    let cost = &answer.cost;
                    noted.bytes += cost.bytes_up + cost.bytes_down + cost.bytes_once;
                    drop(noted);
                    let mut first = self.first.lock().expect("clients do not panic");
                    first.entry(query).or_insert(answer);
                }
                Err(error) => {
                    noted.errors += 1;
                    noted.first_error.get_or_insert(error.to_string());
                }
            }
        }
    }
}

/// A Poisson process: the times between arrivals are exponential.
struct Arrivals {
    last: Instant,
    rate: f64,
    random: StdRng,
}

impl Arrivals {
    fn new(start: Instant, rate: f64) -> Self {
        Self { last: start, rate, random: StdRng::seed_from_u64(1) }
    }

    fn next(&mut self) -> Instant {
        let uniform = (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        self.last += Duration::from_secs_f64(-(1.0 - uniform).ln() / self.rate);
        self.last
    }
}
