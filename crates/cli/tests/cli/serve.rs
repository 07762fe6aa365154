//! `shard serve` and `shard token` as an operator runs them.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::support::served::Served;
use crate::support::{Desk, VAULT, parsed};

fn client(certificate: Option<&Path>) -> reqwest::Client {
    // Another test of this program may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30));
    if let Some(path) = certificate {
        let pem = std::fs::read(path).expect("a certificate");
        builder = builder.tls_certs_only([reqwest::Certificate::from_pem(&pem).expect("PEM")]);
    }
    builder.build().expect("a client")
}

async fn status(client: &reqwest::Client, url: &str, token: &str) -> u16 {
    let request = client.get(url).bearer_auth(token).send();
    request.await.expect("an answer").status().as_u16()
}

#[tokio::test]
async fn a_server_starts_serves_over_tls_and_ends_with_zero() {
    let desk = Desk::new();
    let create = ["token", "create", "data", "--scope", "admin", "--yes"];
    let output = desk.shard(&create).output().unwrap();
    let token = String::from_utf8(output.stdout).unwrap().trim_end().to_owned();
    assert!(token.starts_with("shard_"));
    let served = Served::start(&desk, &["--ready-file", "ready", "--log-format", "json"]);
    let ready = parsed(&std::fs::read_to_string(desk.path("ready")).unwrap());
    assert_eq!(ready["url"], served.url.as_str());
    assert_eq!(ready["fingerprint"].as_str(), served.fingerprint.as_deref());

    let client = client(Some(&desk.path("data/tls/certificate.pem")));
    let url = format!("{}/v1/collections", served.url);
    assert_eq!(status(&client, &url, &token).await, 200);
    assert_eq!(status(&client, &url, "shard_another").await, 401);

    // A token made meanwhile is known at once, and one revoked is not.
    let report =
        parsed(&desk.succeeds(&["token", "create", "data", "--scope", "admin", "--json", "-"]));
    let (id, second) = (report["id"].as_str().unwrap(), report["token"].as_str().unwrap());
    assert_eq!(status(&client, &url, second).await, 200);
    desk.succeeds(&["token", "revoke", "data", id]);
    assert_eq!(status(&client, &url, second).await, 401);

    let (code, log) = served.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{log}");
    assert!(!log.contains(&token) && !log.contains(second));
}

