//! `shard serve`: the server, from flags to exit code.

mod bounds;
mod engine;
mod settings;

use std::fs::DirBuilder;
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde_json::{Value, json};
use shard_protocol::Limits;
use shard_server::Server;
use shard_server::http::{Running, Service, StartError, Tls, TokenFile, Tokens, start};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::output::Output;
use settings::{Certificate, LogFormat, Resolved, Settings};

/// Rows of one message: more would take the engine longer than a client waits.
const MOST_ROWS: usize = 1 << 16;

/// What a second signal ends with.
const CUT_OFF: &str = "ended by a second signal: requests under way were cut off";

#[derive(Args)]
pub struct Serve {
    /// The server's directory: rows, tokens, certificate, snapshots
    pub directory: PathBuf,
    /// File with settings, under the names of the flags; flags win
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Write address and fingerprint as JSON to FILE once requests are welcome
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// Print the certificate's fingerprint, made now if there is none, and do not serve
    #[arg(long)]
    print_fingerprint: bool,
    #[command(flatten)]
    settings: Settings,
}

pub fn run(arguments: &Serve, json: Option<&Path>) -> Result<()> {
    let file = arguments.config.as_deref().map(Settings::read).transpose()?.unwrap_or_default();
    let settings = arguments.settings.clone().resolve(file)?;
    let directory = &arguments.directory;
    make_private(directory)?;
    let tls = certificate(directory, &settings)?;
    let output = Output::new(json);
    if arguments.print_fingerprint {
        let fingerprint = tls.context("without TLS there is no fingerprint")?.fingerprint();
        output.line(&fingerprint)?;
        return output.result(&json!({ "fingerprint": fingerprint }));
    }
    log_to_standard_error(&settings)?;
    let listener = TcpListener::bind(settings.listen)
        .with_context(|| format!("cannot listen on {}", settings.listen))?;
    let engine = engine::open(directory, settings.cache_bytes)?;
    let limits = Limits { bytes: settings.http.body_bytes, rows: MOST_ROWS, ..Limits::default() };
    let tokens = Tokens::open(TokenFile::of(directory))?;
    let open = !tokens.are_required();
    let service = Service {
        server: Server::new(engine.rows, limits).with_session_bytes(settings.session_bytes),
        maintenance: engine.maintenance,
        tokens,
        tls,
        snapshots: directory.join("snapshots"),
        options: settings.http,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        // Before the address is told: whoever reads it may send a signal at once.
        let signals = Signals::new()?;
        let running = start(listener, service).map_err(with_hint)?;
        announce(&running, &output, arguments.ready_file.as_deref())?;
        if open {
            tracing::warn!("no tokens: whoever can reach this loopback address may read and write");
        }
        signals.obey(running).await
    });
    // What is left has had its time of grace; engines do not need to be told of an end.
    runtime.shutdown_background();
    served
}

/// Makes a server's directory, which is nobody else's to read.
pub fn make_private(directory: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))
}

fn certificate(directory: &Path, settings: &Resolved) -> Result<Option<Tls>> {
    Ok(match &settings.certificate {
        Certificate::None => None,
        Certificate::Given { certificate, key } => Some(Tls::open(certificate, key)?),
        Certificate::Made { names } => {
            let ip = settings.listen.ip();
            let mut all = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
            if !ip.is_unspecified() {
                all.push(ip.to_string());
            }
            all.extend(names.iter().cloned());
            let mut seen = std::collections::HashSet::new();
            all.retain(|name| seen.insert(name.clone()));
            Some(Tls::open_or_generate(&directory.join("tls"), &all)?)
        }
    })
}

/// Says where the server is: the address on the first line, the fingerprint to pin on the second.
fn announce(running: &Running, output: &Output<'_>, ready_file: Option<&Path>) -> Result<()> {
    let (address, fingerprint) = (running.address(), running.fingerprint());
    let scheme = if fingerprint.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    let report = json!({
        "url": url,
        "address": address.to_string(),
        "fingerprint": fingerprint,
        "process": std::process::id(),
    });
    if let Some(path) = ready_file {
        write_whole(path, &report)?;
    }
    output.line(format!("listening on {url}"))?;
    if let Some(fingerprint) = &fingerprint {
        output.line(format!("fingerprint {fingerprint}"))?;
    }
    output.result(&report)
}

/// Whoever waits for the file finds all of it or nothing.
fn write_whole(path: &Path, report: &Value) -> Result<()> {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, format!("{report}\n"))
        .and_then(|()| std::fs::rename(&partial, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn log_to_standard_error(settings: &Resolved) -> Result<()> {
    let filter = EnvFilter::try_new(&settings.log_level)
        .with_context(|| format!("{:?} is not a log level", settings.log_level))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match settings.log_format {
        LogFormat::Text => log.with_ansi(false).init(),
        LogFormat::Json => log.json().flatten_event(true).with_current_span(false).init(),
    }
    Ok(())
}

/// SIGTERM and SIGINT end the server, the second of them at once; SIGHUP makes it read certificate
/// and tokens again.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn obey(mut self, running: Running) -> Result<()> {
        loop {
            tokio::select! {
                _ = self.hangup.recv() => running.reload(),
                _ = self.terminate.recv() => break,
                _ = self.interrupt.recv() => break,
            }
        }
        tracing::info!("shutting down; a second signal ends at once");
        tokio::select! {
            ended = running.shut_down() => Ok(ended?),
            _ = self.terminate.recv() => bail!(CUT_OFF),
            _ = self.interrupt.recv() => bail!(CUT_OFF),
        }
    }
}

/// Says which flag or command mends it.
fn with_hint(error: StartError) -> anyhow::Error {
    match error {
        StartError::PublicWithoutTls(_) => anyhow!("{error} (leave out --plain)"),
        StartError::PublicWithoutToken(_) => anyhow!("{error} (`shard token create` makes one)"),
        error => error.into(),
    }
}
