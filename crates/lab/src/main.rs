//! `shard-lab`: every benchmark of Shard, and the paper's tables made again.
//!
//! The commands of `shard` are here too, out of the help: benchmarks run servers and searches in
//! processes of their own, with the paper's slot layout, which `shard` itself does not know.

mod bench;
mod reproduce;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measure Shard, and make the paper's tables again.
#[derive(Parser)]
#[command(name = "shard-lab", version, propagate_version = true, max_term_width = 100)]
struct Arguments {
    /// Also write the result as JSON to FILE, or with `-` to standard output instead of text
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure what encrypted scoring costs on this machine
    Bench {
        #[command(subcommand)]
        bench: bench::Bench,
    },
    /// Make the paper's tables from data at hand, ours beside the paper's figures
    Reproduce(reproduce::Reproduce),
    #[command(flatten)]
    Shard(shard_cli::Command),
}

fn main() -> ExitCode {
    let Arguments { json, command } = Arguments::parse();
    let json = json.as_deref();
    shard_cli::exit_code(|| match command {
        Command::Bench { bench } => bench::run(&bench, json),
        Command::Reproduce(reproduce) => reproduce::run(&reproduce, json),
        Command::Shard(command) => shard_cli::run(command, json),
    })
}
