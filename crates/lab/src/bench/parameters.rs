//! `shard-lab bench parameters`: which parameter sets are worth choosing.
//!
//! The sweep of the paper's baseline, for both layouts: `(N, chain, scale)` for slots and
//! `(N, bits up, bits down)` for coefficients. Every set is held against the security ceiling of
//! its degree; those within it score the same random vectors. A set is in the Pareto set of its
//! layout unless another is no worse in time, bytes and error bound, and better in one of them.

use anyhow::{Result, bail};
use serde_json::{Value, json};
use shard_rlwe::slots::{
    Candidate, SlotsClient, SlotsLayout, SlotsNoise, SlotsParameters, SlotsServer,
    classical_ceiling,
};
use shard_rlwe::{Entropy, Layout, MODULUS, Parameters as Coefficients, RingDegree};

use super::arguments::Parameters;
use super::clock::{on_threads, timed};
use super::exercise::{Exercise, NORM};
use shard_cli::output::{Output, bytes, table};

/// Rows that a slot set scores; its time is the same for every one.
const SLOT_ROWS: usize = 4;

/// Degree, chain and scale of the sets tried. The last two are there to be refused.
const SLOT_SETS: [(usize, &[u32], u32); 14] = [
    (4096, &[36, 25, 36], 25),
    (4096, &[40, 29, 40], 29),
    (4096, &[38, 30, 40], 30),
    (8192, &[50, 30, 50], 30),
    (8192, &[50, 40, 50], 40),
    (8192, &[60, 40, 60], 40),
    (8192, &[60, 45, 60], 45),
    (8192, &[60, 50, 60], 50),
    (8192, &[50, 40, 40, 50], 40),
    (8192, &[60, 40, 40, 60], 40),
    (16_384, &[60, 40, 40, 60], 40),
    (16_384, &[60, 50, 50, 60], 50),
    (4096, &[60, 40, 60], 40),
    (8192, &[60, 40, 40, 40, 60], 40),
];

const DEGREES: [usize; 4] = [1024, 2048, 4096, 8192];
const BITS_UP: [u32; 5] = [34, 38, 42, 46, 50];
const BITS_DOWN: [u32; 5] = [18, 22, 26, 28, 32];

/// A set that was tried.
struct Tried {
    layout: &'static str,
    degree: usize,
    log2_q: f64,
    ceiling: u32,
    /// The rest of the set in words.
    set: String,
    outcome: Result<Figures, String>,
    pareto: bool,
}

#[derive(Clone, Copy)]
struct Figures {
    /// Of the server.
    ms_per_candidate: f64,
    /// Up and down together.
    bytes: usize,
    max_abs_error: f64,
    /// What the noise model allows.
    error_bound: f64,
}

/// Times closer than this factor are taken for the same: they are measured.
const TIME_TOLERANCE: f64 = 1.1;

impl Figures {
    /// No worse in anything and better in something. The error is the model's: the largest of a
    /// few measured ones is a matter of chance.
    fn dominates(&self, other: &Self) -> bool {
        let time = other.ms_per_candidate / self.ms_per_candidate;
        let no_worse = time * TIME_TOLERANCE >= 1.0
            && self.bytes <= other.bytes
            && self.error_bound <= other.error_bound;
        let better = time > TIME_TOLERANCE
            || self.bytes < other.bytes
            || self.error_bound < other.error_bound;
        no_worse && better
    }
}

pub fn run(arguments: &Parameters, output: &Output<'_>) -> Result<()> {
    if arguments.cells > arguments.candidates {
        bail!("{} cells of {} candidates", arguments.cells, arguments.candidates);
    }
    let mut tried = on_threads(1, || {
        let mut tried = Vec::new();
        for degree in DEGREES {
            tried.extend(coefficient_sets(arguments, degree)?);
        }
        for (degree, chain, scale) in SLOT_SETS {
            tried.push(slot_set(arguments, degree, chain, scale)?);
        }
        Ok(tried)
    })?;
    mark_pareto(&mut tried);
    output.line(text(&tried))?;
    output.result(&json!({
        "width": arguments.width,
        "candidates": arguments.candidates,
        "cells": arguments.cells,
        "sets": tried.iter().map(json).collect::<Vec<_>>(),
    }))
}

