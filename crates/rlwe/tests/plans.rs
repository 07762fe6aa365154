//! The planner against a record of what plans really cost.
//!
//! `plans.json` is what `shard-lab bench plans --json FILE` wrote on one core of an AMD EPYC (Zen 4),
//! without its spaces and its `picks`: for every workload of a grid, each plan near the best with
//! the microseconds of one core that the server and the client took.

use serde_json::Value;
use shard_rlwe::{Objective, OperandBound, OperandScale, Plan, Workload, candidates, plan};

/// Norm of the rows that were measured.
const NORM: f64 = 0.8;

/// Cost that a pick may have, in times of the best.
const ALLOWED: f64 = 1.1;

fn number(value: &Value) -> usize {
    value.as_u64().expect("a count") as usize
}

/// Seconds of one core, by layout: degree, tiles, blocks, whether merged.
fn recorded(point: &Value) -> Vec<([usize; 3], bool, f64)> {
    let plans = point["plans"].as_array().expect("a list of plans").iter();
    plans
        .map(|row| {
            let shape = [&row[0], &row[1], &row[2]].map(number);
            let microseconds = row[4].as_f64().expect("a time") + row[5].as_f64().expect("a time");
            (shape, row[3].as_bool().expect("a flag"), microseconds * 1e-6)
        })
        .collect()
}

fn shape(plan: &Plan) -> ([usize; 3], bool) {
    let layout = &plan.layout;
    ([layout.degree().coefficients(), layout.tiles(), layout.blocks()], layout.is_merged())
}

#[test]
fn picks_are_within_a_tenth_of_the_measured_best() {
    let record: Value = serde_json::from_str(include_str!("plans.json")).unwrap();
    let session_requests = record["session_requests"].as_f64().unwrap() as u32;
    let operands = OperandScale::for_norm(NORM);
    let mut picks = 0;
    for point in record["points"].as_array().unwrap() {
        let [width, count, cells] = ["width", "candidates", "cells"].map(|key| number(&point[key]));
        let groups: Vec<usize> =
            (0..cells).map(|cell| count / cells + usize::from(cell < count % cells)).collect();
        let times = recorded(point);
        for objective in [Objective::Compute, Objective::Balanced, Objective::Bytes] {
            let workload = Workload {
                width,
                groups: &groups,
                operands,
                bound: OperandBound::new(NORM * 2_f64.powi(operands.exponent())),
                precision: record["precision"].as_f64().unwrap(),
                keys: None,
                merging: objective.merges(),
                session_requests,
            };
            let cost = |plan: &Plan| {
                let (shape, merged) = shape(plan);
                let found = times.iter().find(|time| time.0 == shape && time.1 == merged)?;
                Some(objective.cost(found.2, plan.estimate.travelling(session_requests)))
            };
            let picked = plan(&workload, objective);
            let own = cost(&picked).unwrap_or_else(|| panic!("not measured: {picked}"));
            let all = candidates(&workload);
            let best = all.iter().filter_map(cost).fold(f64::INFINITY, f64::min);
            assert!(
                own <= ALLOWED * best,
                "{objective:?}, d = {width}, K = {count}, {cells} cells: {:.2} of the best; {picked}",
                own / best
            );
            picks += 1;
        }
    }
    assert_eq!(picks, 132);
}
