//! Blind collections over a socket: who may do what, readiness, figures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use shard_protocol::{
    BlindAnswer, BlobName, Blobs, CollectionName, FetchBlobs, FetchSharedMany, Leak, Limits,
    PutBlobs, RefusalCode, declassify,
};
use shard_server::Server;
use shard_server::http::{HttpOptions, Scope};
use shard_store::{MemoryRows, RowStore};

use crate::commits::{Commit, row};
use crate::support::hooked::HookedRows;
use crate::support::{Setup, Site, new_token};

/// Paths of the messages of a publish.
const STEPS: [&str; 4] = ["begin", "blobs/put", "blobs/put", "activate"];

async fn publish(site: &Site, token: &str, commit: &Commit, from: Option<&Commit>) {
    for (path, message) in STEPS.into_iter().zip(commit.publish(from)) {
        let reply = site.send(&format!("blind/{path}"), token, message).await;
        assert_eq!(reply.status, 200, "{path}");
    }
}

async fn found(site: &Site, token: &str, commit: &Commit, number: u64) {
    let (query, opening) = commit.encrypt(&row(number));
    let message = commit.query(vec![query.clone()]).encode();
    let reply = site.send("blind/search", token, message).await;
    assert_eq!(reply.status, 200);
    let length = commit.list.answer_bytes();
    let answer = BlindAnswer::decode(&reply.body, 1, length, &Limits::default()).unwrap();
    assert_eq!(answer.answers()[0], commit.expected(&query));
    commit.open(&opening, &answer.answers()[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_publish_and_readers_search_and_fetch_hints() {
    let site = Site::start(Setup::default());
    let (_, writer) = site.token(&new_token(&[Scope::Write]));
    let (_, reader) = site.token(&new_token(&[Scope::Read]));
    let (one, two) = (Commit::new(1, 0..40), Commit::new(2, 0..41));
    publish(&site, &writer, &one, None).await;
    found(&site, &reader, &one, 1).await;
    let refused = site.send("blind/search", &writer, one.search(&row(1))).await;
    refused.is(403, RefusalCode::Forbidden);
    for (path, message) in STEPS.into_iter().zip(two.publish(Some(&one))) {
        let reply = site.send(&format!("blind/{path}"), &reader, message).await;
        reply.is(403, RefusalCode::Forbidden);
    }
    publish(&site, &writer, &two, Some(&one)).await;
    let stale = site.send("blind/search", &reader, one.search(&row(1))).await;
    stale.is(409, RefusalCode::Stale);
    assert_eq!(stale.header("shard-revision"), Some("2"));
    found(&site, &reader, &two, 2).await;
    let other = site.send("blind/rerank", &reader, two.search(&row(1))).await;
    other.is(400, RefusalCode::Malformed);

    let (hint, block) = (BlobName::hint([1; 16]), BlobName::block(two.list.names()[0]));
    let blobs = declassify(vec![(hint.clone(), vec![5; 9])], Leak::SealedBlobs);
    let put = PutBlobs::new(blobs).encode();
    assert_eq!(site.send("blind/blobs/put", &writer, put).await.status, 200);
    let named = |name: &BlobName| declassify(vec![name.clone()], Leak::SealedBlobs);
    let shared = FetchSharedMany::new(named(&hint)).encode();
    let reply = site.send("blind/blobs/shared", &reader, shared).await;
    let blobs = Blobs::decode(&reply.body, &Limits::default()).unwrap().blobs;
    assert_eq!(blobs, [Some(vec![5; 9])]);
    let shared = FetchSharedMany::new(named(&block)).encode();
    let refused = site.send("blind/blobs/shared", &reader, shared).await;
    refused.is(404, RefusalCode::UnknownBlob);
    let fetch = FetchBlobs::new(named(&block)).encode();
    let refused = site.send("blind/blobs/fetch", &reader, fetch.clone()).await;
    refused.is(403, RefusalCode::Forbidden);
    let reply = site.send("blind/blobs/fetch", &writer, fetch).await;
    let blobs = Blobs::decode(&reply.body, &Limits::default()).unwrap().blobs;
    assert_eq!(blobs, [Some(two.blocks[0].to_bytes())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_ready_once_blocks_are_loaded_and_has_figures_of_them() {
    let commit = Commit::new(1, 0..300);
    let rows: Arc<dyn RowStore> = Arc::new(MemoryRows::new());
    let owner = Server::new(rows.clone(), Limits::default());
    let collection: CollectionName = "blind".parse().unwrap();
    commit.publish(None).iter().for_each(|message| drop(owner.handle(&collection, message)));
    let options = HttpOptions { workers: 4, ..HttpOptions::default() };
    let site = Site::start(Setup { rows, options, ..Setup::default() });
    let (_, reader) = site.token(&new_token(&[Scope::Read]));
    // Until then it says why not.
    loop {
        let reply = site.ask("/readyz", "").await;
        match (reply.status, reply.text()) {
            (200, _) => break,
            (503, "loading blocks\n") => {}
            other => panic!("{other:?}"),
        }
    }
    let figures = site.ask("/metrics", &reader).await;
    let bytes = format!("shard_blind_bytes {}\n", commit.list.block_bytes());
    assert!(figures.text().contains(&bytes), "{}", figures.text());
    assert!(figures.text().contains("shard_blind_collections 1\n"));
    // Searches that come together, on workers that share passes.
    all_at_once((0..12).map(|number| found(&site, &reader, &commit, number))).await;
    let figures = site.ask("/metrics", &reader).await;
    assert!(figures.text().contains("shard_blind_queries_total 12\n"), "{}", figures.text());
    assert!(figures.text().contains("shard_requests_total{operation=\"search\"} 12\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_whose_blocks_do_not_come_holds_up_the_others_for_a_while_only() {
    let away = Arc::new(AtomicBool::new(false));
    let hook = away.clone();
    let rows = Arc::new(HookedRows::away(move |collection, blob| {
        collection.as_str() == "away" && blob.is_some() && hook.load(Ordering::SeqCst)
    }));
    let commit = Commit::new(1, 0..40);
    let owner = Server::new(rows.clone(), Limits::default());
    for collection in ["away", "blind"] {
        let collection: CollectionName = collection.parse().unwrap();
        commit.publish(None).iter().for_each(|message| drop(owner.handle(&collection, message)));
    }
    away.store(true, Ordering::SeqCst);
    let load_timeout = Duration::from_millis(500);
    let options = HttpOptions { load_timeout, ..HttpOptions::default() };
    let site = Site::start(Setup { rows, options, guarded: false, ..Setup::default() });
    assert_eq!(site.ask("/readyz", "").await.text(), "loading blocks\n", "it may come back");
    let since = Instant::now();
    while site.ask("/readyz", "").await.status != 200 {
        assert!(since.elapsed() < Duration::from_secs(20), "it is ready for the others");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    found(&site, "", &commit, 1).await;
    let refused = site.send("away/search", "", commit.search(&row(1))).await;
    refused.is(429, RefusalCode::Busy);
    away.store(false, Ordering::SeqCst);
    assert_eq!(site.send("away/search", "", commit.search(&row(1))).await.status, 200);
}

/// Waits for futures that run at once.
async fn all_at_once(futures: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
