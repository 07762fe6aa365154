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
    desk_with(documents, &[])
}

fn desk_with(documents: &[Vec<f32>], flags: &[&str]) -> Desk {
    let desk = Desk::new();
    desk.npy("docs.npy", documents);
    desk.npy("queries.npy", &documents[..10]);
    desk.succeeds(&[&["init", VAULT, "--key-file", KEY, "--tile", "32"], flags].concat());
    desk.ingest(&["docs.npy"]);
    desk
}

/// A server at a desk, and who may write to it.
struct Site<'d> {
    desk: &'d Desk,
    server: Served,
    token: String,
}

impl<'d> Site<'d> {
    fn start(desk: &'d Desk) -> Self {
        let create = ["token", "create", "data", "--scope", "read,write", "--yes", "--json", "-"];
        let token = parsed(&desk.succeeds(&create))["token"].as_str().expect("a token").to_owned();
        Self { desk, server: Served::start(desk, &["--log-level", "error"]), token }
    }

    /// Kills the server and starts it again.
    fn restart(&mut self) {
        self.server.signal("-KILL");
        self.server.process.wait().expect("it ends");
        self.server = Served::start(self.desk, &["--log-level", "error"]);
    }

    /// A command about a vault and this server.
    fn run(&self, name: &str, vault: &str, more: &[&str]) -> std::process::Output {
        let url = format!("{}/papers", self.server.url);
        let pin = self.server.fingerprint.clone().expect("TLS");
        let mut command = self.desk.shard(&[name, vault, "--key-file", KEY, "--server", &url]);
        command.args(["--pin", &pin]).args(more).env("SHARD_TOKEN", &self.token);
        command.output().expect("shard starts")
    }

    /// What a search for every query finds.
    fn found(&self, vault: &str) -> Vec<Vec<(String, f64)>> {
        let more = ["--queries", "queries.npy", "--json", "-"];
        let reports = parsed(&succeeded(&self.run("search", vault, &more)));
        reports.as_array().expect("a list").iter().map(hits).collect()
    }
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
    desk.refused(&["refit", VAULT, "--key-file", KEY], &["blind"]);
}

#[test]
fn a_vault_with_cells_is_exact_in_those_that_are_asked_for_and_says_what_that_shows() {
    let documents = random_rows(ROWS, WIDTH, 3);
    let desk = desk_with(&documents, &["--cells", "5", "--probe", "2"]);
    let all = desk.search(&["--queries", "queries.npy", "--probe", "5"]);
    for (number, report) in all.iter().enumerate() {
        assert_is_exact(&hits(report), &documents, &documents[number]);
        assert_eq!(self::number(report, "active_cells"), 0.0, "none is named");
    }
    // The best of some cells are the best of all, where they are among them.
    let some = desk.search(&["--queries", "queries.npy", "-k", "1000"]);
    for (number, report) in some.iter().enumerate() {
        let found = hits(report);
        assert!(found.len() < ROWS && self::number(report, "active_cells") == 2.0);
        let exact = best(&documents, &documents[number]);
        let mut exact = exact.iter().filter(|(id, _)| found.iter().any(|(one, _)| one == id));
        for (id, score) in &found {
            let (true_id, true_score) = exact.next().expect("as many");
            assert!(id == true_id && (score - true_score).abs() < 1e-4, "{score} {true_score}");
        }
    }
    let key = ["--key-file", KEY];
    let search = ["search", VAULT, "--query", "queries.npy", "--explain"];
    let text = desk.succeeds(&[&search[..], &key].concat());
    for words in ["active-cells", "2 cells", "the whole answer was checked", "documents of 2 cells"]
    {
        assert!(text.contains(words), "{words:?} in {text}");
    }
    let status = desk.succeeds(&[&["status", VAULT][..], &key].concat());
    assert!(status.contains("2 of 5 cells, and learns which cells"), "{status}");
    let plan = desk.succeeds(&[&["plan", VAULT][..], &key].concat());
    assert!(plan.contains("recall@10") && plan.contains("the server learns which cells"), "{plan}");
    let plan = parsed(&desk.succeeds(&[&["plan", VAULT, "--json", "-"][..], &key].concat()));
    let probes = plan["cells"]["probes"].as_array().expect("a list");
    let recalls: Vec<f64> = probes.iter().map(|probe| number(probe, "recall10")).collect();
    assert!(recalls.is_sorted() && recalls.last() == Some(&1.0), "{recalls:?}");
    assert_eq!(
        probes.iter().map(|probe| number(probe, "probe")).collect::<Vec<_>>(),
        [1.0, 2.0, 4.0, 5.0]
    );
    let judged = ["eval", VAULT, "--queries", "queries.npy", "--qrels", "qrels.tsv", "--json", "-"];
    let lines: Vec<String> = (0..10).map(|query| format!("{query}\t{query}\t1")).collect();
    desk.write("qrels.tsv", format!("query-id\tcorpus-id\tscore\n{}\n", lines.join("\n")));
    for (probe, whole) in [("1", false), ("5", true)] {
        let report = parsed(&desk.succeeds(&[&judged[..], &["--probe", probe], &key].concat()));
        assert_eq!(number(&report, "recall10") == 1.0, whole, "{report}");
        // The systems of a blind vault: raw search and itself.
        let ndcg = |system: &str| number(&report[system], "ndcg10");
        let delta = number(&report["shard_blind"], "delta_ndcg10");
        assert!((delta - (ndcg("shard_blind") - ndcg("raw"))).abs() < 1e-12, "{report}");
        assert!(ndcg("raw") > 0.0 && (delta == 0.0 || !whole), "{report}");
        let rotated = ["centred_full", "corrected_half", "shard_plain", "shard_encrypted"];
        assert!(rotated.iter().all(|system| report.get(system).is_none()), "{report}");
    }
    desk.succeeds(&[&["verify", VAULT][..], &key].concat());
    desk.refused(
        &["init", "other", "--key-file", KEY, "--cells", "4", "--probe", "5"],
        &["there are 4"],
    );
}