fn coefficient_sets(arguments: &Parameters, degree: usize) -> Result<Vec<Tried>> {
    let degree = RingDegree::new(degree)?;
    let tried = |set: String, outcome| Tried {
        layout: "coefficients",
        degree: degree.coefficients(),
        log2_q: (MODULUS as f64).log2(),
        ceiling: degree.max_modulus_bits(),
        set,
        outcome,
        pareto: false,
    };
    let exercise = Exercise::new(arguments.width, arguments.candidates, arguments.cells)?;
    let layout = Layout::fewest_tiles(degree, arguments.width)?;
    let mut sets = Vec::new();
    for up in BITS_UP {
        for down in BITS_DOWN {
            let set = format!("{up} bits up, {down} down");
            let parameters = match Coefficients::new(degree, up, down) {
                Ok(parameters) => parameters,
                Err(refusal) => {
                    // The ceiling concerns the degree, whatever the bits.
                    return Ok(vec![tried("any bits".to_owned(), Err(refusal.to_string()))]);
                }
            };
            let mut prepared = exercise.prepare(&parameters, &layout)?;
            let mut best = f64::INFINITY;
            let mut figures = Figures {
                ms_per_candidate: 0.0,
                bytes: 0,
                max_abs_error: 0.0,
                error_bound: prepared.error_bound(),
            };
            for _ in 0..=arguments.repeats {
                let taken = prepared.request(&parameters)?;
                best = best.min(taken.server.cpu.as_secs_f64());
                figures.bytes = taken.bytes_up + taken.bytes_down;
                figures.max_abs_error = figures.max_abs_error.max(taken.max_abs_error);
            }
            figures.ms_per_candidate = best * 1e3 / arguments.candidates as f64;
            sets.push(tried(set, Ok(figures)));
        }
    }
    Ok(sets)
}

fn slot_set(arguments: &Parameters, n: usize, chain: &[u32], scale: u32) -> Result<Tried> {
    let degree = RingDegree::new(n)?;
    let tried = |outcome| Tried {
        layout: "slots",
        degree: n,
        log2_q: f64::from(chain.iter().sum::<u32>()),
        ceiling: classical_ceiling(degree),
        set: format!("chain {chain:?}, scale 2^{scale}"),
        outcome,
        pareto: false,
    };
    let parameters = match SlotsParameters::with_scale(degree, chain, scale) {
        Ok(parameters) => parameters,
        Err(refusal) => return Ok(tried(Err(refusal.to_string()))),
    };
    let layout = match SlotsLayout::new(parameters.clone(), arguments.width, 1) {
        Ok(layout) => layout,
        Err(refusal) => return Ok(tried(Err(refusal.to_string()))),
    };
    let span = layout.span();
    let exercise = Exercise::new(arguments.width, SLOT_ROWS, 1)?;
    let (query, rows) = exercise.real();
    let (client, context) = SlotsClient::generate(layout.clone(), Entropy::from_os()?)?;
    let server = SlotsServer::new(layout, context)?;
    let candidates: Vec<Candidate<'_>> =
        rows.iter().map(|row| Candidate { cell: 0, row, prefix_score: 0.0 }).collect();
    let (mut best, mut error) = (f64::INFINITY, 0.0_f64);
    for _ in 0..=arguments.repeats {
        let sent = client.encrypt_queries(std::slice::from_ref(&query), Entropy::from_os()?)?;
        let (responses, spent) = timed(|| server.score(&sent, &candidates));
        best = best.min(spent.cpu.as_secs_f64());
        for (response, row) in responses?.iter().zip(&rows) {
            let exact: f64 = query.iter().zip(row).map(|(t, z)| t * z).sum();
            error = error.max((client.open(response, 0)? - exact).abs());
        }
    }
    Ok(tried(Ok(Figures {
        ms_per_candidate: best * 1e3 / SLOT_ROWS as f64,
        bytes: arguments.cells * parameters.query_bytes()
            + arguments.candidates * parameters.response_bytes(),
        max_abs_error: error,
        error_bound: SlotsNoise::new(&parameters).error_bound(1.0, NORM, span),
    })))
}

