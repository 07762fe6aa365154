//! `shard compact`.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;
use shard::server::{RedbRows, StoreOptions};

use crate::args::Compact;
use crate::output::{Output, bytes, grouped};
use crate::remote::connect;

pub fn run(arguments: &Compact, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let Some(directory) = &arguments.directory else {
        let operator = &arguments.operator;
        let server = operator.server.as_ref().context("neither a directory nor a server")?;
        connect(server, &operator.connection)?.compact()?;
        output.line("compacted")?;
        return output.result(&json!({ "compacted": true }));
    };
    let rows = RedbRows::open_existing(directory, StoreOptions::default())?;
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