#[test]
fn a_size_is_planned_with_prices_from_a_file() {
    let desk = Desk::new();
    let plan = ["plan", "--rows", "1e8", "--dim", "768", "--json", "-"];
    let cells = ["--cells", "4096", "--probe", "64"];
    let all = parsed(&desk.succeeds(&plan));
    let some = parsed(&desk.succeeds(&[&plan[..], &cells].concat()));
    let of = |report: &serde_json::Value, name| number(&report["capacity"], name);
    assert_eq!(number(&all, "rows"), 1e8);
    assert!(of(&some, "server_core_ms") < of(&all, "server_core_ms") / 40.0);
    assert_eq!(of(&some, "workers_for_memory"), (of(&some, "memory") / 64e9).ceil() + 1.0);
    let text = desk.succeeds(&["plan", "--rows", "2e6", "--dim", "384"]);
    assert!(text.contains("prices are placeholders"), "{text}");
    let prices = "date = \"2026\"\ncurrency = \"X\"\nworker_hour = 3.0\nworker_cores = 4\n\
                  storage_gb_month = 0.0\ntraffic_gb = 0.0\n";
    desk.write("prices.toml", prices);
    let priced =
        [&plan[..], &cells, &["--prices", "prices.toml", "--worker-memory", "256"]].concat();
    let priced = parsed(&desk.succeeds(&priced));
    let year = of(&priced, "workers") * 3.0 * 8760.0;
    assert!((number(&priced["capacity"]["year"], "total") - year).abs() < 1e-6);
    desk.write("prices.toml", "worker_hour = -3.0\n");
    desk.refused(
        &["plan", "--rows", "10", "--dim", "8", "--prices", "prices.toml"],
        &["prices.toml"],
    );
    desk.refused(
        &["plan", "--rows", "1e4", "--dim", "8", "--cells", "4", "--probe", "5"],
        &["5 of 4 cells"],
    );
    desk.refused(
        &["plan", "--rows", "1e8", "--dim", "768", "--cells", "10000", "--probe", "64"],
        &["10000 cells", "at most 4096"],
    );
    let text = desk.succeeds(&[&["plan", "--rows", "1e9", "--dim", "768"][..], &cells].concat());
    assert!(text.contains("collections of 4,096 cells each"), "{text}");
}

