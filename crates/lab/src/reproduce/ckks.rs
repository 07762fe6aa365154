//! What encrypted reranking costs: the paper's layout and ours, on SciFact, as `shard-lab bench
//! rerank` measures it. The paper's grid of candidates and cells per ciphertext; three seeds of
//! the partition and the keys, five searches each, on one thread.

use anyhow::{Context, Result};
use clap::Parser;
use shard_audit::finding::{Finding, Plot, Section, Series};
use shard_audit::subject::Corpus;
use shard_audit::tools::statistics::{below, generator, mean, quantile};

use super::SEED;
use crate::bench::{Bench, Phases, Rerank, Trial, pooled};
use crate::{Arguments, Command};

const NAME: &str = "ckks";
const SEEDS: u64 = 3;
const TRIALS: usize = 5;
const RESAMPLES: usize = 1000;

/// Numbers of candidates, as in the paper.
const CANDIDATES: [usize; 3] = [16, 64, 128];

/// Cells in one query ciphertext, as in the paper.
const WIDTHS: [usize; 4] = [1, 2, 4, 8];

/// A row of the paper's table for e5-small at 128 candidates: cells in a ciphertext, then query
/// ciphertexts, upload and response in MB, p50 and p95 in seconds.
const PAPER: [(usize, [f64; 5]); 2] =
    [(1, [30.0, 10.03, 30.13, 2.415, 2.504]), (8, [4.0, 1.34, 30.13, 3.049, 3.180])];

/// The paper's cut of the upload and rise of the median latency by packing eight cells into a
/// ciphertext, for e5-small at 128 candidates.
const PAPER_PACKING: [f64; 2] = [0.867, 0.263];

/// Figures of the paper for its whole grid: megabytes of keys, worst error, flips at the top,
/// least overlap of the first ten, least Kendall tau, least and greatest share of the server in
/// the time, most megabytes by which memory grew.
const PAPER_GRID: [f64; 8] = [34.08, 2.29e-6, 0.0, 1.0, 0.999_754, 0.81, 0.91, 46.8];

/// How a request is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    /// The paper's, with so many cells in a ciphertext.
    Slots(usize),
    /// Ours, as it is planned.
    Coefficients,
}

impl Layout {
    fn all() -> impl Iterator<Item = Self> {
        WIDTHS.into_iter().map(Self::Slots).chain([Self::Coefficients])
    }

    fn setting(self) -> String {
        match self {
            Self::Slots(width) => format!("layout=slots,width={width}"),
            Self::Coefficients => "layout=coefficients".to_owned(),
        }
    }

    fn name(self) -> String {
        match self {
            Self::Slots(1) => "one cell in a ciphertext".to_owned(),
            Self::Slots(width) => format!("{width} cells in a ciphertext"),
            Self::Coefficients => "our layout".to_owned(),
        }
    }

    /// The paper's row.
    fn paper(self, candidates: usize) -> Option<[f64; 5]> {
        let same = |row: &&(usize, [f64; 5])| self == Self::Slots(row.0) && candidates == 128;
        PAPER.iter().find(same).map(|row| row.1)
    }
}

/// The searches of one cell of the grid.
struct Measured {
    layout: Layout,
    candidates: usize,
    trials: Vec<Trial>,
    keys_bytes: f64,
}

