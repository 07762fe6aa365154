//! Flags, resolved once.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use shard::baselines::Baseline;
use shard::remote::ServerAddress;
use shard::{CellCount, Choice, Filter, LayoutChoice, Objective};

use crate::commands::audit::Audit;
use crate::commands::compact::Compact;
#[cfg(feature = "encode")]
use crate::commands::console::Console;
use crate::commands::delete::Delete;
use crate::commands::dump::Dump;
use crate::commands::export::Export;
use crate::commands::fetch::Fetch;
#[cfg(feature = "import")]
use crate::commands::import::Import;
use crate::commands::init::Init;
use crate::commands::passphrase::Passphrase;
use crate::commands::plan::Plan;
use crate::commands::recovery::Recovery;
use crate::commands::refit::Refit;
use crate::commands::rekey::Rekey;
use crate::commands::serve::Serve;
use crate::commands::token::TokenCommand;
use crate::commands::verify::Verify;
#[cfg(feature = "encode")]
use crate::desk::DeskArguments;
use crate::remote::{ConnectionArguments, ServerArguments, VectorArguments};
use crate::texts::EncoderArguments;

/// Private dense retrieval: the server ranks vectors it cannot read for queries it cannot see.
#[derive(Parser)]
#[command(name = "shard", version, propagate_version = true, max_term_width = 100)]
pub struct Arguments {
    /// Also write the result as JSON to FILE, or with `-` to standard output instead of text; an
    /// error is then `{"error": {"message", "causes", "hint"}}`
    #[arg(long, global = true, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Protect and search a shipped corpus end to end, with the server in this process
    Demo(Demo),
    /// Make a vault: the directory with the model, the index and the keys
    Init(Init),
    /// Add documents to a vault, or replace those whose id is known; the first ingest fits the model
    Ingest(Ingest),
    /// Bring a collection over from FAISS, Chroma, Qdrant or pgvector: vectors, ids, texts, metadata
    #[cfg(feature = "import")]
    Import(Box<Import>),
    /// Remove documents from a vault
    Delete(Delete),
    /// Fit a new model to a vault's documents and begin a new epoch with it
    Refit(Refit),
    /// Give a vault's documents fresh keys and names, and so revoke every exported vault
    Rekey(Rekey),
    /// Bring a server's rows to the state of the vault, sending what changed
    Publish(Publish),
    /// Verify a vault and keep it, sealed, on a server
    Backup(Backup),
    /// Fetch a vault that a server keeps
    Restore(Restore),
    /// Bring this copy of a vault to the state that is published, its own changes on top
    Pull(Pull),
    /// Search a vault's documents under encryption
    Search(Search),
    /// Bring back the records of documents, without telling the server which
    Fetch(Fetch),
    /// Let an assistant search a vault: a Model Context Protocol server on standard input and output
    #[cfg(feature = "encode")]
    Mcp(DeskArguments),
    /// Search a vault in the browser, and see what its server saw: a page on this machine
    #[cfg(feature = "encode")]
    Console(Console),
    /// Judge retrieval quality against raw exact search
    Eval(Eval),
    /// Attack a vault's published rows, or somebody else's release, and report what leaks
    Audit(Audit),
    /// Serve rows over the network: TLS, tokens, limits, metrics
    Serve(Box<Serve>),
    /// Make, list and revoke the tokens of a server
    Token {
        /// What to do with tokens
        #[command(subcommand)]
        token: TokenCommand,
    },
    /// Say what a vault holds and how it is set up
    Status(Status),
    /// Compare the ways to search a collection: bytes, times, memory, what the server learns
    Plan(Plan),
    /// Change what opens a vault
    Passphrase(Passphrase),
    /// Make a code that opens a vault whose passphrase is lost, and print it once
    Recovery(Recovery),
    /// Make a vault for somebody who may search and nothing else
    Export(Export),
    /// Write a vault's vectors and ids, in the clear, to files that `ingest` reads
    Dump(Dump),
    /// Open and check everything in a vault, in a stopped server's directory, or in a snapshot
    Verify(Verify),
    /// Copy a server's rows, as they are, into a new directory
    Snapshot(Snapshot),
    /// Put a snapshot, once it is verified, where a server will run
    RestoreSnapshot(RestoreSnapshot),
    /// Rewrite a server's rows so that nothing deleted is left on its disk
    Compact(Compact),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// What is to open a vault from now on.
#[derive(Args)]
pub struct NewUnlockArguments {
    /// File with at least 32 random bytes that is to unlock the vault instead of a passphrase; made
    /// if it does not exist (otherwise: SHARD_NEW_PASSPHRASE, or asked for at the terminal)
    #[arg(long, value_name = "FILE")]
    pub new_key_file: Option<PathBuf>,
}

/// How requests are made.
#[derive(Args)]
pub struct PlanArguments {
    /// What requests are to be good at
    #[arg(long, default_value = "auto", value_enum)]
    pub objective: ObjectiveName,
    /// Speed of the link to plan for, in Mbit/s, instead of an objective
    #[arg(long, value_name = "MBIT", conflicts_with = "objective", value_parser = link)]
    pub link: Option<f64>,
    /// How vectors lie in ciphertexts
    #[cfg(feature = "slots")]
    #[arg(long, default_value = "coefficients", value_enum)]
    pub layout: LayoutName,
    /// Cells per ciphertext, in slots
    #[cfg(feature = "slots")]
    #[arg(long, value_name = "CELLS", default_value_t = 1, value_parser = positive)]
    pub width: usize,
}

/// How vectors lie in ciphertexts.
#[cfg(feature = "slots")]
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LayoutName {
    /// Many scores per product, as the planner decides
    Coefficients,
    /// The paper's: one response per candidate, rotate and sum, N = 8192, primes of 60, 40, 40 and 60 bits
    Slots,
}

impl PlanArguments {
    /// How vectors lie in ciphertexts.
    #[cfg(feature = "slots")]
    pub fn layout(&self) -> LayoutChoice {
        match self.layout {
            LayoutName::Coefficients => LayoutChoice::Coefficients,
            LayoutName::Slots => LayoutChoice::Slots {
                parameters: shard::SlotsParameters::paper(),
                cells: self.width,
            },
        }
    }

