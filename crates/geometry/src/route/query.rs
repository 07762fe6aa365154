//! A query as routers take it.

/// The prefix of a query, and the length of its residual times the weight of residuals, of a query brought to a length
/// between a half and one. Two queries that differ by a power of two are the same.
#[derive(Clone, PartialEq)]
pub struct RouteQuery {
    /// The prefix, then the weighted length.
    values: Vec<f32>,
}

impl RouteQuery {
    /// Takes the uncentred coordinates of a query, of which the first `prefix` route, and the weight that the model gives
    /// residuals.
    ///
    /// # Panics
    /// If there are fewer coordinates than `prefix`.
    pub fn new(coordinates: &[f64], prefix: usize, weight: f64) -> Self {
        let unit = 1.0 / power_of_two_above(norm(coordinates));
        let (own, residual) = coordinates.split_at(prefix);
        let mut values: Vec<f32> = own.iter().map(|u| (u * unit) as f32).collect();
        values.push((weight * norm(residual) * unit) as f32);
        Self { values }
    }

    /// The prefix.
    pub(crate) fn prefix(&self) -> &[f32] {
        &self.values[..self.values.len() - 1]
    }

    /// The length of the residual times its weight.
    pub(crate) fn residual(&self) -> f32 {
        self.values[self.values.len() - 1]
    }
}

/// A query is confidential, so only its width prints.
impl std::fmt::Debug for RouteQuery {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "RouteQuery(width {})", self.values.len() - 1)
    }
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The smallest power of two above a norm; one for zero. A vector divided by it keeps its digits, and has a length
/// between a half and one.
///
/// # Panics
/// If the norm is not that of a vector that `f32` can hold: negative, not finite, or beyond `2^500` either way.
pub fn power_of_two_above(norm: f64) -> f64 {
    if norm == 0.0 {
        return 1.0;
    }
    let exponent = (norm.to_bits() >> 52) as i64 - 1023;
    assert!((-500..=500).contains(&exponent), "a norm of f32 vectors, which {norm:e} is not");
    f64::from_bits(((exponent + 1 + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_lie_just_above() {
        assert_eq!(
            [0.0, 0.75, 1.0, 1.5, 2.0, 3.9].map(power_of_two_above),
            [1.0, 1.0, 2.0, 2.0, 4.0, 4.0]
        );
        for norm in [1e-44, 3e-20, 7e19, 4e40] {
            let power = power_of_two_above(norm);
            assert!(norm < power && power <= 2.0 * norm, "{norm} {power}");
        }
    }

    #[test]
    fn a_query_is_its_direction() {
        let query =
            |scale: f64| RouteQuery::new(&[3.0, 4.0, 0.0, 12.0].map(|x| x * scale), 2, 0.25);
        assert_eq!(query(1.0).prefix(), [3.0 / 16.0, 4.0 / 16.0]);
        assert_eq!(query(1.0).residual(), 3.0 / 16.0);
        for exponent in [-140, -1, 5, 120] {
            assert_eq!(query(2f64.powi(exponent)), query(1.0));
        }
        let zero = RouteQuery::new(&[0.0; 4], 2, 0.25);
        assert_eq!((zero.prefix(), zero.residual()), (&[0.0; 2][..], 0.0));
        assert_eq!(format!("{:?}", query(1.0)), "RouteQuery(width 2)");
    }
}
