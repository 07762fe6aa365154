//! `shard bench`: what encrypted scoring costs, measured.
//!
//! Every command runs on the machine it is asked about, prints a table and, with `--json`, writes
//! every figure. CPU time is that of the process over all its threads; unless told otherwise work
//! runs on one thread, so that it is time of one core.
//!
//! `arguments` has the flags; `clock` the two clocks; `corpus` and `owner` make what is searched;
//! `rerank` measures searches, `fidelity` what encryption did to the scores, `report` puts them
//! together; `exercise` makes bare requests of the engine for `engine`,
//! `plans` and `parameters`.

mod arguments;
mod clock;
mod corpus;
mod engine;
mod exercise;
mod fidelity;
mod owner;
mod parameters;
mod plans;
mod report;
mod rerank;

use std::path::Path;

use anyhow::Result;

pub use arguments::{Bench, Rerank};
pub use corpus::write_npy;
pub use rerank::pooled;

use crate::output::Output;

pub fn run(bench: &Bench, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    match bench {
        Bench::Rerank(arguments) => rerank::run(arguments, &output),
        Bench::Engine(arguments) => engine::run(arguments, &output),
        Bench::Plans(arguments) => plans::run(arguments, &output),
        Bench::Parameters(arguments) => parameters::run(arguments, &output),
    }
}
