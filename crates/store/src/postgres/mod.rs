//! The engine on PostgreSQL, for any number of servers over the same rows.
//!
//! Every change is one transaction: it locks the row of its collection, judges by the rules of all engines,
//! writes, and commits with `synchronous_commit` on. A change that moves what is searched tells it on the
//! channel [`HEADS`]. The engine owns a small runtime and its callers wait on it; connections come from a pool,
//! go to the host that takes writes, and are made anew where they were lost. What was cut off before its
//! commit was known is [`StoreError::Unavailable`], and repeating it does no harm.
//!
//! # Map
//!
//! `address` (connection strings, TLS) · `errors` · `migrations` (the schema) · `held` (a collection under the
//! rules) · `changes`, `reads` and `blobs` (the trait's methods) · `cache` (of rows) · `members` (leases, and who has moved on) · `tokens` · `objects` and `sweep` (large blobs in an
//! object store, cargo feature `objects`) · `operations` (the trait) · `steps` (failures for tests).

mod address;
mod blobs;
mod cache;
mod changes;
mod errors;
mod held;
mod members;
mod migrations;
#[cfg(feature = "objects")]
mod objects;
mod operations;
mod reads;
mod steps;
#[cfg(feature = "objects")]
mod sweep;
#[cfg(all(test, feature = "conformance"))]
mod tests;
mod tokens;

use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime as PoolRuntime,
    Transaction,
};
use tokio::runtime::{Handle, Runtime};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, IsolationLevel};

pub use address::DatabaseAddress;
use address::Tls;
use cache::RowCache;
use errors::{failed, late, said, unconnected};
use members::Listening;
#[cfg(feature = "objects")]
pub use objects::Objects;
use steps::Steps;

use crate::StoreError;

/// The channel on which the name of a collection is told when what is searched of it has changed.
pub const HEADS: &str = "shard_heads";

/// Connections of one process at a time, unless told otherwise.
pub const CONNECTIONS: usize = 16;

/// Memory for rows, unless told otherwise.
const CACHE_BYTES: usize = 256 << 20;

/// Threads of the engine's runtime, which only carry bytes.
const THREADS: usize = 2;

/// The longest time for one operation, from the connection on.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest time for a connection out of the pool, made or waited for.
const CONNECTING: Duration = Duration::from_secs(10);

/// The most that the clock of the database may differ from ours: what tokens and leases tolerate.
const SKEW: Duration = Duration::from_secs(300);

/// What every connection sets: commits that are on disk when they are acknowledged, on the replicas too where
/// the operator has set more, and an end to whatever a process that has vanished leaves behind.
const SETTINGS: &str = "\
    SELECT set_config('synchronous_commit', 'on', false) \
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply'); \
    SET lock_timeout = '20s'; SET statement_timeout = '60s'; \
    SET idle_in_transaction_session_timeout = '60s'";

const OPENING: &str = "use the database";

/// Settings of the engine.
#[derive(Debug)]
pub struct PostgresOptions {
    /// Connections at a time.
    pub connections: usize,
    /// Memory for rows.
    pub cache_bytes: usize,
    /// Whether the schema is made, or brought to this program's version; otherwise another version is refused.
    pub migrate: bool,
    /// Where large blobs go; without, they are in the database.
    #[cfg(feature = "objects")]
    pub objects: Option<Objects>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS,
            cache_bytes: CACHE_BYTES,
            migrate: true,
            #[cfg(feature = "objects")]
            objects: None,
        }
    }
}

/// Rows and blobs in PostgreSQL.
pub struct PostgresRows {
    pool: Pool,
    runtime: OwnRuntime,
    #[cfg(feature = "objects")]
    objects: Option<Objects>,
    /// For a connection that only listens.
    address: (DatabaseAddress, Tls),
    listening: Listening,
    /// Ids of tokens that cannot be read, as they were told last.
    unreadable_tokens: Mutex<Vec<String>>,
    steps: Steps,
    cache: RowCache,
    counters: Counters,
}

/// What has happened since the start.
#[derive(Default)]
struct Counters {
    transactions: AtomicU64,
    unavailable: AtomicU64,
    swept: AtomicU64,
}

