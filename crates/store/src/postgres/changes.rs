//! Changes of rows and epochs, each in one transaction.

use std::collections::HashMap;

use deadpool_postgres::Transaction;
use shard_protocol::{Advance, CollectionName, CommitName, Epoch, RowBatch, RowHandle, RowMac};

use super::errors::failed;
use super::held::{Held, execute, query};
use super::{HEADS, PostgresRows};
use crate::StoreError;
use crate::rules::{Rules, known};

/// A name of 64 bits as the database orders it: numbers there have a sign.
pub(super) fn ordered(name: u64) -> i64 {
    (name ^ (1 << 63)) as i64
}

/// The way back.
pub(super) fn unordered(stored: i64) -> u64 {
    stored as u64 ^ (1 << 63)
}

/// A row in columns: each becomes an array that is sent at once.
#[derive(Default)]
struct Columns {
    handles: Vec<i64>,
    cells: Vec<i64>,
    macs: Vec<Vec<u8>>,
    coordinates: Vec<Vec<u8>>,
}

impl Columns {
    /// The rows of a batch; of those that share a handle, the last.
    fn of(batch: RowBatch, macs: &[RowMac]) -> Self {
        let rows = batch.into_rows();
        let last: HashMap<RowHandle, usize> =
            rows.iter().enumerate().map(|(at, row)| (row.handle, at)).collect();
        let mut columns = Self::default();
        for (at, (row, mac)) in rows.into_iter().zip(macs).enumerate() {
            if last[&row.handle] == at {
                columns.handles.push(ordered(row.handle.0));
                columns.cells.push(ordered(row.cell.0));
                columns.macs.push(mac.0.to_vec());
                let bytes = row.coordinates.iter().flat_map(|z| z.to_le_bytes());
                columns.coordinates.push(bytes.collect());
            }
        }
        columns
    }
}

impl PostgresRows {
    pub(super) async fn begin_publish(
        &self,
        collection: &CollectionName,
        advance: &Advance,
    ) -> Result<(), StoreError> {
        const DOING: &str = "begin a publish";
        self.transact(DOING, async |transaction| {
            let mut held = Held::lock_or_new(transaction, collection, DOING).await?;
            held.may_begin(advance)?;
            held.make(transaction, collection, DOING).await?;
            held.lineage.begin(advance);
            held.write(transaction, DOING).await
        })
        .await
    }

    pub(super) async fn put_rows(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        batch: RowBatch,
        macs: &[RowMac],
    ) -> Result<(), StoreError> {
        const DOING: &str = "store rows";
        let (epoch, width) = (batch.epoch(), batch.width());
        let columns = Columns::of(batch, macs);
        self.transact(DOING, async |transaction| {
            let mut held = Held::lock_or_new(transaction, collection, DOING).await?;
            held.may_upsert(advance, epoch, width)?;
            let id = held.make(transaction, collection, DOING).await?;
            held.lineage.begin(advance);
            held.write(transaction, DOING).await?;
            insert(transaction, id, epoch, width, &columns).await.map_err(failed(DOING))
        })
        .await
    }

    pub(super) async fn delete_rows(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
        handles: &[RowHandle],
    ) -> Result<usize, StoreError> {
        const DOING: &str = "delete rows";
        let handles: Vec<i64> = handles.iter().map(|handle| ordered(handle.0)).collect();
        self.transact(DOING, async |transaction| {
            let held = Held::lock(transaction, collection, DOING).await?;
            let mut held = known(held, collection)?;
            held.may_delete(advance, epoch)?;
            held.lineage.begin(advance);
            held.write(transaction, DOING).await?;
            let (id, epoch, revision) = (held.id, epoch.0 as i64, advance.revision.0 as i64);
            let delete = "WITH gone AS (DELETE FROM shard.rows \
                          WHERE collection = $1 AND epoch = $2 AND handle = ANY($3) RETURNING handle) \
                          INSERT INTO shard.deleted (collection, epoch, handle, revision) \
                          SELECT $1, $2, handle, $4 FROM gone \
                          ON CONFLICT (collection, epoch, handle) DO UPDATE SET revision = excluded.revision";
            let gone = execute(transaction, delete, &[&id, &epoch, &handles, &revision]).await;
            let gone = gone.map_err(failed(DOING))?;
            let count = "UPDATE shard.epochs SET row_count = row_count - $3 \
                         WHERE collection = $1 AND epoch = $2";
            let counted = execute(transaction, count, &[&id, &epoch, &(gone as i64)]).await;
            counted.map_err(failed(DOING))?;
            Ok(gone as usize)
        })
        .await
    }

    pub(super) async fn activate_rows(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
    ) -> Result<(), StoreError> {
        const DOING: &str = "activate an epoch";
        self.transact(DOING, async |transaction| {
            let held = Held::lock(transaction, collection, DOING).await?;
            let mut held = known(held, collection)?;
            if !held.may_activate(advance, epoch)? {
                return Ok(());
            }
            erase(transaction, &held, Some(epoch)).await.map_err(failed(DOING))?;
            held.current = Some(epoch);
            held.lineage.reach(advance);
            held.write(transaction, DOING).await?;
            tell(transaction, collection).await.map_err(failed(DOING))
        })
        .await
    }

