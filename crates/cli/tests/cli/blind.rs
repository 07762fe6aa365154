//! Blind vaults with the real programs: at home, and over TLS with a server, an owner and a reader.

use crate::support::served::Served;
use crate::support::vectors::dot;
use crate::support::{
    Desk, KEY, Snapshot, VAULT, hits, number, parsed, random_rows, refusal, succeeded,
};

const ROWS: usize = 150;
const WIDTH: usize = 20;

/// A desk with a blind vault of random documents, whose first ten are the queries.
fn desk(documents: &[Vec<f32>]) -> Desk {
    let desk = Desk::new();
    desk.npy("docs.npy", documents);
    desk.npy("queries.npy", &documents[..10]);
    desk.succeeds(&["init", VAULT, "--key-file", KEY, "--protection", "blind", "--tile", "32"]);
    desk.ingest(&["docs.npy"]);
    desk
}

fn best(documents: &[Vec<f32>], query: &[f32]) -> Vec<(String, f64)> {
    let scored = documents.iter().enumerate().map(|(row, x)| (row.to_string(), dot(x, query)));
    let mut scored: Vec<(String, f64)> = scored.collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1));
    scored
}

fn assert_is_exact(found: &[(String, f64)], documents: &[Vec<f32>], query: &[f32]) {
    let exact = best(documents, query);
    assert!(!found.is_empty());
    for ((id, score), (true_id, true_score)) in found.iter().zip(&exact) {
        assert_eq!(id, true_id);
        assert!((score - true_score).abs() < 1e-4, "{score} for {true_score}");
    }
}

#[test]
fn a_blind_vault_is_searched_at_home_with_and_without_a_server() {
    let documents = random_rows(ROWS, WIDTH, 3);
    let desk = desk(&documents);
    let blind = desk.search(&["--queries", "queries.npy"]);
    let local = desk.search(&["--queries", "queries.npy", "--local"]);
    for (number, (blind, local)) in blind.iter().zip(&local).enumerate() {
        assert_is_exact(&hits(blind), &documents, &documents[number]);
        assert_is_exact(&hits(local), &documents, &documents[number]);
    }
    // All rows, if they are asked for.
    let all = desk.search(&["--queries", "queries.npy", "-k", "1000"]);
    assert_eq!(hits(&all[0]).len(), ROWS);
    let text =
        desk.succeeds(&["search", VAULT, "--key-file", KEY, "--query", "queries.npy", "--explain"]);
    for words in ["the whole answer was checked", "request-shape", "150 documents"] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
    assert!(!text.contains("active-cells"), "{text}");
    let status = parsed(&desk.succeeds(&["status", VAULT, "--key-file", KEY, "--json", "-"]));
    assert_eq!((&status["protection"], number(&status, "documents")), (&"blind".into(), 150.0));
    let plan = desk.succeeds(&["plan", VAULT, "--key-file", KEY]);
    assert!(plan.contains("150 documents of 20 dimensions") && plan.contains("recommended"));
    desk.succeeds(&["verify", VAULT, "--key-file", KEY]);
    for command in ["refit", "audit"] {
        desk.refused(&[command, VAULT, "--key-file", KEY], &["blind"]);
    }
}

#[test]
fn ways_are_compared_without_a_vault() {
    let desk = Desk::new();
    let plan = ["plan", "--rows", "100000", "--dim", "384", "--json", "-"];
    let ways = parsed(&desk.succeeds(&plan));
    assert!(number(&ways["blind"], "bytes_up") > 0.0);
    assert!(number(&ways["blind"], "client_memory") < number(&ways["local"], "client_memory"));
    assert_eq!(ways["security"].as_array().map(Vec::len), Some(3));
    desk.refused(&["plan"], &["--rows"]);
    desk.refused(&["plan", "--rows", "10", "--dim", "5000"], &["5000 dimensions"]);
}

#[test]
fn an_owner_publishes_blocks_and_a_reader_follows() {
    let mut documents = random_rows(ROWS, WIDTH, 4);
    let desk = desk(&documents);
    let create = ["token", "create", "data", "--scope", "read,write", "--yes", "--json", "-"];
    let token = parsed(&desk.succeeds(&create))["token"].as_str().expect("a token").to_owned();
    let mut server = Served::start(&desk, &["--log-level", "error"]);
    let run = |server: &Served, name: &str, vault: &str, more: &[&str]| {
        let (url, pin) = (format!("{}/papers", server.url), server.fingerprint.clone());
        let mut command = desk.shard(&[name, vault, "--key-file", KEY, "--server", &url]);
        command.args(["--pin", &pin.expect("TLS")]).args(more).env("SHARD_TOKEN", &token);
        command.output().expect("shard starts")
    };
    let found = |server: &Served, vault: &str| {
        let more = ["--queries", "queries.npy", "--json", "-"];
        let output = run(server, "search", vault, &more);
        assert!(output.status.success(), "{output:?}");
        let reports = parsed(&String::from_utf8(output.stdout).expect("UTF-8"));
        reports.as_array().expect("a list").iter().map(hits).collect::<Vec<_>>()
    };
    succeeded(&run(&server, "publish", VAULT, &[]));
    let export = ["export", VAULT, "reader", "--key-file", KEY, "--new-key-file", KEY];
    desk.succeeds(&export);
    for vault in [VAULT, "reader"] {
        assert_is_exact(&found(&server, vault)[3], &documents, &documents[3]);
    }
    // One document more: one block goes, and the reader pulls by itself.
    documents.push(documents[3].iter().map(|x| 2.0 * x).collect());
    desk.npy("more.npy", &documents[ROWS..]);
    desk.write("more.txt", format!("{ROWS}\n"));
    desk.ingest(&["more.npy", "--ids", "more.txt"]);
    let published = parsed(&succeeded(&run(&server, "publish", VAULT, &["--json", "-"])));
    assert_eq!(number(&published, "uploaded"), 1.0);
    let output = run(&server, "search", "reader", &["--queries", "queries.npy"]);
    let note = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && note.contains("pulled revision 3"), "{note}");
    let answers = found(&server, "reader");
    assert_is_exact(&answers[3], &documents, &documents[3]);
    assert_eq!(answers[3][0].0, ROWS.to_string());
    // A server that was killed has it all.
    server.signal("-KILL");
    server.process.wait().expect("it ends");
    server = Served::start(&desk, &["--log-level", "error"]);
    assert_is_exact(&found(&server, "reader")[3], &documents, &documents[3]);
    // After a rekey the reader is out.
    desk.succeeds(&["rekey", VAULT, "--key-file", KEY]);
    succeeded(&run(&server, "publish", VAULT, &[]));
    let before: Snapshot = desk.snapshot("reader");
    refusal(&run(&server, "search", "reader", &["--queries", "queries.npy"]), &["epoch"]);
    assert_eq!(desk.snapshot("reader"), before);
    assert_is_exact(&found(&server, VAULT)[3], &documents, &documents[3]);
}
