//! `shard-lab bench network`: searches over links of several speeds and round trips.
//!
//! Everything is real but the wires: `shard serve` in one network namespace, `shard search` in
//! another, TLS between them, and a path with a rate and a round-trip time ([`lab`]). For every
//! link it compares what a client can choose: the objectives of the planner, the plan that it
//! picks by itself, and the paper's layout.

mod lab;
mod relay;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;
use shard_geometry::VectorSet;

use self::lab::{Lab, SERVER_ADDRESS};
use super::arguments::{CorpusArguments, Network};
use super::corpus::Corpus;
use super::served::{Served, Site, finished, shard};
use shard::input::write_npy;
use shard_cli::output::{Output, bytes, percentile, progress, table};

/// What a client can choose, with its flags.
const CHOICES: [(&str, &[&str]); 5] = [
    ("auto", &["--objective", "auto"]),
    ("latency", &["--objective", "compute"]),
    ("balanced", &["--objective", "balanced"]),
    ("bytes", &["--objective", "bytes"]),
    ("slots", &["--layout", "slots"]),
];

/// Searches of one choice over one link.
#[derive(Serialize)]
struct Run {
    rtt_ms: f64,
    rtt_ms_measured: f64,
    rate_mbit: f64,
    choice: &'static str,
    searches: usize,
    /// The first search: with the connection, the handshakes and the keys of a session.
    first_ms: f64,
    ms: Quantiles,
    bytes_up: f64,
    bytes_down: f64,
    bytes_once: f64,
    plan: String,
}

#[derive(Serialize)]
struct Quantiles {
    p50: f64,
    p95: f64,
}

#[derive(Serialize)]
struct Report {
    rows: usize,
    dimensions: usize,
    candidates: usize,
    runs: Vec<Run>,
}