/// Figures of the engine since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PostgresMetrics {
    /// Connections of the pool.
    pub connections: u64,
    /// Operations that wait for one.
    pub waiting: u64,
    /// Transactions that were committed.
    pub transactions: u64,
    /// Operations that were cut off.
    pub unavailable: u64,
    /// Objects that were deleted because no blob named them.
    pub swept_objects: u64,
    /// Rows that were asked for and were in memory as the database has them.
    pub cache_hits: u64,
    /// Rows that were asked for and were not, or in an earlier version.
    pub cache_misses: u64,
    /// Memory of rows.
    pub cache_bytes: u64,
}

impl PostgresRows {
    /// Opens the database, and brings its schema to this program's version if it is to and the role may.
    ///
    /// # Errors
    /// When no host that takes writes can be reached, password or database are wrong, the schema is of a later
    /// program or cannot be migrated, the clocks differ by more than five minutes, or the objects are not
    /// there. Each is one sentence.
    pub fn open(address: &DatabaseAddress, options: PostgresOptions) -> Result<Self, StoreError> {
        let runtime = OwnRuntime::start()?;
        let tls = address.tls()?;
        wait_on(runtime.handle(), || prepare(address, tls.clone(), options.migrate))?;
        let recycling_method = RecyclingMethod::Fast;
        let config = ManagerConfig { recycling_method };
        let manager = Manager::from_config(address.config().clone(), tls.clone(), config);
        let settle = Hook::async_fn(|client: &mut deadpool_postgres::ClientWrapper, _| {
            Box::pin(async { client.batch_execute(SETTINGS).await.map_err(HookError::Backend) })
        });
        let pool = Pool::builder(manager)
            .max_size(options.connections.max(1))
            .wait_timeout(Some(CONNECTING))
            .create_timeout(Some(CONNECTING))
            .runtime(PoolRuntime::Tokio1)
            .post_create(settle)
            .build()
            .map_err(|error| cannot_open(error.to_string()))?;
        #[cfg(feature = "objects")]
        if let Some(objects) = &options.objects {
            wait_on(runtime.handle(), || objects.look())?;
        }
        Ok(Self {
            pool,
            runtime,
            #[cfg(feature = "objects")]
            objects: options.objects,
            address: (address.clone(), tls),
            listening: Listening::default(),
            unreadable_tokens: Mutex::default(),
            steps: Steps::default(),
            cache: RowCache::new(options.cache_bytes),
            counters: Counters::default(),
        })
    }

    /// Figures since it was opened.
    pub fn metrics(&self) -> PostgresMetrics {
        let status = self.pool.status();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let [cache_hits, cache_misses, cache_bytes] = self.cache.figures();
        PostgresMetrics {
            connections: status.size as u64,
            waiting: status.waiting as u64,
            transactions: read(&self.counters.transactions),
            unavailable: read(&self.counters.unavailable),
            swept_objects: read(&self.counters.swept),
            cache_hits,
            cache_misses,
            cache_bytes,
        }
    }

