//! The `shard` command: flags in, calls out, exit codes.
//!
//! Exit codes: 0 done, 1 failed (one line on standard error says why), 2 wrong usage, 3 the
//! thresholds of `shard audit --gate` are not met, 130 stopped by Ctrl-C.

mod args;
mod baselines;
mod commands;
mod embedded;
mod input;
mod interrupt;
mod output;
mod remote;
mod systems;
mod unlock;

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A misspelt choice must not run as another one: the library falls back to its default.
    let outcome = match shard_rlwe::Backend::from_environment() {
        Ok(_) => run(arguments),
        Err(unknown) => Err(unknown.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that closed the pipe has had enough; that is not a failure of ours.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("error: {}", output::one_line(&error)));
            match error.downcast_ref::<shard_client::ClientError>() {
                Some(shard_client::ClientError::Cancelled) => ExitCode::from(interrupt::EXIT_CODE),
                _ if error.is::<commands::audit::GateNotMet>() => ExitCode::from(3),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    let json = arguments.json.as_deref();
    match arguments.command {
        Command::Demo(demo) => commands::demo::run(&demo, json),
        Command::Init(init) => commands::init::run(&init, json),
        Command::Ingest(ingest) => commands::ingest::run(&ingest, json),
        Command::Delete(delete) => commands::delete::run(&delete, json),
        Command::Refit(refit) => commands::refit::run(&refit, json),
        Command::Rekey(rekey) => commands::rekey::run(&rekey, json),
        Command::Publish(publish) => commands::publish::run(&publish, json),
        Command::Backup(backup) => commands::backup::run(&backup, json),
        Command::Restore(restore) => commands::restore::run(&restore, json),
        Command::Search(search) => commands::search::run(&search, json),
        Command::Eval(eval) => commands::eval::run(&eval, json),
        Command::Audit(audit) => commands::audit::run(&audit, json),
        Command::Reproduce(reproduce) => commands::reproduce::run(&reproduce, json),
        Command::Serve(serve) => commands::serve::run(&serve, json),
        Command::Token { token } => commands::token::run(&token, json),
        Command::Status(status) => commands::status::run(&status, json),
        Command::Passphrase(passphrase) => commands::passphrase::run(&passphrase, json),
        Command::Recovery(recovery) => commands::recovery::run(&recovery, json),
        Command::Export(export) => commands::export::run(&export, json),
        Command::Verify(verify) => commands::verify::run(&verify, json),
        Command::Snapshot(snapshot) => commands::snapshot::take(&snapshot, json),
        Command::RestoreSnapshot(restore) => commands::snapshot::restore(&restore, json),
        Command::Compact(compact) => commands::compact::run(&compact, json),
        Command::Bench { bench } => commands::bench::run(&bench, json),
        Command::Completions { shell } => commands::completions(shell),
    }
}
