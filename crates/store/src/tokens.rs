//! Tokens of servers that work on one engine.

use crate::StoreError;

/// What a database keeps of a token: its hash, and what it allows. What that means is the servers' business.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedToken {
    /// Its public name.
    pub id: String,
    /// SHA-256 of the token.
    pub sha256: [u8; 32],
    /// What it allows.
    pub scopes: Vec<String>,
    /// The only collections it is for; empty for all.
    pub collections: Vec<String>,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// When it becomes void, in seconds since 1970.
    pub expires: Option<u64>,
    /// Requests a second.
    pub requests_per_second: Option<u64>,
    /// Bytes a second of requests and answers.
    pub bytes_per_second: Option<u64>,
    /// Requests at a time.
    pub concurrent: Option<u64>,
}

/// Keeps the tokens of all servers over it.
pub trait SharedTokens: Send + Sync {
    /// All of them that can be read, by id: what cannot be read allows nothing, and must not keep others from
    /// being added or removed.
    fn tokens(&self) -> Result<Vec<SharedToken>, StoreError>;

    /// Adds one.
    fn add_token(&self, token: &SharedToken) -> Result<(), StoreError>;

    /// Removes one. Returns whether there was one of that name.
    fn remove_token(&self, id: &str) -> Result<bool, StoreError>;
}
