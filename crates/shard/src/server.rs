//! A server for others: rows on disk, served over TLS to holders of tokens.
//!
//! [`ServerOptions::start`] serves a directory. The directory also holds tokens ([`TokenPlace`]), the
//! certificate and snapshots; [`RedbRows`] opens the rows of a server that does not run, for
//! compaction and snapshots, and [`verify`] checks them. With the cargo feature `cluster`, rows and blobs may be
//! in PostgreSQL and an object store instead ([`Storage`]), and any number of servers use the same ones.

use std::fs::DirBuilder;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use getrandom::SysRng;
use rand_core::UnwrapErr;
use shard_protocol::Limits;
use shard_server::http::{ClusterOptions, Service, TokenFile, TokenTable, Tokens, start};
pub use shard_server::http::{
    HttpOptions, NewToken, Running, Scope, StartError, Tls, TlsError, Token, TokenError,
    TokenLimits, TokenRecord,
};
pub use shard_server::{BLOCK_BYTES, SESSION_BYTES};
use shard_server::{Maintenance, Server};
pub use shard_store::{
    Compaction, RedbRows, Snapshot, StoreError, StoreOptions, Verification, verify,
};
#[cfg(feature = "cluster")]
pub use shard_store::{DatabaseAddress, Objects, PostgresOptions, PostgresRows};
use shard_store::{Members, RowStore, SharedTokens};

use crate::Error;

/// Rows of one message: more would take the engine longer than a client waits.
const MOST_ROWS: usize = 1 << 16;

/// The port of a server that is not told one.
pub const DEFAULT_PORT: u16 = 7443;

/// A server's directory and everything that can be set.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerOptions {
    /// Rows, tokens, certificate, snapshots; made if need be, for nobody else to read.
    pub directory: PathBuf,
    /// Where rows and blobs are.
    pub storage: Storage,
    /// How servers over one database work together.
    pub peers: PeerOptions,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where the certificate comes from.
    pub certificate: Certificate,
    /// Bytes of session keys kept.
    pub session_bytes: usize,
    /// Bytes of rows kept in memory.
    pub cache_bytes: usize,
    /// Bytes of blocks of blind collections kept in memory.
    pub block_bytes: usize,
    /// Limits and manners on the network.
    pub http: HttpOptions,
}

/// Where rows and blobs are.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Storage {
    /// In a file of the server's directory.
    #[default]
    Directory,
    /// In PostgreSQL, for several servers over the same ones.
    #[cfg(feature = "cluster")]
    Postgres {
        /// The database.
        address: DatabaseAddress,
        /// Where large blobs are, as [`Objects::open`] takes it; in the database without.
        objects: Option<String>,
    },
}

/// How servers over one database work together: each holds a share of the blocks of blind collections, and any
/// of them answers for all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerOptions {
    /// Where the others are listened to; a free port of the address of clients without.
    pub listen: Option<SocketAddr>,
    /// Where the others reach this server, `host:port`; where it listens without.
    pub advertise: Option<String>,
    /// How many servers hold each block: one or two.
    pub replicas: usize,
}

impl Default for PeerOptions {
    fn default() -> Self {
        Self { listen: None, advertise: None, replicas: 1 }
    }
}

