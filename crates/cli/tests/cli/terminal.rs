//! Questions at a terminal, and what becomes of them without one.

use crate::support::{Desk, VAULT};

const SHORT: &str = "hunter2";
const LONG: &str = "correct horse battery staple";

/// What a person is asked for a new passphrase that is short.
fn chosen<'a>(phrase: &'a str, anyway: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![("New passphrase: ", phrase), ("Use it anyway? [y/N] ", anyway), ("Repeat it: ", phrase)]
}

#[test]
fn a_short_passphrase_is_taken_only_when_it_is_meant() {
    let desk = Desk::new();
    let refuse = &chosen(SHORT, "")[..2];
    let Some(session) = desk.at_terminal(&["init", VAULT], refuse) else { return };
    assert_eq!(session.code, 1, "{}", session.screen);
    assert!(session.screen.contains("warning: a passphrase of fewer than 8 characters"));
    assert!(session.screen.contains("error: no passphrase was chosen"), "{}", session.screen);
    assert!(!session.screen.contains(SHORT) && !desk.path(VAULT).exists());

    let session = desk.at_terminal(&["init", VAULT], &chosen(SHORT, "y")).unwrap();
    assert_eq!(session.code, 0, "{}", session.screen);
    assert!(!session.screen.contains(SHORT), "{}", session.screen);
    let status = desk.at_terminal(&["status", VAULT], &[("Passphrase: ", SHORT)]).unwrap();
    // What opens a vault is not judged again.
    assert_eq!((status.code, status.screen.contains("warning")), (0, false), "{}", status.screen);

    let steps = [&[("Passphrase: ", SHORT)], &chosen("short", "no")[..2]].concat();
    let session = desk.at_terminal(&["passphrase", VAULT], &steps).unwrap();
    assert_eq!(session.code, 1, "{}", session.screen);
    assert!(session.screen.contains("error: no new passphrase was chosen"), "{}", session.screen);
    let steps = [("Passphrase: ", SHORT), ("New passphrase: ", LONG), ("Repeat it: ", LONG)];
    let session = desk.at_terminal(&["passphrase", VAULT], &steps).unwrap();
    assert_eq!((session.code, session.screen.contains("anyway")), (0, false), "{}", session.screen);
}

#[test]
fn without_a_terminal_a_short_passphrase_is_warned_of() {
    let desk = Desk::new();
    let run = |phrase: &str, vault: &str| {
        desk.shard(&["init", vault]).env("SHARD_PASSPHRASE", phrase).output().unwrap()
    };
    let short = run(SHORT, VAULT);
    let said = String::from_utf8(short.stderr).unwrap();
    assert!(short.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.starts_with("warning: a passphrase of fewer than 8 characters"), "{said}");
    assert!(!said.contains(SHORT));
    assert!(run("12345678", "other").stderr.is_empty());
    let mut change = desk.shard(&["passphrase", VAULT]);
    change.env("SHARD_PASSPHRASE", SHORT).env("SHARD_NEW_PASSPHRASE", "short");
    let changed = change.output().unwrap();
    assert!(changed.status.success() && changed.stderr.starts_with(b"warning: "));
}

#[test]
fn a_token_for_a_directory_that_is_no_server_s_is_asked_about() {
    let desk = Desk::new();
    let create = ["token", "create", "data", "--scope", "read"];
    let question = "Make it one? [y/N] ";
    let Some(session) = desk.at_terminal(&create, &[(question, "n")]) else { return };
    assert_eq!(session.code, 1, "{}", session.screen);
    assert!(session.screen.contains("data is no server's directory: it does not exist"));
    assert!(session.screen.contains("error: no token was made"), "{}", session.screen);
    assert!(!desk.path("data").exists());
    let session = desk.at_terminal(&create, &[(question, "yes")]).unwrap();
    assert!(session.code == 0 && session.screen.contains("shard_"), "{}", session.screen);
    // It is a server's now.
    let session = desk.at_terminal(&create, &[]).unwrap();
    assert!(session.code == 0 && session.screen.contains("shard_"), "{}", session.screen);
}