/// The paper's table of measured CKKS reranking.
///
/// # Errors
/// When there is no SciFact, or a search fails.
pub fn table(corpora: &[Corpus], progress: &dyn Fn(&str)) -> Result<Section> {
    let corpus = corpora
        .iter()
        .find(|corpus| (corpus.name.as_str(), corpus.encoder.as_str()) == ("scifact", "minilm"))
        .context("the table needs scifact/docs.npy and scifact/queries.npy")?;
    let mut section = Section::new(NAME, "Measured CKKS reranking");
    section.notes = vec![
        "All-MiniLM-L6-v2 (384 dimensions) stands in for e5-small (384), and our own engine for \
         TenSEAL; e5-base (768 dimensions) cannot be had here. One thread; medians of 15 searches \
         with an interval by resampling them, the worst of errors, the least of overlap, tau and \
         correlation. Where the paper's figure is for its whole grid, it stands beside every row."
            .to_owned(),
        "Errors are of scores as our client returns them, rounded to a grid no finer than their noise; \
         the paper's are not rounded."
            .to_owned(),
        "SciFact, whose 5,183 documents make small cells: 128 candidates touch more of 256 of them \
         than in the paper, and with one ciphertext for each the upload is larger."
            .to_owned(),
        "p50_seconds and p95_seconds are on the wall. Shares of phases and latency_rise are of the \
         CPU time of one thread, which is what the wall shows on an idle machine and does not \
         change with the load. latency_rise and upload_cut are against one cell in a ciphertext, \
         for the same queries and seeds."
            .to_owned(),
        "memory_growth_mb is sampled before and after the server's part and at the end of a search, \
         as the paper samples it, and is the 95th percentile. Memory that an earlier search left to \
         the process does not show in it."
            .to_owned(),
    ];
    let mut grid: Vec<Measured> = Vec::new();
    for candidates in CANDIDATES {
        for layout in Layout::all() {
            progress(&format!("{}, {candidates} candidates", layout.name()));
            let runs: Vec<Rerank> =
                (0..SEEDS).map(|at| flags(layout, candidates, SEED + at)).collect();
            let (report, trials) = pooled(&runs, &corpus.vectors, &corpus.queries)?;
            let keys_bytes = report["bytes"]["once"].as_f64().unwrap_or(f64::NAN);
            grid.push(Measured { layout, candidates, trials, keys_bytes });
        }
    }
    let rows = corpus.vectors.rows();
    for measured in &grid {
        let plain = |other: &&Measured| {
            other.candidates == measured.candidates && other.layout == Layout::Slots(1)
        };
        section.findings.extend(measured.findings(rows));
        if matches!(measured.layout, Layout::Slots(2..)) {
            let plain = grid.iter().find(plain).expect("the grid has every width");
            section.findings.extend(measured.packing(plain, rows));
        }
    }
    section.findings.extend(over_the_grid(&grid, rows));
    section.plots = plots(&grid);
    Ok(section)
}

/// The flags of `shard-lab bench rerank`.
fn flags(layout: Layout, candidates: usize, seed: u64) -> Rerank {
    let (seed, trials, candidates) = (seed.to_string(), TRIALS.to_string(), candidates.to_string());
    let mut line = vec!["shard-lab", "bench", "rerank", "--seed", &seed, "--trials", &trials];
    line.extend(["--candidates", &candidates]);
    let width;
    if let Layout::Slots(cells) = layout {
        width = cells.to_string();
        line.extend(["--layout", "slots", "--width", &width]);
    }
    match Arguments::parse_from(line).command {
        Command::Bench { bench: Bench::Rerank(arguments) } => arguments,
        _ => unreachable!("the line above says `bench rerank`"),
    }
}

impl Measured {
    fn finding(&self, metric: &str, value: f64, paper: Option<f64>, rows: usize) -> Finding {
        let setting = format!("{},candidates={},cells=256", self.layout.setting(), self.candidates);
        Finding::new(NAME, setting, metric, value).paper(paper).on(SEED, rows)
    }

    fn values(&self, of: impl Fn(&Trial) -> f64) -> Vec<f64> {
        self.trials.iter().map(of).collect()
    }

