//! Who may do what.
//!
//! A token is 256 random bits behind the prefix `shard_`. The server keeps its SHA-256 only; with
//! that many bits a plain hash is enough, and nobody who reads the file can make a request with it.
//! [`TokenFile`] is the file, [`TokenTable`] the table of a database that servers share, [`Tokens`] what a running server knows of it, with the limits of each
//! token counted in memory.

mod bucket;
mod file;
mod registry;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use rand_core::CryptoRng;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use shard_protocol::{Access, CollectionName};
use zeroize::Zeroizing;

use file::now;
pub(super) use file::private;
pub use file::{TokenError, TokenFile};
pub(super) use registry::Grant;
pub use registry::Tokens;
pub use table::TokenTable;

/// What every token begins with: it makes them easy to find where they should not be.
pub const TOKEN_PREFIX: &str = "shard_";

const TOKEN_BYTES: usize = 32;

/// What a token allows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Search, and fetch what is sealed.
    Read,
    /// Change rows and blobs.
    Write,
    /// List and drop collections, compact, take snapshots.
    Admin,
}

impl From<Access> for Scope {
    fn from(access: Access) -> Self {
        match access {
            Access::Read => Self::Read,
            Access::Write => Self::Write,
        }
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "read" => Ok(Self::Read),
            "write" => Ok(Self::Write),
            "admin" => Ok(Self::Admin),
            _ => Err(format!("{text:?} is not a scope: read, write or admin")),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        })
    }
}

/// How much a token may ask for. What is not set is bounded by the server's own limits only.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TokenLimits {
    /// Requests a second, as an average; one second's worth may come at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u32>,
    /// Bytes a second of requests and answers together, as an average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// Requests at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrent: Option<u32>,
}

impl TokenLimits {
    fn is_unset(&self) -> bool {
        *self == Self::default()
    }
}

/// What a new token is to allow.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NewToken {
    /// What it allows.
    pub scopes: Vec<Scope>,
    /// The only collections it is for; empty for all.
    pub collections: Vec<CollectionName>,
    /// How much it may ask for.
    pub limits: TokenLimits,
    /// Seconds since 1970 after which it is void.
    pub expires: Option<u64>,
}

impl NewToken {
    /// The token, and what is kept of it.
    fn make(&self, rng: &mut impl CryptoRng) -> Result<(TokenRecord, Token), TokenError> {
        if self.scopes.is_empty() {
            return Err(TokenError::NoScope);
        }
        let token = Token::generate(rng);
        let mut id = [0; 4];
        rng.fill_bytes(&mut id);
        let mut scopes = self.scopes.clone();
        scopes.sort_unstable();
        scopes.dedup();
        let record = TokenRecord {
            id: HEXLOWER.encode(&id),
            sha256: HEXLOWER.encode(&digest(token.expose())),
            scopes,
            collections: self.collections.iter().map(ToString::to_string).collect(),
            created: now(),
            expires: self.expires,
            limits: self.limits,
        };
        Ok((record, token))
    }
}

/// A token as the server keeps it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TokenRecord {
    /// Its public name, for logs and for revoking it.
    pub id: String,
    /// SHA-256 of the token, in hexadecimal.
    pub sha256: String,
    /// What it allows.
    pub scopes: Vec<Scope>,
    /// The only collections it is for; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collections: Vec<String>,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// When it becomes void, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// How much it may ask for.
    #[serde(default, skip_serializing_if = "TokenLimits::is_unset")]
    pub limits: TokenLimits,
}

/// A token in the clear: shown once to whoever made it, never stored.
pub struct Token(Zeroizing<String>);

impl Token {
    fn generate(rng: &mut impl CryptoRng) -> Self {
        let mut bytes = Zeroizing::new([0; TOKEN_BYTES]);
        rng.fill_bytes(&mut *bytes);
        let text = Zeroizing::new(BASE64URL_NOPAD.encode(&*bytes));
        Self(Zeroizing::new(format!("{TOKEN_PREFIX}{}", *text)))
    }

    /// The text that a client sends.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(redacted)")
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
