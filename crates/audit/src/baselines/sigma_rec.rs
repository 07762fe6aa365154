//! The distortion `sigma_rec` of a truncation, and why it measures no privacy.
//!
//! With `E` the centred vectors and `pi_k` the projection onto `k` principal directions,
//! `sigma_rec^2(k) = |E - pi_k(E)|_F^2 / |E|_F^2 = 1 - eta_k`. The paper's baseline asks for at least
//! 0.10. The diagnostic adds isotropic normal noise of the same squared length, deviation
//! `sigma_rec |E|_F / sqrt(N d)` on every coordinate, and compares what is left of the ten nearest
//! neighbours and of the link to the native row. Where the same `sigma_rec` leaves different amounts
//! of either, it measures neither.

use anyhow::Result;
use shard_geometry::Pca;
use shard_geometry::gaussian::Normals;

use super::measure::{RESAMPLES, SEED, other_neighbours, select, vectors_of};
use super::native::{link_directly, right};
use crate::finding::{Finding, Plot, Section, Series};
use crate::subject::{Corpus, Subject, coordinates};
use crate::tools::matrix::Matrix;
use crate::tools::neighbours::shares;
use crate::tools::statistics::{generator, interval, mean, sample};

/// Documents that are looked at.
const ROWS: usize = 5000;

/// Documents whose neighbours and links are looked for.
const PROBES: usize = 500;

/// Fewest documents with neighbours that mean something.
const FEWEST_ROWS: usize = 32;

/// The distortion that the paper's baseline asks for.
const FLOOR: f64 = 0.10;

/// `sigma_rec` after `0, 1, .., d` directions, from the variances along them.
pub fn distortions(variances: &[f64]) -> Vec<f64> {
    let total: f64 = variances.iter().sum();
    let mut left = vec![0.0; variances.len() + 1];
    // From the end, so that small tails are sums of small numbers.
    for at in (0..variances.len()).rev() {
        left[at] = left[at + 1] + variances[at];
    }
    left.iter().map(|left| if total > 0.0 { (left / total).sqrt() } else { 0.0 }).collect()
}

/// The widths that are measured: `d/16` to `3d/4`.
fn widths(width: usize) -> Vec<usize> {
    let mut widths: Vec<usize> =
        [(1, 16), (1, 8), (1, 4), (1, 2), (3, 4)].map(|(n, of)| width * n / of).to_vec();
    widths.retain(|&kept| kept > 0);
    widths.dedup();
    widths
}

/// The diagnostic of an audit, on the owner's documents.
///
/// # Errors
/// When the vectors have no principal axes, which finite ones have.
pub fn channel(subject: &Subject, progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new("sigma-rec", "Distortion is not privacy");
    section.notes.push(
        "A diagnostic without a verdict. sigma_rec is the share of length that cutting vectors down \
         takes away. Noise of the same length leaves another share of neighbours and links, so the \
         figure says how far vectors were moved and not what can be learned from them: no threshold \
         on it protects a document."
            .into(),
    );
    progress("distortion");
    let chosen = sample(subject.vectors.rows(), ROWS, &mut generator(subject.seed, 1));
    measure(&mut section, "", &subject.vectors.select(&chosen), subject.seed)?;
    Ok(section)
}

/// `sigma_rec` by encoder and width, with the diagnostic, for every corpus.
///
/// # Errors
/// When a corpus has no principal axes.
pub fn reproduce_sigma_rec(corpora: &[Corpus], progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new("sigma-rec", "Distortion by encoder and width");
    section.notes.push(
        "The paper states 0.101 for e5-large and 0.107 for mpnet at half of the width, and no other \
         figure; neither encoder can be had here."
            .into(),
    );
    for corpus in corpora {
        progress(&format!("distortion: {} / {}", corpus.name, corpus.encoder));
        let chosen = sample(corpus.vectors.rows(), ROWS, &mut generator(SEED, 1));
        let rows = Matrix::from_vectors(&select(&corpus.vectors, &chosen)?);
        let prefix = format!("dataset={},encoder={},", corpus.name, corpus.encoder);
        measure(&mut section, &prefix, &rows, SEED)?;
    }
    Ok(section)
}