#[tokio::test]
async fn a_certificate_is_replaced_without_a_restart() {
    let desk = Desk::new();
    let served = Served::start(&desk, &[]);
    let before = served.fingerprint.clone().unwrap();
    std::fs::remove_dir_all(desk.path("data/tls")).unwrap();
    let after = desk.succeeds(&["serve", "data", "--print-fingerprint"]);
    let after = after.trim_end();
    assert!(after.starts_with("sha256:") && after != before);
    served.signal("-HUP");
    let url = format!("{}/healthz", served.url);
    let mut trusted = false;
    for _ in 0..200 {
        let client = client(Some(&desk.path("data/tls/certificate.pem")));
        trusted = client.get(&url).send().await.is_ok();
        if trusted {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(trusted, "the new certificate is served");
    assert_eq!(served.end().0, Some(0));
}

#[tokio::test]
async fn a_file_of_settings_is_obeyed_and_flags_win() {
    let desk = Desk::new();
    desk.write("shard.toml", "plain = true\nlog-level = \"error\"\nlisten = \"127.0.0.1:1\"\n");
    let served = Served::start(&desk, &["--config", "shard.toml"]);
    assert!(served.url.starts_with("http://"));
    assert_eq!(status(&client(None), &format!("{}/readyz", served.url), "").await, 200);
    assert_eq!(served.end(), (Some(0), String::new()));
}

#[test]
fn a_public_address_needs_tls_and_a_token() {
    let desk = Desk::new();
    let public = ["serve", "data", "--listen", "0.0.0.0:0", "--log-level", "error"];
    desk.refused(&public, &["is not a loopback address", "shard token create"]);
    desk.refused(&[&public[..], &["--plain"]].concat(), &["without TLS"]);
}

#[test]
fn a_vault_is_not_served() {
    let desk = Desk::with_small_vault();
    let commands: [&[&str]; 4] = [
        &["serve", VAULT, "--listen", "127.0.0.1:0"],
        &["serve", VAULT, "--print-fingerprint"],
        &["token", "create", VAULT, "--scope", "read", "--yes"],
        &["restore-snapshot", "none", VAULT],
    ];
    for command in commands {
        desk.refused_without_a_trace(command, &["vault is a vault", "a directory of its own"]);
    }
}

#[test]
fn a_token_is_made_for_a_server_or_on_request() {
    let desk = Desk::new();
    let create = ["token", "create", "data", "--scope", "read"];
    desk.refused(&create, &["data is no server's directory", "does not exist", "--yes"]);
    assert!(!desk.path("data").exists());
    std::fs::create_dir(desk.path("data")).unwrap();
    desk.refused(&create, &["data is no server's directory", "is empty", "--yes"]);
    desk.write("data/notes.txt", "mine");
    desk.refused(&create, &["data is no server's directory", "other files", "--yes"]);
    assert_eq!(desk.snapshot("data").len(), 1);
    // With the flag, and from then on without it.
    for flags in [&["--yes"][..], &[]] {
        let output = desk.shard(&[&create[..], flags].concat()).output().unwrap();
        assert!(output.status.success() && output.stdout.starts_with(b"shard_"), "{flags:?}");
    }
    // A server that has run without tokens is one as well.
    std::fs::remove_dir_all(desk.path("data")).unwrap();
    drop(Served::start(&desk, &["--plain"]));
    assert!(desk.shard(&create).output().unwrap().status.success());
}

#[test]
fn settings_that_make_no_sense_are_refused_in_words() {
    let desk = Desk::new();
    desk.write("shard.toml", "grace = 3\nqueu = 4\n");
    let misspelt = ["serve", "data", "--config", "shard.toml"];
    desk.refused(&misspelt, &["shard.toml", "line 2", "queu"]);
    desk.refused(&["serve", "data", "--config", "none.toml"], &["none.toml"]);
    desk.refused(&["serve", "data", "--tls-cert", "a.pem"], &["go together"]);
    desk.refused(&["serve", "data", "--tls-cert", "a", "--tls-key", "b"], &["cannot read a"]);
}

#[test]
fn tokens_are_listed_without_being_shown() {
    let desk = Desk::new();
    let flags = ["--collection", "one,two", "--requests-per-second", "5", "--expires", "30"];
    let create = ["token", "create", "data", "--scope", "write,read", "--yes", "--json", "-"];
    let made = parsed(&desk.succeeds(&[&create[..], &flags].concat()));
    let token = made["token"].as_str().unwrap();
    assert_eq!(made["scopes"], serde_json::json!(["read", "write"]));
    let text = desk.succeeds(&["token", "list", "data"]);
    for shown in [made["id"].as_str().unwrap(), "read,write", "one,two", "5 requests/s", "30 days"]
    {
        assert!(text.contains(shown), "no {shown} in {text}");
    }
    let file = std::fs::read_to_string(desk.path("data/tokens.toml")).unwrap();
    assert!(!text.contains(token) && !file.contains(token));
    desk.refused(&["token", "revoke", "data", "ffff"], &["no token has the id", "token list"]);
}

#[tokio::test]
async fn the_certificate_that_is_served_has_the_printed_fingerprint() {
    use rustls::pki_types::pem::PemObject;
    use sha2::Digest;
    let desk = Desk::new();
    let served = Served::start(&desk, &[]);
    let pem = std::fs::read(desk.path("data/tls/certificate.pem")).unwrap();
    let certificate = rustls::pki_types::CertificateDer::from_pem_slice(&pem).unwrap();
    let digest = sha2::Sha256::digest(&certificate);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(served.fingerprint, Some(format!("sha256:{hex}")));
    // Trusting that certificate and no other is enough: it is the one that is served.
    let client = client(Some(&desk.path("data/tls/certificate.pem")));
    assert_eq!(status(&client, &format!("{}/healthz", served.url), "").await, 200);
    assert_eq!(served.end().0, Some(0));
}

/// `shard-lab` is built with the paper's slot layout; a server built as `shard` says that it is not.
#[cfg(not(feature = "slots"))]
#[tokio::test]
async fn messages_of_the_slot_layout_are_refused_by_name() {
    use shard_protocol::{Limits, Operation, Refusal, RefusalCode, http};
    let desk = Desk::new();
    let served = Served::start(&desk, &["--plain", "--log-level", "error"]);
    for (kind, operation) in [(7, Operation::Sessions), (8, Operation::Rerank)] {
        let message = [b"SHRD\x01\0".as_slice(), &[kind, 0], &[0; 100]].concat();
        let url = format!("{}/{}", served.url, http::operation("papers", operation));
        let request = client(None).post(url).header("content-type", http::MEDIA_TYPE);
        let answer = request.body(message).send().await.expect("an answer");
        assert_eq!(answer.status(), 400);
        let body = answer.bytes().await.expect("a body");
        let refusal = Refusal::decode(&body, &Limits::default()).expect("a refusal");
        assert_eq!(refusal.code, RefusalCode::Malformed);
        assert!(refusal.text.contains("slot layout"), "{}", refusal.text);
    }
    assert_eq!(served.end(), (Some(0), String::new()));
}
