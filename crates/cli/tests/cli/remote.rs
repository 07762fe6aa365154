//! The commands against a server on a socket: publish, search, backup and restore over TLS, with
//! a token, from another process.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::server::{Listening, Mischief, Served};
use crate::support::{
    Desk, KEY, VAULT, hits, number, parsed, program, random_rows, refusal, succeeded,
};

const TOKEN: &str = "shard_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG";

/// A desk with a vault, and a server that wants a token.
pub fn world() -> (Desk, Listening, Vec<String>) {
    let desk = Desk::with_vault("4", &random_rows(80, 12, 1));
    desk.write("token", format!("{TOKEN}\n"));
    let listening = Listening::tls(Served::new(Some(TOKEN)));
    let pin = listening.fingerprint.unwrap().to_string();
    let flags = ["--server", &listening.url, "--pin", &pin, "--token-file", "token"];
    let flags = flags.map(str::to_owned).to_vec();
    (desk, listening, flags)
}

/// A command on the vault with these flags.
pub fn command<'a>(name: &'a str, vault: &'a str, flags: &'a [String]) -> Vec<&'a str> {
    let flags = flags.iter().map(String::as_str);
    [name, vault, "--key-file", KEY].into_iter().chain(flags).collect()
}

pub fn report(desk: &Desk, name: &str, vault: &str, flags: &[String]) -> Value {
    let command = [&command(name, vault, flags)[..], &["--json", "-"]].concat();
    parsed(&desk.succeeds(&command))
}

/// What a publish sent, deleted and left.
fn published(desk: &Desk, flags: &[String]) -> [f64; 3] {
    let report = report(desk, "publish", VAULT, flags);
    ["uploaded", "deleted", "unchanged"].map(|name| number(&report, name))
}

#[test]
fn a_published_vault_is_searched_as_an_embedded_one() {
    let (desk, _listening, flags) = world();
    let [uploaded, 0.0, 0.0] = published(&desk, &flags) else { panic!("a first publish") };
    assert_eq!(uploaded, 80.0);
    assert_eq!(published(&desk, &flags), [0.0, 0.0, uploaded]);
    desk.npy("queries.npy", &random_rows(7, 12, 5));
    let here = desk.search(&["--queries", "queries.npy"]);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let there =
        desk.search(&[&["--queries", "queries.npy", "--parallel", "3"], &flags[..]].concat());
    assert_eq!(there.len(), 7);
    for (here, there) in here.iter().zip(&there) {
        assert_eq!(here["query"], there["query"]);
        let tie = 2.0 * number(there, "error_bound");
        for (ours, theirs) in hits(here).iter().zip(hits(there)) {
            assert!(ours.0 == theirs.0 || (ours.1 - theirs.1).abs() <= tie);
        }
    }
    // The same by the environment alone, whose proxy does not reach this machine's own addresses.
    let mut by_environment =
        desk.shard(&["search", VAULT, "--query", "queries.npy", "--key-file", KEY]);
    by_environment
        .env("SHARD_SERVER", flags[1])
        .env("SHARD_PIN", flags[3])
        .env("SHARD_TOKEN", TOKEN)
        .env("HTTPS_PROXY", "http://127.0.0.1:9");
    succeeded(&by_environment.output().unwrap());
}

#[test]
fn a_vault_comes_back_from_the_server_with_nothing_but_what_opens_it() {
    let (desk, _listening, flags) = world();
    let saved = report(&desk, "backup", VAULT, &flags);
    assert_eq!(number(&saved, "sent"), number(&saved, "bytes"));
    let again = report(&desk, "backup", VAULT, &flags);
    assert_eq!((number(&again, "sent"), number(&again, "kept")), (0.0, 2.0));
    let found = desk.found(&[]);
    let head = |vault: &str| {
        let status = desk.succeeds(&["status", vault, "--key-file", KEY, "--json", "-"]);
        parsed(&status)["commit"].as_str().unwrap().to_owned()
    };
    let before = head(VAULT);
    fs::remove_dir_all(desk.path(VAULT)).unwrap();

    desk.write("wrong", [8; 32]);
    let mut wrong = command("restore", VAULT, &flags);
    wrong[3] = "wrong";
    desk.refused(&wrong, &["key file"]);
    assert!(!desk.path(VAULT).exists());

    report(&desk, "restore", VAULT, &flags);
    assert_eq!(head(VAULT), before);
    assert_eq!(desk.found(&[]), found);
    desk.succeeds(&["verify", VAULT, "--key-file", KEY]);
    desk.refused(&command("restore", VAULT, &flags), &["already a vault"]);
    let listed = report(&desk, "backup", VAULT, &[&flags[..], &["--list".to_owned()]].concat());
    assert_eq!(listed["backups"].as_array().unwrap().len(), 2);
    assert_eq!(listed["backups"][0]["commit"], before.as_str());
    let at = ["--at".to_owned(), before[..6].to_owned()];
    report(&desk, "restore", "older", &[&flags[..], &at].concat());
    let none = ["--at".to_owned(), "zz".to_owned()];
    let none = [&flags[..], &none].concat();
    desk.refused(&command("restore", "other", &none), &["none of the 2 backups", "--list"]);
}

