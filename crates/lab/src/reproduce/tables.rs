//! The tables that can be made.

use anyhow::Result;
use shard_audit::alignment::partial::reproduce_alignment;
use shard_audit::alignment::procrustes::reproduce_procrustes;
use shard_audit::alignment::reference::reproduce_reference;
use shard_audit::baselines::asymmetric::reproduce_asymmetric;
use shard_audit::baselines::gaussian_release::reproduce_gaussian;
use shard_audit::baselines::order::reproduce_order;
use shard_audit::baselines::pq_codes::{reproduce_pq, reproduce_pq_only};
use shard_audit::baselines::projections::reproduce_projections;
use shard_audit::baselines::shortlist::reproduce_candidates;
use shard_audit::baselines::sigma_rec::reproduce_sigma_rec;
use shard_audit::baselines::utility::{reproduce_active_cells, reproduce_utility};
use shard_audit::finding::Section;
use shard_audit::linkage::churn::reproduce_churn;
use shard_audit::linkage::prefix::reproduce_prefix;
use shard_audit::linkage::releases::reproduce_linkage;
use shard_audit::subject::Corpus;
use shard_audit::text::reproduce_text;

use super::ckks;

/// Makes a table from the collections at hand. The callback hears what is being done.
pub type Make = fn(&[Corpus], &dyn Fn(&str)) -> Result<Section>;

/// The table that is made from the others.
pub const CLAIMS: &str = "claims";

/// Every other table, in the paper's order.
pub const TABLES: &[(&str, Make)] = &[
    ("procrustes", reproduce_procrustes),
    ("pq", reproduce_pq),
    ("reference", reproduce_reference),
    ("utility", reproduce_utility),
    ("order", reproduce_order),
    ("candidates", reproduce_candidates),
    ("active-cells", reproduce_active_cells),
    ("ckks", ckks::table),
    ("alignment", reproduce_alignment),
    ("text", reproduce_text),
    ("prefix", reproduce_prefix),
    ("pq-only", reproduce_pq_only),
    ("linkage", reproduce_linkage),
    ("churn", reproduce_churn),
    ("gaussian", reproduce_gaussian),
    ("sigma-rec", reproduce_sigma_rec),
    ("projections", reproduce_projections),
    ("asymmetric", reproduce_asymmetric),
];
