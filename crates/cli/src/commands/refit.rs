//! `shard refit`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use shard::input::read_queries;
use shard::{Documents, FitOptions};

use super::{documents, publish_next};
use crate::args::VaultArguments;
use crate::output::{Output, follow, grouped, progress};
use crate::unlock;

#[derive(Args)]
pub struct Refit {
    #[command(flatten)]
    vault: VaultArguments,
    /// Queries to make the automatic choices for [default: documents with noise]
    #[arg(long, value_name = "FILE")]
    sample_queries: Option<PathBuf>,
}

pub fn run(arguments: &Refit, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let sample = arguments.sample_queries.as_deref().map(|path| read_queries(path, None));
    let sample = sample.transpose()?;
    let mut vault = unlock::open(&arguments.vault)?;
    let bar = progress("protecting", documents(&vault)?);
    let done = vault.refit(FitOptions {
        sample_queries: sample.as_ref().map(Documents::vectors),
        watch: &follow(&bar),
    });
    bar.finish_and_clear();
    let done = done?;
    let collection = vault.collection()?.context("the vault is empty")?;
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
        "candidates": model.candidates(),
        "tuning": model.tuning(),
    }))
}