    /// How vectors lie in ciphertexts.
    #[cfg(not(feature = "slots"))]
    pub fn layout(&self) -> LayoutChoice {
        LayoutChoice::Coefficients
    }

    /// What requests are to be good at; `None` is left to the link.
    pub fn objective(&self) -> Option<Objective> {
        match (self.link, self.objective) {
            (Some(megabits), _) => Some(Objective::Link(megabits * 1e6)),
            (None, ObjectiveName::Auto) => None,
            (None, ObjectiveName::Compute) => Some(Objective::Compute),
            (None, ObjectiveName::Balanced) => Some(Objective::Balanced),
            (None, ObjectiveName::Bytes) => Some(Objective::Bytes),
        }
    }
}

/// What requests are to be good at.
#[derive(Clone, Copy, ValueEnum)]
pub enum ObjectiveName {
    /// The shortest time over the link to the server as it shows itself; without a server,
    /// `compute`
    Auto,
    /// The least computing; a fresh secret for every request
    #[value(alias = "latency")]
    Compute,
    /// The shortest time over 100 Mbit/s; may merge responses under a session's secret
    Balanced,
    /// The fewest bytes; may merge responses under a session's secret
    Bytes,
}

/// The vault and what opens it.
#[derive(Args)]
pub struct VaultArguments {
    /// The vault's directory
    pub vault: PathBuf,
    /// File with at least 32 random bytes that unlocks the vault instead of a passphrase
    /// (otherwise: SHARD_PASSPHRASE, or asked for at the terminal)
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
}

#[derive(Args)]
pub struct Demo {
    /// Cells, each with its own key, `auto` to follow the number of documents, or `micro` for a key
    /// per document
    #[arg(long, default_value = "256", value_parser = cells)]
    pub cells: CellCount,
    /// Candidates that are scored under encryption
    #[arg(long, value_name = "K", default_value_t = 128, value_parser = positive)]
    pub candidates: usize,
    #[command(flatten)]
    pub plan: PlanArguments,
}

#[derive(Args)]
pub struct Ingest {
    #[command(flatten)]
    pub vault: VaultArguments,
    #[command(flatten)]
    pub vectors_from: VectorArguments,
    /// Vectors: .npy (f16, f32, f64 in any order), .jsonl or .jsonl.gz (`id`, `vector`), or .parquet. Texts:
    /// .jsonl, .jsonl.gz, .csv or .parquet (`id`, `text`, perhaps `title`), .md, .txt, or a folder of these two
    #[arg(required_unless_present = "records")]
    pub documents: Option<PathBuf>,
    /// Records of documents of a blind vault, .jsonl: each line is an object with an `id`, and the whole
    /// line is that document's record
    #[arg(long, value_name = "FILE")]
    pub records: Option<PathBuf>,
    #[command(flatten)]
    pub encoder: EncoderArguments,
    /// Cut texts into chunks of so many tokens [default: each is one passage]
    #[arg(long, value_name = "TOKENS", requires = "documents", value_parser = positive)]
    pub chunk: Option<usize>,
    /// Tokens that a chunk shares with the one before
    #[arg(long, value_name = "TOKENS", requires = "chunk", default_value_t = 32)]
    pub overlap: usize,
    /// Ids for a .npy, one per line [default: row numbers]
    #[arg(long, value_name = "FILE", requires = "documents")]
    pub ids: Option<PathBuf>,
    /// Queries to make the automatic choices for [default: documents with noise]
    #[arg(long, value_name = "FILE")]
    pub sample_queries: Option<PathBuf>,
    /// Remove the documents of the vault that are not among these
    #[arg(long, requires = "documents")]
    pub delete_missing: bool,
    /// Column of a .parquet with the ids
    #[arg(long, value_name = "NAME", default_value = shard::input::ID_COLUMN)]
    pub id_column: String,
    /// Column of a .parquet with the vectors
    #[arg(long, value_name = "NAME", default_value = shard::input::VECTOR_COLUMN)]
    pub vector_column: String,
}

#[derive(Args)]
pub struct Publish {
    #[command(flatten)]
    pub vault: VaultArguments,
    #[command(flatten)]
    pub server: ServerArguments,
    /// Put this vault in place of another one whose collection it is
    #[arg(long)]
    pub replace: bool,
    /// Bring fresh checks of a blind collection, after an alarm of somebody who searches it
    #[arg(long)]
    pub fresh_checks: bool,
}

#[derive(Args)]
pub struct Backup {
    #[command(flatten)]
    pub vault: VaultArguments,
    #[command(flatten)]
    pub server: ServerArguments,
    /// Go on although the server keeps another vault, or backups of a copy that has gone another way
    #[arg(long)]
    pub replace: bool,
    /// Backups to keep, this one among them
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub keep: u16,
    /// List the backups that the server keeps, and make none
    #[arg(long, conflicts_with_all = ["replace", "keep"])]
    pub list: bool,
}

#[derive(Args)]
pub struct Pull {
    #[command(flatten)]
    pub vault: VaultArguments,
    #[command(flatten)]
    pub server: ServerArguments,
}

#[derive(Args)]
pub struct Restore {
    #[command(flatten)]
    pub vault: VaultArguments,
    #[command(flatten)]
    pub server: ServerArguments,
    /// Open the vault with its recovery code (SHARD_RECOVERY_CODE, or asked for)
    #[arg(long, conflicts_with = "key_file")]
    pub recovery: bool,
    /// Restore the backup of this commit, as `shard backup --list` shows it, or the beginning of its
    /// name [default: the newest]
    #[arg(long, value_name = "COMMIT")]
    pub at: Option<String>,
}

#[derive(Args)]
pub struct Search {
    #[command(flatten)]
    pub vault: VaultArguments,
    /// What to search for, in words: passages are shown, and fetched without saying which
    #[arg(value_name = "WORDS", required_unless_present = "query", conflicts_with = "query")]
    pub words: Option<String>,
    /// Query vectors: .npy with one query or one per row, .jsonl (`vector`, perhaps `id`) or
    /// .parquet; with `-` one vector as JSON from standard input, `[0.5, ...]` or `{"vector": [...]}`; or
    /// texts, .jsonl or .csv (`text`, perhaps `id`)
    #[arg(long, visible_alias = "queries", value_name = "FILE")]
    pub query: Option<PathBuf>,
    #[command(flatten)]
    pub encoder: EncoderArguments,
    /// Only documents that this holds of: `year >= 2020`, `lang in (en, de)`, `topic = "heart disease"`, with
    /// `and`, `or`, `not`, `exists` and parentheses, or JSON, {"year": {"$gte": 2020}}; all of several
    #[arg(long = "where", value_name = "FILTER", value_parser = filter)]
    pub filters: Vec<Filter>,
    /// Show passages for the queries of a file as well
    #[arg(long, requires = "query", conflicts_with = "baseline")]
    pub passages: bool,
    /// Print ids and no passages, and fetch nothing
    #[arg(long, conflicts_with_all = ["passages", "direct", "full"])]
    pub no_passages: bool,
    /// Ask for passages by the names of their pages: cheaper, and the server learns which those are
    #[arg(long)]
    pub direct: bool,
    /// Print passages whole
    #[arg(long)]
    pub full: bool,
    /// Server and collection, https://HOST:PORT/NAME [default: a server in this process]
    #[arg(long, value_name = "URL", env = "SHARD_SERVER")]
    pub server: Option<ServerAddress>,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    /// Queries searched at once [default: the cores of this machine, twice that with --server]
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    pub parallel: Option<usize>,
    /// Documents to return
    #[arg(short = 'k', long, value_name = "COUNT", default_value_t = 10, value_parser = positive)]
    pub top: usize,
    /// Candidates that are scored under encryption [default: the vault's; 40 with `--baseline global`]
    #[arg(long, value_name = "K", value_parser = positive)]
    pub candidates: Option<usize>,
    /// Cells whose documents are considered [default: all; where the vault is blind its own number, and
    /// all with `--where`]
    #[arg(long, value_name = "CELLS", value_parser = positive)]
    pub probe: Option<usize>,
    #[command(flatten)]
    pub plan: PlanArguments,
    /// Search the vectors that the vault holds, exactly and without any server
    #[arg(long, conflicts_with_all = ["candidates", "probe", "objective", "link", "explain", "parallel"])]
    pub local: bool,
    /// Say what the search cost and what the server saw of it
    #[arg(long)]
    pub explain: bool,
    /// Search another way to protect the vault's vectors, to compare with
    #[arg(
        long,
        value_name = "NAME",
        alias = "foil",
        conflicts_with_all = ["probe", "objective", "link", "explain", "local"]
    )]
    #[cfg_attr(feature = "slots", arg(conflicts_with_all = ["layout", "width"]))]
    pub baseline: Option<Baseline>,
}

