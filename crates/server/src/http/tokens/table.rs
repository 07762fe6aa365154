//! Tokens in the database that several servers work on.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use rand_core::CryptoRng;
use shard_store::{SharedToken, SharedTokens};

use super::{NewToken, Token, TokenError, TokenLimits, TokenRecord};

/// The tokens of all servers over one database.
#[derive(Clone)]
pub struct TokenTable(Arc<dyn SharedTokens>);

impl TokenTable {
    /// Those that an engine keeps.
    pub fn of(kept: Arc<dyn SharedTokens>) -> Self {
        Self(kept)
    }

    /// The tokens.
    pub fn load(&self) -> Result<Vec<TokenRecord>, TokenError> {
        Ok(self.0.tokens()?.into_iter().map(record).collect())
    }

    /// Adds a token and returns it in the clear, for the only time.
    pub fn create(
        &self,
        new: &NewToken,
        rng: &mut impl CryptoRng,
    ) -> Result<(TokenRecord, Token), TokenError> {
        let (record, token) = new.make(rng)?;
        self.0.add_token(&SharedToken {
            id: record.id.clone(),
            sha256: super::digest(token.expose()),
            scopes: record.scopes.iter().map(ToString::to_string).collect(),
            collections: record.collections.clone(),
            created: record.created,
            expires: record.expires,
            requests_per_second: record.limits.requests_per_second.map(Into::into),
            bytes_per_second: record.limits.bytes_per_second,
            concurrent: record.limits.concurrent.map(Into::into),
        })?;
        Ok((record, token))
    }

    /// Removes a token. Servers that run refuse it within a few seconds.
    pub fn revoke(&self, id: &str) -> Result<(), TokenError> {
        if self.0.remove_token(id)? { Ok(()) } else { Err(TokenError::Unknown(id.to_owned())) }
    }
}

impl std::fmt::Debug for TokenTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenTable")
    }
}

/// A scope that this program does not know allows nothing, and no collection has a name that cannot be.
fn record(shared: SharedToken) -> TokenRecord {
    let small = |limit: Option<u64>| limit.map(|most| u32::try_from(most).unwrap_or(u32::MAX));
    TokenRecord {
        id: shared.id,
        sha256: HEXLOWER.encode(&shared.sha256),
        scopes: shared.scopes.iter().filter_map(|scope| scope.parse().ok()).collect(),
        collections: shared.collections,
        created: shared.created,
        expires: shared.expires,
        limits: TokenLimits {
            requests_per_second: small(shared.requests_per_second),
            bytes_per_second: shared.bytes_per_second,
            concurrent: small(shared.concurrent),
        },
    }
}
