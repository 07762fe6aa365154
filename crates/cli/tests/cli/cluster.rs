//! Several servers over one PostgreSQL and one directory of objects, with the real programs.

use std::process::Output;

use shard_store::conformance::Cluster;

use crate::support::served::{Served, command};
use crate::support::{Desk, KEY, VAULT, hits, parsed, random_rows, refusal, succeeded};

/// A command about the vault of a desk and a server.
fn run(desk: &Desk, server: &Served, token: &str, name: &str, more: &[&str]) -> Output {
    let url = format!("{}/papers", server.url);
    let pin = server.fingerprint.clone().expect("TLS");
    let mut command = desk.shard(&[name, VAULT, "--key-file", KEY, "--server", &url]);
    command.args(["--pin", &pin]).args(more).env("SHARD_TOKEN", token);
    command.output().expect("shard starts")
}

/// What a search for every query finds.
fn found(desk: &Desk, server: &Served, token: &str) -> Vec<Vec<(String, f64)>> {
    let more = ["--queries", "queries.npy", "--json", "-"];
    let reports = parsed(&succeeded(&run(desk, server, token, "search", &more)));
    reports.as_array().expect("a list").iter().map(hits).collect()
}

/// The best document of every query, which is the document itself.
fn assert_found(found: &[Vec<(String, f64)>]) {
    assert_eq!(found.len(), 5);
    for (number, hits) in found.iter().enumerate() {
        assert_eq!(hits[0].0, number.to_string());
    }
}

#[test]
fn what_is_published_to_one_server_is_searched_on_another() {
    let Some(cluster) = Cluster::start() else { return };
    for protection in ["blind", "rotated"] {
        let database = cluster.database();
        let documents = random_rows(120, 24, 5);
        let desk = Desk::new();
        desk.npy("docs.npy", &documents);
        desk.npy("queries.npy", &documents[..5]);
        desk.succeeds(&["init", VAULT, "--key-file", KEY, "--protection", protection]);
        desk.ingest(&["docs.npy"]);
        std::fs::create_dir(desk.path("objects")).unwrap();
        let objects = format!("file://{}", desk.path("objects").display());
        let create =
            ["token", "create", "data", "--scope", "read,write,admin", "--yes", "--json", "-"];
        let token = parsed(&desk.succeeds(&create))["token"].as_str().unwrap().to_owned();
        let flags = ["--store", &database, "--objects", &objects, "--log-level", "error"];
        // Both on one directory: it holds tokens and a certificate, and no rows that could be locked.
        let (one, mut two) = (Served::start(&desk, &flags), Served::start(&desk, &flags));
        succeeded(&run(&desk, &one, &token, "publish", &[]));
        for server in [&one, &two] {
            assert_found(&found(&desk, server, &token));
        }
        two.signal("-KILL");
        two.process.wait().unwrap();
        two = Served::start(&desk, &flags);
        assert_found(&found(&desk, &two, &token));
        succeeded(&run(&desk, &two, &token, "backup", &[]));
        assert!(!desk.path("data/CURRENT").exists(), "no row file");
        let objects = std::fs::read_dir(desk.path("objects")).unwrap().count();
        assert_eq!(objects > 0, protection == "blind", "blocks and hints are objects");
        let mut compact = desk.shard(&["compact", "--server", &two.url]);
        compact.args(["--pin", two.fingerprint.as_deref().unwrap()]).env("SHARD_TOKEN", &token);
        refusal(&compact.output().unwrap(), &["the rows are in PostgreSQL", "VACUUM"]);
        assert_eq!(one.end().0, Some(0));
    }
}

#[test]
fn a_server_that_cannot_use_its_engines_says_why_in_one_line() {
    let Some(cluster) = Cluster::start() else { return };
    let desk = Desk::new();
    let database = cluster.database();
    let wrong = format!("postgres://guest:wrong-secret@127.0.0.1:{}/postgres", cluster.port());
    let absent = format!("postgres://guest:right@127.0.0.1:{}/nowhere", cluster.port());
    let strange = "redis://me:wrong-secret@host/x";
    for (flags, words) in [
        (vec!["--store", &wrong], "refuses the password of the role guest"),
        (vec!["--store", &absent], "there is no such database at 127.0.0.1/nowhere"),
        (vec!["--store", strange], "store takes the address of a database"),
        (vec!["--objects", "file:///nowhere"], "objects go with a store"),
        (vec!["--store", &database, "--objects", "file:///nowhere"], "no directory /nowhere"),
    ] {
        let refused = command(&desk, &flags).output().expect("shard starts");
        refusal(&refused, &[words]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(!said.contains("wrong-secret"), "{said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    }
}
