//! Baselines by name: other ways to protect a vault's vectors, searched and judged in Shard's place.

use anyhow::{Context, Result};
use shard_audit::baselines::{Baseline, Protected};
use shard_geometry::VectorSet;

/// Where keys, codebooks and noise of a baseline come from: nothing of it is kept, so that it is made
/// again for every command.
const SEED: u64 = 2026;

/// Several baselines, as one flag names them.
#[derive(Clone, PartialEq, Debug)]
pub struct Baselines(pub Vec<Baseline>);

/// A baseline's name.
pub fn one(name: &str) -> Result<Baseline, String> {
    name.parse().map_err(|error: anyhow::Error| error.to_string())
}

/// Names by commas, each counting once; or `all`, which leaves `raw` out, since raw search is what
/// all others are compared with.
pub fn several(names: &str) -> Result<Baselines, String> {
    if names == "all" {
        return Ok(Baselines(
            Baseline::ALL.into_iter().filter(|&baseline| baseline != Baseline::Raw).collect(),
        ));
    }
    let mut baselines = Vec::new();
    for name in names.split(',') {
        let baseline = one(name).map_err(|error| format!("{error}, and all for all of them"))?;
        if !baselines.contains(&baseline) {
            baselines.push(baseline);
        }
    }
    Ok(Baselines(baselines))
}

/// Vectors under a baseline.
pub fn protect(baseline: Baseline, vectors: &VectorSet) -> Result<Protected> {
    baseline.protect(vectors, SEED).with_context(|| format!("baseline {baseline}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_names_keep_their_order_and_count_each_once() {
        let baselines = several("pq-only,gaussian=512,pq-only").unwrap();
        assert_eq!(baselines.0, [Baseline::PqOnly, Baseline::Gaussian { epsilon: 512.0 }]);
        let all = several("all").unwrap().0;
        assert_eq!(all.len(), Baseline::ALL.len() - 1);
        assert!(!all.contains(&Baseline::Raw));
        for names in ["", "global,", "global,all", "rot13"] {
            let error = several(names).unwrap_err();
            assert!(error.contains("pq-only") && error.contains("all"), "{error}");
        }
    }
}
