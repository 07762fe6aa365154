//! `shard rekey`.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;
use serde_json::json;
use shard_client::{Collection, rekey};

use super::publish_next;
use crate::args::VaultArguments;
use crate::output::{Output, follow, grouped, progress};
use crate::unlock;

#[derive(Args)]
pub struct Rekey {
    #[command(flatten)]
    vault: VaultArguments,
}

pub fn run(arguments: &Rekey, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let mut vault = unlock::open(&arguments.vault)?;
    let bar = progress("protecting", Collection::open(&vault)?.index().rows());
    let done = rekey(&mut vault, &follow(&bar), &mut UnwrapErr(SysRng));
    bar.finish_and_clear();
    let done = done?;
    output.line(format!(
        "fresh keys and names for {} documents; epoch {} has begun",
        grouped(done.documents),
        done.epoch
    ))?;
    output.line("query vaults exported before find nothing once it is published")?;
    publish_next(&output, &arguments.vault.vault)?;
    output.result(&json!({ "epoch": done.epoch.0, "documents": done.documents }))
}
