//! A desk for one test: a temporary directory with a key file, in which `shard` is run.

#![allow(dead_code, unused_imports, reason = "the tests of shard-lab use only some of this")]

pub mod served;
pub mod terminal;
pub mod vectors;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

pub use vectors::{Rows, npy, random_rows};

/// The program under test: `shard`, or `shard-lab` where its tests include this module.
pub fn program() -> &'static str {
    let built = option_env!("CARGO_BIN_EXE_shard").or(option_env!("CARGO_BIN_EXE_shard-lab"));
    built.expect("cargo names the program of a test")
}

/// The vault of every desk.
pub const VAULT: &str = "vault";

/// The key file of every desk.
pub const KEY: &str = "key";

/// Every file of a directory with its bytes.
pub type Snapshot = BTreeMap<String, Vec<u8>>;

/// A directory of its own, removed at the end of the test. Names given to its methods are relative
/// to it, as are those on the command lines.
pub struct Desk {
    directory: TempDir,
}

impl Desk {
    /// A desk with a key file and nothing else.
    pub fn new() -> Self {
        let desk = Self { directory: tempfile::tempdir().expect("a temporary directory") };
        desk.write(KEY, [7; 32]);
        desk
    }

    /// A desk with a vault of these documents in `docs.npy`, and the first of them as `query.npy`.
    pub fn with_vault(cells: &str, documents: &Rows) -> Self {
        let desk = Self::new();
        desk.npy("docs.npy", documents);
        desk.npy("query.npy", &documents[..1]);
        desk.succeeds(&[
            "init",
            VAULT,
            "--protection",
            "rotated",
            "--cells",
            cells,
            "--key-file",
            KEY,
        ]);
        desk.succeeds(&["ingest", VAULT, "docs.npy", "--key-file", KEY]);
        desk
    }

