//! `shard compact`.

use std::path::Path;

use anyhow::Result;
use serde_json::json;
use shard_store::{RedbRows, StoreOptions};

use crate::args::Compact;
use crate::output::{Output, bytes, grouped};

pub fn run(arguments: &Compact, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let rows = RedbRows::open_existing(&arguments.directory, StoreOptions::default())?;
    let done = rows.compact()?;
    output.line(format!(
        "{} rows, {} before, {} after",
        grouped(done.rows as usize),
        bytes(done.bytes_before as f64),
        bytes(done.bytes_after as f64)
    ))?;
    output.result(&json!({
        "rows": done.rows,
        "bytes_before": done.bytes_before,
        "bytes_after": done.bytes_after,
    }))
}