/// Where the certificate comes from.
#[derive(Clone, PartialEq, Debug)]
pub enum Certificate {
    /// No TLS; loopback addresses only.
    None,
    /// Files in PEM form.
    Given {
        /// The chain, the server's own first.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
    /// Made on the first start, for this machine's own names and these.
    Made {
        /// Names and addresses.
        names: Vec<String>,
    },
}

impl ServerOptions {
    /// The defaults: port 7443 of this machine only, under a certificate of its own making.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            storage: Storage::default(),
            peers: PeerOptions::default(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)),
            certificate: Certificate::Made { names: Vec::new() },
            session_bytes: SESSION_BYTES,
            cache_bytes: StoreOptions::default().cache_bytes,
            block_bytes: BLOCK_BYTES,
            http: HttpOptions::default(),
        }
    }

    /// Reads the certificate, or makes it; `None` without TLS.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn tls(&self) -> Result<Option<Tls>, Error> {
        Ok(match &self.certificate {
            Certificate::None => None,
            Certificate::Given { certificate, key } => Some(Tls::open(certificate, key)?),
            Certificate::Made { names } => {
                make_private(&self.directory)?;
                let ip = self.listen.ip();
                let mut all: Vec<String> =
                    ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
                if !ip.is_unspecified() {
                    all.push(ip.to_string());
                }
                all.extend(names.iter().cloned());
                let mut seen = std::collections::HashSet::new();
                all.retain(|name| seen.insert(name.clone()));
                Some(Tls::open_or_generate(&self.directory.join("tls"), &all)?)
            }
        })
    }

    /// Starts to serve. Must be called within a Tokio runtime, and the server runs on it until it
    /// is [shut down](Running::shut_down).
    ///
    /// # Errors
    /// When the directory is another server's at the moment or damaged, the address is taken, or an
    /// address that others can reach is without TLS or tokens.
    pub fn start(self) -> Result<Running, Error> {
        make_private(&self.directory)?;
        let tls = self.tls()?;
        let address = self.listen;
        let listener =
            TcpListener::bind(address).map_err(|source| Error::Listen { address, source })?;
        let Opened { rows, maintenance, members, tokens } = self.open_storage()?;
        let cluster = members.map(|members| self.cluster(members)).transpose()?;
        let limits = Limits { bytes: self.http.body_bytes, rows: MOST_ROWS, ..Limits::default() };
        let file = TokenFile::of(&self.directory);
        let tokens = match tokens {
            Some(table) if file.load()?.is_empty() => Tokens::shared(TokenTable::of(table))?,
            Some(_) => return Err(Error::TokensAside { path: file.path().to_owned() }),
            None => Tokens::open(file)?,
        };
        let open = !tokens.are_required();
        let server = Server::new(rows, limits)
            .with_session_bytes(self.session_bytes)
            .with_block_bytes(self.block_bytes);
        let running = start(
            listener,
            Service {
                server,
                maintenance,
                tokens,
                tls,
                snapshots: self.directory.join("snapshots"),
                cluster,
                options: self.http,
            },
        )?;
        if open {
            tracing::warn!("no tokens: whoever can reach this loopback address may read and write");
        }
        Ok(running)
    }

    fn cluster(&self, members: Arc<dyn Members>) -> Result<ClusterOptions, Error> {
        let PeerOptions { listen, advertise, replicas } = self.peers.clone();
        let listen = listen.unwrap_or(SocketAddr::new(self.listen.ip(), 0));
        if listen.ip().is_unspecified() && advertise.is_none() {
            return Err(Error::Unreachable { listen });
        }
        let renewal = ClusterOptions::RENEWAL;
        Ok(ClusterOptions { members, listen, advertise, replicas, renewal })
    }

    fn open_storage(&self) -> Result<Opened, Error> {
        match &self.storage {
            Storage::Directory => {
                let cache_bytes = self.cache_bytes;
                let options = StoreOptions { cache_bytes, ..StoreOptions::default() };
                let rows = Arc::new(RedbRows::open(&self.directory, options)?);
                Ok(Opened { rows: rows.clone(), maintenance: rows, members: None, tokens: None })
            }
            #[cfg(feature = "cluster")]
            Storage::Postgres { address, objects } => {
                let objects = objects.as_deref().map(Objects::open).transpose()?;
                let cache_bytes = self.cache_bytes;
                let options =
                    PostgresOptions { cache_bytes, objects, ..PostgresOptions::default() };
                let rows = Arc::new(PostgresRows::open(address, options)?);
                let members = Some(rows.clone() as Arc<dyn Members>);
                let tokens = Some(rows.clone() as Arc<dyn SharedTokens>);
                Ok(Opened { rows: rows.clone(), maintenance: rows, members, tokens })
            }
        }
    }
}

/// An engine that was opened.
struct Opened {
    rows: Arc<dyn RowStore>,
    maintenance: Arc<dyn Maintenance>,
    /// The leases of servers, where several may work on it.
    members: Option<Arc<dyn Members>>,
    /// Their tokens.
    tokens: Option<Arc<dyn SharedTokens>>,
}

/// Where the tokens of a server are.
#[derive(Clone, PartialEq, Debug)]
pub enum TokenPlace {
    /// In a file of its directory, which is made if need be.
    Directory(PathBuf),
    /// In the database of servers over one, whose schema is made or migrated when a token is; to list and to revoke
    /// tokens it must be of this program's version.
    #[cfg(feature = "cluster")]
    Database(DatabaseAddress),
}

impl TokenPlace {
    /// Makes a token. What is stored does not say what it is.
    ///
    /// # Errors
    /// When tokens cannot be read or written.
    pub fn create(&self, new: &NewToken) -> Result<(TokenRecord, Token), Error> {
        let rng = &mut UnwrapErr(SysRng);
        Ok(match self {
            Self::Directory(directory) => {
                make_private(directory)?;
                TokenFile::of(directory).create(new, rng)?
            }
            #[cfg(feature = "cluster")]
            Self::Database(address) => table(address, true)?.create(new, rng)?,
        })
    }

    /// All tokens.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn list(&self) -> Result<Vec<TokenRecord>, Error> {
        Ok(match self {
            Self::Directory(directory) => TokenFile::of(directory).load()?,
            #[cfg(feature = "cluster")]
            Self::Database(address) => table(address, false)?.load()?,
        })
    }

    /// Voids a token.
    ///
    /// # Errors
    /// When there is none of that id, or tokens cannot be written.
    pub fn revoke(&self, id: &str) -> Result<(), Error> {
        match self {
            Self::Directory(directory) => TokenFile::of(directory).revoke(id)?,
            #[cfg(feature = "cluster")]
            Self::Database(address) => table(address, false)?.revoke(id)?,
        }
        Ok(())
    }
}

#[cfg(feature = "cluster")]
fn table(address: &DatabaseAddress, migrate: bool) -> Result<TokenTable, Error> {
    let options = PostgresOptions { connections: 1, migrate, ..PostgresOptions::default() };
    Ok(TokenTable::of(Arc::new(PostgresRows::open(address, options)?)))
}

/// Makes a server's directory, which is nobody else's to read.
fn make_private(directory: &Path) -> Result<(), Error> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory).map_err(Error::cannot_write(directory))
}
