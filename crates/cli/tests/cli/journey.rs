//! An owner, a server and a colleague: the whole of it with the real programs, over TLS.

use std::collections::HashSet;

use crate::support::served::Served;
use crate::support::{Desk, KEY, VAULT, hits, parsed, random_rows, refusal, succeeded};

const ROWS: usize = 300;
const WIDTH: usize = 24;

/// A vault, a server, and a token that may write.
struct World {
    desk: Desk,
    server: Served,
    token: String,
}

impl World {
    fn new() -> Self {
        let documents = random_rows(ROWS, WIDTH, 5);
        let desk = Desk::with_vault("8", &documents);
        desk.npy("queries.npy", &documents[..20]);
        let created = desk.succeeds(&[
            "token",
            "create",
            "data",
            "--scope",
            "read,write,admin",
            "--yes",
            "--json",
            "-",
        ]);
        let token = parsed(&created)["token"].as_str().expect("a token").to_owned();
        let server = Served::start(&desk, &["--log-level", "error"]);
        Self { desk, server, token }
    }

    fn command(&self, name: &str, vault: &str, more: &[&str]) -> assert_cmd::Command {
        let url = format!("{}/papers", self.server.url);
        let pin = self.server.fingerprint.as_deref().expect("TLS");
        let mut command = self.desk.shard(&[name, vault, "--key-file", KEY, "--server", &url]);
        command.args(["--pin", pin]).args(more).env("SHARD_TOKEN", &self.token);
        command
    }

    fn succeeds(&self, name: &str, vault: &str, more: &[&str]) -> String {
        succeeded(&self.command(name, vault, more).output().expect("shard starts"))
    }

    fn refused(&self, name: &str, vault: &str, more: &[&str], reasons: &[&str]) {
        refusal(&self.command(name, vault, more).output().expect("shard starts"), reasons);
    }

    /// Ids found through the server, query by query.
    fn found(&self, vault: &str) -> Vec<Vec<String>> {
        let more = ["--queries", "queries.npy", "--json", "-"];
        ids(&self.succeeds("search", vault, &more))
    }

    /// Ids found by the server inside the command.
    fn found_embedded(&self) -> Vec<Vec<String>> {
        let embedded =
            ["search", VAULT, "--key-file", KEY, "--queries", "queries.npy", "--json", "-"];
        ids(&self.desk.succeeds(&embedded))
    }

    fn kill_and_restart(&mut self) {
        self.server.signal("-KILL");
        self.server.process.wait().expect("it ends");
        self.server = Served::start(&self.desk, &["--log-level", "error"]);
    }
}

fn ids(reports: &str) -> Vec<Vec<String>> {
    let reports = parsed(reports);
    let reports = reports.as_array().expect("a list of reports");
    reports.iter().map(|report| hits(report).into_iter().map(|(id, _)| id).collect()).collect()
}

#[test]
fn a_server_ranks_as_the_embedded_one_and_survives_being_killed() {
    let mut world = World::new();
    world.succeeds("publish", VAULT, &[]);
    let embedded = world.found_embedded();
    assert_eq!(world.found(VAULT), embedded);
    world.kill_and_restart();
    assert_eq!(world.found(VAULT), embedded);
    let again = parsed(&world.succeeds("publish", VAULT, &["--json", "-"]));
    assert_eq!(again["uploaded"], 0, "{again}");
}

#[test]
fn deleted_documents_are_gone_from_searches_and_from_the_servers_disk() {
    let world = World::new();
    world.succeeds("publish", VAULT, &[]);
    world.desk.succeeds(&["delete", VAULT, "3", "4", "--key-file", KEY]);
    world.succeeds("publish", VAULT, &[]);
    let found: HashSet<String> = world.found(VAULT).into_iter().flatten().collect();
    assert!(found.contains("5") && !found.contains("3") && !found.contains("4"));
    assert_eq!(world.found(VAULT), world.found_embedded());
    let compact = ["compact", "--server", &world.server.url, "--pin"];
    let pin = world.server.fingerprint.as_deref().expect("TLS");
    let mut compact = world.desk.shard(&[&compact[..], &[pin]].concat());
    succeeded(&compact.env("SHARD_TOKEN", &world.token).output().expect("shard starts"));
    let (code, log) = world.server.end();
    assert_eq!(code, Some(0), "{log}");
    world.desk.succeeds(&["verify", "data"]);
}

#[test]
fn a_rekey_revokes_the_colleague_and_the_owner_searches_on() {
    let world = World::new();
    world.succeeds("publish", VAULT, &[]);
    world.desk.write("c", [9; 32]);
    world.desk.succeeds(&["export", VAULT, "colleague", "--key-file", KEY, "--new-key-file", "c"]);
    let colleague = |world: &World| {
        let url = format!("{}/papers", world.server.url);
        let pin = world.server.fingerprint.clone().expect("TLS");
        let mut search = world.desk.shard(&["search", "colleague", "--key-file", "c"]);
        search.args(["--server", &url, "--pin", &pin, "--queries", "queries.npy", "--json", "-"]);
        search.env("SHARD_TOKEN", &world.token);
        search.output().expect("shard starts")
    };
    assert_eq!(ids(&succeeded(&colleague(&world))), world.found_embedded());
    world.desk.succeeds(&["rekey", VAULT, "--key-file", KEY]);
    world.succeeds("publish", VAULT, &[]);
    assert_eq!(world.found(VAULT), world.found_embedded());
    let revoked = colleague(&world);
    let complaint = String::from_utf8(revoked.stderr).expect("errors are text");
    assert_eq!(revoked.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("epoch 1 was replaced by epoch 2"), "{complaint}");
}

#[test]
fn a_lost_vault_comes_back_and_an_old_copy_is_refused() {
    let world = World::new();
    world.succeeds("publish", VAULT, &[]);
    world.succeeds("backup", VAULT, &[]);
    world.succeeds("restore", "restored", &[]);
    assert_eq!(world.found("restored"), world.found_embedded());
    world.desk.succeeds(&["delete", VAULT, "7", "--key-file", KEY]);
    world.succeeds("publish", VAULT, &[]);
    world.refused("publish", "restored", &[], &["revision"]);
}
