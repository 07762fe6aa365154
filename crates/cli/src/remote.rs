//! The server on the network, as the command line names it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use shard::remote::{
    CollectionState, EpochState, Fingerprint, KeptBackup, Lineage, ProxyAddress, Remote,
    RemoteError, RemoteOptions, SecretToken, ServerAddress, Standing, Timeouts, describe,
    is_of_vault, kept_backups, standing,
};
use shard::{ClientError, Position, Vault, VaultAccess};
use zeroize::Zeroizing;

use crate::args::VaultArguments;
use crate::output::{grouped, moment, note, printable};
use crate::unlock;

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

    /// Opens a vault, with its vectors wherever they are.
    pub fn open(&self, arguments: &VaultArguments) -> Result<Vault> {
        let mut vault = unlock::open(arguments)?;
        find_vectors(&mut vault, &self.server, &self.connection)?;
        Ok(vault)
    }
}

/// The server that keeps the vectors of a vault which does not.
#[derive(Args)]
pub struct VectorArguments {
    /// Server that has the vectors of a vault made with `--keep-vectors no`
    #[arg(long, value_name = "URL", env = "SHARD_SERVER")]
    server: Option<ServerAddress>,
    #[command(flatten)]
    connection: ConnectionArguments,
}

impl VectorArguments {
    /// Opens a vault, with its vectors wherever they are.
    pub fn open(&self, arguments: &VaultArguments) -> Result<Vault> {
        let mut vault = unlock::open(arguments)?;
        if let Some(server) = &self.server {
            find_vectors(&mut vault, server, &self.connection)?;
        }
        Ok(vault)
    }
}

