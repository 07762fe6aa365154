//! `shard status`.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use shard::{
    BlindCollection, CellCount, Collection, EncoderNote, Opened, Protection, Vault, VaultAccess,
};

use super::drift;
use crate::args::Status;
use crate::output::{Output, grouped, printable};
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
        output.line(match settings.protection {
            Protection::Rotated => format!("no documents yet; keys: {keys}"),
            Protection::Blind => "no documents yet; blind".to_owned(),
        })?;
        return output.result(&json!({
            "documents": 0,
            "settings": settings,
            "recovery": vault.has_recovery(),
        }));
    };
    let is_owner = vault.access() == VaultAccess::Owner;
    let position = collection.position();
    let mut result = json!({
        "access": if is_owner { "owner" } else { "query" },
        "revision": position.revision().0,
        "commit": position.commit().to_string(),
        "recovery": vault.has_recovery(),
        "documents": collection.documents(),
        "width": collection.dimension(),
        "epoch": collection.epoch().0,
        "settings": settings,
    });
    output.line(format!("documents    {}", grouped(collection.documents())))?;
    let more = match &collection {
        Opened::Rotated(held) => rotated(held, &vault, arguments, &output)?,
        Opened::Blind(held) => blind(held, &output)?,
    };
    let encoder = vault.encoder()?;
    if let Some(EncoderNote { identity, location }) = &encoder {
        let found = match location.as_str() {
            "" => String::new(),
            location => format!(", last found at {}", printable(location)),
        };
        output.line(format!("encoder      {}{found}", printable(identity)))?;
    }
    output.line(format!("epoch        {}", collection.epoch()))?;
    if is_owner {
        let code = if vault.has_recovery() { "there is one" } else { "none" };
        output.line(format!("recovery     {code}"))?;
    } else {
        output.line(format!(
            "access       a query vault of revision {}: it can be searched and no more",
            position.revision()
        ))?;
    }
    let head = vault.head()?;
    output.line(format!("commit       {} (revision {})", head.name, head.generation))?;
    if is_owner {
        super::say_backup_age(&output, &vault, &arguments.vault.vault)?;
    }
    let server = match &arguments.server {
        Some(address) => {
            let server = remote::connect(address, &arguments.connection)?;
            Some(remote::server_status(&server, position)?)
        }
        None => None,
    };
    for line in server.iter().flat_map(remote::ServerStatus::lines) {
        output.line(line)?;
    }
    if let (Some(result), Some(more)) = (result.as_object_mut(), more.as_object()) {
        result.extend(more.clone());
        result.insert("server".to_owned(), serde_json::to_value(server)?);
        let encoder =
            encoder.map(|note| json!({ "identity": note.identity, "location": note.location }));
        result.insert("encoder".to_owned(), json!(encoder));
    }
    output.result(&result)
}

/// What is particular to the paper's construction, for a person and for a program.
fn rotated(
    held: &Collection,
    vault: &Vault,
    arguments: &Status,
    output: &Output<'_>,
) -> Result<Value> {
    // A query vault does not know.
    let drift = match vault.access() {
        VaultAccess::Owner => Some(vault.drift()?),
        VaultAccess::Query => None,
    };
    let (model, settings) = (held.model(), vault.settings()?);
    let keys = match model.cells() {
        Some(cells) => format!("{} cells", grouped(cells.count())),
        None => "one per document".to_owned(),
    };
    let (split, tuning) = (model.split(), model.tuning());
    output.line(format!("keys         {keys}, {:?}", settings.transform).to_lowercase())?;
    output.line(format!(
        "dimensions   {}: {} route on the client, {} are rotated and stored",
        split.width(),
        split.prefix(),
        split.residual()
    ))?;
    output.line(format!(
        "shortlist    {} ({:.2} % of the true top 10 of {} held-out {})",
        model.candidates(),
        100.0 * tuning.held,
        tuning.sample,
        if tuning.owners_queries { "queries" } else { "documents with noise" },
    ))?;
    if let Some(drift) = &drift {
        output.line(drift::table(drift))?;
        drift::say_when_due(output, drift, &arguments.vault.vault)?;
    }
    Ok(json!({
        "protection": "rotated",
        "drift": drift.as_ref().map(drift::report),
        "refit_due": drift.as_ref().map(drift::reasons),
        "d_pub": split.prefix(),
        "candidates": model.candidates(),
        "tuning": tuning,
    }))
}

/// What is particular to a blind collection.
fn blind(held: &BlindCollection, output: &Output<'_>) -> Result<Value> {
    let (shape, blocks) = (held.shape(), held.blocks().len());
    let cells = held.cells().map(|cells| (cells.count(), cells.probe()));
    output.line(match cells {
        None => "protection   blind: the server holds ciphertexts and scores all of them".to_owned(),
        Some((count, probe)) => format!(
            "protection   blind: the server holds ciphertexts and scores those of {probe} of {count} cells, \
             and learns which cells a search asks for"
        ),
    })?;
    output.line(format!(
        "dimensions   {} in tiles of {}; {} documents share a block",
        shape.dimension(),
        shape.tile(),
        shape.rows_per_block()
    ))?;
    output.line(format!(
        "blocks       {} ({} free places)",
        grouped(blocks),
        grouped(held.places() - held.rows())
    ))?;
    let records = held.records().map(|records| (records.count(), records.slot_count()));
    if let Some((count, slots)) = records.filter(|(count, _)| *count > 0) {
        output.line(format!(
            "records      {} in {} slots of 1 KB",
            grouped(count),
            grouped(slots)
        ))?;
    }
    Ok(json!({
        "protection": "blind",
        "tile": shape.tile(),
        "blocks": blocks,
        "cells": cells.map(|(count, _)| count),
        "probe": cells.map(|(_, probe)| probe),
        "places": held.places(),
        "free": held.places() - held.rows(),
        "records": records.map_or(0, |(count, _)| count),
    }))
}
