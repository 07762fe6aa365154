//! The interface over a real socket and real TLS: who may do what, and what is answered.

use shard_protocol::{
    Limits, MessageKind, PutBlob, Refusal, RefusalCode, RerankResponse, declassify, message_kind,
};
use shard_server::http::{HttpOptions, NewToken, Scope, TokenLimits};

use crate::support::{EPOCH, HELD, PUBLISHED, Setup, Site, activate, new_token, publish, request};

#[tokio::test(flavor = "multi_thread")]
async fn a_rerank_over_tls_is_answered_over_http_2_with_revision_and_version() {
    let site = Site::start(Setup::default());
    let (_, token) = site.token(&new_token(&[Scope::Read]));
    let reply = site.send("main/rerank", &token, request(EPOCH, 10, 1)).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.version, reqwest::Version::HTTP_2);
    assert_eq!(message_kind(&reply.body), Ok(MessageKind::RerankResponse));
    assert_eq!(reply.header("content-type"), Some("application/vnd.shard.v1"));
    assert_eq!(reply.header("shard-revision"), Some("0"));
    let version = concat!(env!("CARGO_PKG_VERSION"), "; wire=1");
    assert_eq!(reply.header("shard-version"), Some(version));
}

fn reset(from: Option<shard_protocol::CommitName>) -> Vec<u8> {
    let from = declassify(from, shard_protocol::Leak::CollectionShape);
    shard_protocol::ResetCollection::new(from).encode()
}

