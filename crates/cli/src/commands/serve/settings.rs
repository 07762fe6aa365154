//! Flags and `shard.toml`: one list, flags first, then the file, then defaults.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::Deserialize;
#[cfg(feature = "cluster")]
use shard::server::DatabaseAddress;
use shard::server::{Certificate, HttpOptions, PeerOptions, ServerOptions, Storage};

use super::bounds::{KIB, MIB, bytes, count, not_zero, pause, time};
use crate::args::positive;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One readable line per request
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// The address of a database. It may hold a password, and is not printed.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(from = "String")]
pub struct StoreAddress(zeroize::Zeroizing<String>);

impl From<String> for StoreAddress {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl std::str::FromStr for StoreAddress {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.to_owned().into())
    }
}

impl std::fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoreAddress(redacted)")
    }
}

/// Where rows and blobs are.
#[cfg(feature = "cluster")]
pub(in crate::commands) fn storage(
    store: Option<StoreAddress>,
    objects: Option<String>,
) -> Result<Storage> {
    let Some(StoreAddress(address)) = store else {
        if objects.is_some() {
            bail!("objects go with a store: give --store postgres://... too");
        }
        return Ok(Storage::Directory);
    };
    if !address.starts_with("postgres://") && !address.starts_with("postgresql://") {
        bail!("store takes the address of a database, postgres://user@host/database");
    }
    let password = std::env::var(POSTGRES_PASSWORD).ok().map(zeroize::Zeroizing::new);
    let address = DatabaseAddress::parse(&address, password.as_ref().map(|text| text.as_str()))?;
    Ok(Storage::Postgres { address, objects })
}

/// How this server works beside others over the same database.
fn peers(set: &Settings) -> Result<PeerOptions> {
    let has_store = set.store.is_some();
    let given = [
        ("peers-listen", set.peers_listen.is_some()),
        ("peers-advertise", set.peers_advertise.is_some()),
        ("replicas", set.replicas.is_some()),
    ];
    if let Some((name, _)) = given.iter().find(|(_, given)| *given && !has_store) {
        bail!("{name} is for servers over one database: give --store postgres://... too");
    }
    let replicas = set.replicas.unwrap_or(1);
    if !(1..=2).contains(&replicas) {
        bail!("replicas must be 1 or 2, not {replicas}");
    }
    Ok(PeerOptions {
        listen: set.peers_listen,
        advertise: set.peers_advertise.clone(),
        replicas: replicas.into(),
    })
}

/// The variable that PostgreSQL's own programs take a password from.
#[cfg(feature = "cluster")]
const POSTGRES_PASSWORD: &str = "PGPASSWORD";

#[cfg(not(feature = "cluster"))]
pub(in crate::commands) fn storage(
    store: Option<StoreAddress>,
    objects: Option<String>,
) -> Result<Storage> {
    if store.is_some() || objects.is_some() {
        bail!("this program was built without the cargo feature `cluster`, which --store needs");
    }
    Ok(Storage::Directory)
}

macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $(#[arg($($arg:tt)*)])? $field:ident: $type:ty,)+) => {
        /// What can be set by flag or in the file, under the same name.
        #[derive(Args, Deserialize, Default, Clone, PartialEq, Debug)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
        pub struct Settings {
            $($(#[doc = $doc])+ #[arg(long, $($($arg)*)?)] pub $field: Option<$type>,)+
        }

        impl Settings {
            /// What is set here, and from the other what is not.
            fn or(self, other: Self) -> Self {
                Self { $($field: self.$field.or(other.$field),)+ }
            }
        }
    };
}

settings! {
    /// Address to listen on; port 0 takes a free one [default: 127.0.0.1:7443]
    #[arg(value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Keep rows and blobs in a database, postgres://user@host1,host2/database, that several servers may
    /// share [default: in DIR]; a password is best in PGPASSWORD
    #[arg(value_name = "URL", env = "SHARD_STORE", hide_env_values = true)]
    store: StoreAddress,
    /// Keep large blobs of that database in an object store: s3://bucket/prefix, gs://, az:// or
    /// file:///directory; credentials come from the environment
    #[arg(value_name = "URL", env = "SHARD_OBJECTS")]
    objects: String,
    /// Address to listen on for other servers over the same database [default: a free port of the address
    /// for clients]
    #[arg(value_name = "ADDRESS:PORT")]
    peers_listen: SocketAddr,
    /// Where the other servers reach this one, if that is another address
    #[arg(value_name = "HOST:PORT")]
    peers_advertise: String,
    /// How many servers hold each block of blind collections: 1 or 2 [default: 1]
    #[arg(value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=2))]
    replicas: u8,
    /// Serve without TLS; loopback addresses only
    #[arg(
        num_args = 0..=1,
        default_missing_value = "true",
        require_equals = true,
        value_name = "BOOL"
    )]
    plain: bool,
    /// Chain of certificates in PEM form, the server's own first [default: one is made in DIR/tls]
    #[arg(value_name = "FILE")]
    tls_cert: PathBuf,
    /// Key of the certificate in PEM form
    #[arg(value_name = "FILE")]
    tls_key: PathBuf,
    /// Names and addresses that a new certificate is for, besides localhost and the listening
    /// address
    #[arg(value_name = "NAME", value_delimiter = ',')]
    tls_names: Vec<String>,
    /// Longest body, in MiB [default: 64]
    #[arg(value_name = "MIB", value_parser = positive)]
    max_body_mib: usize,
    /// Bodies in memory at a time, requests and answers, in MiB [default: 256]
    #[arg(value_name = "MIB", value_parser = positive)]
    max_held_mib: usize,
    /// Memory for the keys of sessions, in MiB [default: 256]
    #[arg(value_name = "MIB", value_parser = positive)]
    session_mib: usize,
    /// Memory for rows that are ready to be scored, in MiB [default: 256]
    #[arg(value_name = "MIB", value_parser = positive)]
    cache_mib: usize,
    /// Memory for the blocks of blind collections, all of which are held ready, in MiB [default: 8192]
    #[arg(value_name = "MIB", value_parser = positive)]
    block_mib: usize,
    /// Connections at a time [default: 512]
    #[arg(value_name = "COUNT", value_parser = positive)]
    max_connections: usize,
    /// Connections at a time from one IPv4 address or one IPv6 network of 64 bits [default: 64]
    #[arg(value_name = "COUNT", value_parser = positive)]
    max_connections_per_address: usize,
    /// Requests at a time on one HTTP/2 connection [default: 64]
    #[arg(value_name = "COUNT")]
    max_streams: u32,
    /// Headers of a request, in KiB [default: 16]
    #[arg(value_name = "KIB", value_parser = positive)]
    max_header_kib: usize,
    /// Time for a TLS handshake, in seconds [default: 10]
    #[arg(value_name = "SECONDS")]
    handshake_timeout: u64,
    /// Time for the headers of a request, and between two on an HTTP/1 connection, in seconds
    /// [default: 30]
    #[arg(value_name = "SECONDS")]
    header_timeout: u64,
    /// Time after which a connection on which nothing moves is closed, in seconds [default: 75]
    #[arg(value_name = "SECONDS")]
    idle_timeout: u64,
    /// Time for a body, and again for its place in the queue, in seconds [default: 10]
    #[arg(value_name = "SECONDS")]
    request_timeout: u64,
    /// Requests that are computed at a time, besides one change; 0 for one per core, at least eight and at
    /// most sixteen, above 128 cores one for every eight of them [default: 0]
    #[arg(value_name = "COUNT")]
    workers: usize,
    /// Requests that wait for a worker before others are told to come back, at most three quarters of them of
    /// one collection [default: 64]
    #[arg(value_name = "COUNT")]
    queue: usize,
    /// Threads that one request is spread over, each worker's own; 0 for all cores, up to eight [default: 0]
    #[arg(value_name = "COUNT")]
    threads_per_request: usize,
    /// Time between the announcement of a shutdown on /readyz and its beginning, in seconds
    /// [default: 0]
    #[arg(value_name = "SECONDS")]
    drain: u64,
    /// Time that accepted requests have to finish in a shutdown, in seconds [default: 30]
    #[arg(value_name = "SECONDS")]
    grace: u64,
    /// How often the engine is asked whether it wants compaction, in seconds; 0 for never [default:
    /// 60]
    #[arg(value_name = "SECONDS")]
    compaction_interval: u64,
    /// Form of the log on standard error [default: text]
    #[arg(value_enum)]
    log_format: LogFormat,
    /// Least severity that is logged: error, warn, info, debug, or levels by module such as
    /// `warn,shard_server=debug` [default: info]
    #[arg(value_name = "LEVEL")]
    log_level: String,
    /// Log the addresses of peers
    #[arg(
        num_args = 0..=1,
        default_missing_value = "true",
        require_equals = true,
        value_name = "BOOL"
    )]
    log_addresses: bool,
    /// Log the names of collections and the words of refusals, which may name rows, cells and
    /// epochs
    #[arg(
        num_args = 0..=1,
        default_missing_value = "true",
        require_equals = true,
        value_name = "BOOL"
    )]
    log_details: bool,
}

