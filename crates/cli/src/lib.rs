//! The `shard` command as a library: flags in, calls out, exit codes.
//!
//! `main.rs` is the command. `shard-lab` puts its own commands beside these ([`Command`]) and
//! shares how results are shown ([`output`]).

mod args;
mod ask;
mod commands;
#[cfg(feature = "encode")]
mod desk;
mod hints;
mod interrupt;
pub mod output;
mod place;
mod remote;
mod scifact;
mod texts;
mod unlock;
mod usage;

use std::path::Path;
use std::process::ExitCode;

use shard::{ClientError, Error};

#[cfg(feature = "slots")]
#[doc(hidden)]
pub use args::LayoutName;
pub use args::{Arguments, Command};
#[doc(hidden)]
pub use args::{PlanArguments, cells, positive};
#[doc(hidden)]
pub use commands::init::ProtectionName;
pub use usage::wrong_usage;

/// Runs something and says how it ended: 0 done, 1 failed (one line on standard error says why, and
/// JSON on standard output where `json` is `-`), 3 the thresholds of `shard audit --gate` are not
/// met, 130 stopped by Ctrl-C. (Wrong usage, 2, ends earlier.)
pub fn exit_code(json: Option<&Path>, work: impl FnOnce() -> anyhow::Result<()>) -> ExitCode {
    // A misspelt choice must not run as another one: the library falls back to its default.
    let outcome = match shard::Backend::from_environment() {
        Ok(_) => work(),
        Err(unknown) => Err(unknown.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that closed the pipe has had enough; that is not a failure of ours.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let said = output::causes(&error);
            let (message, causes) = said.split_first().expect("an error is one of its causes");
            let failure = output::Failure { message, causes, hint: hints::hint(&error) };
            failure.say();
            failure.write(json);
            match error.downcast_ref() {
                Some(Error::Client(ClientError::Cancelled)) => ExitCode::from(interrupt::EXIT_CODE),
                _ if error.is::<commands::audit::GateNotMet>() => ExitCode::from(3),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// Runs a command; `json` is where its result goes for a program.
///
/// # Errors
/// Whatever keeps the command from doing what it was asked.
pub fn run(command: Command, json: Option<&Path>) -> anyhow::Result<()> {
    match command {
        Command::Demo(demo) => commands::demo::run(&demo, json),
        Command::Init(init) => commands::init::run(&init, json),
        Command::Ingest(ingest) => commands::ingest::run(&ingest, json),
        #[cfg(feature = "import")]
        Command::Import(import) => commands::import::run(&import, json),
        Command::Delete(delete) => commands::delete::run(&delete, json),
        Command::Refit(refit) => commands::refit::run(&refit, json),
        Command::Rekey(rekey) => commands::rekey::run(&rekey, json),
        Command::Publish(publish) => commands::publish::run(&publish, json),
        Command::Backup(backup) => commands::backup::run(&backup, json),
        Command::Restore(restore) => commands::restore::run(&restore, json),
        Command::Pull(pull) => commands::pull::run(&pull, json),
        Command::Search(search) => commands::search::run(&search, json),
        Command::Fetch(fetch) => commands::fetch::run(&fetch, json),
        #[cfg(feature = "encode")]
        Command::Mcp(desk) => commands::mcp::run(&desk),
        #[cfg(feature = "encode")]
        Command::Console(console) => commands::console::run(&console, json),
        Command::Eval(eval) => commands::eval::run(&eval, json),
        Command::Audit(audit) => commands::audit::run(&audit, json),
        Command::Serve(serve) => commands::serve::run(&serve, json),
        Command::Token { token } => commands::token::run(&token, json),
        Command::Status(status) => commands::status::run(&status, json),
        Command::Plan(plan) => commands::plan::run(&plan, json).map_err(hints::of_plan),
        Command::Passphrase(passphrase) => commands::passphrase::run(&passphrase, json),
        Command::Recovery(recovery) => commands::recovery::run(&recovery, json),
        Command::Export(export) => commands::export::run(&export, json),
        Command::Dump(dump) => commands::dump::run(&dump, json),
        Command::Verify(verify) => commands::verify::run(&verify, json),
        Command::Snapshot(snapshot) => commands::snapshot::take(&snapshot, json),
        Command::RestoreSnapshot(restore) => commands::snapshot::restore(&restore, json),
        Command::Compact(compact) => commands::compact::run(&compact, json),
        Command::Completions { shell } => commands::completions(shell),
    }
}
