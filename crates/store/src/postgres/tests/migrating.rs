//! From one version of the schema to the next.

use super::*;
use crate::postgres::migrations::{MIGRATIONS, migrate};
use crate::{SharedTokens, StoreError};

/// What a program that knows these migrations does to a database.
pub(super) fn migrated(text: &str, migrations: &[&str]) -> Result<(), StoreError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let connected = address(text).config().connect(tokio_postgres::NoTls).await;
        let (mut client, link) = connected.unwrap();
        tokio::spawn(link);
        migrate(&mut client, migrations).await
    })
}

#[test]
fn a_database_of_version_1_becomes_one_of_version_2_that_holds_the_same_and_is_refused_by_version_1()
 {
    let Some(cluster) = cluster() else { return };
    let checked = "ALTER TABLE shard.tokens ADD CHECK (scopes <@ ARRAY['read', 'write', 'admin']), \
                   ADD CHECK (array_position(collections, NULL) IS NULL)";
    for alteration in ["", checked] {
        let text = cluster.database();
        let sql = |sql: &str| cluster.sql(database_of(&text), sql);
        let versions = || sql("SELECT string_agg(version::text, ',') FROM shard.migrations");
        migrated(&text, &MIGRATIONS[..1]).unwrap();
        assert_eq!(versions(), "1");
        sql(alteration);
        sql("INSERT INTO shard.collections (name, blob_count) VALUES ('main', 1)");
        sql("INSERT INTO shard.blobs SELECT id, 'a', 6, 'sealed' FROM shard.collections");
        sql("INSERT INTO shard.tokens (id, sha256, scopes, collections, created) \
             VALUES ('a', decode(repeat('01', 32), 'hex'), '{read}', '{}', 0)");
        let rows = PostgresRows::open(&address(&text), PostgresOptions::default()).unwrap();
        assert_eq!(versions(), "1,2");
        assert_eq!(rows.collections().unwrap(), [main_collection()]);
        assert_eq!(rows.blob(&main_collection(), &name("a")).unwrap(), b"sealed");
        assert_eq!(rows.tokens().unwrap(), [tokens::reader("a", 1)]);
        let refused = migrated(&text, &MIGRATIONS[..1]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "cannot prepare the database: its schema is of version 2, which is newer than this \
             program, which knows up to version 1"
        );
        assert_eq!(versions(), "1,2");
    }
}

#[test]
fn an_engine_that_is_not_to_migrate_refuses_another_version_and_changes_nothing() {
    let Some(cluster) = cluster() else { return };
    let text = cluster.database();
    let open = || {
        let options = PostgresOptions { migrate: false, ..PostgresOptions::default() };
        PostgresRows::open(&address(&text), options).map(drop)
    };
    let needed = MIGRATIONS.len();
    let line = open().unwrap_err().to_string();
    assert!(line.contains(&format!("version 0 and this program needs version {needed}")), "{line}");
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'shard'";
    assert_eq!(cluster.sql(database_of(&text), schemas), "0");
    migrated(&text, &MIGRATIONS[..1]).unwrap();
    let line = open().unwrap_err().to_string();
    assert!(line.contains(&format!("version 1 and this program needs version {needed}")), "{line}");
    let version = || cluster.sql(database_of(&text), "SELECT max(version) FROM shard.migrations");
    assert_eq!(version(), "1");
    migrated(&text, &MIGRATIONS).unwrap();
    open().unwrap();
    cluster.sql(database_of(&text), "INSERT INTO shard.migrations (version) VALUES (99)");
    let line = open().unwrap_err().to_string();
    assert!(line.contains("version 99, which is newer than this program"), "{line}");
}
