//! The table of tokens.

use std::sync::PoisonError;

use tokio_postgres::Row;

use super::PostgresRows;
use crate::{SharedToken, SharedTokens, StoreError};

const LOAD: &str = "SELECT id, sha256, scopes, collections, created, expires, requests_per_second, \
     bytes_per_second, concurrent FROM shard.tokens ORDER BY id";

const ADD: &str = "INSERT INTO shard.tokens (id, sha256, scopes, collections, created, expires, \
     requests_per_second, bytes_per_second, concurrent) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";

const REMOVE: &str = "DELETE FROM shard.tokens WHERE id = $1 RETURNING id";

impl SharedTokens for PostgresRows {
    fn tokens(&self) -> Result<Vec<SharedToken>, StoreError> {
        let rows = self.wait(|| async { self.ask("read tokens", LOAD, &[]).await })?;
        let (mut tokens, mut unreadable) = (Vec::new(), Vec::new());
        for row in &rows {
            match token(row) {
                Ok(token) => tokens.push(token),
                Err(_) => unreadable.push(row.get::<_, String>(0)),
            }
        }
        self.tell_unreadable(unreadable);
        Ok(tokens)
    }

    fn add_token(&self, token: &SharedToken) -> Result<(), StoreError> {
        let hash = &token.sha256[..];
        let bits = |number: Option<u64>| number.map(|number| number as i64);
        let (created, expires) = (token.created as i64, bits(token.expires));
        let (requests, bytes) = (bits(token.requests_per_second), bits(token.bytes_per_second));
        let concurrent = bits(token.concurrent);
        let (id, scopes, collections) = (&token.id, &token.scopes, &token.collections);
        let added = self.wait(|| async {
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 9] = [
                id,
                &hash,
                scopes,
                collections,
                &created,
                &expires,
                &requests,
                &bytes,
                &concurrent,
            ];
            self.ask("add a token", ADD, &values).await
        });
        added.map(drop)
    }

    fn remove_token(&self, id: &str) -> Result<bool, StoreError> {
        let gone = self.wait(|| async { self.ask("remove a token", REMOVE, &[&id]).await })?;
        Ok(!gone.is_empty())
    }
}

impl PostgresRows {
    /// Servers read the table every second, so what cannot be read of it is told when it changes.
    fn tell_unreadable(&self, ids: Vec<String>) {
        let mut told = self.unreadable_tokens.lock().unwrap_or_else(PoisonError::into_inner);
        for id in ids.iter().filter(|id| !told.contains(id)) {
            tracing::warn!(id, "a token of the database cannot be read and allows nothing");
        }
        *told = ids;
    }
}

/// Numbers of 64 bits are stored as those of the same bits.
fn token(row: &Row) -> Result<SharedToken, Box<dyn std::error::Error + Sync + Send>> {
    let bits = |at: usize| -> Result<Option<u64>, tokio_postgres::Error> {
        Ok(row.try_get::<_, Option<i64>>(at)?.map(|number| number as u64))
    };
    Ok(SharedToken {
        id: row.try_get(0)?,
        sha256: row.try_get::<_, &[u8]>(1)?.try_into()?,
        scopes: row.try_get(2)?,
        collections: row.try_get(3)?,
        created: bits(4)?.unwrap_or_default(),
        expires: bits(5)?,
        requests_per_second: bits(6)?,
        bytes_per_second: bits(7)?,
        concurrent: bits(8)?,
    })
}
