//! Texts into a vault.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::json;
use shard::input::{Texts, read_texts};
use shard::{ChunkOptions, Others, TextOptions};

use crate::args::Ingest;
use crate::commands::publish_next;
use crate::output::{Output, follow, grouped, note, printable, progress, progress_of_time};

/// Reads, encodes and takes texts.
pub fn run(arguments: &Ingest, path: &Path, output: &Output<'_>) -> Result<()> {
    if arguments.records.is_some() {
        bail!("--records goes with vectors: texts bring their own records");
    }
    if arguments.ids.is_some() {
        bail!("--ids goes with a .npy: texts bring their own ids");
    }
    let location = arguments.encoder.location()?;
    let Texts { documents, skipped } = read_texts(path)?;
    if !skipped.is_nothing() {
        note(&format!("left out: {skipped}"));
    }
    let mut vault = arguments.vectors_from.open(&arguments.vault)?;
    vault.require_owner("take documents")?;
    let encoder = vault.open_encoder(location.as_ref())?;
    let chunks = arguments.chunk.map(|size| ChunkOptions { size, overlap: arguments.overlap });

    let start = Instant::now();
    let (encoding, writing) =
        (progress("encoding", documents.len()), progress_of_time("ingesting"));
    let is_first = vault.encoder()?.is_none();
    let options = TextOptions {
        chunks,
        others: if arguments.delete_missing { Others::Delete } else { Others::Keep },
        location: location.as_ref(),
        encoding: &follow(&encoding),
        writing: &follow(&writing),
    };
    let done = vault.add_texts(&documents, &encoder, &options);
    encoding.finish_and_clear();
    writing.finish_and_clear();
    let done = done?;
    let seconds = start.elapsed().as_secs_f64();

    let collection = vault.collection()?.context("the vault is empty")?;
    if is_first {
        output.line(format!("encoder      {}", printable(encoder.identity())))?;
    }
    let part = |count: usize, what: &str| match count {
        0 => String::new(),
        count => format!("{} {what}, ", grouped(count)),
    };
    // A passage is another where its record is, and may have the vector that it had.
    let changed = done.records.saturating_sub(done.added);
    let unchanged = (done.added + done.replaced + done.unchanged).saturating_sub(done.records);
    output.line(format!(
        "{} documents: {} passages added, {} replaced, {}{}{} in the vault ({seconds:.1} s)",
        grouped(documents.len()),
        grouped(done.added),
        grouped(changed),
        part(unchanged, "unchanged"),
        part(done.deleted, "deleted"),
        grouped(collection.documents()),
    ))?;
    if done.records + done.deleted > 0 {
        publish_next(output, &arguments.vault.vault)?;
    }
    output.result(&json!({
        "texts": documents.len(),
        "added": done.added,
        "replaced": changed,
        "unchanged": unchanged,
        "deleted": done.deleted,
        "documents": collection.documents(),
        "encoder": encoder.identity(),
        "seconds": seconds,
        "protection": "blind",
    }))
}
