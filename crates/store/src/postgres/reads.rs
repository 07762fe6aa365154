//! Rows, counts and names.

use std::collections::HashMap;
use std::sync::Arc;

use shard_protocol::{
    Candidates, CellHandle, CollectionName, CollectionState, Epoch, Revision, RowHandle, RowMac,
};
use tokio_postgres::Row;

use super::PostgresRows;
use super::cache::Version;
use super::changes::{ordered, unordered};
use super::errors::failed;
use super::held::{Held, READ, damaged, query};
use crate::rules::{Rules, known};
use crate::{EpochStatistics, Fetched, MOST_FETCHED_BYTES, StoreError};

/// The collection and its epochs, as [`READ`] gives them, then rows, then names of deleted rows, by one
/// statement and so as of one moment. Rows come only if the epoch is the current one and no wider than $4, and
/// without their coordinates if they are of the versions of $5 and $6.
const FETCH: &str = "\
    WITH c AS (SELECT * FROM shard.collections WHERE name = $1) \
    SELECT c.id, c.revision, c.commit_name, c.unfinished, c.turn, c.current_epoch, \
           e.epoch, e.width, e.row_count, e.blocks, \
           NULL::bigint AS handle, NULL::bigint AS cell, NULL::bytea AS coordinates, \
           NULL::bigint AS deleted, NULL::bytea AS mac, NULL::bigint AS written \
    FROM c LEFT JOIN shard.epochs e ON e.collection = c.id \
    UNION ALL \
    SELECT c.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
           r.handle, r.cell, \
           CASE WHEN r.mac = k.mac AND r.xmin::text::bigint = k.written THEN NULL ELSE r.coordinates END, \
           NULL, r.mac, r.xmin::text::bigint \
    FROM c JOIN shard.epochs e \
             ON e.collection = c.id AND e.epoch = $2 AND e.epoch = c.current_epoch AND e.width <= $4 \
           CROSS JOIN unnest($3::bigint[], $5::bytea[], $6::bigint[]) \
             AS k (handle, mac, written) \
           JOIN shard.rows r \
             ON r.collection = c.id AND r.epoch = $2 AND r.handle = k.handle \
    UNION ALL \
    SELECT c.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, d.handle, NULL, NULL, d.revision, NULL, NULL \
    FROM c JOIN shard.deleted d \
             ON d.collection = c.id AND d.epoch = $2 AND d.handle = ANY($3)";

impl PostgresRows {
    pub(super) async fn fetch_rows(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        candidates: &Candidates,
    ) -> Result<Fetched, StoreError> {
        let handles: Vec<i64> = candidates
            .iter()
            .flat_map(|(_, handles)| handles.iter().map(|handle| ordered(handle.0)))
            .collect();
        let key = |handle: RowHandle| (collection.clone(), epoch, handle);
        let cached: Vec<Option<(Version, Arc<[i32]>)>> = candidates
            .iter()
            .flat_map(|(_, handles)| handles.iter().map(|handle| self.cache.find(&key(*handle))))
            .collect();
        let versions = || cached.iter().map(|row| row.as_ref().map(|(version, _)| version));
        let macs: Vec<Option<&[u8]>> = versions().map(|known| Some(&known?.mac.0[..])).collect();
        let written: Vec<Option<i64>> = versions().map(|known| Some(known?.written)).collect();
        let widest = MOST_FETCHED_BYTES / (size_of::<i32>() * handles.len().max(1));
        let widest = i32::try_from(widest).unwrap_or(i32::MAX);
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
            [&collection.as_str(), &(epoch.0 as i64), &handles, &widest, &macs, &written];
        let rows = self.ask("fetch rows", FETCH, &values).await?;
        // The order of a union is nobody's promise.
        let (named, shape): (Vec<Row>, Vec<Row>) =
            rows.into_iter().partition(|row| row.get::<_, Option<i64>>(10).is_some());
        let held = Held::of(&shape)?;
        self.cache.hold_only(collection, held.as_ref().and_then(|held| held.current));
        let held = known(held, collection)?;
        let width = held.fetched(epoch, candidates.rows())?.width;
        let (mut present, mut gone) = (HashMap::new(), HashMap::new());
        for row in &named {
            let handle = RowHandle(unordered(row.get(10)));
            match row.get::<_, Option<i64>>(13) {
                Some(revision) => {
                    gone.insert(handle, Revision(revision as u64));
                }
                None => {
                    let cell = CellHandle(unordered(row.get(11)));
                    let version = Version { mac: mac(row, 14)?, written: row.get(15) };
                    present.insert(handle, (cell, row.get::<_, Option<&[u8]>>(12), version));
                }
            }
        }
        let asked = candidates.iter().flat_map(|(_, handles)| handles);
        for handle in asked.filter(|handle| !present.contains_key(handle)) {
            self.cache.remove(&key(*handle));
        }
        let hits = present.values().filter(|(_, bytes, _)| bytes.is_none()).count();
        self.cache.count(hits as u64, (present.len() - hits) as u64);
        let mut cached = cached.into_iter();
        let mut find = |cell: CellHandle, handle: RowHandle| match present.get(&handle) {
            Some(&(at, bytes, version)) if at == cell => {
                let row = match (bytes, cached.next().flatten()) {
                    (None, row) => row.map(|(_, row)| row).filter(|row| row.len() == width),
                    (Some(bytes), _) => coordinates(bytes, width)
                        .inspect(|row| self.cache.keep(key(handle), version, row.clone())),
                };
                let what = || damaged(&format!("row {handle} in cell {cell} of epoch {epoch}"));
                row.ok_or_else(what)
            }
            _ => Err(match gone.get(&handle) {
                Some(&revision) => StoreError::Deleted { handle, revision },
                None => StoreError::UnknownRow { cell, handle },
            }),
        };
        let cells = candidates
            .iter()
            .map(|(cell, handles)| handles.iter().map(|handle| find(cell, *handle)).collect());
        let rows = cells.collect::<Result<_, _>>();
        self.cache.hold(collection, epoch);
        Ok(Fetched { width, rows: rows? })
    }