#[derive(Args)]
pub struct Eval {
    #[command(flatten)]
    pub vault: VaultArguments,
    /// Queries: vectors, or texts (`id` or `_id`, `text`)
    #[arg(long, value_name = "FILE")]
    pub queries: PathBuf,
    #[command(flatten)]
    pub encoder: EncoderArguments,
    /// Ids of the queries in a .npy, one per line
    #[arg(long, value_name = "FILE")]
    pub query_ids: Option<PathBuf>,
    /// Judgements: BEIR's tab-separated columns or TREC's four
    #[arg(long, value_name = "FILE")]
    pub qrels: PathBuf,
    /// Candidates that are scored under encryption [default: the vault's; 40 for the baseline `global`]
    #[arg(long, value_name = "K", value_parser = positive)]
    pub candidates: Option<usize>,
    /// Cells that a search of a blind vault asks for [default: the vault's]
    #[arg(long, value_name = "CELLS", value_parser = positive)]
    pub probe: Option<usize>,
    #[command(flatten)]
    pub plan: PlanArguments,
    /// Judge other ways to protect the vault's vectors as well, by commas, or `all`
    #[arg(long, value_name = "NAME", alias = "foil", value_parser = baselines)]
    pub baseline: Option<Baselines>,
}

#[derive(Args)]
pub struct Status {
    #[command(flatten)]
    pub vault: VaultArguments,
    /// Server and collection to compare the vault with, https://HOST:PORT/NAME
    #[arg(long, value_name = "URL", env = "SHARD_SERVER")]
    pub server: Option<ServerAddress>,
    #[command(flatten)]
    pub connection: ConnectionArguments,
}

