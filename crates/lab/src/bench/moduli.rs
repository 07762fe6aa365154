//! `shard-lab bench moduli`: what another modulus would make of blind collections.
//!
//! By the formulas that the code works with: those of the error, which tests hold against measured
//! ones at the modulus in use, and of the primal attack. A pass over the blocks is a pass over memory,
//! so its time goes with the bytes of a word.

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use shard_cli::output::{Output, bytes, table};
use shard_cli::positive;
use shard_rlwe::blind::{BLOCK_RANK, CostModel, DEGREE, Precision, QueryRank, Security, Shape};

/// Bits of a modulus, and bytes of the words that hold it without being packed.
const MODULI: [(u32, usize); 3] = [(50, 8), (48, 6), (40, 5)];

#[derive(Args)]
pub struct Moduli {
    /// Number of documents
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = positive)]
    pub rows: usize,
    /// Width of documents
    #[arg(long, value_name = "D", default_value_t = 384, value_parser = positive)]
    pub dim: usize,
    /// Width of a tile
    #[arg(long, value_name = "W", default_value_t = 32, value_parser = positive)]
    pub tile: usize,
}

pub fn run(arguments: &Moduli, output: &Output<'_>) -> Result<()> {
    let shape = Shape::new(arguments.dim, arguments.tile, QueryRank::One)?;
    let (mut rows, mut reports) = (Vec::new(), Vec::<Value>::new());
    for (bits, word) in MODULI {
        let precision = Precision::at_modulus(&shape, bits);
        let security = |secrets| {
            let found = Security::at_modulus(secrets, bits);
            CostModel::ALL.map(|model| found.bits(model).floor())
        };
        let (queries, stored) = (security(1), security(BLOCK_RANK));
        let polynomial = DEGREE * word;
        let memory = shape.blocks(arguments.rows) * shape.tiles() * polynomial;
        let up = shape.tiles() * polynomial;
        let joined = |bits: [f64; 3]| bits.map(|bits| bits.to_string()).join(" / ");
        rows.push(vec![
            format!("{bits} bits, {word} bytes"),
            bytes(memory as f64),
            bytes(up as f64),
            format!("{:.1e}", precision.opened),
            format!("{:.1e}", precision.refined),
            joined(queries),
            joined(stored),
        ]);
        reports.push(json!({
            "bits": bits,
            "word_bytes": word,
            "server_memory_bytes": memory,
            "bytes_up": up,
            "rms_error": precision.opened,
            "rms_error_returned": precision.refined,
            "security_queries": queries,
            "security_rows": stored,
        }));
    }
    let heads = ["modulus", "memory", "up", "error", "of the best", "queries", "rows"];
    output.line(table(&heads, &rows))?;
    output.line(
        "  errors: deviation in units of the longest row times the query, of all scores and of \
         those returned\n  security: bits, classical / quantum / strictest",
    )?;
    output.result(&reports)
}
