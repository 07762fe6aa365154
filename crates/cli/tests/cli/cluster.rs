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
        let create = ["token", "create", "--store", &database, "--scope", "read,write,admin"];
        let token = parsed(&desk.succeeds(&[&create[..], &["--json", "-"]].concat()))["token"]
            .as_str()
            .unwrap()
            .to_owned();
        let flags = ["--store", &database, "--objects", &objects, "--log-level", "error"];
        // Both on one directory: it holds a certificate, and no rows that could be locked.
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
fn servers_over_one_database_share_its_tokens() {
    let Some(cluster) = Cluster::start() else { return };
    let (desk, database) = (Desk::new(), cluster.database());
    let tokens = |command: &[&str], more: &[&str]| {
        let all = [&["token"], command, &["--store", &database], more, &["--json", "-"]].concat();
        parsed(&desk.succeeds(&all))
    };
    let limits = ["--requests-per-second", "50", "--collection", "papers,notes", "--expires", "3"];
    let made = tokens(&["create"], &[&["--scope", "write,read"], &limits[..]].concat());
    let other = tokens(&["create"], &["--scope", "read"]);
    let listed = tokens(&["list"], &[]);
    let same = listed.as_array().unwrap().iter().find(|token| token["id"] == made["id"]).unwrap();
    for field in ["scopes", "collections", "limits", "created", "expires"] {
        assert_eq!(same[field], made[field], "{field}");
    }
    let kept = cluster.sql(database.rsplit('/').next().unwrap(), "SELECT * FROM shard.tokens");
    let secret = made["token"].as_str().unwrap();
    assert!(!kept.contains(secret) && !kept.contains(&secret["shard_".len()..]), "{kept}");

    let served = Served::start(&desk, &["--store", &database, "--log-level", "error"]);
    let knows = |token: &serde_json::Value| {
        let mut command = desk.shard(&["compact", "--server", &served.url]);
        command.args(["--pin", served.fingerprint.as_deref().unwrap()]);
        command.env("SHARD_TOKEN", token["token"].as_str().unwrap());
        let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
        let (known, unknown) =
            (said.contains("no scope admin"), said.contains("does not accept this token"));
        assert!(known != unknown, "{said}");
        known
    };
    assert!(knows(&made) && knows(&other));
    // One that comes while it runs, and one that goes.
    let later = tokens(&["create"], &["--scope", "read"]);
    let id = other["id"].as_str().unwrap();
    desk.succeeds(&["token", "revoke", "--store", &database, id]);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !knows(&later) || knows(&other) {
        assert!(std::time::Instant::now() < end, "the server follows the table");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    // The same with flags between what is named.
    let left = tokens(&["create"], &["--scope", "read"]);
    let id_left = left["id"].as_str().unwrap();
    desk.succeeds(&["token", "revoke", id_left, "--store", &database]);
    let again = desk.shard(&["token", "revoke", "--store", &database, id]).output();
    refusal(&again.expect("shard starts"), &["no token has the id"]);

    // Tokens that would be there for nothing are not passed over in silence.
    desk.succeeds(&["token", "create", "data", "--scope", "read", "--yes", "--json", "-"]);
    let refused = command(&desk, &["--store", &database]).output().expect("shard starts");
    refusal(&refused, &["tokens.toml holds tokens", "shard token create --store URL"]);
}

#[test]
fn tokens_are_never_made_or_sought_in_the_other_place() {
    let desk = Desk::new();
    let create = ["token", "create", "data", "--scope", "read", "--yes"];
    let made = parsed(&desk.succeeds(&[&create[..], &["--json", "-"]].concat()));
    let id = made["id"].as_str().unwrap();
    // A server with this variable would not look into the directory.
    let list = ["token", "list", "data"];
    for arguments in [&create[..], &list, &["token", "revoke", "data", id]] {
        let mut command = desk.shard(arguments);
        command.env("SHARD_STORE", "postgres://me@127.0.0.1:1/shard");
        let words = ["SHARD_STORE is set: leave out DIRECTORY, or unset it"];
        refusal(&command.output().expect("shard starts"), &words);
    }
    for one in ["data", id] {
        desk.refused(&["token", "revoke", one], &["the token's id is missing", "token list"]);
    }
    desk.refused(&["token", "list"], &["say where the tokens are"]);
    let listed = parsed(&desk.succeeds(&[&list[..], &["--json", "-"]].concat()));
    assert_eq!(listed[0]["id"], made["id"]);
    assert_eq!(listed.as_array().unwrap().len(), 1);
    desk.succeeds(&["token", "revoke", "data", id]);
    for (command, usage) in
        [("create", "[DIRECTORY]"), ("list", "[DIRECTORY]"), ("revoke", "<DIRECTORY|ID> [ID]")]
    {
        let help = desk.succeeds(&["token", command, "--help"]);
        assert!(help.contains(usage) && help.contains("PGPASSWORD"), "{help}");
    }
}

#[test]
fn a_server_over_a_database_without_tokens_lets_nobody_in_until_one_is_made() {
    let Some(cluster) = Cluster::start() else { return };
    let (desk, database) = (Desk::new(), cluster.database());
    desk.npy("docs.npy", &random_rows(20, 8, 5));
    desk.succeeds(&["init", VAULT, "--key-file", KEY, "--protection", "rotated"]);
    desk.ingest(&["docs.npy"]);
    let create = ["token", "create", "--store", &database, "--scope", "read,write", "--json", "-"];
    let made = || parsed(&desk.succeeds(&create));
    let revoke = |made: &serde_json::Value| {
        desk.succeeds(&["token", "revoke", "--store", &database, made["id"].as_str().unwrap()])
    };
    let flags = ["--store", &database, "--log-level", "error"];
    // One that was there and is gone is as good as none that ever was.
    for had_one in [false, true] {
        if had_one {
            revoke(&made());
        }
        let served = Served::start(&desk, &flags);
        let url = format!("{}/papers", served.url);
        let open = ["publish", VAULT, "--key-file", KEY, "--server", &url, "--pin"];
        let refused = desk.shard(&open).arg(served.fingerprint.as_deref().unwrap()).output();
        refusal(&refused.expect("shard starts"), &["asks for a token"]);
        let token = made();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
        let publish = || run(&desk, &served, token["token"].as_str().unwrap(), "publish", &[]);
        while !publish().status.success() {
            assert!(std::time::Instant::now() < end, "{:?}", publish());
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        revoke(&token);
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
