//! Flags of `shard-lab bench`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use shard_client::{CellCount, LayoutChoice, SearchOptions};
use shard_rlwe::slots::{SlotsParameterError, SlotsParameters};
use shard_rlwe::{ParameterError, RingDegree};

use shard_cli::{LayoutName, PlanArguments, ProtectionName, cells, positive};

use super::blind::Blind;
use super::canaries::Canaries;
use super::fetch::Fetch;
use super::moduli::Moduli;

/// What is measured.
#[derive(Subcommand)]
pub enum Bench {
    /// Encrypted reranking end to end: time by phase, bytes, error
    Rerank(Rerank),
    /// The engine's operations, one by one: the constants of the planner
    Engine(EngineOperations),
    /// The planner's picks against the measured best, over a grid of workloads
    Plans(Plans),
    /// Parameter sets of both layouts: time, bytes, error, and which of them are worth choosing
    Parameters(Parameters),
    /// A server in a process of its own under load: searches per second, latencies, CPU, memory
    Serve(Serve),
    /// Searches over links of several speeds and round trips, between two network namespaces
    Network(Network),
    /// Kill a server at random moments and count what it lost of what it had acknowledged
    Crash(Crash),
    /// Several servers over one PostgreSQL under load, while something is killed: what was lost, what was wrong
    Cluster(Cluster),
    /// Send a server the worst requests there are: time, memory, and whether it stays sound
    Hostile(Hostile),
    /// The server's rows on disk: writing, fetching, opening after a kill, compacting
    Store(Store),
    /// The owner's vault on disk: ingesting, opening, changing one document, searching, verifying
    Vault(VaultStorage),
    /// A blind collection: time by phase, bytes, memory, error, forgeries, beside a plain scan
    Blind(Blind),
    /// Private fetches of records: time by side, bytes, memory, every byte compared
    Fetch(Fetch),
    /// Whether a server can tell the documents that check its answers
    Canaries(Canaries),
    /// What moduli of 50, 48 and 40 bits would make of a blind collection
    Moduli(Moduli),
}

#[derive(Args)]
pub struct VaultStorage {
    /// Number of synthetic documents
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = positive)]
    pub rows: usize,
    /// Width of synthetic documents
    #[arg(long, value_name = "D", default_value_t = 384, value_parser = positive)]
    pub width: usize,
    /// Document vectors, which are rounded to 16 bits [default: synthetic ones]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rows", "width", "seed"])]
    pub documents: Option<PathBuf>,
    /// Seed of synthetic documents
    #[arg(long, default_value_t = 2026)]
    pub seed: u64,
    /// Where to write, to measure the disk that the vault will be on [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

#[derive(Args)]
pub struct Store {
    /// Rows
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = positive)]
    pub rows: usize,
    /// Coordinates of a row
    #[arg(long, value_name = "WIDTH", default_value_t = 288, value_parser = positive)]
    pub width: usize,
    /// Cells
    #[arg(long, default_value_t = 256, value_parser = positive)]
    pub cells: usize,
    /// Rows that are written at a time
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = positive)]
    pub batch: usize,
    /// Rows that are fetched at a time
    #[arg(long, value_name = "K", default_value_t = 128, value_parser = positive)]
    pub candidates: usize,
    /// Cells that they are in
    #[arg(long, value_name = "CELLS", default_value_t = 40, value_parser = positive)]
    pub active: usize,
    /// Fetches that are measured
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = positive)]
    pub trials: usize,
    /// Where to write, to measure the disk that will be served from [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

/// What is searched: a corpus under a key per cell.
#[derive(Args)]
pub struct CorpusArguments {
    /// Document vectors [default: a synthetic corpus]
    #[arg(long, value_name = "FILE", requires = "queries")]
    pub docs: Option<PathBuf>,
    /// Query vectors
    #[arg(long, value_name = "FILE", requires = "docs")]
    pub queries: Option<PathBuf>,
    /// Width of synthetic vectors
    #[arg(long, value_name = "D", default_value_t = 384, value_parser = positive)]
    pub dim: usize,
    /// Number of synthetic documents
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = positive)]
    pub rows: usize,
    /// Width of the routing prefix [default: a quarter of the vectors']
    #[arg(long, value_name = "WIDTH", value_parser = positive)]
    pub d_pub: Option<usize>,
    /// Cells, each with its own key, `auto` to follow the documents, or `micro` for a key per document
    #[arg(long, default_value = "256", value_parser = cells)]
    pub cells: CellCount,
    /// Candidates that are scored under encryption
    #[arg(long, value_name = "K", default_value_t = 128, value_parser = positive)]
    pub candidates: usize,
    /// Seed of the partition and of a synthetic corpus
    #[arg(long, default_value_t = 2026)]
    pub seed: u64,
}

