//! The schema: versions in a table, each reached by a file of SQL.

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use super::errors::{failed, said};
use crate::StoreError;

/// What leads to each version, from the first on. A file that was released never changes.
pub(super) const MIGRATIONS: [&str; 2] =
    [include_str!("migrations/0001.sql"), include_str!("migrations/0002.sql")];

/// The advisory lock under which the schema is changed.
const MIGRATING: i64 = 0x5368_6172_6400;

const DOING: &str = "prepare the database";

/// Brings the schema to the version that these migrations lead to.
pub(super) async fn migrate(client: &mut Client, migrations: &[&str]) -> Result<(), StoreError> {
    let needed = migrations.len() as i32;
    let found = version(client).await.map_err(failed(DOING))?;
    judge(found, needed)?;
    if found == needed {
        return Ok(());
    }
    let transaction = client.transaction().await.map_err(failed(DOING))?;
    let lock = "SELECT pg_advisory_xact_lock($1)";
    transaction.query(lock, &[&MIGRATING]).await.map_err(failed(DOING))?;
    // Another process may have come first.
    let found = version(&transaction).await.map_err(failed(DOING))?;
    judge(found, needed)?;
    let refused = |error: Error| {
        if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
            let reason = format!(
                "its schema is of version {found} and this program needs version {needed}, which \
                 this role may not make ({}): start once with the role that owns the schema",
                said(&error)
            );
            StoreError::Engine { doing: DOING, reason }
        } else {
            failed(DOING)(error)
        }
    };
    if found == 0 {
        let begin = "CREATE SCHEMA IF NOT EXISTS shard; \
                     CREATE TABLE shard.migrations (version integer PRIMARY KEY, \
                     applied timestamptz NOT NULL DEFAULT now());";
        transaction.batch_execute(begin).await.map_err(refused)?;
    }
    for (version, migration) in (1_i32..).zip(migrations).skip(found as usize) {
        transaction.batch_execute(migration).await.map_err(refused)?;
        let note = "INSERT INTO shard.migrations (version) VALUES ($1)";
        transaction.execute(note, &[&version]).await.map_err(refused)?;
    }
    transaction.commit().await.map_err(failed(DOING))
}

/// Refuses a schema of another version than the one that these migrations lead to.
pub(super) async fn check(client: &Client, migrations: &[&str]) -> Result<(), StoreError> {
    let needed = migrations.len() as i32;
    let found = version(client).await.map_err(failed(DOING))?;
    judge(found, needed)?;
    if found == needed {
        return Ok(());
    }
    let reason = format!(
        "its schema is of version {found} and this program needs version {needed}: it has to be \
         migrated first, by the role that owns it"
    );
    Err(StoreError::Engine { doing: DOING, reason })
}

/// Refuses a schema of a later program.
fn judge(found: i32, needed: i32) -> Result<(), StoreError> {
    if found <= needed {
        return Ok(());
    }
    let reason = format!(
        "its schema is of version {found}, which is newer than this program, which knows up to \
         version {needed}"
    );
    Err(StoreError::Engine { doing: DOING, reason })
}

/// The version that is there; 0 where there is nothing.
async fn version(client: &impl tokio_postgres::GenericClient) -> Result<i32, Error> {
    // Not to_regclass, which may remember from before the lock that there was nothing.
    let there = "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                 WHERE n.nspname = 'shard' AND c.relname = 'migrations')";
    if !client.query_one(there, &[]).await?.get::<_, bool>(0) {
        return Ok(0);
    }
    let latest = "SELECT coalesce(max(version), 0) FROM shard.migrations";
    Ok(client.query_one(latest, &[]).await?.get(0))
}
