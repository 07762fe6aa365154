//! `shard-lab bench`: what encrypted scoring costs, measured.
//!
//! Every command runs on the machine it is asked about, prints a table and, with `--json`, writes
//! every figure. CPU time is that of the process over all its threads; unless told otherwise work
//! runs on one thread, so that it is time of one core.
//!
//! `arguments` has the flags; `clock` the two clocks; `corpus` and `owner` make what is searched;
//! `rerank` measures searches, `fidelity` what encryption did to the scores, `report` puts them
//! together; `exercise` makes bare requests of the engine for `engine`,
//! `plans` and `parameters`. `served` is a server in a process of its own, for `serve` (load),
//! `network` (links), `crash` (kills) and `hostile` (the worst requests); `store` measures the
//! server's rows on disk, `vault` the owner's vault; `blind` and `fetch` a blind
//! collection and its records; `canaries` the attacker who looks for them in a rotated one.

mod arguments;
mod blind;
mod canaries;
mod clock;
mod cluster;
mod corpus;
mod crash;
mod engine;
mod exercise;
mod fetch;
mod fidelity;
mod hostile;
mod moduli;
mod network;
mod owner;
mod parameters;
mod plans;
mod report;
mod rerank;
mod serve;
mod served;
mod store;
mod vault;

use std::path::Path;

use anyhow::Result;

pub use arguments::{Bench, Rerank};
pub use clock::Phases;
pub use report::Trial;
pub use rerank::pooled;

use shard_cli::output::Output;

pub fn run(bench: &Bench, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    match bench {
        Bench::Rerank(arguments) => rerank::run(arguments, &output),
        Bench::Engine(arguments) => engine::run(arguments, &output),
        Bench::Plans(arguments) => plans::run(arguments, &output),
        Bench::Parameters(arguments) => parameters::run(arguments, &output),
        Bench::Serve(arguments) => serve::run(arguments, &output),
        Bench::Network(arguments) => network::run(arguments, &output),
        Bench::Crash(arguments) => crash::run(arguments, &output),
        Bench::Cluster(arguments) => cluster::run(arguments, &output),
        Bench::Hostile(arguments) => hostile::run(arguments, &output),
        Bench::Store(arguments) => store::run(arguments, &output),
        Bench::Vault(arguments) => vault::run(arguments, &output),
        Bench::Blind(arguments) => blind::run(arguments, &output),
        Bench::Canaries(arguments) => canaries::run(arguments, &output),
        Bench::Moduli(arguments) => moduli::run(arguments, &output),
        Bench::Fetch(arguments) => fetch::run(arguments, &output),
    }
}
