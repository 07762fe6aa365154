//! Vectors with other fields: kept as records, brought back as passages, and filtered by.

use serde_json::{Value, json};

use crate::support::served::Served;
use crate::support::{Desk, KEY, VAULT, hits, number, parsed, random_rows, succeeded};

const ROWS: usize = 60;
const WIDTH: usize = 12;

/// Lines with a vector, a year, and more.
fn lines() -> String {
    let rows = random_rows(ROWS, WIDTH, 5);
    let line = |(row, vector): (usize, &Vec<f32>)| {
        let document = json!({
            "id": format!("d{row}"),
            "vector": vector,
            "title": format!("title {row}"),
            "text": format!("text of {row}"),
            "year": 2000 + row % 10,
            "lang": if row % 3 == 0 { "en" } else { "de" },
        });
        format!("{document}\n")
    };
    rows.iter().enumerate().map(line).collect()
}

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("docs.jsonl", lines());
    desk.npy("query.npy", &random_rows(1, WIDTH, 9));
    desk.succeeds(&["init", VAULT, "--key-file", KEY, "--protection", "blind", "--tile", "32"]);
    let done = desk.ingest(&["docs.jsonl"]);
    assert_eq!(number(&done, "records_set"), ROWS as f64);
    desk
}

fn row_of(id: &str) -> usize {
    id[1..].parse().expect("ids have their row")
}