    fn findings(&self, rows: usize) -> Vec<Finding> {
        let paper = self.layout.paper(self.candidates);
        let of_row = |at: usize| paper.map(|figures| figures[at]);
        let slots = self.layout != Layout::Coefficients;
        let of_grid = |at: usize| slots.then(|| PAPER_GRID[at]);
        let at_quantile = |metric: &str, values: &[f64], fraction: f64, paper| {
            let figure = |chosen: &[usize]| {
                let mut chosen: Vec<f64> = chosen.iter().map(|&at| values[at]).collect();
                chosen.sort_unstable_by(f64::total_cmp);
                quantile(&chosen, fraction)
            };
            let (value, interval) = resampled(values.len(), figure);
            self.finding(metric, value, paper, rows).ci95(interval)
        };
        let exact =
            |metric: &str, value: f64, paper: Option<f64>| self.finding(metric, value, paper, rows);
        let wall = self.values(|t| t.phases.total().wall.as_secs_f64());
        let fidelity = || self.trials.iter().map(|trial| trial.fidelity);
        let flips: Vec<f64> = fidelity().map(|f| f64::from(f.top1_flip)).collect();
        let overlap = fidelity().map(|f| f.top10_overlap).fold(1.0, f64::min);
        let correlation = fidelity().map(|f| f.pearson).fold(1.0, f64::min);
        let mut findings = vec![
            at_quantile(
                "query_ciphertexts",
                &self.values(|t| t.query_ciphertexts as f64),
                0.5,
                of_row(0),
            ),
            at_quantile("upload_mb", &self.values(|t| t.bytes_up as f64 / 1e6), 0.5, of_row(1)),
            at_quantile("response_mb", &self.values(|t| t.bytes_down as f64 / 1e6), 0.5, of_row(2)),
            at_quantile("p50_seconds", &wall, 0.5, of_row(3)),
            at_quantile("p95_seconds", &wall, 0.95, of_row(4)),
            at_quantile("cpu_p50_seconds", &self.values(cpu_seconds), 0.5, None),
            exact("keys_mb", self.keys_bytes / 1e6, of_grid(0)),
            exact("max_abs_error", worst(fidelity().map(|f| f.max_abs_error)), of_grid(1)),
            exact("top1_flips", flips.iter().sum(), of_grid(2)),
            exact("top10_overlap", overlap, of_grid(3)),
            exact("kendall_tau", fidelity().map(|f| f.kendall_tau).fold(1.0, f64::min), of_grid(4)),
            exact("pearson", correlation, None),
            exact("pearson_deficit", 1.0 - correlation, None),
            at_quantile("active_cells", &self.values(|t| t.active_cells as f64), 0.5, None),
        ];
        for (metric, phase) in SHARES {
            let shares = self.values(|trial| share(&trial.phases, phase));
            findings.push(at_quantile(metric, &shares, 0.5, None));
        }
        if let Some(growth) = self.memory_growth() {
            findings.push(at_quantile("memory_growth_mb", &growth, 0.95, None));
        }
        findings
    }

    /// What packing cells into a ciphertext saves and costs, against the same searches with one.
    fn packing(&self, plain: &Self, rows: usize) -> Vec<Finding> {
        let paper = |at: usize| {
            let same = self.layout == Layout::Slots(8) && self.candidates == 128;
            same.then(|| PAPER_PACKING[at])
        };
        let ratio = |of: fn(&Trial) -> f64, chosen: &[usize]| {
            let median = |measured: &Self| {
                let mut values: Vec<f64> =
                    chosen.iter().map(|&at| of(&measured.trials[at])).collect();
                values.sort_unstable_by(f64::total_cmp);
                quantile(&values, 0.5)
            };
            median(self) / median(plain)
        };
        let count = self.trials.len().min(plain.trials.len());
        let (cut, of_cut) = resampled(count, |at| 1.0 - ratio(|t| t.bytes_up as f64, at));
        let (rise, of_rise) = resampled(count, |at| ratio(cpu_seconds, at) - 1.0);
        vec![
            self.finding("upload_cut", cut, paper(0), rows).ci95(of_cut),
            self.finding("latency_rise", rise, paper(1), rows).ci95(of_rise),
        ]
    }

    /// Megabytes by which memory grew in each search, where the system says it.
    fn memory_growth(&self) -> Option<Vec<f64>> {
        self.trials.iter().map(|trial| Some(trial.memory_growth? as f64 / 1e6)).collect()
    }
}

/// Seconds of one phase.
type Seconds = fn(&Phases) -> f64;

/// Shares of the time, by phase.
const SHARES: [(&str, Seconds); 3] = [
    ("client_out_share", |phases| phases.client_out.cpu.as_secs_f64()),
    ("server_share", |phases| phases.server.cpu.as_secs_f64()),
    ("client_in_share", |phases| phases.client_in.cpu.as_secs_f64()),
];

fn share(phases: &Phases, phase: Seconds) -> f64 {
    phase(phases) / phases.total().cpu.as_secs_f64().max(1e-9)
}

fn cpu_seconds(trial: &Trial) -> f64 {
    trial.phases.total().cpu.as_secs_f64()
}

fn worst(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}

/// A statistic of all trials, and its percentile interval of 95 % over trials drawn with
/// replacement.
fn resampled(count: usize, statistic: impl Fn(&[usize]) -> f64) -> (f64, [f64; 2]) {
    let mut rng = generator(SEED, u64::MAX);
    let all: Vec<usize> = (0..count).collect();
    let draw = |_| statistic(&all.iter().map(|_| below(count, &mut rng)).collect::<Vec<_>>());
    let mut drawn: Vec<f64> = (0..RESAMPLES).map(draw).collect();
    drawn.sort_unstable_by(f64::total_cmp);
    (statistic(&all), [quantile(&drawn, 0.025), quantile(&drawn, 0.975)])
}

