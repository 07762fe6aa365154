//! What a run of `shard-lab bench vault` says.

use serde::Serialize;

use shard_cli::output::{bytes, grouped, table};

/// Every figure. Times without `cpu` in their name are on the wall.
#[derive(Serialize)]
pub struct Report {
    pub rows: usize,
    pub width: usize,
    pub ingest_s: f64,
    pub ingest_cpu_s: f64,
    /// The most memory that the ingest ever held.
    pub ingest_rss: u64,
    /// All files of the vault after the ingest.
    pub vault_bytes: u64,
    /// The file that was ingested.
    pub vectors_bytes: u64,
    pub open_ms: f64,
    pub open_cpu_ms: f64,
    /// Beyond opening.
    pub add_one_ms: f64,
    pub add_one_cpu_ms: f64,
    /// Handed to the disk.
    pub add_one_bytes: u64,
    /// The same document again.
    pub again_ms: f64,
    pub again_bytes: u64,
    pub delete_one_ms: f64,
    pub delete_one_cpu_ms: f64,
    pub delete_one_bytes: u64,
    pub search_process_ms: f64,
    pub search_process_cpu_ms: f64,
    pub verify_s: f64,
    pub verify_cpu_s: f64,
}

/// A table for a person.
pub fn text(report: &Report) -> String {
    let line = |what: &str, wall: String, cpu: String, disk: String| {
        vec![what.to_owned(), wall, cpu, disk]
    };
    let seconds = |seconds: f64| format!("{:.0}", 1e3 * seconds);
    let ms = |milliseconds: f64| format!("{milliseconds:.1}");
    let size = |count: u64| bytes(count as f64);
    let none = String::new;
    let rows = [
        line(
            "ingest",
            seconds(report.ingest_s),
            seconds(report.ingest_cpu_s),
            size(report.vault_bytes),
        ),
        line("open", ms(report.open_ms), ms(report.open_cpu_ms), none()),
        line(
            "add one",
            ms(report.add_one_ms),
            ms(report.add_one_cpu_ms),
            size(report.add_one_bytes),
        ),
        line("the same again", ms(report.again_ms), none(), size(report.again_bytes)),
        line(
            "delete one",
            ms(report.delete_one_ms),
            ms(report.delete_one_cpu_ms),
            size(report.delete_one_bytes),
        ),
        line("search", ms(report.search_process_ms), ms(report.search_process_cpu_ms), none()),
        line("verify", seconds(report.verify_s), seconds(report.verify_cpu_s), none()),
    ];
    format!(
        "{}\n\n  {} documents of {} coordinates, {} as 16-bit floats; the vault is {:.2} times that\n  \
         the ingest held at most {}; changes are beyond opening; searches are whole processes",
        table(&["milliseconds", "wall", "cpu", "to disk"], &rows),
        grouped(report.rows),
        report.width,
        size(report.vectors_bytes),
        report.vault_bytes as f64 / report.vectors_bytes as f64,
        size(report.ingest_rss),
    )
}
