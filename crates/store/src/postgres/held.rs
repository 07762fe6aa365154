//! A collection as the database has it, and the rules over it.

use std::collections::BTreeMap;

use deadpool_postgres::Transaction;
use shard_protocol::{CollectionName, CommitName, Epoch, Revision};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::errors::failed;
use crate::StoreError;
use crate::rules::{EpochShape, Lineage, Rules, room_for_collection};

/// The advisory lock under which collections are made: their number has a limit.
const MAKING: i64 = 0x5368_6172_6401;

/// An epoch's record.
#[derive(Clone, Copy)]
pub(super) struct EpochRecord {
    pub(super) width: usize,
    pub(super) rows: u64,
    pub(super) blocks: u64,
}

impl EpochShape for EpochRecord {
    fn width(&self) -> usize {
        self.width
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn blocks(&self) -> u64 {
        self.blocks
    }
}

/// A collection; without an `id` it is not there yet.
#[derive(Default)]
pub(super) struct Held {
    pub(super) id: Option<i64>,
    pub(super) lineage: Lineage,
    pub(super) current: Option<Epoch>,
    epochs: BTreeMap<Epoch, EpochRecord>,
}

impl Rules for Held {
    type Epoch = EpochRecord;

    fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    fn current(&self) -> Option<Epoch> {
        self.current
    }

    fn epochs(&self) -> &BTreeMap<Epoch, EpochRecord> {
        &self.epochs
    }
}

/// Asks within a transaction, by a statement that the connection remembers.
pub(super) async fn query(
    transaction: &Transaction<'_>,
    sql: &'static str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let statement = transaction.prepare_cached(sql).await?;
    transaction.query(&statement, values).await
}

/// Changes within a transaction, by a statement that the connection remembers. Returns how many rows.
pub(super) async fn execute(
    transaction: &Transaction<'_>,
    sql: &'static str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<u64, tokio_postgres::Error> {
    let statement = transaction.prepare_cached(sql).await?;
    transaction.execute(&statement, values).await
}

/// Locks a collection until the end of the transaction and reads it.
const LOCK: &str = "SELECT id FROM shard.collections WHERE name = $1 FOR UPDATE";

/// Reads a collection with its epochs, as of one moment; rows without an epoch where it has none.
pub(super) const READ: &str = "\
    SELECT c.id, c.revision, c.commit_name, c.unfinished, c.turn, c.current_epoch, \
           e.epoch, e.width, e.row_count, e.blocks \
    FROM shard.collections c LEFT JOIN shard.epochs e ON e.collection = c.id WHERE c.name = $1";

impl Held {
    /// The collection, locked; `None` where there is none.
    pub(super) async fn lock(
        transaction: &Transaction<'_>,
        name: &CollectionName,
        doing: &'static str,
    ) -> Result<Option<Self>, StoreError> {
        let locked = query(transaction, LOCK, &[&name.as_str()]).await.map_err(failed(doing))?;
        if locked.is_empty() {
            return Ok(None);
        }
        // A statement of its own: one that waited for the lock has seen epochs of before.
        let rows = query(transaction, READ, &[&name.as_str()]).await.map_err(failed(doing))?;
        Self::of(&rows)
    }

    /// The collection, locked, or an empty one that nobody else can make before this transaction ends.
    pub(super) async fn lock_or_new(
        transaction: &Transaction<'_>,
        name: &CollectionName,
        doing: &'static str,
    ) -> Result<Self, StoreError> {
        if let Some(held) = Self::lock(transaction, name, doing).await? {
            return Ok(held);
        }
        let making = "SELECT pg_advisory_xact_lock($1)";
        query(transaction, making, &[&MAKING]).await.map_err(failed(doing))?;
        Ok(Self::lock(transaction, name, doing).await?.unwrap_or_default())
    }

    /// The number of the collection, which is made where it is not there.
    pub(super) async fn make(
        &mut self,
        transaction: &Transaction<'_>,
        name: &CollectionName,
        doing: &'static str,
    ) -> Result<i64, StoreError> {
        if let Some(id) = self.id {
            return Ok(id);
        }
        let count = "SELECT count(*) FROM shard.collections";
        let count = query(transaction, count, &[]).await.map_err(failed(doing))?;
        room_for_collection(count[0].get::<_, i64>(0) as usize)?;
        let insert = "INSERT INTO shard.collections (name) VALUES ($1) RETURNING id";
        let made = query(transaction, insert, &[&name.as_str()]).await.map_err(failed(doing))?;
        let id = made[0].get(0);
        self.id = Some(id);
        Ok(id)
    }

    /// Writes lineage and current epoch.
    pub(super) async fn write(
        &self,
        transaction: &Transaction<'_>,
        doing: &'static str,
    ) -> Result<(), StoreError> {
        let Lineage { revision, commit, unfinished, turn } = self.lineage;
        let bytes = |commit: Option<CommitName>| commit.map(|name| name.0.to_vec());
        let update = "UPDATE shard.collections SET revision = $2, commit_name = $3, \
                      unfinished = $4, turn = $5, current_epoch = $6 WHERE id = $1";
        execute(
            transaction,
            update,
            &[
                &self.id,
                &(revision.0 as i64),
                &bytes(commit),
                &bytes(unfinished),
                &(turn as i64),
                &self.current.map(|epoch| epoch.0 as i64),
            ],
        )
        .await
        .map(drop)
        .map_err(failed(doing))
    }

    /// From the rows of [`READ`], or of another statement that begins as it does; `None` where there are none.
    pub(super) fn of(rows: &[Row]) -> Result<Option<Self>, StoreError> {
        let Some(first) = rows.first() else { return Ok(None) };
        let commit = |at: usize| -> Result<Option<CommitName>, StoreError> {
            let bytes: Option<&[u8]> = first.get(at);
            let name = bytes.map(|bytes| bytes.try_into().map(CommitName)).transpose();
            name.map_err(|_| damaged("the name of a commit"))
        };
        let lineage = Lineage {
            revision: Revision(first.get::<_, i64>(1) as u64),
            commit: commit(2)?,
            unfinished: commit(3)?,
            turn: first.get::<_, i64>(4) as u64,
        };
        let current = first.get::<_, Option<i64>>(5).map(|epoch| Epoch(epoch as u64));
        let epoch = |row: &Row| {
            let epoch: i64 = row.get::<_, Option<i64>>(6)?;
            let record = EpochRecord {
                width: row.get::<_, i32>(7) as usize,
                rows: row.get::<_, i64>(8) as u64,
                blocks: row.get::<_, i64>(9) as u64,
            };
            Some((Epoch(epoch as u64), record))
        };
        let epochs = rows.iter().filter_map(epoch).collect();
        Ok(Some(Self { id: Some(first.get(0)), lineage, current, epochs }))
    }
}

/// A record that cannot be what was written.
pub(super) fn damaged(what: &str) -> StoreError {
    StoreError::Damaged { what: format!("{what} in the database") }
}
