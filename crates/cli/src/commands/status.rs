//! `shard status`.

use std::path::Path;

use anyhow::Result;
use serde_json::json;
use shard::{CellCount, VaultAccess};

use super::drift;
use crate::args::Status;
use crate::output::{Output, grouped};
use crate::{remote, unlock};

pub fn run(arguments: &Status, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let vault = unlock::open(&arguments.vault)?;
    let settings = vault.settings()?;
    let keys = match settings.cells {
        CellCount::Auto => "cells as documents come".to_owned(),
        CellCount::Cells(count) => format!("{} cells", grouped(count)),
        CellCount::Micro => "one per document".to_owned(),
    };
    let Some(collection) = vault.collection()? else {
        output.line(format!("no documents yet; keys: {keys}"))?;
        return output.result(&json!({
            "documents": 0,
            "settings": settings,
            "recovery": vault.has_recovery(),
        }));
    };
    // A query vault does not know; everything is read before anything is printed.
    let drift = match vault.access() {
        VaultAccess::Owner => Some(vault.drift()?),
        VaultAccess::Query => None,
    };
    let (model, index) = (collection.model(), collection.index());
    let keys = match model.cells() {
        Some(cells) => format!("{} cells", grouped(cells.count())),
        None => keys,
    };
    output.line(format!("documents    {}", grouped(index.rows())))?;
    output.line(format!("keys         {keys}, {:?}", settings.transform).to_lowercase())?;
    output.line(format!(
        "dimensions   {}: {} route on the client, {} are rotated and stored",
        model.split().width(),
        model.split().prefix(),
        model.split().residual()
    ))?;
    output.line(format!(
        "shortlist    {} ({:.2} % of the true top 10 of {} held-out {})",
        model.candidates(),
        100.0 * model.tuning().held,
        model.tuning().sample,
        if model.tuning().owners_queries { "queries" } else { "documents with noise" },
    ))?;
    output.line(format!("epoch        {}", model.epoch()))?;
    match &drift {
        Some(drift) => {
            let code = if vault.has_recovery() { "there is one" } else { "none" };
            output.line(format!("recovery     {code}"))?;
            output.line(drift::table(drift))?;
            drift::say_when_due(&output, drift, &arguments.vault.vault)?;
        }
        None => output.line(format!(
            "access       a query vault of revision {}: it can be searched and no more",
            collection.revision()
        ))?,
    }
    let head = vault.head()?;
    output.line(format!("commit       {} (revision {})", head.name, head.generation))?;
    if drift.is_some() {
        super::say_backup_age(&output, &vault, &arguments.vault.vault)?;
    }
    let server = match &arguments.server {
        Some(address) => {
            let server = remote::connect(address, &arguments.connection)?;
            Some(remote::server_status(&server, &collection)?)
        }
        None => None,
    };
    for line in server.iter().flat_map(remote::ServerStatus::lines) {
        output.line(line)?;
    }
    output.result(&json!({
        "access": if drift.is_some() { "owner" } else { "query" },
        "revision": collection.revision().0,
        "commit": collection.commit().to_string(),
        "recovery": vault.has_recovery(),
        "drift": drift.as_ref().map(drift::report),
        "refit_due": drift.as_ref().map(drift::reasons),
        "documents": index.rows(),
        "width": model.split().width(),
        "d_pub": model.split().prefix(),
        "candidates": model.candidates(),
        "epoch": model.epoch().0,
        "settings": settings,
        "tuning": model.tuning(),
        "server": server,
    }))
}