#[test]
fn a_plan_of_a_vault_is_of_its_own_tiles_secrets_and_cells() {
    let documents = random_rows(ROWS, WIDTH, 3);
    let planned = |flags: &[&str]| {
        let desk = Desk::new();
        desk.npy("docs.npy", &documents);
        desk.npy("query.npy", &documents[..1]);
        desk.succeeds(&[&["init", VAULT, "--key-file", KEY], flags].concat());
        desk.ingest(&["docs.npy"]);
        let plan = parsed(&desk.succeeds(&["plan", VAULT, "--key-file", KEY, "--json", "-"]));
        (plan, desk.search(&["--query", "query.npy"]).remove(0))
    };
    let (narrow, searched) = planned(&["--tile", "8"]);
    for (planned, told) in [("bytes_up", "up"), ("bytes_down", "down")] {
        let beside = number(&searched["bytes"], told) - number(&narrow["blind"], planned);
        assert!((0.0..200.0).contains(&beside), "{beside} bytes of headers {told}");
    }
    assert_eq!(number(&narrow, "other_tile"), 32.0);
    let (wide, _) = planned(&["--tile", "32"]);
    assert!(number(&wide["blind"], "bytes_up") < number(&narrow["blind"], "bytes_up"));
    assert!(wide["other_tile"].is_null());

    let (two, _) = planned(&["--tile", "32", "--query-secrets", "2"]);
    let hints = |plan: &serde_json::Value| number(&plan["blind"], "bytes_once");
    assert_eq!(hints(&two), 2.0 * hints(&wide));
    let bits = |plan: &serde_json::Value, of| number(&plan["security"][0], of);
    assert!(bits(&wide, "queries") < bits(&two, "queries"));
    assert_eq!(bits(&two, "queries"), bits(&two, "rows"));

    let (celled, _) = planned(&["--tile", "8", "--cells", "5", "--probe", "2"]);
    let text = celled["tile"].as_str().expect("a sentence");
    assert!(text.contains("tiles of 8:") && text.contains("2 of 5 cells"), "{text}");
    let learns = celled["blind"]["server_learns"].as_str().expect("a sentence");
    assert!(learns.contains("which cells a search asks for"), "{learns}");
    assert!(number(&celled["blind"], "server_memory") > number(&narrow["blind"], "server_memory"));
    // What was measured of so many cells is what the column says.
    let probes = celled["cells"]["probes"].as_array().expect("a list");
    let usual = probes.iter().find(|probe| number(probe, "probe") == 2.0).expect("it is measured");
    for figure in ["bytes_down", "server_ms", "client_ms"] {
        let (told, measured) = (number(&celled["blind"], figure), number(usual, figure));
        // A block more at most: there are no halves.
        assert!((0.0..0.1).contains(&(told / measured - 1.0)), "{figure}: {told} {measured}");
    }
}

#[test]
fn a_plan_of_cells_needs_the_vectors_only_to_measure_what_searches_find() {
    let desk = desk_with(
        &random_rows(ROWS, WIDTH, 3),
        &["--keep-vectors", "no", "--cells", "5", "--probe", "2"],
    );
    let site = Site::start(&desk);
    succeeded(&site.run("publish", VAULT, &[]));
    let plan = ["plan", VAULT, "--key-file", KEY];
    let without = desk.succeeds(&plan);
    assert!(
        without.contains("2 of 5 cells") && without.contains("which are not here"),
        "{without}"
    );
    let queries = [&plan[..], &["--queries", "queries.npy"]].concat();
    desk.refused(&queries, &["with the server", "--server"]);
    let with = parsed(&succeeded(&site.run("plan", VAULT, &["--json", "-"])));
    assert_eq!(with["cells"]["probes"].as_array().expect("a list").len(), 4);
}

#[test]
fn queries_under_two_secrets_find_what_raw_search_finds_through_a_server() {
    let documents = random_rows(ROWS, WIDTH, 6);
    let desk = desk_with(&documents, &["--query-secrets", "2"]);
    let site = Site::start(&desk);
    succeeded(&site.run("publish", VAULT, &[]));
    desk.succeeds(&["export", VAULT, "reader", "--key-file", KEY, "--new-key-file", KEY]);
    for vault in [VAULT, "reader"] {
        let answers = site.found(vault);
        assert_eq!(answers.len(), 10);
        for (found, query) in answers.iter().zip(&documents) {
            assert_is_exact(found, &documents, query);
        }
    }
    let status = desk.shard(&["init", "other", "--key-file", KEY, "--query-secrets", "3"]).output();
    assert_eq!(status.expect("shard starts").status.code(), Some(2));
}

#[test]
fn ways_are_compared_without_a_vault() {
    let desk = Desk::new();
    let plan = ["plan", "--rows", "100000", "--dim", "384", "--json", "-"];
    let ways = parsed(&desk.succeeds(&plan));
    assert!(number(&ways["blind"], "bytes_up") > 0.0);
    for name in ["client_keeps", "client_memory"] {
        assert!(number(&ways["blind"], name) < number(&ways["local"], name), "{name}");
    }
    assert!(number(&ways["blind"], "client_keeps") < number(&ways["blind"], "client_memory"));
    let slow = desk.succeeds(&["plan", "--rows", "100000", "--dim", "384", "--link", "20"]);
    assert!(slow.contains("fastest for 20 Mbit/s: `shard init --tile 64`"), "{slow}");
    assert_eq!(ways["security"].as_array().map(Vec::len), Some(3));
    desk.refused(&["plan"], &["--rows"]);
    desk.refused(&["plan", "--rows", "10", "--dim", "5000"], &["5000 dimensions"]);
}

