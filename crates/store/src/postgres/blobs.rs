//! Sealed blobs: in the database, or by name there and by content in an object store.
//!
//! A blob that goes to the object store is put in this order: its object is noted as loose, written and read
//! back; then one transaction names it and takes the note away. So an object is named by a blob, or noted, at
//! any moment, and a failure between two steps leaves the blobs as they were.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use deadpool_postgres::Transaction;
use shard_protocol::{BlobName, CollectionName};
use tokio_postgres::Row;

use super::PostgresRows;
use super::errors::failed;
use super::held::{Held, damaged, execute, query};
use crate::StoreError;
use crate::rules::{known, room_for_blob};

/// How often a put begins anew because its objects were swept or its blobs replaced in between.
const ATTEMPTS: usize = 8;

/// Objects that are read, or looked for, at a time.
#[cfg(feature = "objects")]
const READS_AT_ONCE: usize = 16;

const PUTTING: &str = "store blobs";
const READING: &str = "read a blob";

/// SHA-256 of an object's bytes, by which it is found.
pub(super) type ObjectKey = [u8; 32];

/// A value of a column that may be null.
type Column<'a> = Option<&'a [u8]>;

/// A blob on its way into the database.
pub(super) struct Put<'a> {
    pub(super) name: &'a BlobName,
    pub(super) length: u64,
    pub(super) content: Content<'a>,
}

/// Where the bytes of a blob are.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    /// In the database.
    Bytes(&'a [u8]),
    /// In an object that was written and is noted as loose.
    #[cfg_attr(not(feature = "objects"), expect(dead_code, reason = "made with objects only"))]
    Written(ObjectKey),
    /// In the object that the blob names already, and that is there.
    #[cfg_attr(not(feature = "objects"), expect(dead_code, reason = "made with objects only"))]
    Kept(ObjectKey),
}

