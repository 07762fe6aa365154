//! The principal axes in which an attacker sees native vectors.
//!
//! A residual is `V^T (x - mu)` without its first coordinates, and the owner's `mu` and `V` never
//! leave the client. An attacker with native vectors `x` has to fit axes of its own, and sees
//! residuals that differ a little from those that were rotated. There are three attackers:
//! - *owner*: has the owner's axes. The paper's strengthened observer; also an attacker with the
//!   whole collection and nothing else, since a fit is repeatable.
//! - *reference*: has a corpus that holds the owner's documents and as many others. There are no
//!   others at hand, so the axes are fitted to two thirds of all documents, from which targets,
//!   pairs and candidates are then taken. That is as far off: with documents alike, the covariance
//!   of a share `s` of `N` differs from that of all like `sqrt((1 - s) / (s N))`, that of all and
//!   `k` others like `sqrt(k / (N (N + k)))`, and both are `sqrt(1 / (2 N))` here.
//! - *auxiliary*: has axes of documents of the same kind, none of them stored. The same two thirds
//!   are protected anew under axes of their own, and the attacker's are fitted to the other third.
//!   The attacks do not depend on the family of keys, so fast ones are taken.

use shard_geometry::Pca;

use super::estimators::divided;
use super::span::scale_by_medians;
use crate::finding::Finding;
use crate::subject::{KeyFamily, Subject, protect};
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{generator, sample};
use crate::tools::whole_cells::whole_cells;

/// The axes of an attacker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Axes {
    Owner,
    Reference,
    Auxiliary,
}

impl Axes {
    /// In legends.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner's",
            Self::Reference => "reference",
            Self::Auxiliary => "auxiliary",
        }
    }

    /// The beginning of a setting: whether the release itself is attacked, and whose axes are used.
    pub(super) fn setting(self) -> &'static str {
        match self {
            Self::Owner => "subject=release,axes=owner,",
            Self::Reference => "subject=release,axes=reference,",
            Self::Auxiliary => "subject=anew,axes=auxiliary,",
        }
    }
}

/// Whether a verdict rests on a figure: on attacks on the release itself, by whoever has the same
/// documents among others or nothing but them.
pub(super) fn counts(finding: &Finding) -> bool {
    finding.part("subject") == Some("release")
}

/// What the notes of a section say of the axes.
pub(super) const NOTE: &str = "The residuals were rotated in principal axes that never leave the \
     vault. The verdict rests on two attackers. With axes of a reference corpus, the attacker fits \
     them to a corpus that holds your documents and as many others. With your own axes, the attacker \
     has your whole collection and nothing else, from which the same axes follow, or is the paper's \
     strengthened observer. With axes of other documents, the attacker has documents of the same \
     kind, and attacks part of yours protected anew: that is for comparison.";

/// Stored rows at the scale of residuals, and the residual of each as the attacker sees it.
pub(super) struct Known {
    pub(super) rows: Matrix,
    pub(super) residuals: Matrix,
    pub(super) cells: Vec<u32>,
    /// The document of each.
    pub(super) documents: Vec<usize>,
    pub(super) most_in_a_cell: usize,
}

impl Known {
    pub(super) fn new(
        rows: Matrix,
        residuals: Matrix,
        cells: Vec<u32>,
        documents: Vec<usize>,
    ) -> Self {
        let mut counts = vec![0; cells.iter().max().map_or(0, |&last| last as usize + 1)];
        cells.iter().for_each(|&cell| counts[cell as usize] += 1);
        // The attacker's reference is native residuals, whose norms set the scale.
        let scale = scale_by_medians(&rows, &residuals);
        let rows = divided(rows, scale);
        let most_in_a_cell = counts.into_iter().max().unwrap_or(0);
        Self { rows, residuals, cells, documents, most_in_a_cell }
    }

    /// The release under attack in the owner's axes, or some of its cells. `None` when rows are not
    /// rotated residuals.
    pub(super) fn of(subject: &Subject) -> Option<Self> {
        let release = subject.release();
        let width = subject.coordinates.width().checked_sub(subject.prefix_width)?;
        if width == 0 || release.rows.width() != width {
            return None;
        }
        let rng = &mut generator(subject.seed, CHOSEN);
        let mut places = whole_cells(&release.cells, MOST_ROWS, rng);
        places = sample(places.len(), places.len(), rng).into_iter().map(|at| places[at]).collect();
        let documents: Vec<usize> = places.iter().map(|&row| subject.documents[row]).collect();
        let cells = places.iter().map(|&row| release.cells[row]).collect();
        let residuals = subject.residuals(&documents);
        Some(Self::new(release.rows.select(&places), residuals, cells, documents))
    }