#[tokio::test(flavor = "multi_thread")]
async fn scopes_and_collections_bound_what_a_token_may_do() {
    let site = Site::start(Setup::default());
    let (_, reader) = site.token(&new_token(&[Scope::Read]));
    let (_, writer) = site.token(&new_token(&[Scope::Write]));
    let theirs = vec!["theirs".parse().unwrap()];
    let all = [Scope::Read, Scope::Write, Scope::Admin];
    let (_, stranger) = site.token(&NewToken { collections: theirs, ..new_token(&all) });

    site.send("main/rows", &reader, publish(HELD, 1, 7)).await.is(403, RefusalCode::Forbidden);
    site.send("main/rerank", &writer, request(EPOCH, 10, 1)).await.is(403, RefusalCode::Forbidden);
    site.send("main/rows", &stranger, publish(HELD, 1, 7)).await.is(403, RefusalCode::Forbidden);
    assert_eq!(site.send("theirs/rows", &stranger, publish(None, 1, 7)).await.status, 200);
    assert_eq!(site.send("main/rows", &writer, publish(HELD, 1, 7)).await.status, 200);
    site.send("main/reset", &reader, reset(HELD)).await.is(403, RefusalCode::Forbidden);
    site.send("main/begin", &reader, publish(HELD, 1, 7)).await.is(403, RefusalCode::Forbidden);
    let published = site.send("main/activate", &writer, activate(HELD, 1)).await;
    assert_eq!((published.status, published.header("shard-revision")), (200, Some("1")));

    assert_eq!(site.ask("/v1/collections", &reader).await.status, 403);
    let visible = site.ask("/v1/collections", &stranger).await;
    assert!(visible.text().contains("theirs") && !visible.text().contains("main"));
    assert_eq!(site.ask("/v1/collections/main", &stranger).await.status, 403);
    assert_eq!(site.ask("/metrics", &stranger).await.status, 403);
    assert_eq!(site.ask("/metrics", &reader).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_that_is_known_nothing_is_served() {
    let site = Site::start(Setup::default());
    let message = request(EPOCH, 10, 1);
    let made_up = format!("shard_{}", "A".repeat(43));
    for token in ["", "nonsense", made_up.as_str()] {
        let reply = site.send("main/rerank", token, message.clone()).await;
        reply.is(401, RefusalCode::Unauthorised);
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        assert_eq!(reply.header("shard-revision"), None, "strangers learn nothing of a collection");
    }
    assert_eq!(site.ask("/v1/collections", "").await.status, 401);
    assert_eq!(site.ask("/metrics", "").await.status, 401);
    assert_eq!(site.ask("/healthz", "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_or_expired_token_is_refused_from_the_next_request_on() {
    let site = Site::start(Setup::default());
    let (id, token) = site.token(&new_token(&[Scope::Read]));
    assert_eq!(site.send("main/rerank", &token, request(EPOCH, 10, 1)).await.status, 200);
    site.file().revoke(&id).unwrap();
    let refused = site.send("main/rerank", &token, request(EPOCH, 10, 1)).await;
    refused.is(401, RefusalCode::Unauthorised);

    let (_, past) = site.token(&NewToken { expires: Some(1), ..new_token(&[Scope::Read]) });
    let refused = site.send("main/rerank", &past, request(EPOCH, 10, 1)).await;
    refused.is(401, RefusalCode::Unauthorised);
    assert!(refused.refusal().text.contains("expired"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_of_tokens_leaves_the_tokens_of_before_in_force() {
    let site = Site::start(Setup::default());
    let (_, token) = site.token(&new_token(&[Scope::Read]));
    assert_eq!(site.send("main/rerank", &token, request(EPOCH, 10, 1)).await.status, 200);
    std::fs::write(site.file().path(), "not = [a file").unwrap();
    assert_eq!(site.send("main/rerank", &token, request(EPOCH, 10, 1)).await.status, 200);
    site.send("main/rerank", "", request(EPOCH, 10, 1)).await.is(401, RefusalCode::Unauthorised);
    std::fs::remove_file(site.file().path()).unwrap();
    let gone = site.send("main/rerank", "", request(EPOCH, 10, 1)).await;
    gone.is(401, RefusalCode::Unauthorised);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loopback_server_without_tokens_is_open_until_there_is_one() {
    let site = Site::start(Setup { guarded: false, ..Setup::default() });
    assert_eq!(site.send("main/rerank", "", request(EPOCH, 10, 1)).await.status, 200);
    let (_, token) = site.token(&new_token(&[Scope::Read]));
    site.send("main/rerank", "", request(EPOCH, 10, 1)).await.is(401, RefusalCode::Unauthorised);
    assert_eq!(site.send("main/rerank", &token, request(EPOCH, 10, 1)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_asks_too_often_or_for_too_much_is_told_when_to_come_back() {
    let site = Site::start(Setup::default());
    let limited = |limits| NewToken { limits, ..new_token(&[Scope::Read]) };
    let often = TokenLimits { requests_per_second: Some(2), ..TokenLimits::default() };
    let (_, often) = site.token(&limited(often));
    let mut refused = None;
    for _ in 0..20 {
        let reply = site.send("main/rerank", &often, request(EPOCH, 10, 1)).await;
        if reply.status != 200 {
            refused = Some(reply);
            break;
        }
    }
    let refused = refused.expect("twenty at once are more than two a second");
    refused.is(429, RefusalCode::Busy);
    assert_eq!(refused.header("retry-after"), Some("1"));

    let much = TokenLimits { bytes_per_second: Some(1000), ..TokenLimits::default() };
    let (_, much) = site.token(&limited(much));
    // The first request leaves a debt, since nobody knows a message's length before it is there.
    assert_eq!(site.send("main/rerank", &much, request(EPOCH, 10, 1)).await.status, 200);
    let refused = site.send("main/rerank", &much, request(EPOCH, 10, 1)).await;
    refused.is(429, RefusalCode::Busy);
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!(wait > 1, "about {} bytes are owed", request(EPOCH, 10, 1).len());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_class_of_refusal_has_its_status() {
    let site = Site::start(Setup::default());
    let (_, token) = site.token(&new_token(&[Scope::Read, Scope::Write]));
    let sound = request(EPOCH, 10, 1);
    let send = |path: &'static str, body: Vec<u8>| site.send(path, &token, body);
    send("main/rerank", request(EPOCH, 10, 9)).await.is(404, RefusalCode::UnknownRow);
    send("main/rerank", request(shard_protocol::Epoch(5), 10, 1))
        .await
        .is(404, RefusalCode::UnknownEpoch);
    send("none/rerank", sound.clone()).await.is(404, RefusalCode::UnknownCollection);
    send("Not%20a%20name/rerank", sound.clone()).await.is(400, RefusalCode::Malformed);
    send("main/rerank", Vec::new()).await.is(400, RefusalCode::Malformed);
    send("main/rerank", sound[..sound.len() - 1].to_vec()).await.is(400, RefusalCode::Malformed);
    send("main/rerank", b"GET / HTTP/1.1".to_vec()).await.is(400, RefusalCode::Malformed);
    assert_eq!(send("main/rows", publish(HELD, 5, 7)).await.status, 200);
    assert_eq!(send("main/activate", activate(HELD, 5)).await.status, 200);
    send("main/rows", publish(HELD, 6, 7)).await.is(409, RefusalCode::Forked);
    let stale = send("main/rows", publish(Some(PUBLISHED), 4, 7)).await;
    stale.is(409, RefusalCode::Stale);
    assert_eq!(stale.header("shard-revision"), Some("5"));
    let mut future = sound.clone();
    future[4] = 9;
    let version = send("main/rerank", future).await;
    version.is(400, RefusalCode::Version);
    assert_eq!(
        version.refusal().text,
        "malformed request: message version 9; this side speaks version 1"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_goes_to_its_own_operation_only() {
    let site = Site::start(Setup::default());
    let (_, token) = site.token(&new_token(&[Scope::Read, Scope::Write]));
    // A reader's operation must not take what changes rows.
    let reply = site.send("main/rerank", &token, publish(HELD, 9, 7)).await;
    reply.is(400, RefusalCode::Malformed);
    assert!(reply.refusal().text.contains("rerank takes"), "{}", reply.refusal());
    let described = site.send("main/describe", &token, MessageKind::Describe.bare()).await;
    assert_eq!(described.header("shard-revision"), Some("0"), "nothing was published");
    let url = format!("{}/v1/collections/main/rerank", site.url);
    let other_type = site.client.post(url).bearer_auth(&token).body(request(EPOCH, 10, 1));
    let refused = other_type.header("content-type", "text/plain").send().await.unwrap();
    assert_eq!(refused.status(), 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_go_in_and_out_and_the_answer_comes_whole() {
    let site = Site::start(Setup::default());
    let (_, token) = site.token(&new_token(&[Scope::Read, Scope::Write]));
    let sealed: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let name = || declassify("vault.0".parse().unwrap(), shard_protocol::Leak::SealedBlobs);
    let put = PutBlob::new(name(), declassify(sealed.clone(), shard_protocol::Leak::SealedBlobs));
    assert_eq!(site.send("main/blobs/put", &token, put.encode()).await.status, 200);
    let fetch = shard_protocol::FetchBlob::new(name()).encode();
    let reply = site.send("main/blobs/fetch", &token, fetch).await;
    assert_eq!(reply.header("content-length"), Some(reply.body.len().to_string().as_str()));
    let blob = shard_protocol::Blob::decode(&reply.body, &Limits::default()).unwrap();
    assert!(blob.sealed == sealed);
    let list = |after| shard_protocol::ListBlobs::new(after, 10).encode();
    for (after, count) in [(None, 1), (Some(name()), 0)] {
        let reply = site.send("main/blobs/list", &token, list(after)).await;
        let page = shard_protocol::BlobList::decode(&reply.body, &Limits::default()).unwrap();
        assert_eq!(page.blobs.len(), count);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_fetch_sealed_values_and_no_keyring() {
    let site = Site::start(Setup::default());
    let (_, writer) = site.token(&new_token(&[Scope::Write]));
    let (_, reader) = site.token(&new_token(&[Scope::Read]));
    let leak = shard_protocol::Leak::SealedBlobs;
    let name = |text: &str| declassify(text.parse().unwrap(), leak);
    for text in ["claim", "state.0", "value.0.0", "backup.0.0"] {
        let put = PutBlob::new(name(text), declassify(text.as_bytes().to_vec(), leak)).encode();
        assert_eq!(site.send("main/blobs/put", &writer, put).await.status, 200);
        let shared = shard_protocol::FetchShared::new(name(text)).encode();
        let reply = site.send("main/blobs/shared", &reader, shared).await;
        let blob = shard_protocol::Blob::decode(&reply.body, &Limits::default());
        if text == "backup.0.0" {
            let refusal = Refusal::decode(&reply.body, &Limits::default()).unwrap();
            assert_eq!(refusal.code, RefusalCode::UnknownBlob);
        } else {
            assert_eq!(blob.unwrap().sealed, text.as_bytes());
        }
        let fetch = shard_protocol::FetchBlob::new(name(text)).encode();
        assert_eq!(site.send("main/blobs/fetch", &reader, fetch).await.status, 403);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_and_drop_collections() {
    let site = Site::start(Setup::default());
    let (_, admin) = site.token(&new_token(&[Scope::Admin]));
    let (_, writer) = site.token(&new_token(&[Scope::Read, Scope::Write]));
    site.send("other/rows", &writer, publish(None, 3, 7)).await;
    site.send("other/activate", &writer, activate(None, 3)).await;
    let state: serde_json::Value =
        serde_json::from_slice(&site.ask("/v1/collections/other", &admin).await.body).unwrap();
    assert_eq!(state["revision"], 3);
    assert_eq!(state["commit"], PUBLISHED.to_string());
    assert_eq!(state["epochs"][0]["rows"], 1);
    let drop = |name: &str| {
        let url = format!("{}/v1/collections/{name}", site.url);
        site.client.delete(url).bearer_auth(&admin).send()
    };
    assert_eq!(drop("other").await.unwrap().status(), 200);
    assert_eq!(drop("other").await.unwrap().status(), 404);
    let described = site.send("other/describe", &writer, MessageKind::Describe.bare()).await;
    assert_eq!(described.header("shard-revision"), Some("0"), "the cached revision went too");

    let snapshot = |name: &str| {
        let url = format!("{}/v1/admin/snapshot", site.url);
        let body = format!("{{\"name\": {name:?}}}");
        let request = site.client.post(url).bearer_auth(&admin).body(body);
        request.header("content-type", "application/json").send()
    };
    for name in ["../../etc", "/tmp/x", ".hidden", ""] {
        let reply = snapshot(name).await.unwrap();
        assert_eq!(reply.status(), 400, "{name:?}");
    }
    assert_eq!(snapshot("monday").await.unwrap().status(), 507, "rows in memory have no copy");
    let compact = site.client.post(format!("{}/v1/admin/compact", site.url)).bearer_auth(&admin);
    let compact = compact.header("content-type", "application/json").body("{}").send().await;
    assert_eq!(compact.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_count_what_was_served_and_name_nothing_a_client_chose() {
    let site = Site::start(Setup::default());
    let (_, token) = site.token(&new_token(&[Scope::Read]));
    for _ in 0..3 {
        site.send("main/rerank", &token, request(EPOCH, 10, 1)).await;
    }
    site.send("secretname/rerank", &token, request(EPOCH, 10, 1)).await;
    let text = site.ask("/metrics", &token).await;
    let text = text.text();
    let value = |series: &str| {
        let line = text.lines().find(|line| line.starts_with(series));
        let line = line.unwrap_or_else(|| panic!("no {series} in {text}"));
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    assert_eq!(value("shard_requests_total{operation=\"rerank\"}"), 4.0);
    assert_eq!(value("shard_refusals_total{class=\"unknown_collection\"}"), 1.0);
    for stage in ["read", "queue", "decode", "engine", "score", "encode", "send"] {
        assert!(value(&format!("shard_stage_seconds_count{{stage=\"{stage}\"}}")) >= 1.0);
    }
    assert!(value("shard_body_bytes_total{direction=\"in\"}") > 4.0 * 1000.0);
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert_eq!(value("shard_requests_in_flight"), 1.0);
    assert_eq!(value("shard_connections_open"), 1.0);
    assert!(!text.contains("secretname"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_interface_describes_itself() {
    let site = Site::start(Setup::default());
    let description = site.ask("/openapi.json", "").await;
    let value: serde_json::Value = serde_json::from_slice(&description.body).unwrap();
    assert_eq!(value["openapi"], "3.1.0");
    let page = site.ask("/docs", "").await;
    for path in value["paths"].as_object().unwrap().keys() {
        assert!(page.text().contains(path.as_str()), "{path}");
    }
    assert!(!page.text().contains("<script") && !page.text().contains("//"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_address_needs_tls_and_a_token() {
    let public = |tls, guarded| {
        let setup = Setup { address: "0.0.0.0:0", tls, guarded, ..Setup::default() };
        Site::try_start(setup).map(|_| ()).map_err(|error| error.to_string())
    };
    assert!(public(false, true).unwrap_err().contains("without TLS"));
    assert!(public(true, false).unwrap_err().contains("without a token"));
    assert_eq!(public(true, true), Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_served_after_a_reload_and_a_damaged_one_is_not() {
    let site = Site::start(Setup::default());
    let running = site.running();
    let before = running.fingerprint().unwrap();
    let tls = site.directory.path().join("tls");
    std::fs::write(tls.join("certificate.pem"), "nothing").unwrap();
    running.reload();
    assert_eq!(running.fingerprint().unwrap(), before);
    assert_eq!(site.ask("/healthz", "").await.status, 200);

    std::fs::remove_dir_all(&tls).unwrap();
    let names = ["127.0.0.1".to_owned()];
    let new = shard_server::http::Tls::open_or_generate(&tls, &names).unwrap().fingerprint();
    running.reload();
    assert_eq!(running.fingerprint().unwrap(), new);
    assert_ne!(new, before);
    let fresh = crate::support::client(Some(tls.join("certificate.pem")));
    assert_eq!(fresh.get(format!("{}/healthz", site.url)).send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_1_2_is_refused() {
    let site = Site::start(Setup::default());
    let old = reqwest::Client::builder()
        .no_proxy()
        .tls_danger_accept_invalid_certs(true)
        .tls_version_max(reqwest::tls::Version::TLS_1_2)
        .build()
        .unwrap();
    assert!(old.get(format!("{}/healthz", site.url)).send().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn scores_come_back_as_they_were_computed() {
    let options = HttpOptions { workers: 1, threads_per_request: 2, ..HttpOptions::default() };
    let site = Site::start(Setup { options, ..Setup::default() });
    let (_, token) = site.token(&new_token(&[Scope::Read]));
    let message = request(EPOCH, 11, 3);
    let reply = site.send("main/rerank", &token, message.clone()).await;
    let again = site.send("main/rerank", &token, message.clone()).await;
    assert!(reply.body == again.body, "an answer depends on request and rows only");
    let sent = shard_protocol::RerankRequest::decode(&message, &Limits::default()).unwrap();
    let (parameters, layout) = (sent.parameters(), sent.layout());
    RerankResponse::decode(&reply.body, parameters, layout, 1, &Limits::default()).unwrap();
}
