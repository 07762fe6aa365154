//! What a run of `shard-lab bench rerank` says.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use shard_client::CellCount;
use shard_rlwe::Plan;
use shard_rlwe::slots::SlotsParameters;

use super::arguments::Rerank;
use super::clock::{PHASES, Phases, milliseconds, peak_memory_bytes};
use super::fidelity::Fidelity;
use super::owner::Owner;
use shard_cli::output::{bytes, percentile, table};

/// How requests were laid out.
#[derive(Clone, PartialEq, Debug)]
pub struct Shape {
    pub layout: &'static str,
    pub ring_degree: usize,
    pub log2_q: f64,
    pub cells_per_ciphertext: usize,
    pub tiles: usize,
    pub merge: bool,
    /// The rest in words.
    pub text: String,
}

impl Shape {
    /// What the planner chose.
    pub fn planned(plan: &Plan) -> Self {
        Self {
            layout: "coefficients",
            ring_degree: plan.layout.degree().coefficients(),
            log2_q: plan.parameters.log2_modulus(),
            cells_per_ciphertext: plan.layout.blocks(),
            tiles: plan.layout.tiles(),
            merge: plan.span.is_some(),
            text: plan.to_string(),
        }
    }

    /// The paper's layout.
    pub fn slots(parameters: &SlotsParameters, cells: usize) -> Self {
        Self {
            layout: "slots",
            ring_degree: parameters.degree().coefficients(),
            log2_q: parameters.log2_modulus(),
            cells_per_ciphertext: cells,
            tiles: 1,
            merge: false,
            text: format!(
                "chain {:?}, scale 2^{}, a response for every candidate",
                parameters.chain(),
                parameters.scale_bits()
            ),
        }
    }
}

/// One measured search.
pub struct Trial {
    /// Number of the query.
    pub query: usize,
    pub phases: Phases,
    pub bytes_up: usize,
    pub bytes_down: usize,
    pub active_cells: usize,
    pub query_ciphertexts: usize,
    pub response_ciphertexts: usize,
    pub fidelity: Fidelity,
    /// By how many bytes the process's memory was larger during the search than before it, sampled
    /// before and after the server's part and at the end.
    pub memory_growth: Option<u64>,
    pub shape: Shape,
    /// Candidates by row.
    pub candidates: Vec<u32>,
}

/// All measured searches.
pub struct Run {
    pub trials: Vec<Trial>,
    /// Bytes of each set of keys that was sent ahead of requests.
    pub once: Vec<usize>,
}

impl Run {
    /// The figures. Counts, bytes and times are medians, errors the worst, overlap the mean, tau
    /// and Pearson's correlation the least; the shape is that of most requests.
    pub fn report(&self, arguments: &Rerank, owner: &Owner) -> Value {
        let shape = self.commonest_shape();
        let phases: Vec<Phases> = self.trials.iter().map(|trial| trial.phases).collect();
        let fidelity = || self.trials.iter().map(|trial| trial.fidelity);
        let overlap: f64 = fidelity().map(|f| f.top10_overlap).sum();
        let split = owner.collection.model().split();
        let cells = match arguments.corpus.cells {
            CellCount::Auto => json!("auto"),
            CellCount::Cells(count) => json!(count),
            CellCount::Micro => json!("micro"),
        };
        json!({
            "layout": shape.layout,
            "ring_degree": shape.ring_degree,
            "log2_q": shape.log2_q,
            "cells_per_ciphertext": shape.cells_per_ciphertext,
            "tiles": shape.tiles,
            "merge": shape.merge,
            "active_cells": self.median(|t| t.active_cells),
            "query_ciphertexts": self.median(|t| t.query_ciphertexts),
            "response_ciphertexts": self.median(|t| t.response_ciphertexts),
            "bytes": {
                "up": self.median(|t| t.bytes_up),
                "down": self.median(|t| t.bytes_down),
                "once": self.once.iter().max().copied().unwrap_or(0),
            },
            "cpu_ms": milliseconds(&phases, |spent| spent.cpu),
            "wall_ms": milliseconds(&phases, |spent| spent.wall),
            "max_abs_error": fidelity().map(|f| f.max_abs_error).fold(0.0, f64::max),
            "top1_flips": fidelity().filter(|f| f.top1_flip).count(),
            "top10_overlap": overlap / self.trials.len() as f64,
            "kendall_tau": fidelity().map(|f| f.kendall_tau).fold(1.0, f64::min),
            "pearson": fidelity().map(|f| f.pearson).fold(1.0, f64::min),
            "trials": self.trials.len(),
            "peak_memory_bytes": peak_memory_bytes(),
            "plan": shape.text,
            "sessions": self.once.len(),
            "workload": {
                "documents": owner.collection.index().rows(),
                "width": split.width(),
                "d_pub": split.prefix(),
                "cells": cells,
                "candidates": arguments.corpus.candidates,
                "threads": arguments.threads,
                "seed": arguments.corpus.seed,
            },
        })
    }

