//! The connection: what is asked again, what is not, and in which words it fails.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use shard_client::remote::{
    Fingerprint, Remote, RemoteError, RemoteOptions, Retries, SecretToken, Timeouts, describe,
};
use shard_client::{ClientError, SearchOptions, Searcher, published_rows};
use shard_protocol::{MessageKind, Revision};

use crate::support::raw::{self, ConnectProxy, Fate, RawServer};
use crate::support::{Listening, Mischief, Served, options};
use crate::vaults::Owner;

fn connect(options: RemoteOptions) -> Remote {
    Remote::connect(options).unwrap()
}

/// What came of asking for the state of the collection.
fn failure(remote: &Remote) -> RemoteError {
    match describe(remote) {
        Err(ClientError::Remote(error)) => error,
        other => panic!("expected a failure of the connection, found {other:?}"),
    }
}

#[test]
fn a_pinned_certificate_is_enough_and_any_other_is_refused_with_its_fingerprint() {
    let listening = Listening::tls(Served::new(None));
    describe(&connect(listening.options())).unwrap();
    let seen = listening.fingerprint.unwrap();
    let pinned = Fingerprint::of(b"another");
    let error = failure(&connect(RemoteOptions { pin: Some(pinned), ..listening.options() }));
    assert!(matches!(error, RemoteError::Pin { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(&seen.to_string()) && text.contains(&pinned.to_string()), "{text}");
    let operator = connect(RemoteOptions { pin: Some(pinned), ..listening.options() });
    assert!(matches!(operator.metrics(), Err(RemoteError::Pin { .. })));
    assert_eq!(listening.served.requests.load(Ordering::SeqCst), 1, "nothing was sent");
}

#[test]
fn without_a_pin_the_certificate_must_come_from_a_trusted_authority() {
    let listening = Listening::tls(Served::new(None));
    let open = || options(&listening.url);
    let error = failure(&connect(open()));
    assert!(matches!(error, RemoteError::Untrusted { .. }), "{error}");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.pem");
    std::fs::write(&file, &listening.certificate).unwrap();
    describe(&connect(RemoteOptions { ca_file: Some(file.clone()), ..open() })).unwrap();
    // The right authority and the wrong name.
    let by_number = listening.url.replace("localhost", "127.0.0.1");
    let error =
        failure(&connect(RemoteOptions { ca_file: Some(file.clone()), ..options(&by_number) }));
    assert!(matches!(error, RemoteError::Untrusted { .. }), "{error}");
    for unusable in ["", "no certificate"] {
        std::fs::write(&file, unusable).unwrap();
        let error = Remote::connect(RemoteOptions { ca_file: Some(file.clone()), ..open() });
        assert!(error.unwrap_err().to_string().contains("ca.pem"));
    }
}

#[test]
fn a_token_is_asked_for_and_checked() {
    let listening = Listening::tls(Served::new(Some("shard_right")));
    let with = |token: Option<&str>| {
        let token = token.map(|text| SecretToken::new(text).unwrap());
        connect(RemoteOptions { token, ..listening.options() })
    };
    describe(&with(Some("shard_right"))).unwrap();
    for (token, words) in [(None, "asks for a token"), (Some("shard_wrong"), "not accept")] {
        let text = failure(&with(token)).to_string();
        assert!(text.contains(words) && !text.contains("shard_wrong"), "{text}");
    }
    assert_eq!(listening.served.requests.load(Ordering::SeqCst), 3, "none was asked again");
}

#[test]
fn a_busy_server_is_asked_again_when_it_says_and_given_up_in_the_end() {
    let listening = Listening::tls(Served::new(None));
    let remote = connect(listening.options());
    listening.served.will([Mischief::Busy(0), Mischief::Page(503), Mischief::Page(429)]);
    describe(&remote).unwrap();
    assert_eq!(listening.served.requests.load(Ordering::SeqCst), 4);
    listening.served.will(vec![Mischief::Busy(0); 4]);
    let error = failure(&remote);
    assert!(matches!(error, RemoteError::Busy { attempts: 4, .. }), "{error}");
    listening.served.will([Mischief::Busy(1)]);
    let start = Instant::now();
    describe(&remote).unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1), "it asked for a second");
    // Longer than anybody will wait, or than clocks can count: the answer comes at once.
    for seconds in [100_000, u64::MAX] {
        listening.served.will([Mischief::Busy(seconds)]);
        assert!(matches!(failure(&remote), RemoteError::Busy { attempts: 1, .. }));
    }
}