    /// A small vault for tests of what is refused: 40 documents of width 12 in 4 cells.
    pub fn with_small_vault() -> Self {
        Self::with_vault("4", &random_rows(40, 12, 1))
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).expect("the desk is writable");
    }

    /// Writes rows as 32-bit floats.
    pub fn npy(&self, name: &str, rows: &[Vec<f32>]) {
        self.write(name, vectors::singles(rows));
    }

    /// Copies a file of `crates/shard/tests/fixtures`.
    pub fn fixture(&self, name: &str) {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shard/tests/fixtures").join(name);
        fs::copy(from, self.path(name)).expect("the fixture exists");
    }

    /// The command, with no passphrase and no terminal.
    pub fn shard(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.current_dir(self.directory.path()).args(arguments);
        for variable in [
            "SHARD_NEW_PASSPHRASE",
            "SHARD_RECOVERY_CODE",
            "SHARD_PASSPHRASE",
            "SHARD_SERVER",
            "SHARD_TOKEN",
            "SHARD_PIN",
            "SHARD_ENCODER",
            "SHARD_STORE",
            "SHARD_OBJECTS",
            "PGPASSWORD",
        ] {
            command.env_remove(variable);
        }
        command
    }

    /// Runs a command that must succeed without a word on standard error.
    pub fn succeeds(&self, arguments: &[&str]) -> String {
        succeeded(&self.shard(arguments).output().expect("shard starts"))
    }

    /// Runs a command that must fail, and checks how it says so.
    pub fn refused(&self, arguments: &[&str], reasons: &[&str]) {
        refusal(&self.shard(arguments).output().expect("shard starts"), reasons);
    }

    /// As [`Desk::refused`]; the vault must be as it was to the last bit, and searchable.
    pub fn refused_without_a_trace(&self, arguments: &[&str], reasons: &[&str]) {
        let (before, found) = (self.snapshot(VAULT), self.found(&[]));
        self.refused(arguments, reasons);
        assert!(self.snapshot(VAULT) == before, "{arguments:?} changed the vault");
        assert_eq!(self.found(&[]), found);
    }

    /// An ingest into the vault that must be refused without a trace.
    pub fn ingest_refused(&self, arguments: &[&str], reasons: &[&str]) {
        let command = [&["ingest", VAULT, "--key-file", KEY], arguments].concat();
        self.refused_without_a_trace(&command, reasons);
    }

    /// Ingests and returns the report.
    pub fn ingest(&self, arguments: &[&str]) -> Value {
        let command = [&["ingest", VAULT, "--key-file", KEY], arguments, &["--json", "-"]].concat();
        parsed(&self.succeeds(&command))
    }

    /// Searches and returns the report, a list with one entry per query.
    pub fn search(&self, arguments: &[&str]) -> Vec<Value> {
        let command = [&["search", VAULT, "--key-file", KEY], arguments, &["--json", "-"]].concat();
        match parsed(&self.succeeds(&command)) {
            Value::Array(reports) => reports,
            other => panic!("expected a list of reports, found {other}"),
        }
    }

    /// The documents found for `query.npy` with their scores, best first.
    pub fn hits(&self, arguments: &[&str]) -> Vec<(String, f64)> {
        hits(&self.search(&[&["--query", "query.npy"], arguments].concat())[0])
    }

    /// The documents found for `query.npy`, best first.
    pub fn found(&self, arguments: &[&str]) -> Vec<String> {
        self.hits(arguments).into_iter().map(|(id, _)| id).collect()
    }

    /// Somebody who writes to the vault, until dropped.
    pub fn another_writer(&self) -> rusqlite::Connection {
        let file = self.path(VAULT).join("vault.sqlite");
        let writer = rusqlite::Connection::open(file).expect("the vault is there");
        writer.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
        writer
    }

    /// Every file in a directory.
    pub fn snapshot(&self, directory: &str) -> Snapshot {
        let entries = fs::read_dir(self.path(directory)).expect("the directory exists");
        entries
            .map(|entry| {
                let entry = entry.expect("the directory can be listed");
                let name = entry.file_name().into_string().expect("names are plain");
                (name, fs::read(entry.path()).expect("files are readable"))
            })
            .collect()
    }
}

/// Standard output of a run that succeeded in silence.
pub fn succeeded(output: &Output) -> String {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {complaint}", output.status);
    assert_eq!(complaint, "");
    String::from_utf8(output.stdout.clone()).expect("output is text")
}

/// Checks that a run failed with exit code 1, nothing on standard output, and one line on standard
/// error that begins with `error: `, holds every one of the reasons and says nothing twice.
pub fn refusal(output: &Output, reasons: &[&str]) {
    let complaint = String::from_utf8(output.stderr.clone()).expect("errors are text");
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    let line = complaint.strip_suffix('\n').expect("the line ends");
    assert!(!line.contains(char::is_control), "expected one plain line, found {complaint:?}");
    let message = line.strip_prefix("error: ").expect("the line begins with `error: `");
    for reason in reasons {
        assert!(message.contains(reason), "expected {reason:?} in {message:?}");
    }
    let parts: Vec<&str> = message.split(": ").collect();
    for (at, part) in parts.iter().enumerate() {
        let said = parts[..at].iter().any(|before| before.contains(part));
        assert!(!said, "{part:?} stands twice in {message:?}");
    }
}

/// Text that must be one JSON value and nothing else.
pub fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text:?}"))
}

/// A number of a report.
pub fn number(report: &Value, name: &str) -> f64 {
    report[name].as_f64().unwrap_or_else(|| panic!("expected a number {name:?} in {report}"))
}

/// Ids and scores of a report, best first.
pub fn hits(report: &Value) -> Vec<(String, f64)> {
    let list = report["hits"].as_array().expect("a report lists its hits");
    list.iter()
        .map(|hit| (hit["id"].as_str().expect("ids are text").to_owned(), number(hit, "score")))
        .collect()
}
