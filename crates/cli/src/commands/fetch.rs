//! `shard fetch`.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use shard::remote::ServerAddress;
use shard::{ClientError, Error, FetchCost, FetchWay, Fetched, Searcher, Transport};

use super::search::is_outdated;
use crate::args::VaultArguments;
use crate::output::{Output, bytes, follow, note, printable, progress};
use crate::remote::{self, ConnectionArguments};
use crate::unlock;

#[derive(Args)]
pub struct Fetch {
    #[command(flatten)]
    vault: VaultArguments,
    /// Ids of documents
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Server and collection, https://HOST:PORT/NAME [default: a server in this process]
    #[arg(long, value_name = "URL", env = "SHARD_SERVER")]
    server: Option<ServerAddress>,
    #[command(flatten)]
    connection: ConnectionArguments,
    /// Ask for the pages that the records are in by name: cheaper, and the server learns which those are
    #[arg(long)]
    direct: bool,
    /// Say what the fetch cost and what the server saw of it
    #[arg(long)]
    explain: bool,
}

pub fn run(arguments: &Fetch, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let mut vault = unlock::open(&arguments.vault)?;
    let Some(address) = &arguments.server else {
        let searcher = vault.embedded_with_records(shard::UNWATCHED)?;
        let fetched = searcher.fetch(&arguments.names(), arguments.way())?;
        return arguments.print(&fetched, &output);
    };
    let mut searcher = vault.searcher(remote::connect(address, &arguments.connection)?)?;
    let mut fetched = arguments.fetch(&searcher);
    if fetched.as_ref().is_err_and(is_outdated) {
        let remote = remote::connect(address, &arguments.connection)?;
        let pulled = vault.pull(&remote, shard::UNWATCHED)?;
        if pulled.to > pulled.from {
            note(&format!("this vault was behind: pulled revision {}", pulled.to));
        }
        searcher = vault.searcher(remote)?;
        fetched = arguments.fetch(&searcher);
    }
    let fetched = fetched.map_err(|error| match error.downcast::<Error>() {
        Ok(error) => searcher.diagnose(error).into(),
        Err(error) => error,
    })?;
    remote::warn_if_apart(searcher.server(), searcher.collection().position());
    arguments.print(&fetched, &output)
}

impl Fetch {
    fn way(&self) -> FetchWay {
        if self.direct { FetchWay::Direct } else { FetchWay::Private }
    }

    fn fetch<T: Transport<Error: Into<ClientError>>>(
        &self,
        searcher: &Searcher<T>,
    ) -> Result<Fetched> {
        let missing = searcher.missing_fetch_bytes();
        // Less is there before it could be read.
        if self.way() == FetchWay::Private && missing >= 1 << 20 {
            note(&format!("fetching {} of hints, which are kept", bytes(missing as f64)));
            let bar = progress("fetching hints", missing);
            let done = searcher.prepare_fetch(&follow(&bar));
            bar.finish_and_clear();
            done?;
        }
        Ok(searcher.fetch(&self.names(), self.way())?)
    }

    fn names(&self) -> Vec<&str> {
        self.ids.iter().map(String::as_str).collect()
    }

    /// Prints records as they are, one after the other.
    fn print(&self, fetched: &Fetched, output: &Output<'_>) -> Result<()> {
        let mut found = Vec::with_capacity(self.ids.len());
        for (id, record) in self.ids.iter().zip(&fetched.records) {
            let Some(record) = record else {
                note(&format!("{} has no record", printable(id)));
                found.push(json!({ "id": id, "record": Value::Null }));
                continue;
            };
            let text = String::from_utf8_lossy(record);
            output.line(printable_text(&text))?;
            let parsed = serde_json::from_slice(record).unwrap_or_else(|_| Value::from(text));
            found.push(json!({ "id": id, "record": parsed }));
        }
        let cost = &fetched.cost;
        if self.explain {
            output.line(fetch_explanation(cost, self.way()))?;
        }
        output.result(&json!({
            "records": found,
            "direct": self.direct,
            "slots": cost.slots,
            "messages": cost.messages,
            "bytes": { "up": cost.bytes_up, "down": cost.bytes_down, "once": cost.bytes_once },
        }))
    }
}

/// What a fetch cost and what the server saw of it.
pub(super) fn fetch_explanation(cost: &FetchCost, way: FetchWay) -> String {
    let (up, down) = (bytes(cost.bytes_up as f64), bytes(cost.bytes_down as f64));
    let saw = match way {
        FetchWay::Private => (shard::Leak::RequestShape, "how many, and nothing of which"),
        FetchWay::Direct => (shard::Leak::FetchedRecords, "the pages that they are in"),
    };
    format!(
        "  sent    {up} up, {down} down in {} messages, for {} slots of 1 KB; {} of hints\n  \
         server  {:18} {}",
        cost.messages,
        cost.slots,
        bytes(cost.bytes_once as f64),
        saw.0.name(),
        saw.1
    )
}

/// A record for a terminal, its lines as they are.
fn printable_text(text: &str) -> String {
    text.lines().map(printable).collect::<Vec<_>>().join("\n")
}
