//! The `shard` command.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let shard_cli::Arguments { json, command } = shard_cli::Arguments::parse();
    shard_cli::exit_code(|| shard_cli::run(command, json.as_deref()))
}