    pub(super) async fn activate_list(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
        width: usize,
        blocks: u64,
    ) -> Result<(), StoreError> {
        const DOING: &str = "activate blocks";
        self.transact(DOING, async |transaction| {
            let held = Held::lock(transaction, collection, DOING).await?;
            let mut held = known(held, collection)?;
            if !held.may_activate_blocks(advance, epoch, width, blocks)? {
                return Ok(());
            }
            erase(transaction, &held, None).await.map_err(failed(DOING))?;
            let make = "INSERT INTO shard.epochs (collection, epoch, width, row_count, blocks) \
                        VALUES ($1, $2, $3, 0, $4)";
            let (number, width, blocks) = (epoch.0 as i64, width as i32, blocks as i64);
            let made = execute(transaction, make, &[&held.id, &number, &width, &blocks]).await;
            made.map_err(failed(DOING))?;
            held.current = Some(epoch);
            held.lineage.reach(advance);
            held.write(transaction, DOING).await?;
            tell(transaction, collection).await.map_err(failed(DOING))
        })
        .await
    }

    pub(super) async fn forget_epochs(
        &self,
        collection: &CollectionName,
        from: Option<CommitName>,
    ) -> Result<(), StoreError> {
        const DOING: &str = "reset a collection";
        self.transact(DOING, async |transaction| {
            let Some(mut held) = Held::lock(transaction, collection, DOING).await? else {
                return Ok(());
            };
            if !held.may_reset(from)? {
                return Ok(());
            }
            erase(transaction, &held, None).await.map_err(failed(DOING))?;
            held.current = None;
            held.lineage = held.lineage.forgotten();
            held.write(transaction, DOING).await?;
            tell(transaction, collection).await.map_err(failed(DOING))
        })
        .await
    }

    pub(super) async fn forget_collection(
        &self,
        collection: &CollectionName,
    ) -> Result<bool, StoreError> {
        const DOING: &str = "drop a collection";
        self.transact(DOING, async |transaction| {
            let Some(held) = Held::lock(transaction, collection, DOING).await? else {
                return Ok(false);
            };
            let forget = async {
                erase(transaction, &held, None).await?;
                super::blobs::loosen(transaction, held.id, None).await?;
                let blobs = "DELETE FROM shard.blobs WHERE collection = $1";
                execute(transaction, blobs, &[&held.id]).await?;
                let gone = "DELETE FROM shard.collections WHERE id = $1";
                execute(transaction, gone, &[&held.id]).await?;
                tell(transaction, collection).await
            };
            forget.await.map_err(failed(DOING))?;
            Ok(true)
        })
        .await
    }
}

type Outcome = Result<(), tokio_postgres::Error>;

/// Inserts or replaces rows, and counts those that are new.
async fn insert(
    transaction: &Transaction<'_>,
    id: i64,
    epoch: Epoch,
    width: usize,
    columns: &Columns,
) -> Outcome {
    let (epoch, width) = (epoch.0 as i64, width as i32);
    let Columns { handles, cells, macs, coordinates } = columns;
    let make = "INSERT INTO shard.epochs (collection, epoch, width, row_count, blocks) \
                VALUES ($1, $2, $3, 0, 0) ON CONFLICT (collection, epoch) DO NOTHING";
    execute(transaction, make, &[&id, &epoch, &width]).await?;
    let back = "DELETE FROM shard.deleted \
                WHERE collection = $1 AND epoch = $2 AND handle = ANY($3)";
    execute(transaction, back, &[&id, &epoch, handles]).await?;
    // A row that this statement has inserted was deleted by no transaction.
    let put = "WITH put AS (\
                   INSERT INTO shard.rows (collection, epoch, handle, cell, mac, coordinates) \
                   SELECT $1, $2, * FROM unnest($3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[]) \
                   ON CONFLICT (collection, epoch, handle) DO UPDATE \
                   SET cell = excluded.cell, mac = excluded.mac, coordinates = excluded.coordinates \
                   RETURNING xmax = 0 AS new) \
               UPDATE shard.epochs SET row_count = row_count + (SELECT count(*) FROM put WHERE new) \
               WHERE collection = $1 AND epoch = $2";
    execute(transaction, put, &[&id, &epoch, handles, cells, macs, coordinates]).await?;
    Ok(())
}

/// Erases all epochs but one.
async fn erase(transaction: &Transaction<'_>, held: &Held, but: Option<Epoch>) -> Outcome {
    let but = but.map(|epoch| epoch.0 as i64);
    for sql in [
        "DELETE FROM shard.rows WHERE collection = $1 AND epoch IS DISTINCT FROM $2",
        "DELETE FROM shard.deleted WHERE collection = $1 AND epoch IS DISTINCT FROM $2",
        "DELETE FROM shard.epochs WHERE collection = $1 AND epoch IS DISTINCT FROM $2",
    ] {
        execute(transaction, sql, &[&held.id, &but]).await?;
    }
    Ok(())
}

/// Tells whoever listens, once the transaction is committed, that another state is searched.
async fn tell(transaction: &Transaction<'_>, collection: &CollectionName) -> Outcome {
    query(transaction, "SELECT pg_notify($1, $2)", &[&HEADS, &collection.as_str()]).await.map(drop)
}