/// Lets a vault that does not keep its vectors fetch them from a server.
pub fn find_vectors(
    vault: &mut Vault,
    server: &ServerAddress,
    connection: &ConnectionArguments,
) -> Result<()> {
    if vault.access() == VaultAccess::Owner && !vault.settings()?.keep_vectors {
        vault.fetch_vectors_from(connect(server, connection)?);
    }
    Ok(())
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

/// Says so when the server holds another state than the vault: one more question after a search.
pub fn warn_if_apart(remote: &Remote, position: &Position) {
    // A search has just gone well; what the server does not say now is no reason to fail.
    let Ok(state) = describe(remote) else { return };
    let (ours, server) = (position.revision(), remote.address());
    let published = state.revision;
    let text = match vault_standing(&state, position) {
        Standing::Same | Standing::Unpublished => return,
        Standing::Behind => format!(
            "this vault is older than what {server} holds (revision {ours}, and {published} was \
             published): documents may be missing; `shard pull` brings it forward"
        ),
        Standing::Ahead if position.access() == VaultAccess::Query => format!(
            "this vault has changes that its owner has not published at {server} yet (revision \
             {ours}, and {published} was published)"
        ),
        Standing::Ahead => format!(
            "this vault has changes that are not published at {server} (revision {ours}, and \
             {published} was published): shard publish"
        ),
        Standing::Forked => format!(
            "this copy of the vault and the one that was published at {server} have parted, so \
             documents may be missing: shard pull, then shard publish"
        ),
    };
    note(&format!("warning: {text}"));
}

/// How a server's state stands to a vault.
fn vault_standing(state: &CollectionState, position: &Position) -> Standing {
    let commit_at = |revision| position.commit_at(revision);
    match standing(state, Lineage { head: position.head(), commit_at: &commit_at }) {
        // A query vault has no history to tell by.
        Standing::Forked if position.access() == VaultAccess::Query => Standing::Ahead,
        standing => standing,
    }
}

/// What a server holds beside a vault.
#[derive(Serialize)]
pub struct ServerStatus {
    /// The server and the collection.
    pub server: String,
    /// Whether the collection is this vault's; `None` while it is nobody's, or not shown.
    pub this_vault: Option<bool>,
    /// How the two stand: `unpublished`, `same`, `ahead` if the vault has come further, `behind` or
    /// `forked`; `None` in another vault's collection.
    pub standing: Option<&'static str>,
    /// Latest revision published.
    pub revision: u64,
    /// The revision of the vault.
    pub vault_revision: u64,
    /// The commit that was published.
    pub commit: Option<String>,
    /// The epoch that is searched.
    pub epoch: Option<u64>,
    /// Rows of that epoch.
    pub rows: u64,
    /// Blocks of that epoch, checks included, where it is blind.
    pub blocks: u64,
    /// Epochs that are being published.
    pub pending: Vec<u64>,
    /// What of the rows is damaged.
    pub damage: Option<String>,
    /// The backups that are kept, the newest first, where the token shows them.
    pub backups: Option<Vec<BackupStatus>>,
    /// Who is told.
    #[serde(skip)]
    access: VaultAccess,
}

/// A backup in figures.
#[derive(Serialize)]
pub struct BackupStatus {
    /// Commit of the vault.
    pub commit: String,
    /// When it was made.
    pub made: String,
    /// Whether it is of the vault's present commit.
    pub is_current: bool,
}

/// Asks a server what it holds. `shard status --server` prints [`ServerStatus::lines`] and puts
/// the value under `server` in its JSON.
pub fn server_status(remote: &Remote, position: &Position) -> Result<ServerStatus> {
    let state = describe(remote)?;
    let backups = shown(kept_backups(remote))?;
    let this_vault = shown(is_of_vault(position, remote))?.flatten();
    let standing = match vault_standing(&state, position) {
        _ if this_vault == Some(false) => None,
        Standing::Unpublished => Some("unpublished"),
        Standing::Same => Some("same"),
        Standing::Ahead => Some("ahead"),
        Standing::Behind => Some("behind"),
        Standing::Forked => Some("forked"),
    };
    let backup = |kept: &KeptBackup| BackupStatus {
        commit: kept.commit.to_string(),
        made: moment(kept.made),
        is_current: kept.commit == position.commit(),
    };
    let current = |epoch: &&EpochState| Some(epoch.epoch) == state.current;
    Ok(ServerStatus {
        server: remote.address().to_string(),
        this_vault,
        standing,
        revision: state.revision.0,
        vault_revision: position.revision().0,
        commit: state.commit.map(|commit| commit.to_string()),
        epoch: state.current.map(|epoch| epoch.0),
        rows: state.epochs.iter().find(current).map_or(0, |held| held.rows),
        blocks: state.epochs.iter().find(current).map_or(0, |held| held.blocks),
        pending: state.epochs.iter().filter(|held| !current(held)).map(|h| h.epoch.0).collect(),
        damage: state.damage.clone(),
        backups: backups.map(|backups| backups.iter().map(backup).collect()),
        access: position.access(),
    })
}

/// What a token may see: who may only read is not shown the owner's blobs.
fn shown<T>(answer: Result<T, ClientError>) -> Result<Option<T>> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(ClientError::Remote(RemoteError::Forbidden { .. })) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl ServerStatus {
    /// The status for a person.
    pub fn lines(&self) -> Vec<String> {
        let owner = self.access == VaultAccess::Owner;
        let mut lines = vec![
            format!("server       {}", self.server),
            format!("published    {}", self.published(owner)),
            format!("backup       {}", self.backup(owner)),
        ];
        if let Some(damage) = &self.damage {
            let next = if owner { ": shard publish sends the rows anew" } else { "" };
            lines.push(format!("damaged      {}{next}", printable(damage)));
        }
        if !self.pending.is_empty() {
            lines.push(format!("unfinished   epoch {:?}: shard publish", self.pending));
        }
        lines
    }

    fn published(&self, owner: bool) -> String {
        let held = || {
            let held = match self.blocks {
                0 => format!("{} rows", grouped(self.rows as usize)),
                blocks => format!("{} blocks", grouped(blocks as usize)),
            };
            let epoch = self.epoch.map_or_else(|| "none".to_owned(), |epoch| epoch.to_string());
            format!("{held} of epoch {epoch}, revision {}", self.revision)
        };
        let ours = self.vault_revision;
        match (self.standing, owner) {
            (None, _) => format!("{}: this is another vault's collection", held()),
            (Some("unpublished"), true) => "nothing yet: shard publish".to_owned(),
            (Some("unpublished"), false) => "nothing yet".to_owned(),
            (Some("same"), _) => format!("{} (as in the vault)", held()),
            (Some("ahead"), true) => format!("{} (the vault is at {ours}: shard publish)", held()),
            (Some("ahead"), false) => {
                format!("{} (the vault is at {ours}: its owner has yet to publish)", held())
            }
            (Some("behind"), _) => format!("{} (the vault is at {ours}: shard pull)", held()),
            (Some(_), _) => format!(
                "{} (the vault is at {ours} and has gone another way: shard pull, then shard publish)",
                held()
            ),
        }
    }

    fn backup(&self, owner: bool) -> String {
        match self.backups.as_deref() {
            None => "not shown to this token".to_owned(),
            Some([]) if owner => "none: shard backup".to_owned(),
            Some([]) => "none".to_owned(),
            Some([newest, rest @ ..]) => {
                let state = if newest.is_current {
                    "the vault as it is"
                } else {
                    "the vault has changed since: shard backup"
                };
                let commit = &newest.commit[..newest.commit.len().min(12)];
                format!("{} of {commit} ({state}); {} kept", newest.made, 1 + rest.len())
            }
        }
    }
}
