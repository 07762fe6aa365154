//! `shard plan`: what the ways to search cost, side by side; what searches of some cells find; what a large
//! collection takes.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use shard::Documents;
use shard::input::read_queries;
use shard::planning::{Capacity, Prices, Probes, Wanted, Way, Ways};

use crate::args::{VaultArguments, large, link, positive};
use crate::output::{Output, bytes, grouped, table};
use crate::remote::VectorArguments;

#[derive(Args)]
pub struct Plan {
    /// The vault's directory [default: --rows and --dim]
    pub vault: Option<PathBuf>,
    /// File that unlocks the vault instead of a passphrase
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Query vectors to measure with what searches of some cells find [default: a sample of the documents]
    #[arg(long, value_name = "FILE", requires = "vault")]
    pub queries: Option<PathBuf>,
    /// Number of documents: 100000, 1e8
    #[arg(long, value_name = "N", requires = "dim", conflicts_with = "vault", value_parser = large)]
    pub rows: Option<usize>,
    /// Coordinates of a document
    #[arg(long, value_name = "D", requires = "rows", value_parser = positive)]
    pub dim: Option<usize>,
    /// Speed of the link to plan for, in Mbit/s [default: 200]
    #[arg(long, value_name = "MBIT", value_parser = link)]
    pub link: Option<f64>,
    #[command(flatten)]
    pub vectors_from: VectorArguments,
    #[command(flatten)]
    pub size: SizeArguments,
}

/// What a collection without a vault is to be like.
#[derive(Args)]
pub struct SizeArguments {
    /// Cells that documents of a collection are grouped by, at most 4096 [default: none, every search scores
    /// everything]
    #[arg(long, value_name = "C", requires_all = ["rows", "probe"], value_parser = positive)]
    pub cells: Option<usize>,
    /// Cells that a search asks for
    #[arg(long, value_name = "CELLS", requires = "cells", value_parser = positive)]
    pub probe: Option<usize>,
    /// Memory of a worker, in GB
    #[arg(long, value_name = "GB", requires = "rows", default_value_t = 64, value_parser = positive)]
    pub worker_memory: usize,
    /// Searches of all clients in a day
    #[arg(long, value_name = "N", requires = "rows", default_value = "100000", value_parser = large)]
    pub searches: usize,
    /// Prices, as TOML [default: placeholders, which are nobody's]
    #[arg(long, value_name = "FILE", requires = "rows")]
    pub prices: Option<PathBuf>,
}

impl SizeArguments {
    fn prices(&self) -> Result<Prices> {
        let Some(path) = &self.prices else { return Ok(Prices::placeholders()) };
        let text =
            std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("the prices in {}", path.display()))
    }

    fn wanted(&self, rows: usize, dimension: usize, megabits: Option<f64>) -> Wanted {
        let cells = self.cells.zip(self.probe);
        let worker_memory = self.worker_memory as f64 * 1e9;
        let searches = self.searches as f64;
        Wanted { rows, dimension, cells, worker_memory, searches, megabits }
    }
}

pub fn run(arguments: &Plan, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let report = match (&arguments.vault, arguments.rows, arguments.dim) {
        (Some(vault), None, None) => {
            let vault =
                VaultArguments { vault: vault.clone(), key_file: arguments.key_file.clone() };
            let vault = arguments.vectors_from.open(&vault)?;
            let queries = arguments.queries.as_deref().map(|path| read_queries(path, None));
            let queries = queries.transpose()?;
            vault.plan(arguments.link, queries.as_ref().map(Documents::vectors))?
        }
        (None, Some(rows), Some(dimension)) => {
            let wanted = arguments.size.wanted(rows, dimension, arguments.link);
            wanted.plan(arguments.size.prices()?)?
        }
        _ => bail!("name a vault, or give --rows and --dim"),
    };
    output.line(text(&report.ways))?;
    if let Some(cells) = &report.cells {
        output.line(cells_text(cells))?;
    } else if report.ways.names_cells && report.capacity.is_none() {
        output.line(
            "\nblocks are those of cells of the mean size; what searches of some cells find is measured with the vectors, \
             which are not here",
        )?;
    }
    if let (Some(capacity), Some(prices)) = (&report.capacity, &report.prices) {
        output.line(capacity_text(capacity, prices, &arguments.size))?;
    }
    output.result(&report)
}

