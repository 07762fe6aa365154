//! `shard-lab`: every benchmark of Shard, and the paper's tables made again.
//!
//! The commands of `shard` are here too, but not in the help: benchmarks run servers and searches
//! in processes of their own, with the paper's slot layout, which `shard` itself does not know.

mod bench;
mod reproduce;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// Measure Shard, and make the paper's tables again.
///
/// The commands of `shard` work here too, with the paper's slot layout (`--layout slots`), and are
/// not listed: benchmarks run them in processes of their own.
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
    /// Measure what encrypted scoring costs on this machine, and what a server does
    Bench {
        #[command(subcommand)]
        bench: bench::Bench,
    },
    /// Make the paper's tables from data at hand, ours beside the paper's figures
    Reproduce(reproduce::Reproduce),
    #[command(flatten)]
    Shard(Box<shard_cli::Command>),
}

fn main() -> ExitCode {
    let Arguments { json, command } = arguments();
    let json = json.as_deref();
    shard_cli::exit_code(json, || match command {
        Command::Bench { bench } => bench::run(&bench, json),
        Command::Reproduce(reproduce) => reproduce::run(&reproduce, json),
        Command::Shard(command) => shard_cli::run(*command, json),
    })
}

/// The command line, with only the lab's own commands in the help.
fn arguments() -> Arguments {
    let shard = shard_cli::Arguments::command();
    let listed = |name: &str| shard.find_subcommand(name).is_none();
    let mut command = Arguments::command().mut_subcommands(|command| {
        if listed(command.get_name()) { command } else { command.hide(true) }
    });
    let matches = command.get_matches_mut();
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
}
