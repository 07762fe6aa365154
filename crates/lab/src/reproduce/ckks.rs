//! What encrypted reranking costs: the paper's layout and ours, on SciFact, as `shard-lab bench
//! rerank` measures it. Three seeds of the partition and the keys, five searches each, on one
//! thread.

use anyhow::{Context, Result};
use clap::Parser;
use serde_json::Value;
use shard_audit::finding::{Finding, Section};
use shard_audit::subject::Corpus;

use super::SEED;
use crate::bench::{Bench, Rerank, pooled};
use crate::{Arguments, Command};

const NAME: &str = "ckks";
const SEEDS: u64 = 3;
const TRIALS: usize = 5;
const CANDIDATES: usize = 128;

/// A row of the paper's table, or of ours beside it.
struct Layout {
    setting: &'static str,
    flags: &'static [&'static str],
    /// Query ciphertexts, upload and response in MB, p50 and p95 in seconds; e5-small.
    paper: Option<[f64; 5]>,
}

const LAYOUTS: [Layout; 3] = [
    Layout {
        setting: "layout=slots,width=1",
        flags: &["--layout", "slots", "--width", "1"],
        paper: Some([30.0, 10.03, 30.13, 2.415, 2.504]),
    },
    Layout {
        setting: "layout=slots,width=8",
        flags: &["--layout", "slots", "--width", "8"],
        paper: Some([4.0, 1.34, 30.13, 3.049, 3.180]),
    },
    Layout { setting: "layout=coefficients", flags: &[], paper: None },
];

/// Figures of the paper for its whole grid: megabytes of keys, worst error, flips at the top,
/// least overlap of the first ten, least Kendall tau.
const PAPER_GRID: [f64; 5] = [34.08, 2.29e-6, 0.0, 1.0, 0.999754];

/// The paper's table of measured CKKS reranking.
///
/// # Errors
/// When there is no SciFact, or a search fails.
pub fn table(corpora: &[Corpus], progress: &dyn Fn(&str)) -> Result<Section> {
    let corpus = corpora
        .iter()
        .find(|corpus| (corpus.name.as_str(), corpus.encoder.as_str()) == ("scifact", "minilm"))
        .context("the table needs scifact/docs.npy and scifact/queries.npy")?;
    let mut section = Section::new(NAME, "Measured CKKS reranking at K = 128");
    section.notes = vec![
        "All-MiniLM-L6-v2 (384 dimensions) stands in for e5-small (384), and our own engine for \
         TenSEAL; e5-base (768 dimensions) cannot be had here. One thread; medians of 15 searches, \
         the worst of errors, the least of overlap and tau. Where the paper's figure is for its \
         whole grid, it stands beside every row."
            .to_owned(),
        "SciFact, whose 5,183 documents make small cells: 128 candidates touch more of 256 of them \
         than in the paper, and with one ciphertext for each the upload is larger."
            .to_owned(),
    ];
    for layout in &LAYOUTS {
        progress(layout.setting);
        let runs: Vec<Rerank> = (0..SEEDS).map(|at| flags(layout, SEED + at)).collect();
        let report = pooled(&runs, &corpus.vectors, &corpus.queries)?;
        section.findings.extend(findings(layout, &report, corpus.vectors.rows()));
    }
    Ok(section)
}

/// The flags of `shard-lab bench rerank`.
fn flags(layout: &Layout, seed: u64) -> Rerank {
    let (seed, trials, candidates) = (seed.to_string(), TRIALS.to_string(), CANDIDATES.to_string());
    let fixed = ["shard-lab", "bench", "rerank", "--seed", &seed, "--trials", &trials];
    let line = [&fixed[..], &["--candidates", &candidates], layout.flags].concat();
    match Arguments::parse_from(line).command {
        Command::Bench { bench: Bench::Rerank(arguments) } => arguments,
        _ => unreachable!("the line above says `bench rerank`"),
    }
}

fn findings(layout: &Layout, report: &Value, rows: usize) -> Vec<Finding> {
    let number =
        |pointer: &str| report.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let setting = format!("{},candidates={CANDIDATES},cells=256", layout.setting);
    let finding = |metric: &str, value: f64, paper: Option<f64>| {
        Finding::new(NAME, setting.clone(), metric, value).paper(paper).on(SEED, rows)
    };
    let of_row = |at: usize| layout.paper.map(|figures| figures[at]);
    let of_grid = |at: usize| layout.paper.map(|_| PAPER_GRID[at]);
    vec![
        finding("query_ciphertexts", number("/query_ciphertexts"), of_row(0)),
        finding("upload_mb", number("/bytes/up") / 1e6, of_row(1)),
        finding("response_mb", number("/bytes/down") / 1e6, of_row(2)),
        finding("p50_seconds", number("/wall_ms/total/p50") / 1e3, of_row(3)),
        finding("p95_seconds", number("/wall_ms/total/p95") / 1e3, of_row(4)),
        finding("keys_mb", number("/bytes/once") / 1e6, of_grid(0)),
        finding("max_abs_error", number("/max_abs_error"), of_grid(1)),
        finding("top1_flips", number("/top1_flips"), of_grid(2)),
        finding("top10_overlap", number("/top10_overlap"), of_grid(3)),
        finding("kendall_tau", number("/kendall_tau"), of_grid(4)),
        finding("active_cells", number("/active_cells"), None),
    ]
}
