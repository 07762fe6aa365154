//! `shard token`: who may talk to a server.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use shard::CollectionName;
use shard::server::{NewToken, Scope, Storage, TokenLimits, TokenPlace, TokenRecord};

use crate::ask;
use crate::commands::serve::{StoreAddress, storage};
use crate::output::{Output, note, printable, table};
use crate::place::Place;

const DAY: u64 = 24 * 60 * 60;

#[derive(Subcommand)]
pub enum TokenCommand {
    /// Make a token and print it, once; in a database whose schema is not there, or of an earlier version, make
    /// that too
    Create(Create),
    /// List tokens; what is stored does not say what they are
    List {
        #[command(flatten)]
        place: PlaceArguments,
    },
    /// Void a token; a running server refuses it from the next request on, servers over a database within
    /// seconds while they reach it
    Revoke {
        /// The server's directory; with --store or SHARD_STORE, the token's id
        #[arg(value_name = "DIRECTORY|ID")]
        first: String,
        /// The token's id, from `list`, where a directory comes first
        #[arg(value_name = "ID")]
        second: Option<String>,
        /// The database of servers that have one, in place of a directory; a password is best in PGPASSWORD
        #[arg(long, value_name = "URL", conflicts_with = "second")]
        store: Option<StoreAddress>,
    },
}

/// Where tokens are kept.
#[derive(Args)]
pub struct PlaceArguments {
    /// The server's directory
    directory: Option<PathBuf>,
    /// The database of servers that have one, in place of a directory: postgres://user@host1,host2/database;
    /// a password is best in PGPASSWORD [default: SHARD_STORE]
    #[arg(long, value_name = "URL", conflicts_with = "directory")]
    store: Option<StoreAddress>,
}

impl PlaceArguments {
    fn tokens(&self) -> Result<TokenPlace> {
        let of_environment = store_of_environment();
        if let Some(directory) = &self.directory {
            // `shard serve DIRECTORY` would use the database.
            if of_environment.is_some() {
                bail!("SHARD_STORE is set: leave out DIRECTORY, or unset it");
            }
            return Ok(TokenPlace::Directory(directory.clone()));
        }
        match storage(self.store.clone().or(of_environment), None)? {
            #[cfg(feature = "cluster")]
            Storage::Postgres { address, .. } => Ok(TokenPlace::Database(address)),
            Storage::Directory => bail!("say where the tokens are: DIRECTORY, or --store"),
        }
    }
}

fn store_of_environment() -> Option<StoreAddress> {
    std::env::var("SHARD_STORE").ok().map(StoreAddress::from)
}

#[derive(Args)]
pub struct Create {
    #[command(flatten)]
    place: PlaceArguments,
    /// What it allows, by commas: read, write, admin
    #[arg(long, value_name = "SCOPES", required = true, value_delimiter = ',')]
    scope: Vec<Scope>,
    /// The only collections it is for, by commas [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    collection: Vec<CollectionName>,
    /// Requests per second, on average; of several servers each counts for itself
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    requests_per_second: Option<u32>,
    /// Bytes per second of requests and answers, on average
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    bytes_per_second: Option<u64>,
    /// Requests at a time
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    concurrent: Option<u32>,
    /// Days after which it is void [default: never]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..=36_500))]
    expires: Option<u64>,
    /// Make DIRECTORY a server's where it is none yet, without asking
    #[arg(long, short = 'y')]
    yes: bool,
}

pub fn run(command: &TokenCommand, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    match command {
        TokenCommand::Create(create) => make(create, &output),
        TokenCommand::List { place } => list(place, &output),
        TokenCommand::Revoke { first, second, store } => {
            let (directory, id) = match second {
                Some(id) => (Some(PathBuf::from(first)), id),
                None if store.is_none() && store_of_environment().is_none() => {
                    bail!("the token's id is missing: `shard token list DIRECTORY` shows ids")
                }
                None => (None, first),
            };
            PlaceArguments { directory, store: store.clone() }.tokens()?.revoke(id)?;
            output.line(format!("revoked {id}"))?;
            output.result(&json!({ "revoked": id }))
        }
    }
}

fn make(create: &Create, output: &Output<'_>) -> Result<()> {
    let new = NewToken {
        scopes: create.scope.clone(),
        collections: create.collection.clone(),
        limits: TokenLimits {
            requests_per_second: create.requests_per_second,
            bytes_per_second: create.bytes_per_second,
            concurrent: create.concurrent,
        },
        expires: create.expires.map(|days| now() + days * DAY),
    };
    let place = create.place.tokens()?;
    if let Some(directory) = &create.place.directory {
        check_place(directory, create.yes)?;
    }
    let (record, token) = place.create(&new)?;
    output.line(token.expose())?;
    if output.is_text() {
        note(&format!("id {}; the token is stored nowhere and is not shown again", record.id));
    }
    let mut report = described(&record);
    report["token"] = token.expose().into();
    output.secret_result(&report)
}

/// A mistyped directory would get tokens that no server knows.
fn check_place(directory: &Path, yes: bool) -> Result<()> {
    let Some(complaint) = Place::of(directory)?.complaint().filter(|_| !yes) else {
        return Ok(());
    };
    let directory = printable(&directory.display().to_string());
    let said = format!("{directory} is no server's directory: it {complaint}");
    if !ask::is_possible() {
        bail!("{said}; --yes makes it one");
    }
    note(&said);
    if ask::confirm("Make it one?")? { Ok(()) } else { bail!("no token was made") }
}

fn list(place: &PlaceArguments, output: &Output<'_>) -> Result<()> {
    let tokens = place.tokens()?.list()?;
    let rows: Vec<Vec<String>> = tokens.iter().map(row).collect();
    let header = ["id", "scopes", "collections", "limits", "expires"];
    if rows.is_empty() {
        output.line("no tokens")?
    } else {
        output.line(table(&header, &rows))?
    }
    output.result(&tokens.iter().map(described).collect::<Vec<_>>())
}

fn row(token: &TokenRecord) -> Vec<String> {
    let collections =
        if token.collections.is_empty() { "all".to_owned() } else { token.collections.join(",") };
    let expires = match token.expires.map(|expires| expires.checked_sub(now())) {
        None => "never".to_owned(),
        Some(None | Some(0)) => "expired".to_owned(),
        Some(Some(left)) => format!("in {} days", left.div_ceil(DAY)),
    };
    vec![token.id.clone(), scopes(token), collections, limits(&token.limits), expires]
}

fn scopes(token: &TokenRecord) -> String {
    token.scopes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn limits(limits: &TokenLimits) -> String {
    let all = [
        limits.requests_per_second.map(|rate| format!("{rate} requests/s")),
        limits.bytes_per_second.map(|rate| format!("{rate} bytes/s")),
        limits.concurrent.map(|most| format!("{most} at a time")),
    ];
    let set: Vec<String> = all.into_iter().flatten().collect();
    if set.is_empty() { "none".to_owned() } else { set.join(", ") }
}

fn described(token: &TokenRecord) -> Value {
    json!({
        "id": token.id,
        "scopes": token.scopes,
        "collections": token.collections,
        "limits": token.limits,
        "created": token.created,
        "expires": token.expires,
    })
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
