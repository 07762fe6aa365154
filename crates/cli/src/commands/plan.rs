//! `shard plan`: what the ways to search cost, side by side.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use shard::planning::{Way, Ways, compare_ways};

use crate::args::{VaultArguments, link, positive};
use crate::output::{Output, bytes, grouped, table};
use crate::unlock;

#[derive(Args)]
pub struct Plan {
    /// The vault's directory [default: --rows and --dim]
    pub vault: Option<PathBuf>,
    /// File that unlocks the vault instead of a passphrase
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Number of documents
    #[arg(long, value_name = "N", requires = "dim", conflicts_with = "vault", value_parser = positive)]
    pub rows: Option<usize>,
    /// Coordinates of a document
    #[arg(long, value_name = "D", requires = "rows", value_parser = positive)]
    pub dim: Option<usize>,
    /// Speed of the link to plan for, in Mbit/s [default: 200]
    #[arg(long, value_name = "MBIT", value_parser = link)]
    pub link: Option<f64>,
}

pub fn run(arguments: &Plan, json: Option<&Path>) -> Result<()> {
    let (rows, dimension) = match (&arguments.vault, arguments.rows, arguments.dim) {
        (Some(vault), None, None) => {
            let vault =
                VaultArguments { vault: vault.clone(), key_file: arguments.key_file.clone() };
            let vault = unlock::open(&vault)?;
            let held = vault.collection()?.context("the vault is empty: give --rows and --dim")?;
            (held.documents(), held.dimension())
        }
        (None, Some(rows), Some(dimension)) => (rows, dimension),
        _ => bail!("name a vault, or give --rows and --dim"),
    };
    let ways = compare_ways(rows, dimension, arguments.link)?;
    let output = Output::new(json);
    output.line(text(&ways))?;
    output.result(&ways)
}

fn text(ways: &Ways) -> String {
    let columns = [&ways.local, &ways.blind, &ways.rotated];
    let row = |name: &str, of: &dyn Fn(&Way) -> String| {
        let mut row = vec![name.to_owned()];
        row.extend(columns.iter().map(|way| of(way)));
        row
    };
    let size = |count: usize| if count == 0 { "-".to_owned() } else { bytes(count as f64) };
    let time = |ms: f64| if ms == 0.0 { "-".to_owned() } else { format!("{ms:.1} ms") };
    let rows = [
        row("bytes up", &|way| size(way.bytes_up)),
        row("bytes down", &|way| size(way.bytes_down)),
        row("bytes once", &|way| size(way.bytes_once)),
        row("server, one core", &|way| time(way.server_ms)),
        row("client, one core", &|way| time(way.client_ms)),
        row("server memory", &|way| size(way.server_memory)),
        row("client keeps", &|way| size(way.client_memory)),
    ];
    let mut lines = vec![
        format!("{} documents of {} dimensions", grouped(ways.rows), ways.dimension),
        table(&["a search", "local", "blind", "rotated"], &rows),
        String::new(),
        "what the server learns".to_owned(),
    ];
    lines.extend(columns.iter().map(|way| format!("   {:8} {}", way.name, way.server_learns)));
    lines.push("what a client must hold".to_owned());
    lines.extend(columns.iter().map(|way| format!("   {:8} {}", way.name, way.client_holds)));
    lines.push(String::new());
    lines.push(format!("blind: {}", ways.tile));
    lines.push(format!(
        "   error of a score {:.1e} (one deviation); a server that moves one by more than {:.1e} is caught",
        ways.precision, ways.tolerance
    ));
    for bits in &ways.security {
        let (rows, queries) = (bits.rows, bits.queries);
        lines.push(format!("   security, {}: rows {rows} bits, queries {queries}", bits.model));
    }
    lines.push(format!("\nrecommended: {}", ways.recommendation));
    lines.join("\n")
}
