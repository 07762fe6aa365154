//! The `shard` command.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match shard_cli::Arguments::try_parse() {
        Ok(shard_cli::Arguments { json, command }) => {
            shard_cli::exit_code(json.as_deref(), || shard_cli::run(command, json.as_deref()))
        }
        Err(error) => shard_cli::wrong_usage(&error),
    }
}
