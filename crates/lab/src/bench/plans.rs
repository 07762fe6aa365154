//! `shard-lab bench plans`: whether the planner's picks are the best there are.
//!
//! Over a grid of workloads, every plan whose estimated cost is near the best is measured: seconds
//! of one core at the client and at the server. The cost of a plan under an objective is, as in
//! the planner,
//!
//! ```text
//! server + client + (up + down + once / 64) * seconds per byte .
//! ```

use anyhow::{Result, bail};
use serde_json::{Value, json};
use shard_rlwe::{Objective, Plan, Workload, candidates, plan};

use super::arguments::Plans;
use super::clock::on_threads;
use super::exercise::Exercise;
use shard_cli::output::{Output, progress, table};

/// Requests over which keys are spread.
const SESSION_REQUESTS: u32 = 64;

/// Error a score may have.
const PRECISION: f64 = 2e-6;

/// An objective, and up to how many times the best estimate plans are measured.
struct Goal {
    name: &'static str,
    objective: Objective,
    within: f64,
}

/// Links of 10 Gbit/s, with nothing merged, and of 100 Mbit/s; and bytes that outweigh any
/// computing. Bytes are known beforehand, so there only near ties need measuring.
const GOALS: [Goal; 3] = [
    Goal { name: "latency", objective: Objective::Compute, within: 3.0 },
    Goal { name: "balanced", objective: Objective::Balanced, within: 3.0 },
    Goal { name: "bytes", objective: Objective::Bytes, within: 1.1 },
];

/// A plan with what it took.
struct Measured {
    plan: Plan,
    server: f64,
    client: f64,
}

impl Measured {
    fn cost(&self, objective: Objective) -> f64 {
        let bytes = self.plan.estimate.travelling(SESSION_REQUESTS);
        objective.cost(self.server + self.client, bytes)
    }
}

fn estimated(plan: &Plan, objective: Objective) -> f64 {
    let estimate = &plan.estimate;
    objective.cost(estimate.server + estimate.client, estimate.travelling(SESSION_REQUESTS))
}

/// One workload of the grid.
struct Point {
    width: usize,
    candidates: usize,
    cells: usize,
    measured: Vec<Measured>,
}

pub fn run(arguments: &Plans, output: &Output<'_>) -> Result<()> {
    let mut grid = Vec::new();
    for &width in &arguments.widths {
        if width > shard_rlwe::MAX_WIDTH {
            bail!("vectors of width {width}: at most {} are supported", shard_rlwe::MAX_WIDTH);
        }
        for &candidates in &arguments.candidates {
            let mut cells: Vec<usize> =
                arguments.cells.iter().copied().filter(|&cells| cells < candidates).collect();
            cells.push(candidates);
            grid.extend(cells.into_iter().map(|cells| (width, candidates, cells)));
        }
    }
    let bar = progress("measuring", grid.len());
    let points = on_threads(1, || {
        let measure = |&(width, candidates, cells): &(usize, usize, usize)| {
            let point = Point::measure(width, candidates, cells, arguments.repeats);
            bar.inc(1);
            point
        };
        grid.iter().map(measure).collect::<Result<Vec<_>>>()
    });
    bar.finish_and_clear();
    let points = points?;
    let picks: Vec<Vec<Pick>> = points.iter().map(Point::picks).collect::<Result<_>>()?;
    output.line(text(&points, &picks))?;
    output.result(&json!({
        "precision": PRECISION,
        "session_requests": SESSION_REQUESTS,
        "seconds_per_byte": GOALS.map(|goal| json!([goal.name, goal.objective.seconds_per_byte()])),
        "columns": ["ring_degree", "tiles", "blocks", "merged", "server_us", "client_us"],
        "points": points.iter().zip(&picks).map(|(p, picks)| p.json(picks)).collect::<Vec<_>>(),
    }))
}

impl Point {
    fn measure(width: usize, candidates: usize, cells: usize, repeats: usize) -> Result<Self> {
        let exercise = Exercise::new(width, candidates, cells)?;
        let plans = worth_measuring(&workload(&exercise, true));
        let measure = |plan: Plan| -> Result<Measured> {
            let mut prepared = exercise.prepare(&plan.parameters, &plan.layout)?;
            let (mut server, mut client) = (f64::INFINITY, f64::INFINITY);
            for _ in 0..=repeats {
                let taken = prepared.request(&plan.parameters)?;
                server = server.min(taken.server.cpu.as_secs_f64());
                client = client.min((taken.client_out + taken.client_in).cpu.as_secs_f64());
            }
            Ok(Measured { plan, server, client })
        };
        let measured = plans.into_iter().map(measure).collect::<Result<_>>()?;
        Ok(Self { width, candidates, cells, measured })
    }

