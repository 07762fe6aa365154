//! Errors for programs: `--json -` has them on standard output as well.

use std::process::Output;

use serde_json::{Value, json};

use crate::support::{Desk, KEY, VAULT, parsed};

/// The exit code, the one JSON value of standard output, and the line of standard error.
fn failed(output: &Output) -> (Option<i32>, Value, String) {
    let line = String::from_utf8(output.stderr.clone()).expect("errors are text");
    let value = parsed(std::str::from_utf8(&output.stdout).expect("JSON is text"));
    (output.status.code(), value, line)
}

fn run(desk: &Desk, arguments: &[&str]) -> Output {
    desk.shard(&[arguments, &["--json", "-"]].concat()).output().expect("shard starts")
}

#[test]
fn an_error_is_one_json_value_with_message_causes_and_hint() {
    let desk = Desk::with_small_vault();
    let (code, value, line) = failed(&run(&desk, &["status", VAULT, "--key-file", "none"]));
    assert_eq!(code, Some(1));
    let error = value["error"].as_object().expect("an error");
    assert_eq!(error.keys().collect::<Vec<_>>(), ["causes", "hint", "message"]);
    assert_eq!(error["message"], "cannot read key file none");
    let causes = error["causes"].as_array().expect("a list");
    assert!(causes.len() == 1 && causes[0].as_str().unwrap().contains("No such file"), "{value}");
    assert_eq!(error["hint"], Value::Null);
    let cause = causes[0].as_str().unwrap();
    assert_eq!(line, format!("error: cannot read key file none: {cause}\n"));

    // With a hint, which the line has in brackets.
    desk.write("query", [4; 32]);
    desk.succeeds(&["export", VAULT, "theirs", "--key-file", KEY, "--new-key-file", "query"]);
    let search = ["search", "theirs", "--query", "query.npy", "--key-file", "query"];
    let (code, value, line) = failed(&run(&desk, &search));
    assert_eq!((code, &value["error"]["hint"]), (Some(1), &json!("name the server with --server")));
    assert!(line.ends_with("(name the server with --server)\n"), "{line}");
}

#[test]
fn ids_are_exact_in_json_and_escaped_on_the_terminal() {
    let desk = Desk::with_small_vault();
    let id = "\u{202e}cod\u{1b}[2J";
    let (_, value, line) = failed(&run(&desk, &["delete", VAULT, id, "--key-file", KEY]));
    assert!(line.contains("\\u{202e}cod\\u{1b}[2J"), "{line}");
    assert!(!line.trim_end().contains(|c: char| c.is_control() || c == '\u{202e}'), "{line:?}");
    assert!(value["error"]["message"].as_str().unwrap().contains("is not in the vault"));
    let done = run(&desk, &["delete", VAULT, "1", id, "--ignore-missing", "--key-file", KEY]);
    assert_eq!(parsed(&String::from_utf8(done.stdout).unwrap())["missing"], json!([id]));
}

#[test]
fn a_result_that_was_written_stays_the_only_value() {
    let desk = Desk::with_small_vault();
    desk.write("policy.toml", "[[rule]]\nchannel = \"shape\"\nmetric = \"keys\"\nmin = 64");
    let gate = ["audit", VAULT, "--key-file", KEY, "--only", "shape", "--gate", "policy.toml"];
    let (code, value, line) = failed(&run(&desk, &gate));
    assert_eq!((code, &value["error"]), (Some(3), &Value::Null));
    assert_eq!(value["gate"]["checks"].as_array().map(Vec::len), Some(1), "{value}");
    assert!(line.contains("the gate is not met"), "{line}");
}

#[test]
fn planning_an_empty_vault_says_how_to_plan_without_one() {
    let desk = Desk::new();
    desk.succeeds(&["init", VAULT, "--key-file", KEY]);
    let (_, value, line) = failed(&run(&desk, &["plan", VAULT, "--key-file", KEY]));
    assert_eq!(value["error"]["message"], "the vault is empty: ingest documents first");
    assert_eq!(value["error"]["causes"], serde_json::json!([]));
    assert_eq!(value["error"]["hint"], "give --rows and --dim to plan without one");
    assert!(line.ends_with("first (give --rows and --dim to plan without one)\n"), "{line}");
    let (_, value, _) = failed(&run(&desk, &["rekey", VAULT, "--key-file", KEY]));
    assert_eq!(value["error"]["hint"], Value::Null);
}

#[test]
fn without_json_on_standard_output_nothing_is_there() {
    let desk = Desk::new();
    desk.refused(&["status", "none", "--key-file", KEY], &["none"]);
    desk.refused(&["status", "none", "--key-file", KEY, "--json", "out.json"], &["none"]);
    assert!(!desk.path("out.json").exists());
}

#[test]
fn wrong_usage_is_json_too_where_it_was_asked_for() {
    let desk = Desk::new();
    let (code, value, lines) = failed(&run(&desk, &["ingest", VAULT]));
    assert_eq!(code, Some(2));
    let message = value["error"]["message"].as_str().unwrap();
    assert_eq!(message, "the following required arguments were not provided: <DOCUMENTS>");
    assert!(value["error"]["hint"].as_str().unwrap().contains("Usage: shard ingest"), "{value}");
    assert!(lines.starts_with("error: the following") && lines.contains("\nUsage: "), "{lines}");
}

#[test]
fn commands_that_moved_say_where_to() {
    let desk = Desk::new();
    for (arguments, now) in [
        (&["bench", "rerank", "--layout", "slots"][..], "shard-lab bench rerank --layout slots"),
        (&["bench"], "shard-lab bench"),
        (&["reproduce", "all", "--data", "dir"], "shard-lab reproduce all --data dir"),
    ] {
        let output = desk.shard(arguments).output().unwrap();
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{line}");
        assert!(line.starts_with("error: ") && line.lines().count() == 1, "{line}");
        assert!(line.contains(&format!(": {now} (")), "{line}");
    }
    let (code, value, _) = failed(&run(&desk, &["bench", "engine"]));
    assert_eq!(code, Some(2));
    assert!(value["error"]["message"].as_str().unwrap().contains("shard-lab bench engine"));
}
