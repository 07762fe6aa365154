//! What an operator is told when the database is not as it should be, and what survives.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::*;
use crate::postgres::judge_clocks;
use crate::postgres::migrations::MIGRATIONS;
use crate::{SharedTokens, StoreError};

fn open(text: &str) -> Result<PostgresRows, StoreError> {
    PostgresRows::open(&address(text), PostgresOptions::default())
}

/// The one line that an operator sees.
fn refused(text: &str) -> String {
    let line = open(text).err().expect("it cannot be opened").to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

#[test]
fn a_wrong_password_and_a_wrong_database_are_told_in_one_line() {
    let Some(cluster) = cluster() else { return };
    let tcp = |password: &str, database: &str| {
        format!("postgres://guest:{password}@127.0.0.1:{}/{database}", cluster.port())
    };
    let line = refused(&tcp("wrong", "postgres"));
    assert_eq!(
        line,
        "cannot use the database: 127.0.0.1/postgres refuses the password of the role guest"
    );
    let line = refused(&tcp("right", "nowhere"));
    assert!(line.contains("there is no such database at 127.0.0.1/nowhere"), "{line}");
    let line = refused("postgres://guest:secret@127.0.0.1:1/postgres?connect_timeout=1");
    assert!(line.contains("127.0.0.1/postgres") && !line.contains("secret"), "{line}");
}

#[tokio::test]
async fn an_engine_is_refused_and_dropped_within_another_runtime() {
    refused("postgres://guest:secret@127.0.0.1:1/postgres?connect_timeout=1");
    let Some(cluster) = cluster() else { return };
    let rows = open(&cluster.database()).unwrap();
    assert_eq!(rows.collections(), Ok(Vec::new()));
    drop(rows);
}

#[test]
fn a_schema_is_made_once_and_a_newer_one_is_refused() {
    let Some(cluster) = cluster() else { return };
    let text = cluster.database();
    // Several at once: one makes it, the others find it.
    std::thread::scope(|scope| {
        let opened: Vec<_> = (0..4).map(|_| scope.spawn(|| open(&text).map(drop))).collect();
        opened.into_iter().for_each(|opened| opened.join().unwrap().unwrap());
    });
    let database = database_of(&text);
    let version = cluster.sql(database, "SELECT max(version) FROM shard.migrations");
    assert_eq!(version, MIGRATIONS.len().to_string());
    cluster.sql(database, "INSERT INTO shard.migrations (version) VALUES (99)");
    let line = refused(&text);
    assert!(line.contains("version 99, which is newer than this program"), "{line}");
}

/// The documented grants: one role owns the schema, the other has rows to read and write, and tokens to read.
#[test]
fn a_serving_role_serves_and_cannot_migrate() {
    let Some(cluster) = cluster() else { return };
    let text = cluster.database();
    let database = database_of(&text).to_owned();
    let guest = format!("postgres://guest:right@127.0.0.1:{}/{database}", cluster.port());
    let line = refused(&guest);
    assert!(line.contains("start once with the role that owns the schema"), "{line}");
    let versions = format!("version 0 and this program needs version {}", MIGRATIONS.len());
    assert!(line.contains(&versions), "{line}");
    let owner = open(&text).unwrap();
    let token = tokens::reader("a", 1);
    owner.add_token(&token).unwrap();
    for grant in grants("guest") {
        cluster.sql(&database, &grant);
    }
    let rows = open(&guest).unwrap();
    let main = main_collection();
    rows.put_blob(&main, &name("a"), b"sealed").unwrap();
    assert_eq!(rows.blob(&main, &name("a")).unwrap(), b"sealed");
    assert_eq!(rows.drop_collection(&main), Ok(true));
    let refused = rows.wait(|| async { rows.ask("try", "DROP TABLE shard.rows", &[]).await });
    assert!(matches!(refused, Err(StoreError::Engine { .. })), "only rows");
    assert_eq!(rows.tokens().unwrap(), [token]);
    let added = rows.add_token(&tokens::reader("b", 2)).unwrap_err();
    assert_eq!(added.to_string(), "cannot add a token: permission denied for table tokens");
    let removed = rows.remove_token("a").unwrap_err();
    assert_eq!(removed.to_string(), "cannot remove a token: permission denied for table tokens");
}

/// The statements of docs/OPERATIONS.md for a serving role of this name.
fn grants(role: &str) -> Vec<String> {
    let document = include_str!("../../../../../docs/OPERATIONS.md");
    let statements = ["GRANT ", "REVOKE ", "ALTER DEFAULT "];
    let lines = document
        .lines()
        .filter(|line| statements.iter().any(|statement| line.starts_with(statement)));
    let grants: Vec<String> = lines
        .filter(|line| line.contains("shard_serve"))
        .map(|line| line.replace("shard_serve", role).replace("FOR ROLE shard_owner ", ""))
        .filter(|line| !line.contains("ON DATABASE"))
        .collect();
    for statement in statements {
        assert!(grants.iter().any(|line| line.starts_with(statement)), "{statement}: {grants:?}");
    }
    grants
}

#[test]
fn a_clock_that_is_far_off_is_told() {
    let now = SystemTime::now();
    let seconds = now.duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    for near in [-299.0, 0.0, 299.0] {
        judge_clocks(seconds + near, now).unwrap();
    }
    let line = judge_clocks(seconds + 3600.0, now).unwrap_err().to_string();
    assert!(line.contains("3600 seconds ahead of this machine's"), "{line}");
    let line = judge_clocks(seconds - 3600.0, now).unwrap_err().to_string();
    assert!(line.contains("3600 seconds behind"), "{line}");
}

#[test]
fn what_was_acknowledged_survives_a_kill_and_the_engine_comes_back_by_itself() {
    let Some(mut cluster) = Cluster::start() else { return };
    let rows = open(&cluster.database()).unwrap();
    let main = main_collection();
    rows.put_blob(&main, &name("a"), b"one").unwrap();
    cluster.kill();
    // The process that serves a connection may outlive the one that was killed for a moment.
    let end = Instant::now() + Duration::from_secs(30);
    let cut = loop {
        match rows.put_blob(&main, &name("b"), b"two") {
            Err(error) => break error,
            Ok(()) => assert!(Instant::now() < end, "a server that was killed goes on"),
        }
    };
    assert!(matches!(cut, StoreError::Unavailable { .. }), "{cut:?}");
    assert!(rows.metrics().unavailable > 0);
    cluster.restart();
    assert_eq!(rows.blob(&main, &name("a")).unwrap(), b"one");
    rows.put_blob(&main, &name("b"), b"two").unwrap();
    assert_eq!(rows.blob(&main, &name("b")).unwrap(), b"two");
}

#[test]
fn heads_are_told_on_their_channel_and_commits_are_synchronous() {
    let Some(cluster) = cluster() else { return };
    let text = cluster.database();
    let rows = open(&text).unwrap();
    let shown = rows.wait(|| rows.ask("ask", "SHOW synchronous_commit", &[])).unwrap();
    assert_eq!(shown[0].get::<_, &str>(0), "on");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let told = runtime.block_on(async {
        let (client, mut link) =
            address(&text).config().connect(tokio_postgres::NoTls).await.unwrap();
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) =
                std::future::poll_fn(|context| link.poll_message(context)).await
            {
                if let tokio_postgres::AsyncMessage::Notification(told) = message {
                    let _ = sender.send((told.channel().to_owned(), told.payload().to_owned()));
                }
            }
        });
        client.batch_execute(&format!("LISTEN {}", crate::HEADS)).await.unwrap();
        // Within a runtime of somebody else: the engine waits on a thread of its own.
        rows.put_blob(&main_collection(), &name("a"), b"sealed").unwrap();
        rows.drop_collection(&main_collection()).unwrap();
        let told = tokio::time::timeout(Duration::from_secs(30), receiver.recv()).await;
        told.unwrap().unwrap()
    });
    assert_eq!(told, (crate::HEADS.to_owned(), "main".to_owned()));
}