    /// For every objective the plan that is picked and the best of those measured.
    fn picks(&self) -> Result<Vec<Pick>> {
        let exercise = Exercise::new(self.width, self.candidates, self.cells)?;
        let pick = |goal: &Goal| {
            let (merging, objective) = (goal.objective.merges(), goal.objective);
            let picked = plan(&workload(&exercise, merging), goal.objective);
            let allowed = || {
                let measured = self.measured.iter().enumerate();
                measured.filter(move |(_, m)| merging || m.plan.span.is_none())
            };
            let cost = |at: usize| self.measured[at].cost(objective);
            let picked = allowed()
                .find(|(_, measured)| measured.plan.layout == picked.layout)
                .expect("what has the least estimate is measured")
                .0;
            let best = allowed()
                .min_by(|a, b| a.1.cost(objective).total_cmp(&b.1.cost(objective)))
                .expect("at least one plan is measured")
                .0;
            Pick { objective: goal.name, picked, best, ratio: cost(picked) / cost(best) }
        };
        Ok(GOALS.iter().map(pick).collect())
    }

    fn json(&self, picks: &[Pick]) -> Value {
        let microseconds = |seconds: f64| (seconds * 1e7).round() / 10.0;
        let plans = self.measured.iter().map(|measured| {
            let layout = &measured.plan.layout;
            json!([
                layout.degree().coefficients(),
                layout.tiles(),
                layout.blocks(),
                layout.is_merged(),
                microseconds(measured.server),
                microseconds(measured.client),
            ])
        });
        let picks = picks.iter().map(|pick| {
            json!({
                "objective": pick.objective,
                "picked": pick.picked,
                "best": pick.best,
                "ratio": (pick.ratio * 1e3).round() / 1e3,
            })
        });
        json!({
            "width": self.width,
            "candidates": self.candidates,
            "cells": self.cells,
            "plans": plans.collect::<Vec<_>>(),
            "picks": picks.collect::<Vec<_>>(),
        })
    }
}

/// What the planner chose beside what it should have chosen, as places in the list of plans.
struct Pick {
    objective: &'static str,
    picked: usize,
    best: usize,
    ratio: f64,
}

fn workload(exercise: &Exercise, merging: bool) -> Workload<'_> {
    Workload {
        width: exercise.width,
        groups: &exercise.groups,
        operands: exercise.operands,
        bound: exercise.bound,
        precision: PRECISION,
        keys: None,
        merging,
        session_requests: SESSION_REQUESTS,
    }
}

/// Plans whose estimate is near the best under some objective.
fn worth_measuring(workload: &Workload<'_>) -> Vec<Plan> {
    let plans = candidates(workload);
    let near = |plan: &Plan| {
        GOALS.iter().any(|goal| {
            let (merging, objective) = (goal.objective.merges(), goal.objective);
            let rivals = plans.iter().filter(|rival| merging || rival.span.is_none());
            let best =
                rivals.map(|rival| estimated(rival, objective)).fold(f64::INFINITY, f64::min);
            (merging || plan.span.is_none()) && estimated(plan, objective) <= goal.within * best
        })
    };
    plans.iter().filter(|plan| near(plan)).cloned().collect()
}

fn text(points: &[Point], picks: &[Vec<Pick>]) -> String {
    let header =
        ["d", "K", "cells", "objective", "picked", "best", "picked ms", "best ms", "ratio"];
    let mut rows = Vec::new();
    for (point, picks) in points.iter().zip(picks) {
        for pick in picks {
            let name = |at: usize| {
                let layout = &point.measured[at].plan.layout;
                let merged = if layout.is_merged() { " merged" } else { "" };
                format!("{}/{}t/{}b{merged}", layout.degree(), layout.tiles(), layout.blocks())
            };
            let cpu = |at: usize| {
                let measured = &point.measured[at];
                format!("{:.2}", (measured.server + measured.client) * 1e3)
            };
            rows.push(vec![
                point.width.to_string(),
                point.candidates.to_string(),
                point.cells.to_string(),
                pick.objective.to_owned(),
                name(pick.picked),
                name(pick.best),
                cpu(pick.picked),
                cpu(pick.best),
                format!("{:.3}", pick.ratio),
            ]);
        }
    }
    let all = || picks.iter().flatten();
    let within = all().filter(|pick| pick.ratio <= 1.1).count();
    let worst = all().map(|pick| pick.ratio).fold(1.0, f64::max);
    let (total, plans) =
        (all().count(), points.iter().map(|point| point.measured.len()).sum::<usize>());
    format!(
        "{}\n\n  {within} of {total} picks within 10 % of the best of {plans} measured plans; \
         worst ratio {worst:.3}",
        table(&header, &rows)
    )
}