fn mark_pareto(tried: &mut [Tried]) {
    let figures: Vec<_> =
        tried.iter().map(|t| (t.layout, t.outcome.as_ref().ok().copied())).collect();
    for tried in tried.iter_mut() {
        let Ok(own) = &tried.outcome else { continue };
        let rivals = figures.iter().filter(|(layout, _)| *layout == tried.layout);
        tried.pareto = !rivals.filter_map(|(_, f)| f.as_ref()).any(|rival| rival.dominates(own));
    }
}

fn json(tried: &Tried) -> Value {
    let mut value = json!({
        "layout": tried.layout,
        "ring_degree": tried.degree,
        "log2_q": tried.log2_q,
        "ceiling": tried.ceiling,
        "set": tried.set,
        "pareto": tried.pareto,
    });
    match &tried.outcome {
        Ok(figures) => {
            value["server_ms_per_candidate"] = json!(figures.ms_per_candidate);
            value["bytes"] = json!(figures.bytes);
            value["max_abs_error"] = json!(figures.max_abs_error);
            value["error_bound"] = json!(figures.error_bound);
        }
        Err(refusal) => value["refused"] = json!(refusal),
    }
    value
}

fn text(tried: &[Tried]) -> String {
    let header =
        ["layout", "N", "log2 q", "ceiling", "set", "ms per candidate", "bytes", "error", "bound"];
    let row = |tried: &Tried| {
        let figures = tried.outcome.as_ref().ok()?;
        tried.pareto.then(|| {
            vec![
                tried.layout.to_owned(),
                tried.degree.to_string(),
                format!("{:.0}", tried.log2_q),
                tried.ceiling.to_string(),
                tried.set.clone(),
                format!("{:.4}", figures.ms_per_candidate),
                bytes(figures.bytes as f64),
                format!("{:.1e}", figures.max_abs_error),
                format!("{:.1e}", figures.error_bound),
            ]
        })
    };
    let rows: Vec<_> = tried.iter().filter_map(row).collect();
    let refused = tried.iter().filter_map(|t| {
        let refusal = t.outcome.as_ref().err()?;
        Some(format!("  refused: {} {}: {refusal}", t.layout, t.set))
    });
    let refused: Vec<String> = refused.collect();
    let measured = tried.len() - refused.len();
    format!(
        "{}\n\n  {} of {measured} sets are in the Pareto set of their layout\n{}",
        table(&header, &rows),
        rows.len(),
        refused.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(layout: &'static str, ms: f64, bytes: usize, error: f64) -> Tried {
        let figures =
            Figures { ms_per_candidate: ms, bytes, max_abs_error: error, error_bound: error };
        let (set, outcome) = (String::new(), Ok(figures));
        Tried { layout, degree: 2048, log2_q: 50.0, ceiling: 51, set, outcome, pareto: false }
    }

    #[test]
    fn only_sets_that_no_other_beats_in_everything_are_kept() {
        let mut sets = [
            tried("slots", 1.0, 100, 1e-6),
            tried("slots", 0.95, 100, 2e-6), // as fast as the first, and worse
            tried("slots", 2.0, 50, 5e-6),
            tried("coefficients", 9.0, 900, 9e-6), // alone in its layout
        ];
        mark_pareto(&mut sets);
        assert_eq!(sets.map(|set| set.pareto), [true, false, true, true]);
    }
}
