//! The tokens of a running server.

use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use shard_protocol::CollectionName;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::bucket::Bucket;
use super::file::now;
use super::{Scope, TokenError, TokenFile, TokenRecord, TokenTable, digest};
use crate::http::refused::Refused;
use crate::http::spawn;

/// Tells one state of the file from another without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    modified: SystemTime,
    length: u64,
    /// Every change is a rename, so that two within one tick of the clock differ here.
    number: u64,
}

/// The tokens a server knows, as of the last change of their file, or as the table was a moment ago.
pub struct Tokens {
    kept: Kept,
    state: RwLock<State>,
}

/// Where tokens are kept.
enum Kept {
    Nowhere,
    File(TokenFile),
    Table(TokenTable),
}

struct State {
    stamp: Option<Stamp>,
    /// When they were last read.
    read: Instant,
    known: Vec<Arc<Known>>,
    /// Whether they are of a table, or there has been one since the start: otherwise everybody is let in,
    /// which only a server on a loopback address starts with.
    guarded: bool,
}

struct Known {
    record: TokenRecord,
    hash: [u8; 32],
    usage: Arc<Usage>,
}

/// What a token has used of its limits.
struct Usage {
    buckets: Mutex<Buckets>,
    concurrent: Option<Arc<Semaphore>>,
}

struct Buckets {
    requests: Option<Bucket>,
    bytes: Option<Bucket>,
}

impl Usage {
    fn new(record: &TokenRecord) -> Arc<Self> {
        let (limits, now) = (&record.limits, Instant::now());
        let requests = limits.requests_per_second.map(|rate| Bucket::new(rate.max(1).into(), now));
        let bytes = limits.bytes_per_second.map(|rate| Bucket::new(rate.max(1) as f64, now));
        let concurrent = limits.concurrent.map(|most| Arc::new(Semaphore::new(most as usize)));
        Arc::new(Self { buckets: Mutex::new(Buckets { requests, bytes }), concurrent })
    }

    fn buckets(&self) -> MutexGuard<'_, Buckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that was let in. Holds the request's place among those of its token.
pub(in crate::http) struct Grant {
    id: Option<String>,
    collections: Vec<String>,
    usage: Option<Arc<Usage>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Grant {
    /// The token's id; none where no token is needed.
    pub(in crate::http) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Whether it is for all collections.
    pub(in crate::http) fn is_for_all(&self) -> bool {
        self.collections.is_empty()
    }

    /// Whether it is for this collection.
    pub(in crate::http) fn is_for(&self, collection: &CollectionName) -> bool {
        self.is_for_all() || self.collections.iter().any(|name| name == collection.as_str())
    }

    /// Counts bytes that were received or are about to be sent.
    pub(in crate::http) fn charge(&self, bytes: usize) {
        if let Some(usage) = &self.usage
            && let Some(bucket) = &mut usage.buckets().bytes
        {
            bucket.take(bytes as f64);
        }
    }
}

impl State {
    fn of(stamp: Option<Stamp>, records: Vec<TokenRecord>, guarded: bool) -> Self {
        Self { stamp, read: Instant::now(), known: known(records, &[]), guarded }
    }
}

impl Tokens {
    /// The tokens of a file, followed as it changes.
    pub fn open(file: TokenFile) -> Result<Self, TokenError> {
        let (stamp, records) = (stamp(&file), file.load()?);
        let guarded = !records.is_empty();
        Ok(Self::new(Kept::File(file), State::of(stamp, records, guarded)))
    }

    /// The tokens of a table, which a server reads again and again. Requests need one even while there is none:
    /// it may be that the last one was revoked.
    pub fn shared(table: TokenTable) -> Result<Self, TokenError> {
        let records = table.load()?;
        if records.is_empty() {
            tracing::warn!("the database has no tokens: nobody is let in until one is made");
        }
        Ok(Self::new(Kept::Table(table), State::of(None, records, true)))
    }

    /// No tokens, ever.
    pub fn none() -> Self {
        Self::new(Kept::Nowhere, State::of(None, Vec::new(), false))
    }

    fn new(kept: Kept, state: State) -> Self {
        Self { kept, state: RwLock::new(state) }
    }

    /// Whether requests need a token.
    pub fn are_required(&self) -> bool {
        self.state.read().unwrap_or_else(PoisonError::into_inner).guarded
    }

    /// Whether they are kept in a table, which does not say that it changed.
    pub(in crate::http) fn are_shared(&self) -> bool {
        matches!(self.kept, Kept::Table(_))
    }

    /// How long ago they were read, where they are in a table.
    pub(in crate::http) fn age(&self) -> Option<Duration> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        self.are_shared().then(|| state.read.elapsed())
    }

    /// Reads a table every so often, on a thread that ends when nobody uses these tokens any longer.
    pub(in crate::http) fn follow_table(self: &Arc<Self>, every: Duration) {
        if !self.are_shared() {
            return;
        }
        let tokens = Arc::downgrade(self);
        spawn("tokens", move || {
            let mut failed = false;
            loop {
                std::thread::sleep(every);
                let Some(tokens) = tokens.upgrade() else { return };
                let read = tokens.reload();
                if let Err(error) = &read
                    && !failed
                {
                    tracing::error!(%error, "the tokens of before stay in force");
                }
                failed = read.is_err();
            }
        });
    }