#[derive(Args)]
pub struct Rerank {
    #[command(flatten)]
    pub corpus: CorpusArguments,
    /// Sizes of the primes in bits, with `--layout slots`
    #[arg(long, value_name = "BITS", default_value = "60,40,40,60", value_parser = chain)]
    pub chain: Chain,
    #[command(flatten)]
    pub plan: PlanArguments,
    /// Searches that are measured; they go through the queries in turn
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = positive)]
    pub trials: usize,
    /// Cores that a search may use
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    pub threads: usize,
    /// Directory to leave the vectors and every trial's candidates in, for another program to score
    #[arg(long, value_name = "DIR")]
    pub dump: Option<PathBuf>,
}

impl Rerank {
    /// How searches are made. The paper's client checks no canaries, and is measured without.
    pub fn options(&self) -> Result<SearchOptions, SlotsParameterError> {
        let defaults = SearchOptions::default();
        let (layout, canaries) = match self.plan.layout {
            LayoutName::Coefficients => (LayoutChoice::Coefficients, defaults.canaries),
            LayoutName::Slots => {
                let parameters = self.chain.parameters()?;
                (LayoutChoice::Slots { parameters, cells: self.plan.width }, false)
            }
        };
        Ok(SearchOptions {
            top: self.corpus.candidates,
            candidates: Some(self.corpus.candidates),
            objective: self.plan.objective(),
            layout,
            canaries,
            ..defaults
        })
    }
}

/// Sizes of the primes of a slot parameter set at `N = 8192`.
#[derive(Clone)]
pub struct Chain(Vec<u32>);

impl Chain {
    pub fn parameters(&self) -> Result<SlotsParameters, SlotsParameterError> {
        SlotsParameters::new(RingDegree::N8192, &self.0)
    }
}

#[derive(Args)]
pub struct EngineOperations {
    /// Ring degrees, by commas
    #[arg(
        long, value_name = "N", value_delimiter = ',', default_value = "2048,4096,8192",
        value_parser = degree
    )]
    pub degrees: Vec<RingDegree>,
    /// Runs of each operation, of which the fastest counts
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = positive)]
    pub repeats: usize,
}

#[derive(Args)]
pub struct Plans {
    /// Widths of the vectors, by commas
    #[arg(long, value_name = "D", value_delimiter = ',', default_value = "96,288,576,1152")]
    #[arg(value_parser = positive)]
    pub widths: Vec<usize>,
    /// Numbers of candidates, by commas
    #[arg(long, value_name = "K", value_delimiter = ',', default_value = "32,128,512")]
    #[arg(value_parser = positive)]
    pub candidates: Vec<usize>,
    /// Numbers of active cells, by commas, each at most the candidates; a cell for each candidate
    /// is always measured
    #[arg(long, value_name = "C", value_delimiter = ',', default_value = "1,16,40")]
    #[arg(value_parser = positive)]
    pub cells: Vec<usize>,
    /// Runs of each plan, of which the fastest counts
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = positive)]
    pub repeats: usize,
}

#[derive(Args)]
pub struct Parameters {
    /// Width of the vectors
    #[arg(long, value_name = "D", default_value_t = 288, value_parser = positive)]
    pub width: usize,
    /// Candidates of a request
    #[arg(long, value_name = "K", default_value_t = 128, value_parser = positive)]
    pub candidates: usize,
    /// Active cells of a request
    #[arg(long, value_name = "C", default_value_t = 30, value_parser = positive)]
    pub cells: usize,
    /// Runs of each set, of which the fastest counts; errors are of all
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = positive)]
    pub repeats: usize,
}

#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    pub corpus: CorpusArguments,
    /// How vectors are protected
    #[arg(long, default_value = "rotated", value_enum)]
    pub protection: ProtectionName,
    #[command(flatten)]
    pub plan: PlanArguments,
    /// Searches that are under way at once
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = positive)]
    pub concurrency: usize,
    /// Seconds that are measured
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = positive)]
    pub seconds: usize,
    /// Seconds of searches before that
    #[arg(long, value_name = "S", default_value_t = 5)]
    pub warm_up: u64,
    /// Searches per second that arrive at random, whether or not earlier ones are done (open loop)
    /// [default: each of the concurrent clients asks as soon as it has its answer]
    #[arg(long, value_name = "Q")]
    pub rate: Option<f64>,
    /// Measure 1, 2, 4 .. 64 concurrent searches as well, this many seconds each
    #[arg(long, value_name = "S", value_parser = positive)]
    pub ramp: Option<usize>,
    /// Cells whose documents are considered [default: all]
    #[arg(long, value_name = "CELLS", value_parser = positive)]
    pub probe: Option<usize>,
    /// Connections that the clients share
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = positive)]
    pub connections: usize,
    /// Requests that the server computes at a time; 0 for one per core
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub workers: usize,
}

