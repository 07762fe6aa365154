//! `shard refit`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use shard::input::read_queries;
use shard::{CellCount, Documents, FitOptions};

use super::publish_next;
use crate::args::{VaultArguments, cells};
use crate::output::{Output, follow, grouped, progress_of_time};
use crate::unlock;

#[derive(Args)]
pub struct Refit {
    #[command(flatten)]
    vault: VaultArguments,
    /// Queries to make the automatic choices for [default: documents with noise]
    #[arg(long, value_name = "FILE")]
    sample_queries: Option<PathBuf>,
    /// Cells from now on: a number, `auto` to follow the number of documents, or `micro` for a key
    /// per document [default: as before]
    #[arg(long, value_name = "N", value_parser = cells)]
    cells: Option<CellCount>,
}

pub fn run(arguments: &Refit, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let sample = arguments.sample_queries.as_deref().map(|path| read_queries(path, None));
    let sample = sample.transpose()?;
    let mut vault = unlock::open(&arguments.vault)?;
    let bar = progress_of_time("refitting");
    let watch = follow(&bar);
    let options =
        FitOptions { sample_queries: sample.as_ref().map(Documents::vectors), watch: &watch };
    let done = vault.refit(arguments.cells, options);
    bar.finish_and_clear();
    let done = done?;
    let collection = vault.collection()?.context("the vault is empty")?;
    let collection = collection.rotated().context("a blind vault has no model")?;
    let model = collection.model();
    output.line(format!(
        "fitted a model to {} documents: the first {} of {} dimensions route, a shortlist of {} \
         holds {:.2} % of the true top 10",
        grouped(done.documents),
        model.split().prefix(),
        model.split().width(),
        model.candidates(),
        100.0 * model.tuning().held,
    ))?;
    output.line(format!("epoch {} has begun", done.epoch))?;
    publish_next(&output, &arguments.vault.vault)?;
    output.result(&json!({
        "epoch": done.epoch.0,
        "documents": done.documents,
        "d_pub": model.split().prefix(),
        "cells": model.cells().map(|cells| cells.count()),
        "candidates": model.candidates(),
        "tuning": model.tuning(),
    }))
}
