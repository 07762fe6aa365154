//! The tables that can be made.

use anyhow::Result;
use shard_audit::finding::Section;
use shard_audit::subject::Corpus;

use super::ckks;

/// Makes a table from the collections at hand. The callback hears what is being done.
pub type Make = fn(&[Corpus], &dyn Fn(&str)) -> Result<Section>;

/// The table that is made from the others.
pub const CLAIMS: &str = "claims";

/// Every other table, in the paper's order.
pub const TABLES: &[(&str, Make)] = &[("ckks", ckks::table)];
