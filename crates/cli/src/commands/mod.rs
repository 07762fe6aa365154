//! One module a command.

pub mod audit;
pub mod bench;
pub mod demo;
pub mod eval;
pub mod ingest;
pub mod init;
pub mod reproduce;
pub mod search;
pub mod status;

use anyhow::Result;
use clap::CommandFactory;
use shard_geometry::VectorSet;

use crate::args::Arguments;
use crate::input::Documents;

/// Prints completions.
pub fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "shard", &mut script);
    Ok(std::io::Write::write_all(&mut std::io::stdout(), &script)?)
}

/// Validated vectors of what was read.
fn vectors(documents: Documents) -> Result<(Vec<String>, VectorSet)> {
    Ok((documents.ids, VectorSet::new(documents.width, documents.values)?))
}