#[test]
fn a_recovery_code_restores_a_vault_whose_key_file_is_lost_as_well() {
    let (desk, _listening, flags) = world();
    let made = desk.succeeds(&["recovery", VAULT, "--key-file", KEY, "--json", "-"]);
    let code = parsed(&made)["code"].as_str().unwrap().to_owned();
    report(&desk, "backup", VAULT, &flags);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let restore = [&["restore", "new", "--recovery"], &flags[..]].concat();
    let mut restore = desk.shard(&restore);
    let said = succeeded(&restore.env("SHARD_RECOVERY_CODE", &code).output().unwrap());
    assert!(said.contains("next: shard passphrase new --recovery"), "{said}");
    desk.succeeds(&["status", "new", "--key-file", KEY]);
}

#[test]
fn a_collection_is_not_given_to_another_vault_unasked() {
    let (desk, _listening, flags) = world();
    published(&desk, &flags);
    report(&desk, "backup", VAULT, &flags);
    desk.succeeds(&["init", "other", "--protection", "rotated", "--cells", "4", "--key-file", KEY]);
    desk.succeeds(&["ingest", "other", "docs.npy", "--key-file", KEY]);
    for name in ["publish", "backup"] {
        let refused = command(name, "other", &flags);
        desk.refused(&refused, &["belongs to another vault", "--replace"]);
        desk.succeeds(&command(name, VAULT, &flags));
    }
    for name in ["publish", "backup"] {
        desk.succeeds(&[&command(name, "other", &flags)[..], &["--replace"]].concat());
        desk.refused(&command(name, VAULT, &flags), &["belongs to another vault"]);
    }
}

#[test]
fn answers_before_a_failure_are_written() {
    let (desk, listening, flags) = world();
    published(&desk, &flags);
    desk.npy("queries.npy", &random_rows(3, 12, 5));
    listening.served.will([Mischief::Slow(Duration::from_millis(1)), Mischief::Page(404)]);
    let more = ["--queries", "queries.npy", "--parallel", "1", "--json", "done.json"];
    let search = [&command("search", VAULT, &flags)[..], &more].concat();
    let output = desk.shard(&search).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let done = parsed(&fs::read_to_string(desk.path("done.json")).unwrap());
    assert_eq!(done.as_array().unwrap().len(), 1);
}

#[test]
fn an_outdated_copy_is_told_so() {
    let (desk, _listening, flags) = world();
    fs::create_dir(desk.path("old")).unwrap();
    for (name, bytes) in desk.snapshot(VAULT) {
        fs::write(desk.path("old").join(name), bytes).unwrap();
    }
    desk.npy("more.npy", &random_rows(5, 12, 9));
    desk.write("ids", "a\nb\nc\nd\ne\n");
    desk.ingest(&["more.npy", "--ids", "ids"]);
    published(&desk, &flags);
    desk.refused(&command("publish", "old", &flags), &["the server is at revision", "shard pull"]);
    let search = [&command("search", "old", &flags)[..], &["--query", "query.npy"]].concat();
    let output = desk.shard(&search).output().unwrap();
    assert!(output.status.success());
    let warning = String::from_utf8(output.stderr).unwrap();
    assert!(warning.starts_with("warning: this vault is older"), "{warning}");
    let pulled = report(&desk, "pull", "old", &flags);
    assert_eq!((number(&pulled, "from"), number(&pulled, "to")), (2.0, 3.0));
    let output = desk.shard(&search).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
    let status = report(&desk, "status", VAULT, &flags);
    assert_eq!(status["server"]["revision"], status["server"]["vault_revision"]);
    assert!(desk.succeeds(&command("status", VAULT, &flags)).contains("as in the vault"));
    let deleted = desk.succeeds(&["delete", VAULT, "a", "--key-file", KEY]);
    assert!(deleted.contains("next: shard publish"), "{deleted}");
    let search = [&command("search", VAULT, &flags)[..], &["--query", "query.npy"]].concat();
    let output = desk.shard(&search).output().unwrap();
    assert!(output.status.success());
    let warning = String::from_utf8(output.stderr).unwrap();
    assert!(warning.contains("changes that are not published"), "{warning}");
}

