//! One vault on two machines, and commands that are killed.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::remote::{command, report, world};
use crate::support::{Desk, KEY, VAULT, random_rows};

/// Adds one document of this name to a vault.
fn add(desk: &Desk, vault: &str, id: &str, seed: u64) {
    desk.npy("one.npy", &random_rows(1, 12, seed));
    desk.write("one.id", format!("{id}\n"));
    desk.succeeds(&["ingest", vault, "one.npy", "--ids", "one.id", "--key-file", KEY]);
}

/// The ids of a vault's documents, once everything in it was opened and checked.
fn ids(desk: &Desk, vault: &str) -> BTreeSet<String> {
    desk.succeeds(&["verify", vault, "--key-file", KEY]);
    let dump = ["dump", vault, "--key-file", KEY, "--vectors", "dump.npy", "--ids", "dump.ids"];
    desk.succeeds(&[&dump[..], &["--force"]].concat());
    let text = std::fs::read_to_string(desk.path("dump.ids")).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn two_machines_add_documents_and_the_server_ends_with_both() {
    let (desk, _listening, flags) = world();
    report(&desk, "publish", VAULT, &flags);
    report(&desk, "backup", VAULT, &flags);
    report(&desk, "restore", "second", &flags);
    add(&desk, VAULT, "from-a", 31);
    add(&desk, "second", "from-b", 32);
    report(&desk, "publish", VAULT, &flags);

    let before = desk.snapshot("second");
    desk.refused(&command("publish", "second", &flags), &["have parted", "shard pull"]);
    desk.refused(&command("backup", "second", &flags), &["have parted", "shard pull"]);
    assert!(desk.snapshot("second") == before, "a refusal changed the vault");
    let status = desk.succeeds(&command("status", "second", &flags));
    assert!(status.contains("gone another way: shard pull"), "{status}");

    let pulled = report(&desk, "pull", "second", &flags);
    assert_eq!((&pulled["put_again"], &pulled["contested"]), (&Value::from(1), &Value::from(0)));
    report(&desk, "publish", "second", &flags);
    report(&desk, "pull", VAULT, &flags);
    let (a, b) = (ids(&desk, VAULT), ids(&desk, "second"));
    assert!(a == b && a.contains("from-a") && a.contains("from-b"));
    let status = report(&desk, "status", VAULT, &flags);
    assert_eq!(status["server"]["standing"], "same");
}

#[test]
fn an_exported_vault_is_pulled_forward_until_its_epoch_ends() {
    let (desk, _listening, flags) = world();
    report(&desk, "publish", VAULT, &flags);
    desk.write("reader", [5; 32]);
    let export = ["export", VAULT, "query", "--key-file", KEY, "--new-key-file", "reader"];
    desk.succeeds(&export);
    let reader = |name: &str| {
        let mut command: Vec<String> =
            command(name, "query", &flags).into_iter().map(str::to_owned).collect();
        let at = command.iter().position(|word| word == KEY).unwrap();
        command[at] = "reader".to_owned();
        command
    };
    add(&desk, VAULT, "later", 33);
    report(&desk, "publish", VAULT, &flags);
    let pull = reader("pull");
    let pull: Vec<&str> = pull.iter().map(String::as_str).collect();
    desk.succeeds(&pull);
    let mut search = reader("search");
    search.extend(["--query".to_owned(), "one.npy".to_owned()]);
    let search: Vec<&str> = search.iter().map(String::as_str).collect();
    assert!(desk.succeeds(&search).contains("later"));
    report(&desk, "rekey", VAULT, &[]);
    report(&desk, "publish", VAULT, &flags);
    desk.refused(&pull, &["another epoch", "ask its owner"]);
}

/// Kills commands at random moments: after each, the vault verifies and is as before or after.
fn kills(count: usize) {
    let (desk, _listening, flags) = world();
    report(&desk, "publish", VAULT, &flags);
    report(&desk, "backup", VAULT, &flags);
    let mut documents = ids(&desk, VAULT);
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut killed = 0;
    let mut longest = 120_000; // microseconds before a kill
    for round in 0..count {
        let (id, victim) = (format!("new-{round}"), documents.iter().next().unwrap().clone());
        desk.npy("kill.npy", &random_rows(1, 12, 100 + round as u64));
        desk.write("kill.id", format!("{id}\n"));
        let own = ["--key-file", KEY];
        let remote: Vec<&str> = flags.iter().map(String::as_str).collect();
        let (words, after): (Vec<&str>, BTreeSet<String>) = match round % 5 {
            0 => {
                let words = [&["ingest", VAULT, "kill.npy", "--ids", "kill.id"], &own[..]].concat();
                (words, documents.iter().cloned().chain([id]).collect())
            }
            1 => {
                let words = [&["delete", VAULT, &victim], &own[..]].concat();
                (words, documents.iter().filter(|id| **id != victim).cloned().collect())
            }
            2 => ([&["rekey", VAULT], &own[..]].concat(), documents.clone()),
            3 => ([&["backup", VAULT, "--replace"], &own[..], &remote].concat(), documents.clone()),
            _ => ([&["pull", VAULT], &own[..], &remote].concat(), documents.clone()),
        };
        let mut child =
            desk.shard_process(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(next() % longest));
        // How long a command works is the machine's affair: what ends too early is given less time.
        let at_work = child.try_wait().unwrap().is_none();
        longest =
            if at_work { (longest * 5 / 4).min(120_000) } else { (longest * 2 / 3).max(3_000) };
        killed += usize::from(at_work);
        child.kill().unwrap();
        child.wait().unwrap();
        let now = ids(&desk, VAULT);
        assert!(now == documents || now == after, "round {round}: {words:?}");
        documents = now;
    }
    assert!(killed > count / 4, "only {killed} of {count} were killed at work");
    // What is kept on the server is a backup still.
    report(&desk, "restore", "restored", &flags);
    ids(&desk, "restored");
}

#[test]
fn a_killed_command_leaves_the_vault_before_or_after() {
    kills(15);
}

#[test]
#[ignore = "minutes; .ci/slow runs it"]
fn two_hundred_killed_commands_leave_the_vault_before_or_after() {
    kills(200);
}

/// Kills `init` at moments spread over its run: what is left is a vault, or a place for one.
#[test]
fn a_killed_init_leaves_a_vault_or_a_place_for_one() {
    let desk = Desk::new();
    let mut states = [0, 0];
    for round in 0..30_u64 {
        let _ = std::fs::remove_dir_all(desk.path(VAULT));
        let mut child = desk
            .shard_process(&["init", VAULT, "--key-file", KEY])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(round * 700));
        child.kill().unwrap();
        child.wait().unwrap();
        let is_vault = desk.shard(&["status", VAULT, "--key-file", KEY]).output().unwrap();
        if !is_vault.status.success() {
            desk.succeeds(&["init", VAULT, "--key-file", KEY]);
        }
        desk.succeeds(&["verify", VAULT, "--key-file", KEY]);
        states[usize::from(is_vault.status.success())] += 1;
    }
    assert!(states[0] > 0, "no init was killed before its end");
}

/// A process of its own, which can be killed.
trait Process {
    fn shard_process(&self, words: &[&str]) -> std::process::Command;
}

impl Process for Desk {
    fn shard_process(&self, words: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(crate::support::program());
        command.current_dir(self.path("")).args(words);
        command
    }
}
