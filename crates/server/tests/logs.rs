//! What is logged: one line a request, and nothing that is derived from a query unless asked for.
//! The log belongs to the process, so these tests are a program of their own.

mod support;

use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use shard_server::http::{HttpOptions, Scope};
use tracing_subscriber::fmt::MakeWriter;

use support::{EPOCH, Setup, Site, new_token, request};

/// Everything that was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// The log of the process, at its most talkative.
fn log() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
            .with_writer(log.clone())
            .json()
            .finish();
        tracing::subscriber::set_global_default(subscriber).expect("nobody else sets one");
        log
    })
}

/// The lines about requests that name a token.
fn lines(token: &str) -> Vec<String> {
    let text = String::from_utf8(log().0.lock().unwrap().clone()).unwrap();
    let about = |line: &&str| line.contains("shard::request") && line.contains(token);
    text.lines().filter(about).map(ToOwned::to_owned).collect()
}

/// Asks for a row that is there, then for one that is not, whose names are found wherever they
/// are.
async fn served_and_refused(options: HttpOptions, cell: u64, row: u64) -> (String, String) {
    let site = Site::start(Setup { options, ..Setup::default() });
    let (id, token) = site.token(&new_token(&[Scope::Read]));
    assert_eq!(site.send("main/rerank", &token, request(EPOCH, 10, 1)).await.status, 200);
    assert_eq!(site.send("main/rerank", &token, request(EPOCH, cell, row)).await.status, 404);
    (id, token)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_says_what_was_done_and_not_for_what() {
    log();
    let (cell, row) = (0x6ce1_1234_5678_9ab2, 0x7ea1_2345_6789_abc1);
    let (id, token) = served_and_refused(HttpOptions::default(), cell, row).await;
    let lines = lines(&id);
    assert_eq!(lines.len(), 2);
    for field in ["\"operation\":\"rerank\"", "\"status\":200", "queue_ms", "score_ms", "bytes_out"]
    {
        assert!(lines[0].contains(field), "no {field} in {}", lines[0]);
    }
    assert!(lines[1].contains("UnknownRow") && lines[1].contains("404"), "{}", lines[1]);
    assert!(!lines[1].contains("127.0.0.1") && !lines[1].contains("main"), "{}", lines[1]);
    // Of the whole log, whoever wrote it: other crates log too.
    let all = String::from_utf8(log().0.lock().unwrap().clone()).unwrap();
    assert!(!all.contains(&token), "a token is in the log");
    for name in [cell, row] {
        assert!(!all.contains(&name.to_string()) && !all.contains(&format!("{name:x}")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn details_and_addresses_are_logged_when_asked_for() {
    log();
    let options = HttpOptions { log_details: true, log_addresses: true, ..HttpOptions::default() };
    let (id, _) = served_and_refused(options, 0x5_0000_0001, 0x5_abcd_0002).await;
    let lines = lines(&id);
    assert!(lines[1].contains("00000005abcd0002"), "{}", lines[1]);
    assert!(lines[1].contains("127.0.0.1") && lines[1].contains("\"main\""), "{}", lines[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_of_a_failure_is_in_the_log_and_not_in_the_refusal() {
    log();
    let site = Site::start(Setup::default());
    let (_, token) = site.token(&new_token(&[Scope::Admin]));
    let url = format!("{}/v1/admin/snapshot", site.url);
    let request = site
        .client
        .post(url)
        .bearer_auth(token)
        .header("content-type", "application/json")
        .body(r#"{"name": "first"}"#);
    let reply = request.send().await.unwrap();
    assert_eq!(reply.status().as_u16(), 507);
    let (told, reason) = (reply.text().await.unwrap(), "the rows of this server are in memory");
    assert!(told.contains("cannot take a snapshot") && !told.contains(reason), "{told}");
    let all = String::from_utf8(log().0.lock().unwrap().clone()).unwrap();
    assert!(all.lines().any(|line| line.contains("WARN") && line.contains(reason)));
}
