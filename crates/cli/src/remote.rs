//! The server on the network, as the command line names it.

use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use shard_client::Collection;
use shard_client::remote::{
    Fingerprint, Progress, ProxyAddress, Remote, RemoteOptions, SecretToken, ServerAddress,
    backup_head, describe, vault_revision,
};
use zeroize::Zeroizing;

use crate::interrupt;
use crate::output::{bytes, grouped, note};

const TOKEN_VARIABLE: &str = "SHARD_TOKEN";

/// How to reach a server. A token is never on the command line, which others can read.
#[derive(Args)]
pub struct ConnectionArguments {
    /// File with the server's token (otherwise: SHARD_TOKEN)
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Fingerprint of the server's certificate, as `shard serve` prints it: `sha256:HEX`
    #[arg(long, value_name = "FINGERPRINT", env = "SHARD_PIN")]
    pub pin: Option<Fingerprint>,
    /// Certificates to trust in place of the platform's, in PEM
    #[arg(long, value_name = "FILE", conflicts_with = "pin")]
    pub ca: Option<PathBuf>,
    /// Proxy, http:// or socks5:// [default: what the environment names]
    #[arg(long, value_name = "URL")]
    pub proxy: Option<String>,
}

/// The server and how to reach it, where there must be one.
#[derive(Args)]
pub struct ServerArguments {
    /// Server and collection: https://HOST:PORT/NAME
    #[arg(long, value_name = "URL", env = "SHARD_SERVER")]
    pub server: ServerAddress,
    #[command(flatten)]
    pub connection: ConnectionArguments,
}

impl ServerArguments {
    /// Makes ready to talk to the server.
    pub fn connect(&self) -> Result<Remote> {
        connect(&self.server, &self.connection)
    }
}

/// Makes ready to talk to a server.
pub fn connect(address: &ServerAddress, arguments: &ConnectionArguments) -> Result<Remote> {
    let proxy = arguments.proxy.as_deref().map(str::parse::<ProxyAddress>).transpose()?;
    let options = RemoteOptions {
        token: token(arguments)?,
        pin: arguments.pin,
        ca_file: arguments.ca.clone(),
        proxy,
        ..RemoteOptions::new(address.clone())
    };
    Ok(Remote::connect(options)?)
}

fn token(arguments: &ConnectionArguments) -> Result<Option<SecretToken>> {
    let text = match (&arguments.token_file, std::env::var(TOKEN_VARIABLE)) {
        (Some(path), _) => std::fs::read_to_string(path)
            .with_context(|| format!("cannot read token file {}", path.display()))?,
        (None, Ok(text)) => text,
        (None, Err(std::env::VarError::NotPresent)) => return Ok(None),
        (None, Err(_)) => bail!("{TOKEN_VARIABLE} is not valid UTF-8"),
    };
    Ok(Some(SecretToken::new(&Zeroizing::new(text))?))
}

/// Says so when the server has seen a later state of the vault.
pub fn warn_if_outdated(remote: &Remote, collection: &Collection) {
    let ours = vault_revision(collection);
    if let Some(seen) = remote.revision_seen().filter(|seen| *seen > ours) {
        note(&format!(
            "warning: this vault is older than what {} holds (revision {ours}, and {seen} was \
             published): documents may be missing; use the latest copy or `shard restore`",
            remote.address()
        ));
    }
}

/// Moves a bar along, until Ctrl-C.
pub fn follow(bar: &ProgressBar) -> impl Fn(Progress) -> ControlFlow<()> + Sync {
    let bar = bar.clone();
    move |progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        match interrupt::is_stopped() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// What a server holds beside a vault.
#[derive(Serialize)]
pub struct ServerStatus {
    /// The server and the collection.
    pub server: String,
    /// Latest revision published.
    pub revision: u64,
    /// The revision of the vault.
    pub vault_revision: u64,
    /// The epoch that is searched.
    pub epoch: Option<u64>,
    /// Rows of that epoch, canaries included.
    pub rows: u64,
    /// Epochs that are being published.
    pub pending: Vec<u64>,
    /// Generation and bytes of the backup, where there is one.
    pub backup: Option<BackupStatus>,
}

/// A backup in figures.
#[derive(Serialize)]
pub struct BackupStatus {
    /// Generation of the vault.
    pub generation: u64,
    /// Bytes of its files.
    pub bytes: u64,
}

/// Asks a server what it holds. `shard status --server` prints [`ServerStatus::lines`] and puts
/// the value under `server` in its JSON.
pub fn server_status(remote: &Remote, collection: &Collection) -> Result<ServerStatus> {
    let state = describe(remote)?;
    let backup = backup_head(remote)?
        .map(|head| BackupStatus { generation: head.generation(), bytes: head.bytes() });
    let current = |epoch: &&shard_protocol::EpochState| Some(epoch.epoch) == state.current;
    Ok(ServerStatus {
        server: remote.address().to_string(),
        revision: state.revision.0,
        vault_revision: vault_revision(collection).0,
        epoch: state.current.map(|epoch| epoch.0),
        rows: state.epochs.iter().find(current).map_or(0, |held| held.rows),
        pending: state.epochs.iter().filter(|held| !current(held)).map(|h| h.epoch.0).collect(),
        backup,
    })
}

impl ServerStatus {
    /// The status for a person.
    pub fn lines(&self) -> Vec<String> {
        let published = match self.epoch {
            None => "nothing was published yet: shard publish".to_owned(),
            Some(epoch) => {
                let rows = grouped(self.rows as usize);
                let state = match self.revision.cmp(&self.vault_revision) {
                    std::cmp::Ordering::Equal => "as in the vault".to_owned(),
                    std::cmp::Ordering::Less => {
                        format!("the vault is at {}: shard publish", self.vault_revision)
                    }
                    std::cmp::Ordering::Greater => {
                        format!("the vault is at {}: it is out of date", self.vault_revision)
                    }
                };
                format!("{rows} rows of epoch {epoch}, revision {} ({state})", self.revision)
            }
        };
        let backup = match &self.backup {
            None => "none: shard backup".to_owned(),
            Some(kept) => format!("generation {}, {}", kept.generation, bytes(kept.bytes as f64)),
        };
        let mut lines = vec![
            format!("server       {}", self.server),
            format!("published    {published}"),
            format!("backup       {backup}"),
        ];
        if !self.pending.is_empty() {
            lines.push(format!("unfinished   epoch {:?}: shard publish", self.pending));
        }
        lines
    }
}