/// What the paper says of its whole grid, over the same grid in its layout.
fn over_the_grid(grid: &[Measured], rows: usize) -> Vec<Finding> {
    let slots = || grid.iter().filter(|measured| measured.layout != Layout::Coefficients);
    let server = |measured: &Measured| mean(&measured.values(|t| share(&t.phases, SHARES[1].1)));
    let shares: Vec<f64> = slots().map(server).collect();
    let trials = || slots().flat_map(|measured| &measured.trials);
    let flips = trials().map(|trial| f64::from(trial.fidelity.top1_flip)).collect::<Vec<_>>();
    let setting = "layout=slots,grid=all";
    let finding = |metric: &str, value: f64, paper: f64| {
        Finding::new(NAME, setting, metric, value).paper(paper).on(SEED, rows)
    };
    let least = shares.iter().copied().fold(1.0, f64::min);
    let growth = slots().filter_map(Measured::memory_growth).map(|mut growth| {
        growth.sort_unstable_by(f64::total_cmp);
        quantile(&growth, 0.95)
    });
    vec![
        Finding::share(NAME, setting, "top1_flip_rate", &flips).paper(0.0).on(SEED, rows),
        finding("max_abs_error", worst(trials().map(|t| t.fidelity.max_abs_error)), PAPER_GRID[1]),
        finding("server_share_lowest", least, PAPER_GRID[5]),
        finding("server_share_highest", worst(shares.into_iter()), PAPER_GRID[6]),
        finding("memory_growth_mb_highest", worst(growth), PAPER_GRID[7]),
    ]
}

/// Upload and time over candidates, a line for each layout.
fn plots(grid: &[Measured]) -> Vec<Plot> {
    let plot = |name: &str, title: &str, y_label: &str, of: fn(&Trial) -> f64| {
        let line = |layout: Layout| Series {
            name: layout.name(),
            points: grid
                .iter()
                .filter(|measured| measured.layout == layout)
                .map(|measured| {
                    let values = measured.values(of);
                    let median = |chosen: &[usize]| {
                        let mut chosen: Vec<f64> = chosen.iter().map(|&at| values[at]).collect();
                        chosen.sort_unstable_by(f64::total_cmp);
                        quantile(&chosen, 0.5)
                    };
                    let (value, interval) = resampled(values.len(), median);
                    (measured.candidates as f64, value, Some(interval))
                })
                .collect(),
        };
        Plot {
            name: name.to_owned(),
            title: title.to_owned(),
            x_label: "candidates".to_owned(),
            y_label: y_label.to_owned(),
            logarithmic: true,
            series: [Layout::Slots(1), Layout::Slots(4), Layout::Slots(8), Layout::Coefficients]
                .map(line)
                .into(),
        }
    };
    vec![
        plot("ckks-upload", "Upload of a query", "megabytes", |t| t.bytes_up as f64 / 1e6),
        plot("ckks-time", "Encrypted reranking", "CPU seconds of one thread", cpu_seconds),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_of_the_grid() {
        let packed = flags(Layout::Slots(4), 64, 7);
        let corpus = &packed.corpus;
        assert_eq!((packed.plan.width, corpus.candidates, corpus.seed), (4, 64, 7));
        assert_eq!(packed.trials, TRIALS);
        assert_eq!(Layout::all().count(), 5);
    }

    #[test]
    fn intervals_hold_the_statistic_and_widen_with_the_spread() {
        let values: Vec<f64> = (0..15).map(f64::from).collect();
        let mean_of = |scale: f64| {
            resampled(values.len(), |chosen| {
                scale * chosen.iter().map(|&at| values[at]).sum::<f64>() / chosen.len() as f64
            })
        };
        let ((value, [low, high]), (_, [lower, higher])) = (mean_of(1.0), mean_of(3.0));
        assert!(value == 7.0 && low < value && value < high);
        assert!((higher - lower) > 2.9 * (high - low));
        assert_eq!(resampled(4, |_| 2.0), (2.0, [2.0, 2.0]));
    }

    #[test]
    fn the_papers_figures_stand_beside_its_own_rows_only() {
        assert!(Layout::Slots(8).paper(128).is_some() && Layout::Slots(8).paper(64).is_none());
        assert!(Layout::Slots(2).paper(128).is_none());
        assert!(Layout::Coefficients.paper(128).is_none());
    }
}