#[test]
fn what_is_wrong_with_a_connection_is_said_in_words() {
    let (desk, listening, flags) = world();
    let publish = |flags: &[&str]| {
        let command = [&["publish", VAULT, "--key-file", KEY], flags].concat();
        desk.shard(&command).output().unwrap()
    };
    let seen = listening.fingerprint.unwrap().to_string();
    let (url, other) = (listening.url.as_str(), format!("sha256:{}", "0".repeat(64)));
    refusal(&publish(&["--server", url, "--pin", &other]), &["does not match the pin", &seen]);
    refusal(&publish(&["--server", url, "--pin", &seen]), &["asks for a token", "SHARD_TOKEN"]);
    refusal(&publish(&["--server", url]), &["is not trusted", "--pin"]);
    let nobody = "https://127.0.0.1:9/main";
    refusal(&publish(&["--server", nobody, "--pin", &seen]), &["cannot connect", "127.0.0.1:9"]);
    desk.write("token", "shard_wrong");
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let output = publish(&flags);
    refusal(&output, &["does not accept this token"]);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("shard_wrong"));
    for usage in
        [&["--server", "http://a.example/x"][..], &["--server", url, "--pin", "md5:1"], &[]]
    {
        assert_eq!(publish(usage).status.code(), Some(2), "{usage:?}");
    }
}

#[test]
fn a_frozen_server_is_given_up_at_the_deadline() {
    let desk = Desk::with_small_vault();
    // Connections are taken by the system and nobody ever reads from them.
    let frozen = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/main", frozen.local_addr().unwrap());
    let flags = ["--server", &url, "--deadline", "1"].map(str::to_owned);
    for (name, more) in
        [("search", &["--query", "query.npy"][..]), ("publish", &[]), ("backup", &[])]
    {
        let start = Instant::now();
        let command = [&command(name, VAULT, &flags)[..], more].concat();
        desk.refused(&command, &["no answer from", "within 1 s"]);
        // Most of it is the start of a program in a debug build, on a machine that is busy.
        assert!(start.elapsed() < Duration::from_secs(20), "{name}: {:?}", start.elapsed());
    }
    let help = desk.succeeds(&["search", "--help"]);
    assert!(help.contains("--deadline <SECONDS>") && help.contains("[default: 120;"), "{help}");
}

#[test]
#[cfg(unix)]
fn ctrl_c_prints_what_is_done_and_exits_130() {
    let (desk, listening, flags) = world();
    published(&desk, &flags);
    desk.npy("queries.npy", &random_rows(200, 12, 5));
    listening.served.will(vec![Mischief::Slow(Duration::from_millis(50)); 200]);
    let more = ["--queries", "queries.npy", "--parallel", "2", "--json", "done.json"];
    let search = [&command("search", VAULT, &flags)[..], &more].concat();
    let child = std::process::Command::new(program())
        .current_dir(desk.path(""))
        .args(&search)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let before = listening.served.requests.load(std::sync::atomic::Ordering::SeqCst);
    let start = Instant::now();
    while listening.served.requests.load(std::sync::atomic::Ordering::SeqCst) < before + 10 {
        assert!(start.elapsed() < Duration::from_secs(60), "no search begins");
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let Value::Array(done) = parsed(&fs::read_to_string(desk.path("done.json")).unwrap()) else {
        panic!("a list")
    };
    assert!((1..200).contains(&done.len()), "{}", done.len());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.matches("query ").count(), done.len());
    let words = format!("{} of 200 queries were answered", done.len());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&words), "{said}");
}