impl PostgresRows {
    /// Stores blobs, each of another name, all of them or none.
    pub(super) async fn put_all(
        &self,
        collection: &CollectionName,
        blobs: &[(&BlobName, &[u8])],
    ) -> Result<(), StoreError> {
        for _ in 0..ATTEMPTS {
            #[cfg(feature = "objects")]
            let (puts, noted) = self.written(collection, blobs).await?;
            #[cfg(not(feature = "objects"))]
            let (puts, noted) = (blobs.iter().map(in_database).collect::<Vec<_>>(), None);
            let name = async |transaction: &Transaction<'_>| {
                let held = Held::lock_or_new(transaction, collection, PUTTING).await?;
                Ok(self.are_there(transaction, &puts, noted).await?
                    && name_all(transaction, collection, held, &puts).await?)
            };
            if self.transact(PUTTING, name).await? {
                return Ok(());
            }
        }
        let reason = "they were replaced or swept by others again and again".to_owned();
        Err(StoreError::Unavailable { doing: PUTTING, reason })
    }

    /// Whether the objects that were written are still there, and locks their notes: whoever sweeps holds these
    /// locks while it deletes. An object that was swept may have been noted again, by somebody who has not
    /// written it yet; so one that was noted after `noted` is looked for.
    async fn are_there(
        &self,
        transaction: &Transaction<'_>,
        puts: &[Put<'_>],
        noted: Option<SystemTime>,
    ) -> Result<bool, StoreError> {
        let written: BTreeMap<ObjectKey, u64> =
            puts.iter().filter_map(|put| Some((put.written()?, put.length))).collect();
        let keys: Vec<&[u8]> = written.keys().map(|key| &key[..]).collect();
        if keys.is_empty() {
            return Ok(true);
        }
        let lock = "SELECT object, coalesce(noted > $2, true) FROM shard.loose_objects WHERE object = ANY($1) \
                    ORDER BY object FOR UPDATE";
        let locked = query(transaction, lock, &[&keys, &noted]).await.map_err(failed(PUTTING))?;
        if locked.len() < written.len() {
            return Ok(false);
        }
        let noted_again = locked.iter().filter(|row| row.get::<_, bool>(1));
        let is_there = noted_again.map(async |row| {
            let key: ObjectKey =
                row.get::<_, &[u8]>(0).try_into().map_err(|_| damaged("an object's name"))?;
            self.has_object(&key, written[&key]).await
        });
        Ok(in_order(is_there).await?.into_iter().all(|is_there| is_there))
    }

    #[cfg(not(feature = "objects"))]
    async fn has_object(&self, _: &ObjectKey, _: u64) -> Result<bool, StoreError> {
        Ok(false)
    }

    pub(super) async fn read_blob(
        &self,
        collection: &CollectionName,
        name: &BlobName,
    ) -> Result<Vec<u8>, StoreError> {
        let read = "SELECT b.length, b.bytes, b.object FROM shard.collections c \
                    LEFT JOIN shard.blobs b ON b.collection = c.id AND b.name = $2 WHERE c.name = $1";
        let mut missed = None;
        loop {
            let rows = self.ask(READING, read, &[&collection.as_str(), &name.as_str()]).await?;
            let row = known(rows.first(), collection)?;
            let Some(length) = row.get::<_, Option<i64>>(0) else {
                return Err(StoreError::UnknownBlob(name.clone()));
            };
            let bytes = match row.get::<_, Option<&[u8]>>(2) {
                None => Some(row.get::<_, &[u8]>(1).to_vec()),
                Some(key) => {
                    let key: ObjectKey = key.try_into().map_err(|_| damaged("an object's name"))?;
                    let found = self.object(name, key).await?;
                    // The blob may have been replaced since, and its object swept.
                    if found.is_none() && missed != Some(key) {
                        missed = Some(key);
                        continue;
                    }
                    found
                }
            };
            return match bytes {
                Some(bytes) if bytes.len() as i64 == length => Ok(bytes),
                Some(_) => Err(damaged(&format!("the length of blob {name}"))),
                None => {
                    let what = format!("blob {name}, whose object is not in the object store");
                    Err(StoreError::Damaged { what })
                }
            };
        }
    }

    /// The blobs of the first names, in one round trip to the database; objects several at a time.
    pub(super) async fn read_many(
        &self,
        collection: &CollectionName,
        names: &[BlobName],
        most_bytes: usize,
    ) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let read = "WITH asked AS (\
                        SELECT a.at, c.id, a.name, \
                               sum(coalesce(b.length, 0)) OVER (ORDER BY a.at) AS total \
                        FROM shard.collections c \
                        CROSS JOIN unnest($2::text[]) WITH ORDINALITY AS a (name, at) \
                        LEFT JOIN shard.blobs b ON b.collection = c.id AND b.name = a.name \
                        WHERE c.name = $1) \
                    SELECT b.length, b.bytes, b.object FROM asked LEFT JOIN shard.blobs b \
                    ON b.collection = asked.id AND b.name = asked.name \
                    WHERE asked.total <= $3::bigint OR asked.at = 1 ORDER BY asked.at";
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let texts: Vec<&str> = names.iter().map(BlobName::as_str).collect();
        let most = i64::try_from(most_bytes).unwrap_or(i64::MAX);
        let rows = self.ask(READING, read, &[&collection.as_str(), &texts, &most]).await?;
        known(rows.first(), collection)?;
        let one = async |(row, name): (&Row, &BlobName)| {
            let length = row.get::<_, Option<i64>>(0);
            match (length, row.get::<_, Option<&[u8]>>(1)) {
                (None, _) => Ok(None),
                (Some(length), Some(bytes)) if bytes.len() as i64 == length => {
                    Ok(Some(bytes.to_vec()))
                }
                (Some(_), Some(_)) => Err(damaged(&format!("the length of blob {name}"))),
                // An object: looked up once more if it was replaced and swept in between.
                (Some(length), None) => {
                    let key: &[u8] = row.get(2);
                    let key = key.try_into().map_err(|_| damaged("an object's name"))?;
                    match self.object(name, key).await? {
                        Some(bytes) if bytes.len() as i64 == length => Ok(Some(bytes)),
                        _ => match self.read_blob(collection, name).await {
                            Err(StoreError::UnknownBlob(_)) => Ok(None),
                            other => other.map(Some),
                        },
                    }
                }
            }
        };
        in_order(rows.iter().zip(names).map(one)).await
    }

    #[cfg(not(feature = "objects"))]
    async fn object(&self, name: &BlobName, _: ObjectKey) -> Result<Option<Vec<u8>>, StoreError> {
        Err(elsewhere(name))
    }

    pub(super) async fn list_blobs(
        &self,
        collection: &CollectionName,
        after: Option<&BlobName>,
        most: usize,
    ) -> Result<Vec<(BlobName, u64)>, StoreError> {
        let list = "SELECT b.name, b.length FROM shard.collections c LEFT JOIN LATERAL \
                    (SELECT name, length FROM shard.blobs WHERE collection = c.id AND name > $2 \
                    ORDER BY name LIMIT $3) b ON true WHERE c.name = $1 ORDER BY b.name";
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let after = after.map_or("", BlobName::as_str);
        let rows = self.ask("list blobs", list, &[&collection.as_str(), &after, &most]).await?;
        known(rows.first(), collection)?;
        let blob = |row: &Row| {
            let name = row.get::<_, Option<&str>>(0)?.parse();
            Some(
                name.map_err(|_| damaged("the name of a blob"))
                    .map(|name| (name, row.get::<_, i64>(1) as u64)),
            )
        };
        rows.iter().filter_map(blob).collect()
    }

    pub(super) async fn remove_blob(
        &self,
        collection: &CollectionName,
        name: &BlobName,
    ) -> Result<bool, StoreError> {
        const DOING: &str = "delete a blob";
        self.transact(DOING, async |transaction| {
            let held = known(Held::lock(transaction, collection, DOING).await?, collection)?;
            let remove = async {
                loosen(transaction, held.id, Some(name)).await?;
                let delete = "WITH gone AS (DELETE FROM shard.blobs \
                              WHERE collection = $1 AND name = $2 RETURNING 1) \
                              UPDATE shard.collections SET blob_count = blob_count - 1 \
                              WHERE id = $1 AND EXISTS (SELECT FROM gone)";
                execute(transaction, delete, &[&held.id, &name.as_str()]).await
            };
            Ok(remove.await.map_err(failed(DOING))? > 0)
        })
        .await
    }
}