#[test]
fn what_is_no_answer_of_ours_is_not_asked_for_again() {
    let listening = Listening::tls(Served::new(None));
    let remote = connect(listening.options());
    for mischief in [
        Mischief::Page(200),
        Mischief::Page(302),
        Mischief::Page(404),
        Mischief::Page(500),
        Mischief::WrongType,
    ] {
        listening.served.will([mischief.clone()]);
        let before = listening.served.requests.load(Ordering::SeqCst);
        let error = failure(&remote);
        assert!(matches!(error, RemoteError::NotShard { .. }), "{mischief:?}: {error}");
        assert_eq!(listening.served.requests.load(Ordering::SeqCst), before + 1);
    }
    listening.served.will([Mischief::Page(401)]);
    assert!(matches!(failure(&remote), RemoteError::Unauthorised { .. }));
    listening.served.will([Mischief::Header("shard-version", "9.9.9; wire=2")]);
    let error = failure(&remote);
    assert!(matches!(error, RemoteError::Version { ours: 1, theirs: 2 }), "{error}");
}

#[test]
fn the_latest_revision_that_makes_sense_is_remembered() {
    let listening = Listening::tls(Served::new(None));
    let remote = connect(listening.options());
    assert_eq!(remote.revision_seen(), None);
    for (header, seen) in [("0", None), ("12", Some(12)), ("9", Some(12)), ("-1", Some(12))] {
        listening.served.will([Mischief::Header("shard-revision", header)]);
        describe(&remote).unwrap();
        assert_eq!(remote.revision_seen(), seen.map(Revision));
    }
}

#[test]
fn a_broken_connection_is_made_again_and_half_an_answer_is_none() {
    let served = Served::new(None);
    let whole = raw::sound(&served.reply(
        "/v1/collections/main/describe",
        None,
        &MessageKind::Describe.bare(),
    ));
    let fates = vec![
        Fate::Bytes(Vec::new()),
        Fate::Bytes(whole[..whole.len() - 5].to_vec()),
        Fate::Bytes(b"HTTP/1.1 200 OK\r\ncontent-le".to_vec()),
        Fate::Sound,
    ];
    let raw = RawServer::new(served, fates);
    describe(&connect(options(&raw.url))).unwrap();
    assert_eq!(raw.connections.load(Ordering::SeqCst), 4);
}

#[test]
fn an_answer_without_end_is_given_up() {
    let announced = "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.shard.v1\r\n\
                     content-length: 9999999999\r\n\r\n";
    let raw = RawServer::new(Served::new(None), vec![Fate::Bytes(announced.into())]);
    let error = failure(&connect(options(&raw.url)));
    assert!(matches!(error, RemoteError::TooLong { .. }), "{error}");
    let endless = "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.shard.v1\r\n\
                   transfer-encoding: chunked\r\n\r\n";
    let raw = RawServer::new(Served::new(None), vec![Fate::Endless(endless)]);
    let error = failure(&connect(options(&raw.url)));
    assert!(matches!(error, RemoteError::TooLong { .. }), "{error}");
    assert_eq!(raw.connections.load(Ordering::SeqCst), 1, "not asked for again");
}

/// A socket that takes every connection and never says a word.
fn frozen() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let taken = count.clone();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming().map_while(Result::ok) {
            taken.fetch_add(1, Ordering::SeqCst);
            held.push(stream);
        }
    });
    (address, count)
}

/// Without TLS the request is what nobody answers, with it the handshake. Every attempt ends after
/// a quarter of a second and there could be ten of them; the deadline comes first.
#[test]
fn a_frozen_server_costs_the_deadline_however_often_it_is_asked() {
    let mut owner = Owner::with_documents(60);
    let (query, collection) = (owner.queries(1), owner.collection());
    for scheme in ["http", "https"] {
        let (address, taken) = frozen();
        let deadline = Duration::from_secs(1);
        let attempt = Duration::from_millis(250);
        let timeouts =
            Timeouts { connect: attempt, request: attempt, ..Timeouts::within(deadline) };
        let options = options(&format!("{scheme}://{address}/main"));
        let retries = Retries { most: 9, ..options.retries };
        let remote = connect(RemoteOptions { timeouts, retries, ..options });
        let timed = |error: ClientError, start: Instant, taken: usize| {
            let text = error.to_string();
            assert!(text.contains("no answer from") && text.contains("within 1"), "{text}");
            let elapsed = start.elapsed();
            assert!(elapsed >= Duration::from_millis(900), "{scheme}: {elapsed:?}");
            // A busy machine makes fewer of them in that time, and never more.
            assert!((1..=5).contains(&taken), "{scheme}: {taken} attempts");
        };
        let start = Instant::now();
        let error = describe(&remote).unwrap_err();
        timed(error, start, taken.swap(0, Ordering::SeqCst));
        let searcher = Searcher::new(remote);
        let start = Instant::now();
        let search = searcher.search(&collection, query.row(0), &SearchOptions::default());
        timed(search.unwrap_err(), start, taken.load(Ordering::SeqCst));
    }
}