    /// Writes the candidates of every trial, by row and by number of cell.
    pub fn write_candidates(&self, owner: &Owner, directory: &Path) -> Result<()> {
        let index = owner.collection.index();
        let trial = |trial: &Trial| {
            let cells = trial.candidates.iter().map(|&row| index.cell(row).unwrap_or(row));
            json!({
                "query": trial.query,
                "rows": trial.candidates,
                "cells": cells.collect::<Vec<_>>(),
            })
        };
        let trials: Vec<Value> = self.trials.iter().map(trial).collect();
        let value = json!({ "d_pub": owner.collection.model().split().prefix(), "trials": trials });
        let path = directory.join("candidates.json");
        std::fs::write(&path, value.to_string())
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn median(&self, of: impl Fn(&Trial) -> usize) -> usize {
        let samples: Vec<f64> = self.trials.iter().map(|trial| of(trial) as f64).collect();
        percentile(&samples, 0.5) as usize
    }

    /// Ties go to the shape that came first.
    fn commonest_shape(&self) -> &Shape {
        let count = |shape: &Shape| {
            let same = |trial: &&Trial| {
                let other = &trial.shape;
                (other.ring_degree, other.cells_per_ciphertext, other.tiles, other.merge)
                    == (shape.ring_degree, shape.cells_per_ciphertext, shape.tiles, shape.merge)
            };
            self.trials.iter().filter(same).count()
        };
        let shapes = self.trials.iter().rev().map(|trial| &trial.shape);
        shapes.max_by_key(|shape| count(shape)).expect("at least one trial is run")
    }
}

/// A table for a person.
pub fn text(report: &Value) -> String {
    let row = |(name, _): &(&str, _)| {
        let figure = |clock: &str, at: &str| {
            let milliseconds = report[clock][*name][at].as_f64().unwrap_or_default();
            format!("{milliseconds:.3}")
        };
        vec![
            name.replace('_', " "),
            figure("cpu_ms", "p50"),
            figure("cpu_ms", "p95"),
            figure("wall_ms", "p50"),
            figure("wall_ms", "p95"),
        ]
    };
    let rows: Vec<_> = PHASES.iter().map(row).collect();
    let header = ["milliseconds", "cpu p50", "cpu p95", "wall p50", "wall p95"];
    let amount = |way: &str| bytes(report["bytes"][way].as_f64().unwrap_or_default());
    format!(
        "{}\n\n  {} up in {} ciphertexts for {} cells, {} down in {}, {} of keys once\n  \
         worst score error {:.2e}, {} of {} top-1 flips, top-10 overlap {:.4}, \
         least Kendall tau {:.6}\n  peak memory {}\n  plan: {}",
        table(&header, &rows),
        amount("up"),
        report["query_ciphertexts"],
        report["active_cells"],
        amount("down"),
        report["response_ciphertexts"],
        amount("once"),
        report["max_abs_error"].as_f64().unwrap_or_default(),
        report["top1_flips"],
        report["trials"],
        report["top10_overlap"].as_f64().unwrap_or_default(),
        report["kendall_tau"].as_f64().unwrap_or_default(),
        bytes(report["peak_memory_bytes"].as_f64().unwrap_or_default()),
        report["plan"].as_str().unwrap_or_default(),
    )
}