    /// The same in axes that the attacker fitted: of a reference, and of an auxiliary corpus. Each is
    /// made when it is asked for, so that one is in memory at a time.
    pub(super) fn in_fitted_axes(&self, subject: &Subject) -> impl Iterator<Item = (Axes, Self)> {
        let fitted = subject.axes.iter().flat_map(|axes| {
            let in_reference = |&row: &usize| axes.in_reference[self.documents[row]];
            let kept: Vec<usize> = (0..self.rows.rows()).filter(in_reference).collect();
            [Axes::Reference, Axes::Auxiliary].map(|which| (which, axes, kept.clone()))
        });
        fitted.filter(|(.., kept)| !kept.is_empty()).map(|(which, axes, kept)| {
            let documents: Vec<usize> = kept.iter().map(|&row| self.documents[row]).collect();
            let cells: Vec<u32> = kept.iter().map(|&row| self.cells[row]).collect();
            let own = residuals_by(&axes.reference, subject, &documents);
            let known = match which {
                Axes::Auxiliary => {
                    let rng = &mut generator(subject.seed, ANEW);
                    let rows = protect(&own, &cells, KeyFamily::Structured, rng).rows;
                    let seen = residuals_by(&axes.auxiliary, subject, &documents);
                    Self::new(rows, seen, cells, documents)
                }
                _ => Self::new(self.rows.select(&kept), own, cells, documents),
            };
            (which, known)
        })
    }
}

/// Residuals of documents in other axes than the owner's.
fn residuals_by(pca: &Pca, subject: &Subject, documents: &[usize]) -> Matrix {
    const AT_ONCE: usize = 4_096;
    let residual = subject.residual();
    let mut values = Vec::with_capacity(documents.len() * residual.len());
    for some in documents.chunks(AT_ONCE) {
        let vectors = subject.vectors.select(some);
        let vectors: Vec<f32> = vectors.values().iter().map(|&x| x as f32).collect();
        let mut all = Matrix::zeros(some.len(), subject.vectors.width());
        pca.project_rows(&vectors, all.values_mut());
        all.iter().for_each(|row| values.extend_from_slice(&row[residual.clone()]));
    }
    Matrix::new(residual.len(), values)
}

/// Rows that are attacked; no game has more targets, candidates and pairs together.
const MOST_ROWS: usize = 40_000;

/// The purpose of the randomness by which they are chosen.
const CHOSEN: u64 = 0x6178_6573_0003;

/// The purpose of the randomness of keys.
const ANEW: u64 = 0x6178_6573_0002;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::subject::{FittedAxes, coordinates};
    use crate::tools::matrix::normal;
    use crate::view::{Release, ServerView};
    use shard_geometry::VectorSet;

    /// Documents whose variances fall by a tenth from each direction to the next, a quarter of them
    /// the prefix, in cells by turns and stored in fixed point; or noise stored in place of them.
    pub(crate) fn subject(rows: usize, width: usize, cells: u32, planted: bool) -> Subject {
        let prefix_width = width / 4;
        let mut values = normal(rows, width, 1);
        for row in 0..rows {
            let mut scale = 1.0;
            for x in values.row_mut(row) {
                *x *= scale;
                scale *= 0.9;
            }
        }
        let vectors = values.values().iter().map(|&x| x as f32).collect();
        let vectors = VectorSet::new(width, vectors).expect("finite vectors");
        let coordinates = coordinates(&Pca::fit(&vectors).expect("a model"), &vectors);
        let all: Vec<usize> = (0..rows).collect();
        let axes = FittedAxes::fit(&vectors, &all, 9).expect("axes");
        let cells: Vec<u32> = (0..rows as u32).map(|row| row % cells).collect();
        let mut release = if planted {
            let residuals = coordinates.columns(prefix_width..width);
            protect(&residuals, &cells, KeyFamily::Orthogonal, &mut generator(2, 0))
        } else {
            let noise = normal(rows, width - prefix_width, 3);
            Release { rows: noise, cells: cells.clone(), prefixes: None }
        };
        release.rows.values_mut().iter_mut().for_each(|x| *x = (*x * 65_536.0).round());
        Subject {
            vectors: Matrix::from_vectors(&vectors),
            coordinates,
            given: None,
            axes: Some(axes),
            other_lengths: Vec::new(),
            prefix_width,
            cells,
            keys: KeyFamily::Orthogonal,
            texts: None,
            queries: None,
            view: ServerView { releases: vec![release], requests: Vec::new() },
            documents: (0..rows).collect(),
            canaries: Vec::new(),
            seed: 9,
        }
    }

    /// The median of `| |z| - |r| | / |r|`.
    fn off(known: &Known) -> f64 {
        let norms = known.rows.norms().into_iter().zip(known.residuals.norms());
        let mut off: Vec<f64> =
            norms.map(|(stored, native)| (stored / native - 1.0).abs()).collect();
        off.sort_unstable_by(f64::total_cmp);
        off[off.len() / 2]
    }

    #[test]
    fn only_the_owners_axes_give_the_lengths_of_rows_exactly() {
        let subject = subject(900, 32, 3, true);
        let known = Known::of(&subject).expect("rows");
        assert!(off(&known) < 1e-4, "{}", off(&known));
        let seen: Vec<(Axes, Known)> = known.in_fitted_axes(&subject).collect();
        assert_eq!(
            seen.iter().map(|(axes, _)| *axes).collect::<Vec<_>>(),
            [Axes::Reference, Axes::Auxiliary]
        );
        let [reference, auxiliary] = [0, 1].map(|at| off(&seen[at].1));
        assert!(1e-3 < reference && reference < auxiliary && auxiliary < 0.2);
        assert!(seen.iter().all(|(_, known)| known.rows.rows() == 600));
    }
}