/// Settings with nothing left open.
#[derive(Clone, PartialEq, Debug)]
pub struct Resolved {
    pub server: ServerOptions,
    pub log_format: LogFormat,
    pub log_level: String,
}

impl Settings {
    /// Reads a file of settings.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is not a file of settings", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
            let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            anyhow::anyhow!("{place}{}", error.message().replace('\n', " "))
        })
    }

    /// These, then those of a file, then the defaults.
    pub fn resolve(self, directory: &Path, file: Self) -> Result<Resolved> {
        let set = self.or(file);
        let server = ServerOptions::new(directory);
        let defaults = &server.http;
        let peers = peers(&set)?;
        let certificate = match (set.tls_cert, set.tls_key) {
            _ if set.plain == Some(true) => Certificate::None,
            (Some(certificate), Some(key)) => Certificate::Given { certificate, key },
            (None, None) => Certificate::Made { names: set.tls_names.unwrap_or_default() },
            _ => bail!("tls-cert and tls-key go together: give both or neither"),
        };
        let server = ServerOptions {
            directory: server.directory,
            peers,
            storage: storage(set.store, set.objects)?,
            listen: set.listen.unwrap_or(server.listen),
            certificate,
            session_bytes: bytes("session-mib", set.session_mib, MIB, server.session_bytes)?,
            cache_bytes: bytes("cache-mib", set.cache_mib, MIB, server.cache_bytes)?,
            block_bytes: bytes("block-mib", set.block_mib, MIB, server.block_bytes)?,
            http: HttpOptions {
                body_bytes: bytes("max-body-mib", set.max_body_mib, MIB, defaults.body_bytes)?,
                held_bytes: bytes("max-held-mib", set.max_held_mib, MIB, defaults.held_bytes)?,
                connections: count("max-connections", set.max_connections, defaults.connections)?,
                connections_per_address: count(
                    "max-connections-per-address",
                    set.max_connections_per_address,
                    defaults.connections_per_address,
                )?,
                streams: not_zero("max-streams", set.max_streams.unwrap_or(defaults.streams))?,
                header_bytes: bytes(
                    "max-header-kib",
                    set.max_header_kib,
                    KIB,
                    defaults.header_bytes,
                )?,
                handshake_timeout: time(
                    "handshake-timeout",
                    set.handshake_timeout,
                    defaults.handshake_timeout,
                )?,
                header_timeout: time(
                    "header-timeout",
                    set.header_timeout,
                    defaults.header_timeout,
                )?,
                idle_timeout: time("idle-timeout", set.idle_timeout, defaults.idle_timeout)?,
                request_timeout: time(
                    "request-timeout",
                    set.request_timeout,
                    defaults.request_timeout,
                )?,
                workers: count(
                    "workers",
                    set.workers.filter(|&workers| workers > 0),
                    defaults.workers,
                )?,
                queue: set.queue.unwrap_or(defaults.queue),
                threads_per_request: count(
                    "threads-per-request",
                    set.threads_per_request.filter(|&threads| threads > 0),
                    defaults.threads_per_request,
                )?,
                load_timeout: defaults.load_timeout,
                drain: pause("drain", set.drain, defaults.drain)?,
                grace: pause("grace", set.grace, defaults.grace)?,
                compaction_interval: pause(
                    "compaction-interval",
                    set.compaction_interval,
                    defaults.compaction_interval,
                )?,
                log_addresses: set.log_addresses.unwrap_or(defaults.log_addresses),
                log_details: set.log_details.unwrap_or(defaults.log_details),
            },
        };
        let HttpOptions { body_bytes, held_bytes, .. } = server.http;
        if body_bytes > held_bytes {
            let (body, held) = (body_bytes / MIB, held_bytes / MIB);
            bail!(
                "max-body-mib is {body} and max-held-mib {held}: the longest body would never fit; \
                 raise max-held-mib or lower max-body-mib"
            );
        }
        Ok(Resolved {
            server,
            log_format: set.log_format.unwrap_or_default(),
            log_level: set.log_level.unwrap_or_else(|| "info".to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use clap::CommandFactory;

    const SHIPPED: &str = include_str!("../../../../../packaging/shard.toml");

    fn resolve(flags: Settings, file: Settings) -> Result<Resolved> {
        flags.resolve(Path::new("server"), file)
    }

    fn resolved(text: &str) -> Resolved {
        resolve(Settings::default(), Settings::parse(text).unwrap()).unwrap()
    }

    #[test]
    fn the_shipped_file_holds_the_defaults() {
        assert_eq!(resolved(SHIPPED), resolved(""));
    }

    #[test]
    fn the_shipped_file_names_every_flag() {
        let command = crate::args::Arguments::command();
        let serve = command.find_subcommand("serve").expect("there is a command serve");
        let lines: Vec<&str> = SHIPPED.lines().map(|line| line.trim_start_matches("# ")).collect();
        for flag in serve.get_arguments().filter_map(|argument| argument.get_long()) {
            if ["help", "version", "config", "json", "ready-file", "print-fingerprint"]
                .contains(&flag)
            {
                continue;
            }
            let named = lines.iter().any(|line| line.starts_with(&format!("{flag} = ")));
            assert!(named, "packaging/shard.toml does not name {flag}");
        }
    }

    #[test]
    fn flags_win_over_the_file() {
        let flags = Settings { queue: Some(7), ..Settings::default() };
        let file = Settings::parse("queue = 9\ngrace = 3").unwrap();
        let http = resolve(flags, file).unwrap().server.http;
        assert_eq!((http.queue, http.grace), (7, Duration::from_secs(3)));
    }

    #[test]
    fn a_misspelt_setting_is_an_error_that_names_it() {
        let error = format!("{:#}", Settings::parse("grace = 3\nqueu = 9").unwrap_err());
        assert!(error.contains("line 2") && error.contains("queu"), "{error}");
    }

    #[cfg(feature = "cluster")]
    #[test]
    fn a_password_in_an_address_is_not_printed() {
        let settings = Settings::parse("store = \"postgres://me:secret@one,two/db\"").unwrap();
        assert!(!format!("{settings:?}").contains("secret"));
        let resolved = resolve(Settings::default(), settings).unwrap();
        let shown = format!("{resolved:?}");
        assert!(shown.contains("one,two/db") && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn a_certificate_needs_its_key() {
        let half = Settings::parse("tls-cert = \"a.pem\"").unwrap();
        assert!(resolve(Settings::default(), half).is_err());
    }
    #[test]
    fn settings_that_cannot_work_are_refused_in_words() {
        for (text, words) in [
            ("max-body-mib = 65\nmax-held-mib = 64", "max-body-mib is 65 and max-held-mib 64"),
            #[cfg(feature = "cluster")]
            ("store = \"redis://me:secret@host\"", "store takes the address of a database"),
            #[cfg(feature = "cluster")]
            ("objects = \"s3://bucket\"", "objects go with a store"),
            ("max-held-mib = 0", "max-held-mib must be at least 1"),
            ("max-streams = 0", "max-streams must be at least 1"),
            ("idle-timeout = 0", "idle-timeout must be at least 1"),
            ("cache-mib = 9000000000000000000", "cache-mib must be at most"),
            ("block-mib = 0", "block-mib must be at least 1"),
            ("max-connections = 9000000000000000000", "max-connections must be at most"),
            ("max-connections-per-address = 0", "max-connections-per-address must be at least 1"),
            ("grace = 9000000000000000000", "grace must be at most 31536000 seconds"),
        ] {
            let file = Settings::parse(text).unwrap();
            let refused = resolve(Settings::default(), file).unwrap_err();
            assert!(refused.to_string().contains(words), "{text}: {refused}");
        }
        assert_eq!(resolved("grace = 0\nqueue = 0").server.http.grace, Duration::ZERO);
        assert_eq!(resolved("block-mib = 3").server.block_bytes, 3 << 20);
    }
}
