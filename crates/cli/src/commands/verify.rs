//! `shard verify`.

use std::path::Path;

use anyhow::{Result, bail};
use serde_json::json;

use crate::args::Verify;
use crate::output::{Output, grouped, printable};

pub fn run(arguments: &Verify, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let found = shard::server::verify(&arguments.directory)?;
    let counts = [
        ("collections", found.collections),
        ("epochs", found.epochs),
        ("rows", found.rows),
        ("blobs", found.blobs),
    ];
    for (what, count) in counts {
        output.line(format!("{what:12} {}", grouped(count as usize)))?;
    }
    for problem in &found.problems {
        output.line(format!("problem      {}", printable(problem)))?;
    }
    output.result(&json!({
        "collections": found.collections,
        "epochs": found.epochs,
        "rows": found.rows,
        "blobs": found.blobs,
        "problems": found.problems,
    }))?;
    match found.problems.as_slice() {
        [] => output.line("everything is as it was written"),
        [only] => bail!("{} is damaged: {only}", arguments.directory.display()),
        [first, rest @ ..] => bail!(
            "{} is damaged in {} places, first: {first}",
            arguments.directory.display(),
            1 + rest.len()
        ),
    }
}
