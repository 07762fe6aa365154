//! The command line itself: help, completions, wrong usage, and readers who leave early.

use std::process::{Command, Stdio};

use crate::support::{Desk, KEY, VAULT, program, refusal};

const COMMANDS: &[&str] = &[
    "demo",
    "init",
    "ingest",
    #[cfg(feature = "import")]
    "import",
    "delete",
    "refit",
    "rekey",
    "search",
    "eval",
    "audit",
    "status",
    "passphrase",
    "recovery",
    "export",
    "dump",
    "publish",
    "backup",
    "restore",
    "serve",
    "token",
    "verify",
    "snapshot",
    "restore-snapshot",
    "compact",
    "completions",
];

#[test]
fn every_command_has_help() {
    let desk = Desk::new();
    let overview = desk.succeeds(&["--help"]);
    for command in COMMANDS {
        assert!(overview.contains(command), "{overview}");
        let help = desk.succeeds(&[command, "--help"]);
        assert!(help.contains(&format!("Usage: shard {command}")), "{help}");
    }
    assert!(desk.succeeds(&["--version"]).starts_with("shard "));
}

#[test]
fn completions_know_the_commands() {
    let desk = Desk::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = desk.succeeds(&["completions", shell]);
        for command in COMMANDS {
            assert!(script.contains(command), "{shell}: no {command}");
        }
    }
}

#[test]
fn wrong_usage_exits_with_two_and_names_the_mistake() {
    let desk = Desk::new();
    let cases: [(&[&str], &str); 9] = [
        (&[], "Usage: shard"),
        (&["retrieve"], "retrieve"),
        (&["--fast"], "--fast"),
        (&["ingest", VAULT, "docs.npy", "--fast"], "--fast"),
        (&["ingest", VAULT], "<DOCUMENTS>"),
        (&["search", VAULT], "<WORDS>"),
        (&["delete", VAULT], "<ID>"),
        (&["search", VAULT, "--query", "q.npy", "-k", "0"], "at least 1"),
        (&["completions", "cmd"], "cmd"),
    ];
    for (arguments, mistake) in cases {
        let output = desk.shard(arguments).output().unwrap();
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaint}");
        assert!(complaint.contains(mistake) && output.stdout.is_empty(), "{complaint}");
    }
}

#[test]
fn an_unknown_transform_is_refused_with_the_known_ones_and_a_known_one_runs() {
    let desk = Desk::new();
    let run = |transform: &str| {
        let mut command = desk.shard(&["completions", "bash"]);
        command.env("SHARD_NTT", transform).output().unwrap()
    };
    refusal(&run("protable"), &["SHARD_NTT", "\"protable\"", "portable"]);
    for known in ["portable", ""] {
        assert!(run(known).status.success(), "{known:?}");
    }
    assert_eq!(run("tfhe").status.success(), cfg!(feature = "tfhe"));
}

/// The command with its standard output in a pipe that nobody reads.
fn unread(desk: &Desk, arguments: &[&str]) -> Command {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(program());
    command.current_dir(desk.path("")).args(arguments).stdin(Stdio::null()).stdout(writer);
    command
}

#[test]
fn a_closed_standard_output_is_no_error() {
    let desk = Desk::with_small_vault();
    let search = ["search", VAULT, "--query", "docs.npy", "--key-file", KEY];
    let cases: [&[&str]; 6] = [
        &search,
        &[&search[..], &["--json", "-"]].concat(),
        &["status", VAULT, "--key-file", KEY],
        &["ingest", VAULT, "docs.npy", "--key-file", KEY],
        &["completions", "bash"],
        &["--help"],
    ];
    for arguments in cases {
        let output = unread(&desk, arguments).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && complaint.is_empty(), "{arguments:?}: {complaint}");
    }
}

#[test]
fn a_closed_standard_error_does_not_change_the_exit_code() {
    let desk = Desk::new();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(program());
    command.current_dir(desk.path("")).args(["status", "none", "--key-file", KEY]);
    assert_eq!(command.stderr(writer).status().unwrap().code(), Some(1));
}