#[derive(Args)]
pub struct Snapshot {
    /// The directory of a stopped server
    #[arg(value_name = "DIR", required_unless_present = "name", requires = "to")]
    pub directory: Option<PathBuf>,
    /// A new directory for the copy
    pub to: Option<PathBuf>,
    /// Have the running server of `--server` copy its rows to DIR/snapshots/NAME
    #[arg(long, value_name = "NAME", conflicts_with = "directory", requires = "server")]
    pub name: Option<String>,
    #[command(flatten)]
    pub operator: OperatorArguments,
}

/// A running server, for its operator.
#[derive(Args)]
pub struct OperatorArguments {
    /// A running server, https://HOST:PORT; needs a token of scope admin
    #[arg(long, value_name = "URL")]
    pub server: Option<ServerAddress>,
    #[command(flatten)]
    pub connection: ConnectionArguments,
}

#[derive(Args)]
pub struct RestoreSnapshot {
    /// The snapshot
    pub from: PathBuf,
    /// The server's directory; it must hold no rows yet
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// Several baselines, as one flag names them.
#[derive(Clone, PartialEq, Debug)]
pub struct Baselines(pub Vec<Baseline>);

/// Names by commas, each counting once; or `all`, which leaves `raw` out, since raw search is what
/// all others are compared with.
fn baselines(names: &str) -> Result<Baselines, String> {
    if names == "all" {
        return Ok(Baselines(
            Baseline::ALL.into_iter().filter(|&baseline| baseline != Baseline::Raw).collect(),
        ));
    }
    let mut baselines = Vec::new();
    for name in names.split(',') {
        let baseline = Baseline::from_str(name)
            .map_err(|error| format!("{error}, and all for all of them"))?;
        if !baselines.contains(&baseline) {
            baselines.push(baseline);
        }
    }
    Ok(Baselines(baselines))
}

/// A number that is at least 1.
pub fn positive(text: &str) -> Result<usize, String> {
    match usize::from_str(text) {
        Ok(0) => Err("must be at least 1".into()),
        Ok(value) => Ok(value),
        Err(error) => Err(error.to_string()),
    }
}

/// A number that is at least 1, perhaps as a power of ten: `1e8`, `2.5e6`.
pub fn large(text: &str) -> Result<usize, String> {
    const MOST: f64 = 1e15;
    match f64::from_str(text) {
        Ok(value) if text.contains(['e', 'E']) => {
            let is_whole = value.fract() == 0.0 && (1.0..=MOST).contains(&value);
            if is_whole {
                Ok(value as usize)
            } else {
                Err("must be a whole number from 1 to 1e15".into())
            }
        }
        _ => positive(text),
    }
}

pub fn link(text: &str) -> Result<f64, String> {
    match f64::from_str(text) {
        Ok(speed) if speed > 0.0 && speed.is_finite() => Ok(speed),
        _ => Err("must be a positive number of Mbit/s".into()),
    }
}

pub fn choice(text: &str) -> Result<Choice, String> {
    if text == "auto" { Ok(Choice::Auto) } else { positive(text).map(Choice::Fixed) }
}

/// A number of cells, `auto` or `micro`.
pub fn cells(text: &str) -> Result<CellCount, String> {
    match text {
        "auto" => Ok(CellCount::Auto),
        "micro" => Ok(CellCount::Micro),
        count => positive(count).map(CellCount::Cells),
    }
}

/// A filter in words, or as JSON where it begins like that.
fn filter(text: &str) -> Result<Filter, String> {
    if !text.trim_start().starts_with('{') {
        return text.parse().map_err(|error: shard::FilterError| error.to_string());
    }
    let json = serde_json::from_str(text).map_err(|error| format!("filter: {error}"))?;
    Filter::from_json(&json).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn flags_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn lists_of_baselines_keep_their_order_and_count_each_once() {
        let listed = baselines("pq-only,gaussian=512,pq-only").unwrap();
        assert_eq!(listed.0, [Baseline::PqOnly, Baseline::Gaussian { epsilon: 512.0 }]);
        let all = baselines("all").unwrap().0;
        assert_eq!(all.len(), Baseline::ALL.len() - 1);
        assert!(!all.contains(&Baseline::Raw));
        for names in ["", "global,", "global,all", "rot13"] {
            let error = baselines(names).unwrap_err();
            assert!(error.contains("pq-only") && error.contains("all"), "{error}");
        }
    }

    #[test]
    fn old_names_of_flags_are_taken() {
        let search = ["shard", "search", "v", "--query", "q.npy"];
        let parse = |flags: &[&str]| Arguments::try_parse_from([&search[..], flags].concat());
        assert!(parse(&["--foil", "global"]).is_ok());
        assert!(parse(&["--objective", "latency"]).is_ok());
    }
}
