//! How closely two lists of scores follow each other.

/// Pearson's correlation of pairs `(x, y)`,
///
/// ```text
/// sum (x - mean x)(y - mean y) / sqrt(sum (x - mean x)^2 sum (y - mean y)^2) .
/// ```
///
/// One where either does not vary: there is nothing to disagree about.
pub fn pearson(pairs: &[(f64, f64)]) -> f64 {
    let count = pairs.len().max(1) as f64;
    let (mean_x, mean_y) = pairs.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0, y + p.1));
    let (mean_x, mean_y) = (mean_x / count, mean_y / count);
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        let (x, y) = (x - mean_x, y - mean_y);
        xx += x * x;
        yy += y * y;
        xy += x * y;
    }
    let scale = (xx * yy).sqrt();
    if scale > 0.0 { xy / scale } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlation_is_that_of_the_definition() {
        // Both means are 2.75, the sums of squares 8.75 and 6.75, that of products 5.75.
        let pairs = [(1.0, 2.0), (2.0, 1.0), (3.0, 4.0), (5.0, 4.0)];
        assert!((pearson(&pairs) - 5.75 / (8.75_f64 * 6.75).sqrt()).abs() < 1e-12);
        let line: Vec<(f64, f64)> = (0..9).map(|x| (f64::from(x), 3.0 - f64::from(x))).collect();
        assert!((pearson(&line) + 1.0).abs() < 1e-12);
        assert_eq!((pearson(&[]), pearson(&[(1.0, 2.0), (1.0, 3.0)])), (1.0, 1.0));
    }
}