#[cfg(not(feature = "objects"))]
fn in_database<'a>(&(name, sealed): &(&'a BlobName, &'a [u8])) -> Put<'a> {
    Put { name, length: sealed.len() as u64, content: Content::Bytes(sealed) }
}

/// The results of futures in their order, of which several are under way at a time.
#[cfg(feature = "objects")]
async fn in_order<T>(
    futures: impl Iterator<Item = impl Future<Output = Result<T, StoreError>>>,
) -> Result<Vec<T>, StoreError> {
    use futures_util::stream::{StreamExt, TryStreamExt};
    futures_util::stream::iter(futures).buffered(READS_AT_ONCE).try_collect().await
}

/// The results of futures in their order; without objects none of them waits.
#[cfg(not(feature = "objects"))]
async fn in_order<T>(
    futures: impl Iterator<Item = impl Future<Output = Result<T, StoreError>>>,
) -> Result<Vec<T>, StoreError> {
    let mut done = Vec::new();
    for future in futures {
        done.push(future.await?);
    }
    Ok(done)
}

/// A blob whose object is in a store that this process was not told of.
pub(super) fn elsewhere(name: &BlobName) -> StoreError {
    let reason = format!("{name} is in an object store, and this server was given none");
    StoreError::Engine { doing: READING, reason }
}

