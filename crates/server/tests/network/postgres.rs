//! Two servers over one PostgreSQL.

use std::sync::Arc;

use shard_protocol::{MessageKind, RefusalCode, message_kind};
use shard_server::http::Scope;
use shard_store::conformance::Cluster;
use shard_store::{DatabaseAddress, PostgresOptions, PostgresRows};

use crate::support::{EPOCH, HELD, PUBLISHED, Setup, Site, activate, new_token, publish, request};

/// A server over a database, and a token that may do everything.
fn site(address: &str) -> (Site, String) {
    let address = DatabaseAddress::parse(address, None).unwrap();
    let rows = Arc::new(PostgresRows::open(&address, PostgresOptions::default()).unwrap());
    let site = Site::start(Setup { rows: rows.clone(), maintenance: rows, ..Setup::default() });
    let (_, token) = site.token(&new_token(&[Scope::Read, Scope::Write, Scope::Admin]));
    (site, token)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_server_takes_the_other_serves() {
    let Some(cluster) = Cluster::start() else { return };
    let database = cluster.database();
    let ((one, first), (two, second)) = (site(&database), site(&database));
    for (site, token) in [(&one, &first), (&two, &second)] {
        let reply = site.send("main/rerank", token, request(EPOCH, 10, 1)).await;
        assert_eq!(message_kind(&reply.body), Ok(MessageKind::RerankResponse));
        assert_eq!(reply.header("shard-revision"), Some("0"));
    }
    assert_eq!(one.send("main/rows", &first, publish(HELD, 1, 7)).await.status, 200);
    assert_eq!(one.send("main/activate", &first, activate(HELD, 1)).await.status, 200);
    let reply = two.send("main/rerank", &second, request(EPOCH, 12, 7)).await;
    assert_eq!(message_kind(&reply.body), Ok(MessageKind::RerankResponse));
    // The other server remembers the revision for a moment, and not for ever.
    loop {
        let reply = two.send("main/rerank", &second, request(EPOCH, 12, 7)).await;
        if reply.header("shard-revision") == Some("1") {
            break;
        }
        tokio::task::yield_now().await;
    }
    // A late change through the other server is judged by what the first has taken.
    let late = two.send("main/rows", &second, publish(HELD, 2, 8)).await;
    late.is(409, RefusalCode::Forked);
    assert_eq!(two.send("main/rows", &second, publish(Some(PUBLISHED), 2, 8)).await.status, 200);
    let wide = crate::support::request_of_width(4, EPOCH, 10, 1);
    two.send("main/rerank", &second, wide).await.is(409, RefusalCode::WrongWidth);
    let unknown = two.send("main/rerank", &second, request(EPOCH, 10, 99)).await;
    unknown.is(404, RefusalCode::UnknownRow);
    let figures = two.ask("/metrics", &second).await;
    assert!(figures.text().contains("shard_engine_connections"), "{}", figures.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_database_is_away_requests_may_be_repeated_and_then_go() {
    let Some(mut cluster) = Cluster::start() else { return };
    let (site, token) = site(&cluster.database());
    cluster.kill();
    for (path, message) in [
        ("main/rerank", request(EPOCH, 10, 1)),
        ("main/rows", publish(HELD, 1, 7)),
        ("main/activate", activate(HELD, 1)),
    ] {
        let refused = site.send(path, &token, message).await;
        refused.is(429, RefusalCode::Busy);
        assert_eq!(refused.header("retry-after"), Some("5"));
        assert!(refused.refusal().text.contains("at the moment; try again"));
    }
    cluster.restart();
    assert_eq!(site.send("main/rows", &token, publish(HELD, 1, 7)).await.status, 200);
    assert_eq!(site.send("main/activate", &token, activate(HELD, 1)).await.status, 200);
    let reply = site.send("main/rerank", &token, request(EPOCH, 12, 7)).await;
    assert_eq!(reply.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_and_compactions_are_left_to_postgresql() {
    let Some(cluster) = Cluster::start() else { return };
    let (site, token) = site(&cluster.database());
    for (path, body) in [("compact", "{}"), ("snapshot", "{\"name\": \"monday\"}")] {
        let sent = site
            .client
            .post(format!("{}/v1/admin/{path}", site.url))
            .bearer_auth(&token)
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await
            .unwrap();
        assert_eq!(sent.status(), 400);
        let text = sent.text().await.unwrap();
        assert!(text.contains("the rows are in PostgreSQL"), "{text}");
    }
}
