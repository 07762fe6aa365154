//! `shard snapshot` and `shard restore-snapshot`.

use std::path::Path;

use anyhow::{Result, bail};
use serde_json::json;
use shard::server::{self, RedbRows, StoreOptions};

use crate::args::{RestoreSnapshot, Snapshot};
use crate::output::{Output, bytes, grouped};
use crate::place::refuse_vault;
use crate::remote::connect;

pub fn take(arguments: &Snapshot, json: Option<&Path>) -> Result<()> {
    let (Some(directory), Some(to)) = (&arguments.directory, &arguments.to) else {
        return take_of_running(arguments, json);
    };
    let rows = RedbRows::open_existing(directory, StoreOptions::default())?;
    report(rows.snapshot(to)?, to, json)
}

fn take_of_running(arguments: &Snapshot, json: Option<&Path>) -> Result<()> {
    let (Some(name), Some(server)) = (&arguments.name, &arguments.operator.server) else {
        bail!("neither a directory nor a server");
    };
    connect(server, &arguments.operator.connection)?.snapshot(name)?;
    let output = Output::new(json);
    output.line(format!("the server has the snapshot {name}"))?;
    output.result(&json!({ "snapshot": name }))
}

pub fn restore(arguments: &RestoreSnapshot, json: Option<&Path>) -> Result<()> {
    refuse_vault(&arguments.directory)?;
    let restored = RedbRows::restore(&arguments.from, &arguments.directory)?;
    report(restored, &arguments.directory, json)
}

fn report(copy: server::Snapshot, to: &Path, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    output.line(format!(
        "{} rows, {}, in {}",
        grouped(copy.rows as usize),
        bytes(copy.bytes as f64),
        to.display()
    ))?;
    output.result(&json!({ "rows": copy.rows, "bytes": copy.bytes }))
}