fn cells_text(cells: &Probes) -> String {
    let row = |probe: &shard::planning::Probe| {
        vec![
            format!("{}{}", probe.probe, if probe.probe == cells.probe { " *" } else { "" }),
            format!("{:.4}", probe.recall10),
            grouped(probe.documents.round() as usize),
            bytes(probe.bytes_up as f64),
            bytes(probe.bytes_down),
            format!("{:.1} ms", probe.server_ms),
            format!("{:.1} ms", probe.client_ms),
        ]
    };
    let rows: Vec<Vec<String>> = cells.probes.iter().map(row).collect();
    let heads =
        ["cells", "recall@10", "scored", "up", "down", "server, one core", "client, one core"];
    let measured =
        if cells.owners_queries { "queries" } else { "documents, each looking for the others" };
    format!(
        "\n{} cells, recall measured with {} {measured} (* what a search asks for unless it says --probe)\n{}\n\
         the server learns which cells a search asks for; a search of all of them names none",
        cells.cells,
        cells.queries,
        table(&heads, &rows)
    )
}

fn capacity_text(capacity: &Capacity, prices: &Prices, size: &SizeArguments) -> String {
    let money = |sum: f64| format!("{} {}", grouped(sum.round() as usize), prices.currency);
    let year = &capacity.year;
    let for_memory = match capacity.workers_for_memory {
        1 => "1".to_owned(),
        several => format!("{}, one to spare", grouped(several)),
    };
    let rows = [
        ("memory", bytes(capacity.memory)),
        ("disk", bytes(capacity.disk)),
        ("workers", format!("{} of {} GB", grouped(capacity.workers), size.worker_memory)),
        ("   for memory alone", for_memory),
        ("bytes up", bytes(capacity.bytes_up)),
        ("bytes down", bytes(capacity.bytes_down)),
        ("servers, core time", format!("{:.1} ms", capacity.server_core_ms)),
        ("client, core time", format!("{:.1} ms", capacity.client_core_ms)),
        ("client keeps at most", bytes(capacity.client_bytes)),
        ("a year", money(year.total)),
        ("   workers", money(year.workers)),
        ("   disk", money(year.storage)),
        ("   answers", money(year.traffic)),
    ];
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    let what = match size.cells.zip(size.probe) {
        Some((cells, probe)) => format!("{probe} of {cells} cells asked for"),
        None => "everything scored".to_owned(),
    };
    let head = format!("blind, {what}, {} searches a day", grouped(size.searches));
    let mut lines = vec![String::new(), table(&[&head, ""], &rows)];
    let dated = match &size.prices {
        Some(path) => format!("prices of {}, from {}", prices.date, path.display()),
        None => "prices are placeholders: give yours with --prices".to_owned(),
    };
    lines.push(format!("{dated}; no replicas are counted"));
    if capacity.collections > 1 {
        let cells = size.cells.map(|cells| format!(" of {} cells each", grouped(cells)));
        lines.push(format!(
            "{} blocks are {} collections{}, all of which a search asks",
            grouped(capacity.blocks),
            capacity.collections,
            cells.unwrap_or_default()
        ));
    }
    if !capacity.answer_fits {
        let advice =
            "an answer is longer than servers send at once: ask for fewer cells (--cells, --probe)";
        lines.push(advice.to_owned());
    }
    if !capacity.work_fits {
        let advice = "a search is more than servers compute for one request: ask for fewer cells (--cells, --probe)";
        lines.push(advice.to_owned());
    }
    if size.cells.is_some() {
        let leak = "the server learns which cells a search asks for; what searches of so many cells find, `shard \
                    plan VAULT` measures on your documents";
        lines.push(leak.to_owned());
    }
    lines.join("\n")
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
        row("client keeps", &|way| size(way.client_keeps)),
        row("client memory", &|way| size(way.client_memory)),
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
    if let Some(tile) = ways.other_tile {
        lines.push(format!(
            "   tiles of {tile} are the fastest for {} Mbit/s: `shard init --tile {tile}` makes a vault with them, and \
             without --tile they are chosen for 200 Mbit/s",
            ways.megabits
        ));
    }
    lines.push(format!(
        "   error of a score {:.1e} (one deviation); a server that moves one by more than {:.1e} is caught",
        ways.precision,
        2.0 * ways.tolerance
    ));
    for bits in &ways.security {
        let (rows, queries) = (bits.rows, bits.queries);
        lines.push(format!("   security, {}: rows {rows} bits, queries {queries}", bits.model));
    }
    lines.push(format!("\nrecommended: {}", ways.recommendation));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::{Prices, large};

    #[test]
    fn the_file_to_copy_has_the_placeholders() {
        let prices: Prices = toml::from_str(include_str!("prices.toml")).unwrap();
        assert_eq!(prices, Prices::placeholders());
    }

    #[test]
    fn numbers_of_documents_may_be_powers_of_ten() {
        assert_eq!(
            ["7", "1e8", "2.5E6"].map(|text| large(text).unwrap()),
            [7, 100_000_000, 2_500_000]
        );
        for text in ["0", "-1", "1.5e0", "1e-3", "1e99", "2.5", "many"] {
            assert!(large(text).is_err(), "{text}");
        }
    }
}
