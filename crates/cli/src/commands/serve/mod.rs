//! `shard serve`: the server, from flags to exit code.

mod bounds;
mod settings;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};
use shard::server::Running;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::output::Output;
use crate::place::refuse_vault;
use settings::{LogFormat, Resolved, Settings};
pub(in crate::commands) use settings::{StoreAddress, storage};

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
    refuse_vault(&arguments.directory)?; // before anything is written into it
    let file = arguments.config.as_deref().map(Settings::read).transpose()?.unwrap_or_default();
    let settings = arguments.settings.clone().resolve(&arguments.directory, file)?;
    let output = Output::new(json);
    if arguments.print_fingerprint {
        let tls = settings.server.tls()?;
        let fingerprint = tls.context("without TLS there is no fingerprint")?.fingerprint();
        output.line(&fingerprint)?;
        return output.result(&json!({ "fingerprint": fingerprint }));
    }
    log_to_standard_error(&settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        // Before the address is told: whoever reads it may send a signal at once.
        let signals = Signals::new()?;
        let running = settings.server.start()?;
        announce(&running, &output, arguments.ready_file.as_deref())?;
        signals.obey(running).await
    });
    // What is left has had its time of grace; stores do not need to be told of an end.
    runtime.shutdown_background();
    served
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
    let levels: Targets = settings
        .log_level
        .parse()
        .with_context(|| format!("{:?} is not a log level", settings.log_level))?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = tracing_subscriber::registry().with(levels);
    match settings.log_format {
        LogFormat::Text => log.with(lines.with_ansi(false)).init(),
        LogFormat::Json => {
            log.with(lines.json().flatten_event(true).with_current_span(false)).init();
        }
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
