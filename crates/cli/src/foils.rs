//! Foils by name: other ways to protect a vault's vectors, searched and judged in Shard's place.

use anyhow::{Context, Result};
use shard_audit::foils::{Foil, Protected};
use shard_geometry::VectorSet;

/// Where keys, codebooks and noise of a foil come from: nothing of it is kept, so that it is made
/// again for every command.
const SEED: u64 = 2026;

/// Several foils, as one flag names them.
#[derive(Clone, PartialEq, Debug)]
pub struct Foils(pub Vec<Foil>);

/// A foil's name.
pub fn one(name: &str) -> Result<Foil, String> {
    name.parse().map_err(|error: anyhow::Error| error.to_string())
}

/// Names by commas, each counting once; or `all`, which leaves `raw` out, since raw search is what
/// all others are compared with.
pub fn several(names: &str) -> Result<Foils, String> {
    if names == "all" {
        return Ok(Foils(Foil::ALL.into_iter().filter(|&foil| foil != Foil::Raw).collect()));
    }
    let mut foils = Vec::new();
    for name in names.split(',') {
        let foil = one(name).map_err(|error| format!("{error}, and all for all of them"))?;
        if !foils.contains(&foil) {
            foils.push(foil);
        }
    }
    Ok(Foils(foils))
}

/// Vectors under a foil.
pub fn protect(foil: Foil, vectors: &VectorSet) -> Result<Protected> {
    foil.protect(vectors, SEED).with_context(|| format!("foil {foil}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_names_keep_their_order_and_count_each_once() {
        let foils = several("pq-only,gaussian=512,pq-only").unwrap();
        assert_eq!(foils.0, [Foil::PqOnly, Foil::Gaussian { epsilon: 512.0 }]);
        let all = several("all").unwrap().0;
        assert_eq!(all.len(), Foil::ALL.len() - 1);
        assert!(!all.contains(&Foil::Raw));
        for names in ["", "global,", "global,all", "rot13"] {
            let error = several(names).unwrap_err();
            assert!(error.contains("pq-only") && error.contains("all"), "{error}");
        }
    }
}
