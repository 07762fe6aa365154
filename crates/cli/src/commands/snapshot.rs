//! `shard snapshot` and `shard restore-snapshot`.

use std::path::Path;

use anyhow::Result;
use serde_json::json;
use shard_store::{RedbRows, StoreOptions};

use crate::args::{RestoreSnapshot, Snapshot};
use crate::output::{Output, bytes, grouped};

pub fn take(arguments: &Snapshot, json: Option<&Path>) -> Result<()> {
    let rows = RedbRows::open_existing(&arguments.directory, StoreOptions::default())?;
    report(rows.snapshot(&arguments.to)?, &arguments.to, json)
}

pub fn restore(arguments: &RestoreSnapshot, json: Option<&Path>) -> Result<()> {
    let restored = RedbRows::restore(&arguments.from, &arguments.directory)?;
    report(restored, &arguments.directory, json)
}

fn report(copy: shard_store::Snapshot, to: &Path, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    output.line(format!(
        "{} rows, {}, in {}",
        grouped(copy.rows as usize),
        bytes(copy.bytes as f64),
        to.display()
    ))?;
    output.result(&json!({ "rows": copy.rows, "bytes": copy.bytes }))
}