pub fn run(arguments: &Network, output: &Output<'_>) -> Result<()> {
    let all = arguments.rtt.iter().chain(&arguments.rate);
    if all.into_iter().any(|value| !value.is_finite() || *value <= 0.0) {
        bail!("round trips and rates must be positive");
    }
    let mut lab = Lab::new()?;
    let desk = tempfile::Builder::new().prefix("shard-network-").tempdir()?;
    let desk = desk.path();
    let corpus = Corpus::of(&arguments.corpus)?;
    let (rows, dimensions) = (corpus.documents.rows(), corpus.documents.width());
    make_vault(desk, &arguments.corpus, &corpus)?;
    for (file, count) in [("q.npy", arguments.searches), ("s.npy", arguments.slots_searches)] {
        write_npy(&desk.join(file), &in_turn(&corpus.queries, count + 1)?)?;
    }

    // Any link will do for the upload, a fast one soonest.
    lab.set(Duration::ZERO, 1000.0)?;
    let program = std::env::current_exe()?;
    let site = Site::new(&desk.join("server"))?;
    let server = site.start(lab.on_server(&program), &format!("{SERVER_ADDRESS}:0"), &[])?;
    client(&lab, desk, &server, "publish", &[])?;

    let choices: Vec<_> = CHOICES
        .into_iter()
        .filter(|(name, _)| *name != "slots" || arguments.slots_searches > 0)
        .collect();
    let mut runs = Vec::new();
    let bar = progress("searching", arguments.rtt.len() * arguments.rate.len() * choices.len());
    for &rtt_ms in &arguments.rtt {
        for &rate_mbit in &arguments.rate {
            lab.set(Duration::from_secs_f64(rtt_ms / 1e3), rate_mbit)?;
            let rtt_ms_measured = lab.measured_round_trip()?;
            for &(choice, flags) in &choices {
                let file = if choice == "slots" { "s.npy" } else { "q.npy" };
                let more = [&["--parallel", "1", "--query", file], flags].concat();
                let answers = client(&lab, desk, &server, "search", &more)?;
                let link = (rtt_ms, rtt_ms_measured, rate_mbit);
                runs.push(summary(choice, link, &answers).context("an answer without figures")?);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    drop(server);

    let lines: Vec<Vec<String>> = runs.iter().map(line).collect();
    let head =
        ["link", "choice", "first ms", "median ms", "95 % ms", "up", "down", "keys, once", "plan"];
    output.line(table(&head, &lines))?;
    let candidates = arguments.corpus.candidates;
    output.result(&Report { rows, dimensions, candidates, runs })
}

/// So many queries, those of the corpus in turn.
fn in_turn(queries: &VectorSet, count: usize) -> Result<VectorSet> {
    let values = (0..count).flat_map(|at| queries.row(at % queries.rows())).copied().collect();
    Ok(VectorSet::new(queries.width(), values)?)
}

/// A vault of the corpus, by the commands that an owner would use.
fn make_vault(desk: &Path, arguments: &CorpusArguments, corpus: &Corpus) -> Result<()> {
    write_npy(&desk.join("docs.npy"), &corpus.documents)?;
    let cells = match arguments.cells {
        shard_client::CellCount::Auto => "auto".to_owned(),
        shard_client::CellCount::Cells(count) => count.to_string(),
        shard_client::CellCount::Micro => "micro".to_owned(),
    };
    let width = arguments.d_pub.unwrap_or((corpus.documents.width() / 4).max(1)).to_string();
    let (candidates, seed) = (arguments.candidates.to_string(), arguments.seed.to_string());
    let mut key = [0; 32];
    rand::TryRng::try_fill_bytes(&mut rand::rngs::SysRng, &mut key)?;
    fs::write(desk.join("key"), key)?;
    let open = ["vault", "--key-file", "key"];
    let shape =
        ["--cells", &cells, "--d-pub", &width, "--candidates", &candidates, "--seed", &seed];
    let init = ["init", "--protection", "rotated"];
    finished(shard()?.current_dir(desk).args(init).args(open).args(shape))?;
    finished(shard()?.current_dir(desk).arg("ingest").args(open).arg("docs.npy"))?;
    Ok(())
}

/// Runs a command of the client on its host and returns its report.
fn client(lab: &Lab, desk: &Path, server: &Served, command: &str, more: &[&str]) -> Result<Value> {
    let program = std::env::current_exe()?;
    let mut client = lab.on_client(&program);
    client.current_dir(desk).env("SHARD_TOKEN", server.token()).arg(command);
    client.args(["vault", "--key-file", "key", "--json", "-"]);
    client.args(["--server", &server.url("bench"), "--pin", server.pin()]).args(more);
    Ok(serde_json::from_slice(&finished(&mut client)?)?)
}

/// The figures of the searches after the first.
fn summary(choice: &'static str, link: (f64, f64, f64), answers: &Value) -> Option<Run> {
    let (first, rest) = answers.as_array()?.split_first()?;
    let ms: Vec<f64> = rest.iter().filter_map(|answer| answer["ms"].as_f64()).collect();
    let mean = |field: &str| {
        let figures = rest.iter().filter_map(|answer| answer["bytes"][field].as_f64());
        figures.sum::<f64>() / rest.len() as f64
    };
    let once = answers.as_array()?.iter().filter_map(|answer| answer["bytes"]["once"].as_f64());
    Some(Run {
        rtt_ms: link.0,
        rtt_ms_measured: link.1,
        rate_mbit: link.2,
        choice,
        searches: rest.len(),
        first_ms: first["ms"].as_f64()?,
        ms: Quantiles { p50: percentile(&ms, 0.5), p95: percentile(&ms, 0.95) },
        bytes_up: mean("up"),
        bytes_down: mean("down"),
        bytes_once: once.sum(),
        plan: rest.last()?["plan"].as_str()?.to_owned(),
    })
}

fn line(run: &Run) -> Vec<String> {
    let ms = |value: f64| format!("{value:.1}");
    vec![
        format!("{} ms, {} Mbit/s", run.rtt_ms, run.rate_mbit),
        run.choice.to_owned(),
        ms(run.first_ms),
        ms(run.ms.p50),
        ms(run.ms.p95),
        bytes(run.bytes_up),
        bytes(run.bytes_down),
        bytes(run.bytes_once),
        run.plan.split_once("; expected").map_or(&*run.plan, |(plan, _)| plan).to_owned(),
    ]
}