#[derive(Args)]
pub struct Network {
    #[command(flatten)]
    pub corpus: CorpusArguments,
    /// Round-trip times in milliseconds, by commas
    #[arg(long, value_name = "MS", value_delimiter = ',', default_value = "0.2,20,80")]
    pub rtt: Vec<f64>,
    /// Rates of the link in Mbit/s, by commas
    #[arg(long, value_name = "MBIT", value_delimiter = ',', default_value = "10,100,1000")]
    pub rate: Vec<f64>,
    /// Searches of each kind on each link
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = positive)]
    pub searches: usize,
    /// The same in the paper's slot layout, whose requests take forty megabytes; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub slots_searches: usize,
}

#[derive(Args)]
pub struct Crash {
    /// How vectors are protected
    #[arg(long, default_value = "rotated", value_enum)]
    pub protection: ProtectionName,
    /// Kills
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = positive)]
    pub rounds: usize,
    /// Rows that the server holds
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = positive)]
    pub rows: usize,
    /// Width of the rows
    #[arg(long, value_name = "D", default_value_t = 288, value_parser = positive)]
    pub dim: usize,
    /// Where the server keeps its rows; left behind for inspection [default: a temporary place]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Seed of the changes and of the moments of death
    #[arg(long, default_value_t = 2026)]
    pub seed: u64,
}

/// What is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Victim {
    /// Nothing
    None,
    /// A server, without a warning; another is started in its place
    Worker,
    /// A server that is told to stop, and started again
    Restart,
    /// The leader of the database, without a warning
    Leader,
    /// A node of the object store, without a warning
    Object,
    /// The network to one server from the others
    Link,
}

impl Victim {
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Worker => "worker",
            Self::Restart => "restart",
            Self::Leader => "leader",
            Self::Object => "object",
            Self::Link => "link",
        }
    }
}

#[derive(Args)]
pub struct Cluster {
    /// Servers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = positive)]
    pub workers: usize,
    /// One PostgreSQL and a directory of objects, instead of three under Patroni and three nodes of Garage
    #[arg(long)]
    pub small: bool,
    /// Servers that hold each block: 1 or 2
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    pub replicas: usize,
    /// What is killed, one after the other
    #[arg(long, default_value = "none", value_enum)]
    pub kill: Victim,
    /// Kills
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = positive)]
    pub kills: usize,
    /// Clients that search
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = positive)]
    pub clients: usize,
    /// Compare first, for every query, with a server in this process
    #[arg(long)]
    pub compare: bool,
    /// Milliseconds that a client waits between two searches
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub think: u64,
    /// Publish nothing while clients search
    #[arg(long)]
    pub read_only: bool,
    /// Seconds without kills, before and after
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub quiet: f64,
    /// Seconds between kills
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub pause: f64,
    /// Document vectors [default: synthetic ones]
    #[arg(long, value_name = "FILE", requires = "queries")]
    pub docs: Option<PathBuf>,
    /// Query vectors
    #[arg(long, value_name = "FILE", requires = "docs")]
    pub queries: Option<PathBuf>,
    /// Synthetic documents
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = positive)]
    pub rows: usize,
    /// Their width
    #[arg(long, value_name = "D", default_value_t = 384, value_parser = positive)]
    pub dim: usize,
    /// Seed of synthetic documents
    #[arg(long, default_value_t = 2026)]
    pub seed: u64,
}

#[derive(Args)]
pub struct Hostile {
    /// How vectors are protected
    #[arg(long, default_value = "rotated", value_enum)]
    pub protection: ProtectionName,
    /// Rows that the server holds
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = positive)]
    pub rows: usize,
    /// Width of the rows
    #[arg(long, value_name = "D", default_value_t = 288, value_parser = positive)]
    pub dim: usize,
}

fn chain(text: &str) -> Result<Chain, String> {
    let bits = text.split(',').map(|bits| bits.trim().parse());
    let chain = Chain(bits.collect::<Result<_, _>>().map_err(|error| format!("{error}"))?);
    chain.parameters().map_err(|error| error.to_string())?;
    Ok(chain)
}

fn degree(text: &str) -> Result<RingDegree, String> {
    let number = usize::from_str(text).map_err(|error| error.to_string())?;
    let degree = RingDegree::new(number).map_err(|error| error.to_string())?;
    if degree.is_secure() {
        Ok(degree)
    } else {
        let insecure = ParameterError::Insecure {
            degree,
            modulus_bits: shard_rlwe::MODULUS.ilog2() + 1,
            ceiling: degree.max_modulus_bits(),
        };
        Err(insecure.to_string())
    }
}