#[test]
fn what_was_waited_is_said_when_all_repetitions_are_used_up() {
    let (address, taken) = frozen();
    let quick = Timeouts { request: Duration::from_millis(200), ..Timeouts::default() };
    let options = options(&format!("http://{address}/main"));
    let error = failure(&connect(RemoteOptions { timeouts: quick, ..options }));
    let RemoteError::Timeout { waited, .. } = error else { panic!("{error}") };
    // Four attempts, and up to three pauses of a few milliseconds.
    assert!(waited >= Duration::from_millis(800), "{waited:?}");
    assert_eq!(taken.load(Ordering::SeqCst), 4);
}

#[test]
fn an_operator_waits_as_long_as_was_said() {
    let (address, taken) = frozen();
    let timeouts = Timeouts::within(Duration::from_millis(300));
    let options = options(&format!("http://{address}/main"));
    let remote = connect(RemoteOptions { timeouts, ..options });
    let start = Instant::now();
    let error = remote.compact().unwrap_err();
    assert!(matches!(error, RemoteError::Timeout { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(2));
    assert_eq!(taken.load(Ordering::SeqCst), 1);
}

#[test]
fn a_server_that_is_not_there_is_said_to_refuse() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = failure(&connect(options(&format!("http://{nobody}/main"))));
    assert!(matches!(error, RemoteError::Connect { .. }), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[test]
fn a_server_of_another_version_is_named_also_without_the_header() {
    let served = Served::new(None);
    let mut reply =
        served.reply("/v1/collections/main/describe", None, &MessageKind::Describe.bare());
    reply.headers.retain(|(name, _)| *name != "shard-version");
    reply.body[4] = 3;
    let raw = RawServer::new(served, vec![Fate::Bytes(raw::sound(&reply))]);
    let error = failure(&connect(options(&raw.url)));
    assert!(matches!(error, RemoteError::Version { ours: 1, theirs: 3 }), "{error}");
}

#[test]
fn a_proxy_carries_the_connection_and_cannot_look_inside() {
    let listening = Listening::tls(Served::new(None));
    let proxy = ConnectProxy::new();
    let through = |pin| RemoteOptions {
        proxy: Some(proxy.url.parse().unwrap()),
        pin: Some(pin),
        ..listening.options()
    };
    describe(&connect(through(listening.fingerprint.unwrap()))).unwrap();
    assert_eq!(proxy.joined.load(Ordering::SeqCst), 1);
    let error = failure(&connect(through(Fingerprint::of(b"another"))));
    assert!(matches!(error, RemoteError::Pin { .. }), "{error}");
}

#[test]
fn a_search_over_tls_finds_what_an_embedded_one_finds() {
    let mut owner = Owner::with_documents(200);
    let queries = owner.queries(6);
    let collection = owner.collection();
    let listening = Listening::tls(Served::new(None));
    listening.served.hold(published_rows(&owner.vault).unwrap());
    let remote = Searcher::new(connect(listening.options()));
    let options = SearchOptions::default();
    for row in 0..queries.rows() {
        let answer = remote.search(&collection, queries.row(row), &options).unwrap();
        let plain = collection
            .search_in_the_clear(&published_rows(&owner.vault).unwrap(), queries.row(row), &options)
            .unwrap();
        for (ours, theirs) in answer.hits.iter().zip(&plain) {
            assert!((ours.score - theirs.score).abs() <= 2.0 * answer.error_bound);
        }
    }
}

#[test]
fn many_threads_share_one_connection_also_inside_another_runtime() {
    let listening = Listening::tls(Served::new(None));
    let remote = Arc::new(connect(listening.options()));
    let workers: Vec<_> = (0..16)
        .map(|_| {
            let remote = remote.clone();
            std::thread::spawn(move || (0..4).for_each(|_| drop(describe(&*remote).unwrap())))
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    assert_eq!(listening.served.requests.load(Ordering::SeqCst), 64);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mine = connect(listening.options());
        describe(&mine).unwrap();
    });
}

#[test]
fn a_vault_that_was_not_published_is_told_what_to_do() {
    let mut owner = Owner::with_documents(60);
    let query = owner.queries(1);
    let listening = Listening::tls(Served::new(None));
    let searcher = Searcher::new(connect(listening.options()));
    let options = SearchOptions::default();
    let error = searcher.search(&owner.collection(), query.row(0), &options).unwrap_err();
    assert!(matches!(error, ClientError::Unpublished { .. }), "{error}");
    assert!(error.to_string().contains("publish the vault first"), "{error}");
}
