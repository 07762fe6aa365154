//! The names of the baselines.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

/// A way to protect vectors that Shard is compared with. `FromStr` and `Display` are its name as
/// users write it; a Gaussian release may name its budget, `gaussian=512`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Baseline {
    /// No protection: the server has the vectors.
    Raw,
    /// `v' = R V_k^T (x - mu)` with `k = d/2` under one Haar rotation, public product-quantisation
    /// codes of `v'` for the shortlist, an encrypted query for the scores.
    Global,
    /// Product-quantisation codes of all rotated coordinates, ranked from what they stand for.
    PqOnly,
    /// The analytic Gaussian release at [`DELTA`](super::gaussian::DELTA).
    Gaussian {
        /// The budget.
        epsilon: f64,
    },
    /// `y = G x` with `d/2 x d` independent normal entries of variance `2/d`.
    GaussianProjection,
    /// `y = P x` with the first `d/2` rows of a Haar rotation.
    OrthogonalProjection,
    /// `z = A V^T (x - mu)` under one [asymmetric key](super::asymmetric), queries `A^-T V^T q`.
    Asymmetric,
}

impl Baseline {
    /// The budget of `gaussian` without a number.
    pub const EPSILON: f64 = 1.0;

    /// Every baseline, the Gaussian release at its default budget.
    pub const ALL: [Self; 7] = [
        Self::Raw,
        Self::Global,
        Self::PqOnly,
        Self::Gaussian { epsilon: Self::EPSILON },
        Self::GaussianProjection,
        Self::OrthogonalProjection,
        Self::Asymmetric,
    ];
}

impl fmt::Display for Baseline {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Raw => formatter.write_str("raw"),
            Self::Global => formatter.write_str("global"),
            Self::PqOnly => formatter.write_str("pq-only"),
            Self::Gaussian { epsilon } if *epsilon == Self::EPSILON => {
                formatter.write_str("gaussian")
            }
            Self::Gaussian { epsilon } => write!(formatter, "gaussian={epsilon}"),
            Self::GaussianProjection => formatter.write_str("gaussian-projection"),
            Self::OrthogonalProjection => formatter.write_str("orthogonal-projection"),
            Self::Asymmetric => formatter.write_str("asymmetric"),
        }
    }
}

impl FromStr for Baseline {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        if let Some(budget) = name.strip_prefix("gaussian=") {
            let epsilon: f64 = budget.parse().with_context(|| format!("budget {budget:?}"))?;
            if !(epsilon > 0.0 && epsilon.is_finite()) {
                bail!("a budget is a positive number, not {budget}");
            }
            return Ok(Self::Gaussian { epsilon });
        }
        let known = Self::ALL.into_iter().find(|baseline| baseline.to_string() == name);
        known.with_context(|| {
            let names: Vec<String> = Self::ALL.iter().map(Self::to_string).collect();
            format!("no baseline is called {name:?}; there are {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_printed() {
        for baseline in Baseline::ALL.into_iter().chain([Baseline::Gaussian { epsilon: 512.0 }]) {
            assert_eq!(baseline.to_string().parse::<Baseline>().unwrap(), baseline);
        }
        assert_eq!(
            "gaussian=0.5".parse::<Baseline>().unwrap(),
            Baseline::Gaussian { epsilon: 0.5 }
        );
    }

    #[test]
    fn other_names_are_refused_and_the_known_ones_listed() {
        let error = "rot13".parse::<Baseline>().unwrap_err().to_string();
        assert!(error.contains("rot13") && error.contains("pq-only"), "{error}");
        for budget in ["gaussian=", "gaussian=-1", "gaussian=inf", "gaussian=NaN"] {
            assert!(budget.parse::<Baseline>().is_err(), "{budget}");
        }
    }
}
