//! Deletes objects that no blob names.
//!
//! The lock of an object's note is held from before it is looked whether a blob names the object until the
//! object is deleted. A put that wants the same object notes it anew, and waits for that lock; a blob that
//! loses its object does the same. So nothing is deleted that a blob names, or that one is about to name, as
//! long as the connection lasts: the database lets go of the locks when it is lost. Therefore every delete is
//! preceded by a statement, and a lost connection ends the sweep. What remains possible is a delete that was
//! on its way when the connection was lost, and that reaches the object store after a put of the same bytes has
//! read them back: then a blob names an object that is not there. Reading it is told as damage, and putting
//! the same bytes again writes it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::PostgresRows;
use super::blobs::ObjectKey;
use super::errors::failed;
use super::held::{damaged, execute, query};
use crate::StoreError;

/// The advisory lock of whoever sweeps.
const SWEEPING: i64 = 0x5368_6172_6402;

/// Objects of one transaction: others wait for its locks.
const AT_ONCE: i64 = 32;

const DOING: &str = "sweep objects";

/// How long objects that no blob names are kept: longer than the longest put.
pub(super) const GRACE: Duration = Duration::from_secs(60 * 60);

impl PostgresRows {
    /// Deletes objects that no blob has named for the time of grace, an hour. See [`PostgresRows::sweep`].
    pub fn sweep_by_default(&self) -> Result<u64, StoreError> {
        self.sweep(GRACE)
    }

    /// Deletes objects that were noted as loose before the time of grace and that no blob names. Returns how
    /// many; none while another process sweeps, and without an object store.
    pub fn sweep(&self, grace: Duration) -> Result<u64, StoreError> {
        self.wait(|| async {
            let mut gone = 0;
            loop {
                let (seen, deleted) = self.sweep_some(grace).await?;
                gone += deleted;
                self.counters.swept.fetch_add(deleted, Ordering::Relaxed);
                if seen < AT_ONCE as usize {
                    return Ok(gone);
                }
            }
        })
    }

    /// One transaction's worth: how many were looked at, and how many deleted.
    async fn sweep_some(&self, grace: Duration) -> Result<(usize, u64), StoreError> {
        let Some(objects) = &self.objects else { return Ok((0, 0)) };
        self.transact(DOING, async |transaction| {
            let lock = "SELECT pg_try_advisory_xact_lock($1)";
            let locked = query(transaction, lock, &[&SWEEPING]).await.map_err(failed(DOING))?;
            if !locked[0].get::<_, bool>(0) {
                return Ok((0, 0));
            }
            let old = "SELECT object FROM shard.loose_objects \
                       WHERE noted <= clock_timestamp() - make_interval(secs => $1) \
                       ORDER BY noted LIMIT $2 FOR UPDATE SKIP LOCKED";
            let old = query(transaction, old, &[&grace.as_secs_f64(), &AT_ONCE]).await;
            let old = old.map_err(failed(DOING))?;
            let keys: Vec<&[u8]> = old.iter().map(|row| row.get(0)).collect();
            // A statement of its own, which sees what was committed before the locks were there.
            let loose = "SELECT o.object FROM unnest($1::bytea[]) AS o (object) WHERE NOT EXISTS \
                         (SELECT FROM shard.blobs b WHERE b.object = o.object)";
            let loose = query(transaction, loose, &[&keys]).await.map_err(failed(DOING))?;
            for row in &loose {
                let key: ObjectKey =
                    row.get::<_, &[u8]>(0).try_into().map_err(|_| damaged("an object's name"))?;
                // With the connection the locks would be gone.
                execute(transaction, "SELECT 1", &[]).await.map_err(failed(DOING))?;
                self.steps.pass(DOING)?;
                objects.delete(&key).await?;
            }
            let done = "DELETE FROM shard.loose_objects WHERE object = ANY($1)";
            execute(transaction, done, &[&keys]).await.map_err(failed(DOING))?;
            Ok((keys.len(), loose.len() as u64))
        })
        .await
    }
}