    /// Reads the file or the table again. What it held before stays in force when it cannot be read.
    pub fn reload(&self) -> Result<(), TokenError> {
        let (stamp, records) = match &self.kept {
            Kept::Nowhere => return Ok(()),
            Kept::File(file) => (stamp(file), file.load()),
            Kept::Table(table) => (None, table.load()),
        };
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        // Also when it cannot be read: it is complained about once, not with every request.
        state.stamp = stamp;
        let records = records?;
        state.read = Instant::now();
        state.guarded |= !records.is_empty();
        state.known = known(records, &state.known);
        Ok(())
    }

    /// Lets a request in whose token has the scope, is for the collection and has not used up its
    /// limits; without a collection, a token for any will do.
    pub(in crate::http) fn admit(
        &self,
        headers: &HeaderMap,
        scope: Scope,
        collection: Option<&CollectionName>,
    ) -> Result<Grant, Refused> {
        self.follow();
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if !state.guarded {
            return Ok(Grant { id: None, collections: Vec::new(), usage: None, _place: None });
        }
        let Some(token) = bearer(headers) else {
            return Err(Refused::unauthorised(
                "this server wants a token: `Authorization: Bearer shard_...`",
            ));
        };
        let Some(known) = find(&state.known, token) else {
            return Err(Refused::unauthorised("the server does not know this token"));
        };
        let record = &known.record;
        if record.expires.is_some_and(|expires| expires <= now()) {
            return Err(Refused::unauthorised("this token has expired"));
        }
        if !record.scopes.contains(&scope) {
            return Err(Refused::forbidden(format!("this token has no scope {scope}")));
        }
        let usage = known.usage.clone();
        let mut grant = Grant {
            id: Some(record.id.clone()),
            collections: record.collections.clone(),
            usage: Some(usage.clone()),
            _place: None,
        };
        if collection.is_some_and(|name| !grant.is_for(name)) {
            return Err(Refused::forbidden("this token is for other collections".to_owned()));
        }
        if let Some(places) = &usage.concurrent {
            let place = places.clone().try_acquire_owned();
            grant._place =
                Some(place.map_err(|_| Refused::busy("requests at a time with this token", None))?);
        }
        let (mut buckets, at) = (usage.buckets(), Instant::now());
        if let Some(wait) = buckets.bytes.as_mut().and_then(|bucket| bucket.lacks(0.0, at)) {
            return Err(Refused::busy("bytes per second with this token", Some(wait)));
        }
        if let Some(bucket) = &mut buckets.requests {
            if let Some(wait) = bucket.lacks(1.0, at) {
                return Err(Refused::busy("requests per second with this token", Some(wait)));
            }
            bucket.take(1.0);
        }
        Ok(grant)
    }

    /// Reads the file again if it has changed.
    fn follow(&self) {
        let Kept::File(file) = &self.kept else { return };
        let seen = self.state.read().unwrap_or_else(PoisonError::into_inner).stamp;
        if stamp(file) != seen
            && let Err(error) = self.reload()
        {
            tracing::error!(%error, "the tokens of before stay in force");
        }
    }
}

/// The token that a request shows.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Compares with every token, each in constant time, so that the time says nothing of the hashes.
fn find<'a>(known: &'a [Arc<Known>], token: &str) -> Option<&'a Known> {
    let hash = digest(token);
    let (mut at, mut found) = (0_u64, Choice::from(0));
    for (index, candidate) in known.iter().enumerate() {
        let equal = candidate.hash.ct_eq(&hash);
        at.conditional_assign(&(index as u64), equal);
        found |= equal;
    }
    bool::from(found).then(|| &*known[at as usize])
}

fn stamp(file: &TokenFile) -> Option<Stamp> {
    let metadata = fs::metadata(file.path()).ok()?;
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let number = 0;
    Some(Stamp { modified: metadata.modified().ok()?, length: metadata.len(), number })
}

/// Tokens that were known before keep what they have used.
fn known(records: Vec<TokenRecord>, before: &[Arc<Known>]) -> Vec<Arc<Known>> {
    let used: HashMap<&str, &Arc<Known>> =
        before.iter().map(|known| (known.record.sha256.as_str(), known)).collect();
    let known = |record: TokenRecord| {
        let same = used.get(record.sha256.as_str());
        let same = same.filter(|known| known.record.limits == record.limits);
        let usage = same.map_or_else(|| Usage::new(&record), |known| known.usage.clone());
        let mut hash = [0; 32];
        for (byte, digits) in hash.iter_mut().zip(record.sha256.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).expect("the file was checked");
            *byte = u8::from_str_radix(digits, 16).expect("the file was checked");
        }
        Arc::new(Known { record, hash, usage })
    };
    records.into_iter().map(known).collect()
}
