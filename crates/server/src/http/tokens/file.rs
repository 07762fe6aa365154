//! The file of tokens.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rand_core::CryptoRng;
use serde::{Deserialize, Serialize};
use shard_protocol::CollectionName;

use super::{NewToken, Token, TokenRecord};

/// Why tokens could not be read or changed. No variant holds a token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is not what it should be.
    #[error("{} is not a file of tokens: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The database failed.
    #[error("the tokens of the database: {0}")]
    Store(#[from] shard_store::StoreError),
    /// No token of that name.
    #[error("no token has the id {0:?}")]
    Unknown(String),
    /// A token that would allow nothing.
    #[error("a token needs at least one scope: read, write or admin")]
    NoScope,
}

/// `tokens.toml` of a server's directory. Changes are whole or not at all, and one at a time.
#[derive(Clone, Debug)]
pub struct TokenFile {
    path: PathBuf,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Content {
    #[serde(default, rename = "token")]
    tokens: Vec<TokenRecord>,
}

impl TokenFile {
    /// The file of a server's directory; it need not exist.
    pub fn of(directory: &Path) -> Self {
        Self { path: directory.join("tokens.toml") }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The tokens; none when there is no file.
    pub fn load(&self) -> Result<Vec<TokenRecord>, TokenError> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(self.failed("read", source)),
        };
        let content: Content =
            toml::from_str(&text).map_err(|error| self.damaged(error.message()))?;
        for token in &content.tokens {
            let sound = token.sha256.len() == 64
                && token.sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            if !sound {
                return Err(self.damaged(&format!("the hash of token {:?}", token.id)));
            }
            for name in &token.collections {
                name.parse::<CollectionName>().map_err(|error| self.damaged(&error.to_string()))?;
            }
        }
        Ok(content.tokens)
    }

    /// Adds a token and returns it in the clear, for the only time.
    pub fn create(
        &self,
        new: &NewToken,
        rng: &mut impl CryptoRng,
    ) -> Result<(TokenRecord, Token), TokenError> {
        let (record, token) = new.make(rng)?;
        let _lock = self.lock()?;
        let mut tokens = self.load()?;
        tokens.push(record.clone());
        self.save(tokens)?;
        Ok((record, token))
    }

    /// Removes a token. A running server refuses it from the next request on.
    pub fn revoke(&self, id: &str) -> Result<(), TokenError> {
        let _lock = self.lock()?;
        let mut tokens = self.load()?;
        let at = tokens.iter().position(|token| token.id == id);
        tokens.remove(at.ok_or_else(|| TokenError::Unknown(id.to_owned()))?);
        self.save(tokens)
    }

    /// Two commands at once must not undo each other. The lock goes with the file handle.
    fn lock(&self) -> Result<File, TokenError> {
        let path = self.path.with_extension("lock");
        let lock = private().create(true).truncate(false).open(&path);
        lock.and_then(|file| file.lock().map(|()| file)).map_err(|source| TokenError::File {
            doing: "lock",
            path,
            source,
        })
    }

    fn save(&self, tokens: Vec<TokenRecord>) -> Result<(), TokenError> {
        let text = toml::to_string(&Content { tokens })
            .map_err(|error| self.damaged(&error.to_string()))?;
        let new = self.path.with_extension("new");
        let written = private().create(true).truncate(true).open(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        let replaced = written.and_then(|()| fs::rename(&new, &self.path)).and_then(|()| {
            // The rename itself is durable once the directory is.
            self.path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
        });
        replaced.map_err(|source| self.failed("write", source))
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> TokenError {
        TokenError::File { doing, path: self.path.clone(), source }
    }

    fn damaged(&self, reason: &str) -> TokenError {
        TokenError::Content { path: self.path.clone(), reason: reason.to_owned() }
    }
}

/// Opens for writing what only the owner may read.
pub(in crate::http) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
