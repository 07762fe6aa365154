//! `shard ingest`.

#[cfg(feature = "encode")]
mod texts;

use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::json;
use shard::input::{Holds, holds, read_parquet, read_queries, read_records, read_vectors};
use shard::{
    ClientError, Documents, Error, FitOptions, Model, Opened, Others, Protection, Record, Vault,
};

use super::{drift, publish_next};
use crate::args::Ingest;
use crate::output::{Output, follow, grouped, note, progress_of_time};

pub fn run(arguments: &Ingest, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    if let Some(path) = &arguments.documents
        && holds(path, Some(&arguments.vector_column))? == Holds::Texts
    {
        #[cfg(feature = "encode")]
        return texts::run(arguments, path, &output);
        #[cfg(not(feature = "encode"))]
        return Err(crate::texts::no_encoders());
    }
    let records = arguments.records.as_deref().map(read_records).transpose()?;
    let Some(path) = &arguments.documents else {
        let mut vault = arguments.vectors_from.open(&arguments.vault)?;
        let set = set_records(&mut vault, records.unwrap_or_default(), &output)?;
        if set > 0 {
            publish_next(&output, &arguments.vault.vault)?;
        }
        return output.result(&json!({ "records_set": set }));
    };
    let parquet = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet"));
    let documents = if parquet && arguments.ids.is_none() {
        read_parquet(path, &arguments.id_column, &arguments.vector_column)?
    } else {
        read_vectors(path, arguments.ids.as_deref())?
    };
    let sample = arguments.sample_queries.as_deref().map(|path| read_queries(path, None));
    let sample = sample.transpose()?;

    let mut vault = arguments.vectors_from.open(&arguments.vault)?;
    if let Some(records) = &records {
        check_records(&vault, &documents, arguments.delete_missing, records)?;
    }
    let start = Instant::now();
    let bar = progress_of_time("ingesting");
    let watch = follow(&bar);
    let options =
        FitOptions { sample_queries: sample.as_ref().map(Documents::vectors), watch: &watch };
    let others = if arguments.delete_missing { Others::Delete } else { Others::Keep };
    let given = records.as_ref().map(Vec::len);
    let done = vault.ingest_with(&documents, records.unwrap_or_default(), others, options);
    bar.finish_and_clear();
    let done = done?;
    let seconds = start.elapsed().as_secs_f64();

    let collection = vault.collection()?.context("the vault is empty")?;
    if let Some(held) = collection.rotated().filter(|_| done.fitted) {
        output.line(fitted(held.model()))?;
    }
    let deleted = if arguments.delete_missing {
        format!("{} deleted, ", grouped(done.deleted))
    } else {
        String::new()
    };
    output.line(format!(
        "{} documents added, {} replaced, {}{deleted}{} in the vault ({seconds:.1} s)",
        grouped(done.added),
        grouped(done.replaced),
        if done.unchanged > 0 {
            format!("{} unchanged, ", grouped(done.unchanged))
        } else {
            String::new()
        },
        grouped(collection.documents()),
    ))?;
    if let Some(uneven) = vault.uneven_lengths(&documents, &collection) {
        note(&uneven.to_string());
    }
    let own = documents.records().len();
    let kept = match &collection {
        Opened::Blind(_) if given.is_some() || own > 0 => Some(done.records),
        Opened::Rotated(_) if own > 0 => {
            note("only vectors were taken: a rotated vault keeps no other fields");
            None
        }
        _ => None,
    };
    if let Some(set) = kept {
        say_records(set, given.unwrap_or(own), &output)?;
    }
    if !done.fitted && done.added + done.replaced + done.deleted + done.records > 0 {
        publish_next(&output, &arguments.vault.vault)?;
    }
    let mut result = json!({
        "added": done.added,
        "replaced": done.replaced,
        "unchanged": done.unchanged,
        "deleted": done.deleted,
        "documents": collection.documents(),
        "seconds": seconds,
        "records_set": kept,
    });
    let more = match &collection {
        Opened::Rotated(held) => {
            let drift = vault.drift()?;
            drift::say_when_due(&output, &drift, &arguments.vault.vault)?;
            let model = held.model();
            json!({
                "protection": "rotated",
                "fitted": done.fitted,
                "d_pub": model.split().prefix(),
                "cells": model.cells().map(|cells| cells.count()),
                "candidates": model.candidates(),
                "tuning": model.tuning(),
                "refit_due": drift::reasons(&drift),
            })
        }
        Opened::Blind(held) => json!({
            "protection": "blind",
            "blocks": held.blocks().len(),
            "tile": held.shape().tile(),
        }),
    };
    if let (Some(result), Some(more)) = (result.as_object_mut(), more.as_object()) {
        result.extend(more.clone());
    }
    output.result(&result)
}

/// Refuses records before documents are taken: where the vault keeps none, or of a document that will not
/// be there.
fn check_records(
    vault: &Vault,
    documents: &Documents,
    only_these: bool,
    records: &[Record],
) -> Result<()> {
    if vault.settings()?.protection == Protection::Rotated {
        bail!("--records: this vault is rotated, and records are kept of blind vaults only");
    }
    let mut known: HashSet<&str> = documents.ids().iter().map(String::as_str).collect();
    let held = vault.collection()?.filter(|_| !only_these);
    if let Some(collection) = held.as_ref().and_then(Opened::blind) {
        known.extend(collection.ids().map(|(_, id)| id));
    }
    let missing = records.iter().filter(|record| !known.contains(record.id.as_str()));
    let missing: Vec<String> = missing.map(|record| record.id.clone()).collect();
    if !missing.is_empty() {
        return Err(Error::from(ClientError::NoSuchDocuments(missing)))
            .context("--records names documents that are not there");
    }
    Ok(())
}

/// Sets records, and says how many.
fn set_records(vault: &mut Vault, records: Vec<Record>, output: &Output<'_>) -> Result<usize> {
    let given = records.len();
    let set = vault.set_records(records)?;
    say_records(set, given, output)?;
    Ok(set)
}

/// Says how many records are other than before, of so many.
fn say_records(set: usize, given: usize, output: &Output<'_>) -> Result<()> {
    let unchanged = match given.saturating_sub(set) {
        0 => String::new(),
        unchanged => format!(", {} unchanged", grouped(unchanged)),
    };
    output.line(format!("{} records set{unchanged}", grouped(set)))
}

/// What a first ingest fitted.
fn fitted(model: &Model) -> String {
    let keys = model.cells().map_or("one per document".to_owned(), |cells| {
        let count = cells.count();
        format!("{} {}", grouped(count), if count == 1 { "cell" } else { "cells" })
    });
    let (split, tuning) = (model.split(), model.tuning());
    format!(
        "fitted a model: {} dimensions, the first {} route, {} are rotated; keys: {keys}\n\
         a shortlist of {} holds {:.2} % of the true top 10 of {} held-out {}",
        split.width(),
        split.prefix(),
        split.residual(),
        model.candidates(),
        100.0 * tuning.held,
        tuning.sample,
        if tuning.owners_queries { "queries" } else { "documents with noise" },
    )
}