    /// Waits for an operation, on whatever thread.
    fn wait<T: Send, F: Future<Output = Result<T, StoreError>>>(
        &self,
        make: impl FnOnce() -> F + Send,
    ) -> Result<T, StoreError> {
        let outcome = wait_on(self.runtime.handle(), make);
        if matches!(outcome, Err(StoreError::Unavailable { .. })) {
            self.counters.unavailable.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    /// Does something in one transaction, all of it or nothing.
    async fn transact<T>(
        &self,
        doing: &'static str,
        work: impl AsyncFnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut link = self.link(doing).await?;
        let whole = async {
            let transaction = link.object().transaction().await.map_err(failed(doing))?;
            let done = work(&transaction).await?;
            self.steps.pass(doing)?;
            transaction.commit().await.map_err(failed(doing))?;
            self.counters.transactions.fetch_add(1, Ordering::Relaxed);
            self.steps.pass(doing)?;
            Ok(done)
        };
        let outcome = timeout(PATIENCE, whole).await.unwrap_or_else(|_| Err(late(doing)));
        link.give_back_if_sound(&outcome);
        outcome
    }

    /// Reads everything as of one moment.
    async fn snapshot_of<T>(
        &self,
        doing: &'static str,
        work: impl AsyncFnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut link = self.link(doing).await?;
        let whole = async {
            let transaction = link.object().build_transaction().read_only(true);
            let transaction = transaction.isolation_level(IsolationLevel::RepeatableRead);
            let transaction = transaction.start().await.map_err(failed(doing))?;
            let found = work(&transaction).await?;
            transaction.commit().await.map_err(failed(doing))?;
            Ok(found)
        };
        let outcome = timeout(PATIENCE, whole).await.unwrap_or_else(|_| Err(late(doing)));
        link.give_back_if_sound(&outcome);
        outcome
    }

    /// The rows of one statement.
    async fn ask(
        &self,
        doing: &'static str,
        sql: &'static str,
        values: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>, StoreError> {
        let mut link = self.link(doing).await?;
        let whole = async {
            let client = link.object();
            let statement = client.prepare_cached(sql).await.map_err(failed(doing))?;
            client.query(&statement, values).await.map_err(failed(doing))
        };
        let outcome = timeout(PATIENCE, whole).await.unwrap_or_else(|_| Err(late(doing)));
        link.give_back_if_sound(&outcome);
        outcome
    }

    async fn link(&self, doing: &'static str) -> Result<Link, StoreError> {
        self.pool.get().await.map(|object| Link(Some(object))).map_err(unconnected(doing))
    }
}

/// The engine's runtime, which may be dropped anywhere.
struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
    fn start() -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("postgres")
            .enable_all()
            .build();
        runtime.map(|runtime| Self(Some(runtime))).map_err(|error| cannot_open(error.to_string()))
    }

    fn handle(&self) -> &Handle {
        self.0.as_ref().expect("it is there until it is dropped").handle()
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        // Ending a runtime waits for its tasks, which a thread of another runtime must not do.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A connection out of the pool. One whose last request did not end well is closed, and so is one that
/// nobody waits for any longer: what it was doing is undone, or its commit is under way.
struct Link(Option<Object>);

impl Link {
    fn object(&mut self) -> &mut Object {
        self.0.as_mut().expect("it is there until the link is dropped")
    }

    /// Puts it back into the pool, unless the outcome says that the connection may be at fault.
    fn give_back_if_sound<T>(mut self, outcome: &Result<T, StoreError>) {
        if !matches!(outcome, Err(StoreError::Unavailable { .. } | StoreError::Engine { .. })) {
            drop(self.0.take());
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

/// Waits for a future on a runtime's behalf. A thread that serves another runtime must not wait itself.
fn wait_on<T: Send, F: Future<Output = T>>(runtime: &Handle, make: impl FnOnce() -> F + Send) -> T {
    if Handle::try_current().is_err() {
        return runtime.block_on(make());
    }
    let waited = std::thread::scope(|scope| scope.spawn(|| runtime.block_on(make())).join());
    waited.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Looks at the database once, before it is used: can it be reached, is its clock right, is its schema ours.
async fn prepare(address: &DatabaseAddress, tls: Tls, migrate: bool) -> Result<(), StoreError> {
    let refused = |error: tokio_postgres::Error| {
        let user = address.user();
        cannot_open(match error.code() {
            Some(code) if *code == SqlState::INVALID_PASSWORD => {
                format!("{address} refuses the password of the role {user}")
            }
            Some(code) if *code == SqlState::INVALID_CATALOG_NAME => {
                format!("there is no such database at {address}: {}", said(&error))
            }
            _ => format!("{address}: {}", said(&error)),
        })
    };
    let (mut client, link) = address.config().connect(tls).await.map_err(refused)?;
    let link = tokio::spawn(link);
    let looked = look(&mut client, migrate).await;
    drop(client);
    let _ = link.await; // it ends with the client, and what it met was told by the requests
    looked
}

async fn look(client: &mut Client, migrate: bool) -> Result<(), StoreError> {
    let clock = "SELECT extract(epoch FROM clock_timestamp())::float8";
    let theirs: f64 = client.query_one(clock, &[]).await.map_err(failed(OPENING))?.get(0);
    judge_clocks(theirs, SystemTime::now())?;
    if migrate {
        migrations::migrate(client, &migrations::MIGRATIONS).await
    } else {
        migrations::check(client, &migrations::MIGRATIONS).await
    }
}

/// Refuses a database whose clock, in seconds since 1970, is far from ours.
fn judge_clocks(theirs: f64, ours: SystemTime) -> Result<(), StoreError> {
    let ours = ours.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    let apart = theirs - ours;
    if apart.abs() <= SKEW.as_secs_f64() {
        return Ok(());
    }
    let (seconds, side) = (apart.abs().round(), if apart > 0.0 { "ahead of" } else { "behind" });
    Err(cannot_open(format!(
        "its clock is {seconds} seconds {side} this machine's, and at most {} are tolerated",
        SKEW.as_secs()
    )))
}

fn cannot_open(reason: String) -> StoreError {
    StoreError::Engine { doing: OPENING, reason }
}
