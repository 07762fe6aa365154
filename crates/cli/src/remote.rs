//! The server on the network, as the command line names it.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use shard::remote::{
    EpochState, Fingerprint, ProxyAddress, Remote, RemoteError, RemoteOptions, SecretToken,
    ServerAddress, Timeouts, backup_head, describe,
};
use shard::{ClientError, Collection, VaultAccess};
use zeroize::Zeroizing;

use crate::output::{bytes, grouped, note, printable};

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
    /// Longest time for a request, everything that is repeated included, in seconds; one above
    /// 1 MiB is given a second more for every further 32 KiB [default: 120; 600 for what an
    /// operator asks of a running server]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub deadline: Option<u64>,
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
        timeouts: arguments.deadline.map_or_else(Timeouts::default, |seconds| {
            Timeouts::within(Duration::from_secs(seconds))
        }),
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

/// Says so when the server has seen a later state of the vault, or not yet the present one.
pub fn warn_if_apart(remote: &Remote, collection: &Collection) {
    let (ours, server) = (collection.revision(), remote.address());
    let Some(seen) = remote.revision_seen() else { return };
    match (seen.cmp(&ours), collection.access()) {
        (Ordering::Equal, _) => {}
        (Ordering::Greater, access) => note(&format!(
            "warning: this vault is older than what {server} holds (revision {ours}, and {seen} \
             was published): documents may be missing; {}",
            match access {
                VaultAccess::Owner => "use the latest copy or `shard restore`",
                VaultAccess::Query => "ask its owner for a new one (shard export)",
            }
        )),
        (Ordering::Less, VaultAccess::Owner) => note(&format!(
            "warning: this vault has changes that are not published at {server} (revision {ours}, \
             and {seen} was published): shard publish"
        )),
        (Ordering::Less, VaultAccess::Query) => note(&format!(
            "warning: this vault has changes that its owner has not published at {server} yet \
             (revision {ours}, and {seen} was published)"
        )),
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
    /// What the server has noticed to be damaged of the collection.
    pub damage: Option<String>,
    /// Generation and bytes of the backup, where there is one and the token shows it.
    pub backup: Option<BackupStatus>,
    /// Whether the token shows it.
    pub backup_shown: bool,
    /// Who is told.
    #[serde(skip)]
    access: VaultAccess,
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
    let (backup, backup_shown) = match backup_head(remote) {
        Ok(head) => (head, true),
        // Who may only read is not given the owner's backup.
        Err(ClientError::Remote(RemoteError::Forbidden { .. })) => (None, false),
        Err(error) => return Err(error.into()),
    };
    let backup =
        backup.map(|head| BackupStatus { generation: head.generation(), bytes: head.bytes() });
    let current = |epoch: &&EpochState| Some(epoch.epoch) == state.current;
    Ok(ServerStatus {
        server: remote.address().to_string(),
        revision: state.revision.0,
        vault_revision: collection.revision().0,
        epoch: state.current.map(|epoch| epoch.0),
        rows: state.epochs.iter().find(current).map_or(0, |held| held.rows),
        pending: state.epochs.iter().filter(|held| !current(held)).map(|h| h.epoch.0).collect(),
        damage: state.damage,
        backup,
        backup_shown,
        access: collection.access(),
    })
}

impl ServerStatus {
    /// What there is to do, for an owner or for who may search.
    fn to_do(&self, owner: &str, query: &str) -> String {
        match self.access {
            VaultAccess::Query if query.is_empty() => String::new(),
            VaultAccess::Query => format!(": {query}"),
            VaultAccess::Owner => format!(": {owner}"),
        }
    }

    /// The status for a person.
    pub fn lines(&self) -> Vec<String> {
        let published = match self.epoch {
            None => format!("nothing was published yet{}", self.to_do("shard publish", "")),
            Some(epoch) => {
                let rows = grouped(self.rows as usize);
                let state = match self.revision.cmp(&self.vault_revision) {
                    Ordering::Equal => "as in the vault".to_owned(),
                    Ordering::Less => {
                        let next = self.to_do("shard publish", "its owner has yet to publish");
                        format!("the vault is at {}{next}", self.vault_revision)
                    }
                    Ordering::Greater => {
                        let ask = "it is out of date, ask its owner for a new one";
                        let next = self.to_do("it is out of date", ask);
                        format!("the vault is at {}{next}", self.vault_revision)
                    }
                };
                format!("{rows} rows of epoch {epoch}, revision {} ({state})", self.revision)
            }
        };
        let backup = match &self.backup {
            None if !self.backup_shown => "not shown to this token".to_owned(),
            None => format!("none{}", self.to_do("shard backup", "")),
            Some(kept) => format!("generation {}, {}", kept.generation, bytes(kept.bytes as f64)),
        };
        let mut lines = vec![
            format!("server       {}", self.server),
            format!("published    {published}"),
            format!("backup       {backup}"),
        ];
        if let Some(what) = &self.damage {
            let next = self.to_do("shard publish", "tell its owner");
            lines.push(format!("damaged      {}{next}", printable(what)));
        }
        if !self.pending.is_empty() {
            lines.push(format!("unfinished   epoch {:?}: shard publish", self.pending));
        }
        lines
    }
}
