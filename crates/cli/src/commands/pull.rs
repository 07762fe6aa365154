//! `shard pull`.

use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::publish_next;
use crate::args::Pull;
use crate::interrupt;
use crate::output::{Output, bytes, follow, grouped, progress};

pub fn run(arguments: &Pull, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let mut vault = arguments.server.open(&arguments.vault)?;
    let server = arguments.server.connect()?;
    interrupt::watch();
    let bar = progress("pulling", 0);
    let done = vault.pull(&server, &follow(&bar));
    bar.finish_and_clear();
    let done = done?;
    let repeated = done.put_again + done.deleted_again > 0 || done.epoch_dropped;
    if done.from == done.to && !repeated {
        output.line(format!("revision {}: nothing to pull from {}", done.to, server.address()))?;
    } else {
        output.line(format!(
            "from revision {} to {} ({} fetched)",
            done.from,
            done.to,
            bytes(done.bytes as f64)
        ))?;
    }
    super::leave_vectors(&mut vault, &server, &output)?;
    if done.put_again + done.deleted_again > 0 {
        output.line(format!(
            "on top of it, what only this copy had: {} documents put, {} deleted",
            grouped(done.put_again),
            grouped(done.deleted_again),
        ))?;
    }
    if done.contested > 0 {
        output.line(format!(
            "{} documents were changed on both sides: this copy's change stands",
            grouped(done.contested)
        ))?;
    }
    if done.epoch_dropped {
        output.line("the epoch that this copy had begun was given up: refit or rekey again")?;
    }
    if done.put_again + done.deleted_again > 0 {
        publish_next(&output, &arguments.vault.vault)?;
    }
    output.result(&json!({
        "server": server.address().to_string(),
        "from": done.from,
        "to": done.to,
        "bytes": done.bytes,
        "put_again": done.put_again,
        "deleted_again": done.deleted_again,
        "contested": done.contested,
        "epoch_dropped": done.epoch_dropped,
    }))
}