#[test]
fn an_owner_publishes_blocks_and_a_reader_follows() {
    let mut documents = random_rows(ROWS, WIDTH, 4);
    let desk = desk(&documents);
    let mut site = Site::start(&desk);
    succeeded(&site.run("publish", VAULT, &[]));
    let export = ["export", VAULT, "reader", "--key-file", KEY, "--new-key-file", KEY];
    desk.succeeds(&export);
    for vault in [VAULT, "reader"] {
        assert_is_exact(&site.found(vault)[3], &documents, &documents[3]);
    }
    // One document more: one block goes, and the reader pulls by itself.
    documents.push(documents[3].iter().map(|x| 2.0 * x).collect());
    desk.npy("more.npy", &documents[ROWS..]);
    desk.write("more.txt", format!("{ROWS}\n"));
    desk.ingest(&["more.npy", "--ids", "more.txt"]);
    let published = parsed(&succeeded(&site.run("publish", VAULT, &["--json", "-"])));
    assert_eq!(number(&published, "uploaded"), 1.0);
    let output = site.run("search", "reader", &["--queries", "queries.npy"]);
    let note = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && note.contains("pulled revision 3"), "{note}");
    let answers = site.found("reader");
    assert_is_exact(&answers[3], &documents, &documents[3]);
    assert_eq!(answers[3][0].0, ROWS.to_string());
    // A server that was killed has it all.
    site.restart();
    assert_is_exact(&site.found("reader")[3], &documents, &documents[3]);
    // After a rekey the reader is out.
    desk.succeeds(&["rekey", VAULT, "--key-file", KEY]);
    succeeded(&site.run("publish", VAULT, &[]));
    let before: Snapshot = desk.snapshot("reader");
    refusal(&site.run("search", "reader", &["--queries", "queries.npy"]), &["epoch"]);
    assert_eq!(desk.snapshot("reader"), before);
    assert_is_exact(&site.found(VAULT)[3], &documents, &documents[3]);
}

#[test]
fn a_vault_that_keeps_no_vectors_leaves_them_with_its_server_and_gets_them_back() {
    let width = 400; // so that they fill pages of the file
    let mut documents = random_rows(ROWS, width, 9);
    let desk = desk_with(&documents, &["--keep-vectors", "no"]);
    let local = ["search", VAULT, "--key-file", KEY, "--queries", "queries.npy", "--local"];
    desk.succeeds(&local); // they are here until they are published
    let site = Site::start(&desk);
    let size = || std::fs::metadata(desk.path(VAULT).join("vault.sqlite")).expect("a file").len();
    let before = size();
    let published = parsed(&succeeded(&site.run("publish", VAULT, &["--json", "-"])));
    assert!(number(&published, "vectors_left") > (ROWS * width * 4) as f64);
    assert!(size() < before / 2);
    assert_is_exact(&site.found(VAULT)[3], &documents, &documents[3]);

    // What needs them says where they are, and changes nothing.
    let snapshot = desk.snapshot(VAULT);
    let out = ["--vectors", "out.npy", "--ids", "out.txt"];
    let dump = [&["dump", VAULT, "--key-file", KEY], &out[..]].concat();
    desk.refused(&dump, &["with the server", "--server"]);
    desk.refused(&local, &["with the server"]);
    desk.refused(&["delete", VAULT, "7", "--key-file", KEY], &["with the server", "--server"]);
    assert!(desk.snapshot(VAULT) == snapshot);
    let text = desk.succeeds(&["verify", VAULT, "--key-file", KEY]);
    assert!(text.contains("with the server alone"), "{text}");
    let whole = parsed(&succeeded(&site.run("verify", VAULT, &["--json", "-"])));
    assert_eq!(number(&whole, "elsewhere"), 0.0);

    // With the server, everything goes as if they were here.
    documents.push(documents[3].iter().map(|x| 2.0 * x).collect());
    desk.npy("more.npy", &documents[ROWS..]);
    desk.write("more.txt", format!("{ROWS}\n"));
    succeeded(&site.run("ingest", VAULT, &["more.npy", "--ids", "more.txt"]));
    succeeded(&site.run("delete", VAULT, &["7"]));
    documents[7].fill(0.0);
    succeeded(&site.run("rekey", VAULT, &[]));
    succeeded(&site.run("publish", VAULT, &[]));
    succeeded(&site.run("backup", VAULT, &[]));
    let found = site.found(VAULT);
    assert_is_exact(&found[3], &documents, &documents[3]);
    assert!(found.iter().flatten().all(|(id, _)| id != "7"));
    succeeded(&site.run("dump", VAULT, &out));
    let dumped = std::fs::read(desk.path("out.txt")).expect("ids");
    assert_eq!(dumped.iter().filter(|&&byte| byte == b'\n').count(), ROWS);
    // They are those that were ingested, to the last bit: another vault takes them.
    desk.succeeds(&["init", "copy", "--key-file", KEY]);
    desk.succeeds(&["ingest", "copy", "--key-file", KEY, "out.npy", "--ids", "out.txt"]);
    let again =
        ["ingest", "copy", "--key-file", KEY, "more.npy", "--ids", "more.txt", "--json", "-"];
    let again = parsed(&desk.succeeds(&again));
    assert_eq!(number(&again, "unchanged"), 1.0);
}