/// Adds the figures of one set of vectors, settings starting with `prefix`.
fn measure(section: &mut Section, prefix: &str, rows: &Matrix, seed: u64) -> Result<()> {
    let count = rows.rows();
    if count < FEWEST_ROWS {
        section.notes.push(format!("{count} documents are too few to have neighbours."));
        return Ok(());
    }
    let vectors = vectors_of(rows)?;
    let pca = Pca::fit(&vectors)?;
    let distortions = distortions(pca.variances());
    let coordinates = coordinates(&pca, &vectors);
    let probes = sample(count, PROBES, &mut generator(seed, 2));
    let exact = other_neighbours(&coordinates, &probes, 10);
    let natives = coordinates.norms();
    let length = natives.iter().map(|norm| norm * norm).sum::<f64>().sqrt();

    let mut lines = [("truncation", Vec::new()), ("noise", Vec::new())];
    for kept in widths(rows.width()) {
        let sigma_rec = distortions[kept];
        let setting = format!("{prefix}kept={kept}");
        let finding = |setting: &str, metric: &str, value: f64| {
            Finding::new(&section.name, setting, metric, value).on(seed, count)
        };
        let mut findings = vec![
            finding(&setting, "sigma_rec", sigma_rec),
            finding(&setting, "meets_floor", f64::from(sigma_rec >= FLOOR)),
        ];
        let deviation = sigma_rec * length / ((count * rows.width()) as f64).sqrt();
        let moved = [truncated(&coordinates, kept), noisy(&coordinates, deviation, seed)];
        for ((defence, line), moved) in lines.iter_mut().zip(&moved) {
            let setting = format!("{setting},defence={defence}");
            let overlap = shares(&exact, &other_neighbours(moved, &probes, 10));
            let linked = right(&link_directly(&moved.select(&probes), &coordinates), &probes);
            let ci95 = interval(&overlap, RESAMPLES, seed);
            line.push((sigma_rec, mean(&overlap), Some(ci95)));
            findings.push(
                finding(&setting, "nn_overlap_at_10", mean(&overlap))
                    .ci95(ci95)
                    .chance((10.0 / (count - 1) as f64).min(1.0)),
            );
            findings.push(
                Finding::share(&section.name, &setting, "link_recall_at_1", &linked)
                    .chance(1.0 / count as f64)
                    .on(seed, count),
            );
        }
        section.findings.extend(findings);
    }
    let named = prefix.trim_end_matches(',').replace([',', '='], "-");
    let series = lines.into_iter().map(|(name, mut points)| {
        points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        Series { name: name.to_owned(), points }
    });
    section.plots.push(Plot {
        name: if named.is_empty() { "sigma-rec".into() } else { format!("sigma-rec-{named}") },
        title: "Neighbours left at the same distortion".into(),
        x_label: "sigma_rec".into(),
        y_label: "NN overlap@10".into(),
        logarithmic: false,
        series: series.collect(),
    });
    Ok(())
}

/// `pi_k`: the first coordinates, the others zero.
fn truncated(coordinates: &Matrix, kept: usize) -> Matrix {
    let mut out = coordinates.clone();
    let width = out.width();
    out.values_mut().chunks_exact_mut(width).for_each(|row| row[kept..].fill(0.0));
    out
}

/// Every coordinate with normal noise of this deviation.
fn noisy(coordinates: &Matrix, deviation: f64, seed: u64) -> Matrix {
    let mut out = coordinates.clone();
    let mut rng = generator(seed, 3);
    let mut normals = Normals::new(&mut rng);
    out.values_mut().iter_mut().for_each(|x| *x += deviation * normals.draw());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::sample::{judged_corpus, mixture, subject};

    #[test]
    fn distortion_is_the_share_of_length_that_truncation_takes() {
        let vectors = mixture(80, 10, 1);
        let pca = Pca::fit(&vectors).unwrap();
        let whole = coordinates(&pca, &vectors);
        let square = |rows: &Matrix| rows.values().iter().map(|x| x * x).sum::<f64>();
        let by_variance = distortions(pca.variances());
        for (kept, by_variance) in by_variance.iter().enumerate() {
            let cut = truncated(&whole, kept);
            let lost = (1.0 - square(&cut) / square(&whole)).max(0.0).sqrt();
            assert!((by_variance - lost).abs() < 1e-6, "{kept}");
        }
        assert_eq!((by_variance[0], by_variance[10]), (1.0, 0.0));
        assert_eq!(distortions(&[0.0, 0.0]), [0.0; 3]);
    }

    #[test]
    fn noise_has_the_length_of_the_distortion() {
        let rows = Matrix::from_vectors(&mixture(400, 16, 2));
        let moved = noisy(&rows, 0.05, 1);
        let squares = rows.values().iter().zip(moved.values()).map(|(x, y)| (x - y).powi(2));
        let deviation = (squares.sum::<f64>() / (400.0 * 16.0)).sqrt();
        assert!((deviation / 0.05 - 1.0).abs() < 0.05, "{deviation}");
    }

    #[test]
    fn links_find_rows_that_moved_little_and_nothing_in_noise() {
        let rows = Matrix::from_vectors(&mixture(300, 16, 3));
        let targets: Vec<usize> = (0..300).collect();
        let linked = |moved: &Matrix| mean(&right(&link_directly(moved, &rows), &targets));
        assert_eq!(linked(&noisy(&rows, 1e-3, 1)), 1.0);
        let nothing = noisy(&Matrix::zeros(300, 16), 1.0, 1);
        assert!(linked(&nothing) < 0.03, "{}", linked(&nothing));
    }

    #[test]
    fn sections_have_every_width_and_a_plot_of_both_defences() {
        let section = channel(&subject(200, 16, 1), &|_| ()).unwrap();
        assert_eq!(section.findings.len(), 5 * (2 + 2 * 2));
        assert_eq!(section.plots[0].series.len(), 2);
        assert_eq!(section.verdict, None);
        let small = channel(&subject(20, 16, 1), &|_| ()).unwrap();
        assert!(small.findings.is_empty() && small.notes.len() == 2);
        let corpora = [judged_corpus(100, 4, 2)];
        let table = reproduce_sigma_rec(&corpora, &|_| ()).unwrap();
        assert!(table.findings[0].setting.starts_with("dataset=sample,encoder=minilm,kept="));
    }
}
