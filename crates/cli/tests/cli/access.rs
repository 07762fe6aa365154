//! Who opens a vault, from outside: passphrase changes, recovery codes, and vaults for colleagues.

use std::fs;
use std::process::Output;

use crate::support::{Desk, KEY, VAULT, number, parsed, random_rows, refusal, succeeded};

/// Runs a command with secrets in its environment; none of them may be printed.
fn with(desk: &Desk, secrets: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = desk.shard(arguments);
    command.envs(secrets.iter().copied());
    let output = command.output().unwrap();
    let said = [output.stdout.as_slice(), &output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    for (_, secret) in secrets {
        assert!(secret.is_empty() || !said.contains(secret), "a secret is in {said:?}");
    }
    output
}

const OLD: (&str, &str) = ("SHARD_PASSPHRASE", "correct horse battery");
const NEW: (&str, &str) = ("SHARD_NEW_PASSPHRASE", "staple gun trombone");
const NOW: (&str, &str) = ("SHARD_PASSPHRASE", "staple gun trombone");

#[test]
fn a_new_passphrase_takes_the_place_of_the_old() {
    let desk = Desk::new();
    succeeded(&with(&desk, &[OLD], &["init", VAULT]));
    refusal(
        &with(&desk, &[OLD], &["passphrase", VAULT]),
        &["no new passphrase", "SHARD_NEW_PASSPHRASE", "--new-key-file"],
    );
    let empty = ("SHARD_NEW_PASSPHRASE", "");
    refusal(&with(&desk, &[OLD, empty], &["passphrase", VAULT]), &["empty passphrase"]);
    succeeded(&with(&desk, &[OLD, NEW], &["passphrase", VAULT]));
    refusal(&with(&desk, &[OLD], &["status", VAULT]), &["wrong passphrase"]);
    succeeded(&with(&desk, &[NOW], &["status", VAULT]));
    // A wrong passphrase changes nothing.
    let before = desk.snapshot(VAULT);
    refusal(&with(&desk, &[OLD, NEW], &["passphrase", VAULT]), &["wrong passphrase"]);
    assert!(desk.snapshot(VAULT) == before);
    // To a key file, which is made.
    let output = with(&desk, &[NOW], &["passphrase", VAULT, "--new-key-file", "new"]);
    assert!(output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("wrote a new key file, new"));
    desk.succeeds(&["status", VAULT, "--key-file", "new"]);
}

#[test]
fn a_recovery_code_opens_a_vault_whose_passphrase_is_lost() {
    let desk = Desk::with_small_vault();
    let found = desk.found(&[]);
    let recovery = ["recovery", VAULT, "--key-file", KEY];
    let first = parsed(&desk.succeeds(&[&recovery[..], &["--json", "-"]].concat()));
    assert_eq!(first["replaced"], false);
    let text = desk.succeeds(&recovery);
    assert!(text.contains("not shown again") && text.contains("made before opens nothing"));
    let code = text.lines().find(|line| line.matches('-').count() == 13).expect("a code").trim();
    let status = desk.succeeds(&["status", VAULT, "--key-file", KEY, "--json", "-"]);
    assert_eq!(parsed(&status)["recovery"], true);

    let recover = ["passphrase", VAULT, "--recovery"];
    let typed = |code: &str, reasons: &[&str]| {
        let secrets = [("SHARD_RECOVERY_CODE", code), NEW];
        refusal(&with(&desk, &secrets, &recover), reasons);
    };
    typed(first["code"].as_str().unwrap(), &["KEYRING.recovery", "wrong recovery code"]);
    typed(&code[..60], &["characters where 56 belong"]);
    typed(&code.replace(&code[..1], "U"), &["group 1", "without U"]);
    let slip = if code.starts_with('7') { "8" } else { "7" };
    typed(&format!("{slip}{}", &code[1..]), &["mistyped"]);
    refusal(&with(&desk, &[NEW], &recover), &["no recovery code", "SHARD_RECOVERY_CODE"]);

    let secrets = [("SHARD_RECOVERY_CODE", &*code.to_lowercase().replace('-', " ")), NEW];
    succeeded(&with(&desk, &secrets, &recover));
    desk.refused(&["status", VAULT, "--key-file", KEY], &["opens with a passphrase"]);
    let search = with(&desk, &[NOW], &["search", VAULT, "--query", "query.npy", "--json", "-"]);
    let hits = crate::support::hits(&parsed(&succeeded(&search))[0]);
    assert_eq!(hits.into_iter().map(|(id, _)| id).collect::<Vec<_>>(), found);
}

#[test]
fn a_vault_without_a_recovery_code_says_so() {
    let desk = Desk::with_small_vault();
    let other = Desk::with_small_vault();
    let made = other.succeeds(&["recovery", VAULT, "--key-file", KEY, "--json", "-"]);
    let code = parsed(&made)["code"].as_str().unwrap().to_owned();
    let secrets = [("SHARD_RECOVERY_CODE", &*code), NEW];
    let output = with(&desk, &secrets, &["passphrase", VAULT, "--recovery"]);
    refusal(&output, &["has no recovery code"]);
}

#[test]
fn an_exported_vault_can_be_looked_at_and_not_changed() {
    let desk = Desk::with_small_vault();
    let export = ["export", VAULT, "query", "--key-file", KEY];
    desk.refused(&export, &["no new passphrase", "--new-key-file"]);
    assert!(!desk.path("query").exists());
    desk.write("theirs", [3; 32]);
    let flags = ["--new-key-file", "theirs", "--json", "-"];
    let made = parsed(&desk.succeeds(&[&export[..], &flags].concat()));
    assert_eq!((number(&made, "documents"), number(&made, "epoch")), (40.0, 1.0));

    let status = desk.succeeds(&["status", "query", "--key-file", "theirs", "--json", "-"]);
    let status = parsed(&status);
    assert_eq!(status["access"], "query");
    assert_eq!(status["revision"], made["revision"]);
    assert_eq!(status["drift"], serde_json::Value::Null);
    let before = desk.snapshot("query");
    let commands: [&[&str]; 7] = [
        &["ingest", "query", "docs.npy"],
        &["ingest", "query", "docs.npy", "--delete-missing"],
        &["delete", "query", "1"],
        &["refit", "query"],
        &["rekey", "query"],
        &["recovery", "query"],
        &["export", "query", "further", "--new-key-file", "theirs"],
    ];
    for command in commands {
        let command = [command, &["--key-file", "theirs"]].concat();
        desk.refused(&command, &["query vault", "ask its owner"]);
    }
    let search = ["search", "query", "--query", "query.npy", "--key-file", "theirs"];
    desk.refused(&search, &["query vault", "--server"]);
    assert!(desk.snapshot("query") == before && !desk.path("further").exists());
    // Its holder may change what opens it.
    desk.write("changed", [4; 32]);
    let change = ["passphrase", "query", "--key-file", "theirs", "--new-key-file", "changed"];
    desk.succeeds(&change);
    desk.succeeds(&["status", "query", "--key-file", "changed"]);
}

#[test]
fn an_export_overwrites_nothing_and_leaves_no_key_file() {
    let desk = Desk::with_small_vault();
    fs::create_dir(desk.path("full")).unwrap();
    desk.write("full/notes.txt", "mine");
    for (place, reason) in [("full", "not empty"), (VAULT, "already a vault")] {
        let export = ["export", VAULT, place, "--key-file", KEY, "--new-key-file", "fresh"];
        desk.refused_without_a_trace(&export, &[place, reason]);
    }
    assert!(!desk.path("fresh").exists());
    assert_eq!(desk.snapshot("full").len(), 1);
}

#[test]
fn an_empty_vault_is_not_exported() {
    let desk = Desk::new();
    desk.npy("docs.npy", &random_rows(8, 12, 1));
    let init = desk.succeeds(&[
        "init",
        VAULT,
        "--protection",
        "rotated",
        "--cells",
        "2",
        "--key-file",
        KEY,
    ]);
    assert!(init.contains("shard recovery vault"), "{init}");
    let export = ["export", VAULT, "query", "--key-file", KEY, "--new-key-file", KEY];
    desk.refused(&export, &["vault is empty"]);
    assert!(!desk.path("query").exists());
}