/// Writes the names of blobs; `false`, with nothing changed, where a blob that was to be kept is another.
async fn name_all(
    transaction: &Transaction<'_>,
    collection: &CollectionName,
    mut held: Held,
    puts: &[Put<'_>],
) -> Result<bool, StoreError> {
    let failed = failed(PUTTING);
    let written: BTreeSet<ObjectKey> = puts.iter().filter_map(Put::written).collect();
    let written: Vec<&[u8]> = written.iter().map(|key| &key[..]).collect();
    let (kept_names, kept_keys): (Vec<&str>, Vec<&[u8]>) =
        puts.iter().filter_map(Put::kept).unzip();
    if !kept_names.is_empty() {
        let kept = "SELECT count(*) FROM shard.blobs b \
                    JOIN unnest($2::text[], $3::bytea[]) AS k (name, object) \
                    ON b.name = k.name AND b.object = k.object WHERE b.collection = $1";
        let kept = query(transaction, kept, &[&held.id, &kept_names, &kept_keys]).await;
        if (kept.map_err(failed)?[0].get::<_, i64>(0) as usize) < kept_names.len() {
            return Ok(false);
        }
    }
    let id = held.make(transaction, collection, PUTTING).await?;
    let new: Vec<&Put<'_>> = puts.iter().filter(|put| put.kept().is_none()).collect();
    let names: Vec<&str> = new.iter().map(|put| put.name.as_str()).collect();
    let lengths: Vec<i64> = new.iter().map(|put| put.length as i64).collect();
    let (bytes, objects): (Vec<Column<'_>>, Vec<Column<'_>>) =
        new.iter().map(|put| put.columns()).unzip();
    let replaced = "INSERT INTO shard.loose_objects (object, noted) \
                    SELECT b.object, max(clock_timestamp()) FROM shard.blobs b \
                    JOIN unnest($2::text[], $3::bytea[]) AS n (name, object) ON b.name = n.name \
                    WHERE b.collection = $1 AND b.object IS NOT NULL \
                    AND b.object IS DISTINCT FROM n.object \
                    GROUP BY b.object ORDER BY b.object \
                    ON CONFLICT (object) DO UPDATE SET noted = excluded.noted";
    execute(transaction, replaced, &[&id, &names, &objects]).await.map_err(failed)?;
    let put = "WITH put AS (\
                   INSERT INTO shard.blobs (collection, name, length, bytes, object) \
                   SELECT $1, * FROM unnest($2::text[], $3::bigint[], $4::bytea[], $5::bytea[]) \
                   ON CONFLICT (collection, name) DO UPDATE \
                   SET length = excluded.length, bytes = excluded.bytes, object = excluded.object \
                   WHERE blobs.bytes IS DISTINCT FROM excluded.bytes \
                      OR blobs.object IS DISTINCT FROM excluded.object \
                   RETURNING xmax = 0 AS new) \
               SELECT count(*) FROM put WHERE new";
    let made = query(transaction, put, &[&id, &names, &lengths, &bytes, &objects]).await;
    let made: i64 = made.map_err(failed)?[0].get(0);
    if made > 0 {
        let count = "UPDATE shard.collections SET blob_count = blob_count + $2 WHERE id = $1 \
                     RETURNING blob_count";
        let count = query(transaction, count, &[&id, &made]).await.map_err(failed)?;
        let count = count[0].get::<_, i64>(0) as usize;
        room_for_blob(count - 1)?;
    }
    if !written.is_empty() {
        let named = "DELETE FROM shard.loose_objects WHERE object = ANY($1)";
        execute(transaction, named, &[&written]).await.map_err(failed)?;
    }
    Ok(true)
}

impl Put<'_> {
    fn written(&self) -> Option<ObjectKey> {
        match self.content {
            Content::Written(key) => Some(key),
            _ => None,
        }
    }

    fn kept(&self) -> Option<(&str, &[u8])> {
        match &self.content {
            Content::Kept(key) => Some((self.name.as_str(), key)),
            _ => None,
        }
    }

    /// The columns `bytes` and `object`.
    fn columns(&self) -> (Column<'_>, Column<'_>) {
        match &self.content {
            Content::Bytes(bytes) => (Some(bytes), None),
            Content::Written(key) | Content::Kept(key) => (None, Some(key)),
        }
    }
}

/// Notes the objects of one blob, or of all blobs of a collection, as loose: they are about to lose a name.
pub(super) async fn loosen(
    transaction: &Transaction<'_>,
    collection: Option<i64>,
    name: Option<&BlobName>,
) -> Result<(), tokio_postgres::Error> {
    let loosen = "INSERT INTO shard.loose_objects (object, noted) \
                  SELECT object, max(clock_timestamp()) FROM shard.blobs \
                  WHERE collection = $1 AND object IS NOT NULL AND ($2::text IS NULL OR name = $2) \
                  GROUP BY object ORDER BY object \
                  ON CONFLICT (object) DO UPDATE SET noted = excluded.noted";
    execute(transaction, loosen, &[&collection, &name.map(BlobName::as_str)]).await.map(drop)
}