#[test]
fn a_filter_finds_the_best_of_those_that_match() {
    let desk = desk();
    let all = desk.hits(&["-k", "100"]);
    assert_eq!(all.len(), ROWS);
    let json = r#"{"year": {"$gte": 2005}, "lang": {"$in": ["en"]}}"#;
    type Case<'a> = (&'a [&'a str], fn(usize) -> bool);
    let wanted: &[Case<'_>] = &[
        (&["--where", "year >= 2005", "--where", "lang = en"], |row| row % 10 >= 5 && row % 3 == 0),
        (&["--where", json], |row| row % 10 >= 5 && row % 3 == 0),
        (&["--where", "year in (2001, 2002) or not lang = de"], |row| {
            [1, 2].contains(&(row % 10)) || row % 3 == 0
        }),
        (&["--where", "year exists and year != 2000"], |row| row % 10 != 0),
        (&["--where", "year > 3000"], |_| false),
    ];
    for (filter, holds) in wanted {
        let expected: Vec<&String> =
            all.iter().map(|(id, _)| id).filter(|id| holds(row_of(id))).collect();
        for more in [&[][..], &["--local"]] {
            let found = desk.found(&[filter, more, &["-k", "100"]].concat());
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{filter:?}");
            let found = desk.found(&[filter, more, &["-k", "3"]].concat());
            assert_eq!(found.iter().collect::<Vec<_>>(), expected[..expected.len().min(3)]);
        }
    }
}

#[test]
fn a_filter_that_is_none_and_a_field_that_nobody_has_are_told_of() {
    let desk = desk();
    let search = ["search", VAULT, "--key-file", KEY, "--query", "query.npy"];
    let wrong = desk.shard(&search).args(["--where", "year >="]).output().expect("shard starts");
    assert_eq!(wrong.status.code(), Some(2));
    let complaint = String::from_utf8_lossy(&wrong.stderr);
    assert!(complaint.contains("column 8: expected a value"), "{complaint}");
    let unknown = desk.shard(&search).args(["--where", "yaer = 1"]).output().expect("shard starts");
    assert!(unknown.status.success());
    let note = String::from_utf8_lossy(&unknown.stderr);
    assert_eq!(note, "no document has a field \"yaer\": there are lang, year\n");
    let own = desk.shard(&search).args(["--where", "title = x"]).output().expect("shard starts");
    let note = String::from_utf8_lossy(&own.stderr);
    assert_eq!(note, "\"title\" is no field to filter by: there are lang, year\n");
    let rotated = Desk::with_small_vault();
    let filter = ["search", VAULT, "--key-file", KEY, "--query", "query.npy", "--where", "a = 1"];
    rotated.refused(&filter, &["rotated", "blind collections only"]);
    rotated.refused(&[&filter[..], &["--local"]].concat(), &["rotated", "blind collections only"]);
}

#[test]
fn passages_are_shown_and_everything_is_in_the_report() {
    let desk = desk();
    let ids = desk.found(&["-k", "3"]);
    for way in [&["--passages"][..], &["--passages", "--direct"], &["--passages", "--local"]] {
        let report = &desk.search(&[&["--query", "query.npy", "-k", "3"], way].concat())[0];
        for (hit, id) in report["hits"].as_array().expect("hits").iter().zip(&ids) {
            let row = row_of(id);
            assert_eq!(hit["id"], **id);
            assert_eq!(hit["title"], format!("title {row}"));
            assert_eq!(hit["text"], format!("text of {row}"));
            assert_eq!(hit["fields"]["year"], 2000 + row % 10);
            assert!(hit["fields"].get("vector").is_none());
        }
        let shown = [&["search", VAULT, "--key-file", KEY, "--query", "query.npy", "-k", "2"], way];
        let shown = desk.succeeds(&shown.concat());
        let first = format!("{}\n      title {0}\n      text of {0}\n", row_of(&ids[0]));
        assert!(shown.contains(&first), "{shown}");
    }
    desk.succeeds(&["verify", VAULT, "--key-file", KEY]);
}

#[test]
fn a_reader_filters_and_follows_through_a_server() {
    let desk = desk();
    let create = ["token", "create", "data", "--scope", "read,write", "--yes", "--json", "-"];
    let token = parsed(&desk.succeeds(&create))["token"].as_str().expect("a token").to_owned();
    let server = Served::start(&desk, &["--log-level", "error"]);
    let run = |command: &[&str]| {
        let url = format!("{}/papers", server.url);
        let pin = server.fingerprint.clone().expect("TLS");
        let mut command = desk.shard(command);
        command.args(["--server", &url, "--key-file", KEY]);
        command.env("SHARD_PIN", pin).env("SHARD_TOKEN", &token);
        command.output().expect("shard starts")
    };
    succeeded(&run(&["publish", VAULT]));
    desk.succeeds(&["export", VAULT, "reader", "--key-file", KEY, "--new-key-file", KEY]);
    let search = |vault: &str, filter: &str| -> Value {
        let search = ["search", vault, "--query", "query.npy", "--passages", "-k", "100"];
        let output = run(&[&search[..], &["--where", filter, "--json", "-"]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        parsed(&String::from_utf8_lossy(&output.stdout))[0].clone()
    };
    let ids =
        |report: &Value| -> Vec<String> { hits(report).into_iter().map(|hit| hit.0).collect() };
    let expected = desk.found(&["-k", "100", "--where", "year = 2003"]);
    assert_eq!(expected.len(), ROWS / 10);
    for vault in [VAULT, "reader"] {
        let report = search(vault, "year = 2003");
        assert_eq!(ids(&report), expected);
        assert_eq!(report["hits"][0]["fields"]["year"], 2003);
        assert_eq!(number(&report["fetch"], "slots"), expected.len() as f64);
    }
    // Another year, a document less, another epoch's keys: whoever may search follows, and pulls.
    desk.write("more.jsonl", "{\"id\": \"d3\", \"year\": 1999, \"text\": \"old\"}\n");
    desk.succeeds(&["ingest", VAULT, "--records", "more.jsonl", "--key-file", KEY]);
    desk.succeeds(&["delete", VAULT, "d13", "--key-file", KEY]);
    succeeded(&run(&["publish", VAULT]));
    assert_eq!(ids(&search("reader", "year = 1999")), ["d3"]);
    assert_eq!(ids(&search("reader", "year = 2003")).len(), expected.len() - 2);
    // A backup has them too.
    succeeded(&run(&["backup", VAULT]));
    succeeded(&run(&["restore", "copy"]));
    assert_eq!(ids(&search("copy", "year = 1999")), ["d3"]);
    desk.succeeds(&["verify", "copy", "--key-file", KEY]);
}

#[cfg(not(feature = "encode"))]
#[test]
fn a_build_without_encoders_says_how_to_get_them() {
    let desk = desk();
    desk.write("texts.jsonl", "{\"id\": 1, \"text\": \"a\"}\n");
    let how = ["no text encoders", "--features encode"];
    desk.refused(&["ingest", VAULT, "texts.jsonl", "--key-file", KEY], &how);
    desk.refused(&["search", VAULT, "words", "--key-file", KEY], &how);
    desk.refused(&["search", VAULT, "--query", "texts.jsonl", "--key-file", KEY], &how);
}