    pub(super) async fn list_macs(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        after: Option<RowHandle>,
        most: usize,
    ) -> Result<Vec<(RowHandle, RowMac)>, StoreError> {
        let from = match after {
            None => 0,
            Some(RowHandle(u64::MAX)) => return Ok(Vec::new()),
            Some(RowHandle(after)) => after + 1,
        };
        let list = "SELECT r.handle, r.mac FROM shard.rows r \
                    WHERE r.collection = (SELECT id FROM shard.collections WHERE name = $1) \
                    AND r.epoch = $2 AND r.handle >= $3 ORDER BY r.handle LIMIT $4";
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&collection.as_str(), &(epoch.0 as i64), &ordered(from), &most];
        let rows = self.ask("list rows", list, &values).await?;
        rows.iter().map(|row| Ok((RowHandle(unordered(row.get(0))), mac(row, 1)?))).collect()
    }

    pub(super) async fn count(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
    ) -> Result<EpochStatistics, StoreError> {
        const DOING: &str = "count rows";
        self.snapshot_of(DOING, async |transaction| {
            let rows = query(transaction, READ, &[&collection.as_str()]).await;
            let held = known(Held::of(&rows.map_err(failed(DOING))?)?, collection)?;
            let width = held.epoch(epoch)?.width;
            let count = "SELECT count(*), count(DISTINCT cell) FROM shard.rows \
                         WHERE collection = $1 AND epoch = $2";
            let counted = query(transaction, count, &[&held.id, &(epoch.0 as i64)]).await;
            let counted = &counted.map_err(failed(DOING))?[0];
            let number = |at: usize| counted.get::<_, i64>(at) as usize;
            Ok(EpochStatistics { rows: number(0), cells: number(1), width })
        })
        .await
    }

    pub(super) async fn state_of(
        &self,
        collection: &CollectionName,
    ) -> Result<CollectionState, StoreError> {
        let rows = self.ask("describe a collection", READ, &[&collection.as_str()]).await?;
        let state = Held::of(&rows)?.as_ref().map(Rules::state).unwrap_or_default();
        self.cache.hold_only(collection, state.current);
        Ok(state)
    }

    pub(super) async fn names(&self) -> Result<Vec<CollectionName>, StoreError> {
        let list = "SELECT name FROM shard.collections ORDER BY name";
        let rows = self.ask("list collections", list, &[]).await?;
        let name = |row: &Row| {
            row.get::<_, &str>(0).parse().map_err(|_| damaged("the name of a collection"))
        };
        rows.iter().map(name).collect()
    }
}

/// The MAC in a column.
fn mac(row: &Row, column: usize) -> Result<RowMac, StoreError> {
    let bytes = row.get::<_, &[u8]>(column).try_into();
    bytes.map(RowMac).map_err(|_| damaged("a row's MAC"))
}

/// A row of so many coordinates.
fn coordinates(bytes: &[u8], width: usize) -> Option<Arc<[i32]>> {
    let (words, rest) = bytes.as_chunks::<4>();
    (words.len() == width && rest.is_empty())
        .then(|| words.iter().map(|word| i32::from_le_bytes(*word)).collect())
}
