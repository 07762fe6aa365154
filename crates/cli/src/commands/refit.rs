//! `shard refit`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;
use serde_json::json;
use shard_client::{Collection, refit};

use super::publish_next;
use crate::args::VaultArguments;
use crate::output::{Output, follow, grouped, progress};
use crate::unlock;
use shard::input::{read_queries, vectors};

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
    let sample = match &arguments.sample_queries {
        Some(path) => Some(vectors(read_queries(path, None)?)?.1),
        None => None,
    };
    let mut vault = unlock::open(&arguments.vault)?;
    let bar = progress("protecting", Collection::open(&vault)?.index().rows());
    let done = refit(&mut vault, sample.as_ref(), &follow(&bar), &mut UnwrapErr(SysRng));
    bar.finish_and_clear();
    let done = done?;
    let collection = Collection::open(&vault)?;
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
