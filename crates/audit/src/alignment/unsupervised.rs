//! Alignment with no known pair: an auxiliary corpus of the same kind, and the shape of the cloud.
//!
//! A rotation moves a cloud of residuals without changing its shape. The attacker lays the cloud
//! of an auxiliary corpus over that of the stored rows:
//! 1. *moments*: both are centred; eigenvectors of the covariances, `V_z` and `V_r` by falling
//!    variance, are put against each other, `W = V_z diag(e) V_r^T`, with the signs `e_j` for which
//!    the third moments along the two `j`-th directions have the same sign;
//! 2. *refined* (Wasserstein-Procrustes): a batch of rows is rotated by `W`, each is assigned the
//!    nearest auxiliary residual, and `W` becomes the Procrustes map of that assignment; again.
//!
//! This needs directions whose variances differ by more than sampling blurs them, and skewed
//! coordinates. Before either, rows are taken for residuals *as stored*: a release that is found so
//! has no key. Alignment is run with one key for all rows, and cell by cell; in both the attacker is
//! granted the owner's principal axes, and in the latter which auxiliary documents belong in which
//! cell: more than a server has.

use anyhow::Result;
use rand_core::Rng;

use super::axes::Known;
use super::estimators::{CUTOFF, Estimator, Factors, Frames, Pairs, ReverseMap};
use super::foreign;
use super::partial::{FEWEST_ROWS, not_measured};
use super::trial::hits;
use crate::finding::{Finding, Section};
use crate::subject::{Subject, protect};
use crate::tools::matrix::Matrix;
use crate::tools::neighbours::{Metric, nearest, places};
use crate::tools::statistics::{generator, mean, sample};

/// The channel's name.
const CHANNEL: &str = "unsupervised-alignment";

/// Assignments that a refinement makes.
const ROUNDS: usize = 8;

/// Rows that one assignment is about.
const BATCH: usize = 1_000;

/// Auxiliary residuals that rows are assigned to.
const AUXILIARY: usize = 4_000;

/// Cells that are attacked, drawn at random, and targets in each. A sample has few cells: what it leaks is
/// to be seen in them as it is in those of the whole collection, which are no larger.
const CELLS: usize = 12;
const TARGETS: usize = 2_048;

/// The fewest rows a cloud can be told from.
const FEWEST: usize = 8;

/// A cloud around its mean.
struct Cloud {
    mean: Vec<f64>,
    centred: Matrix,
}

impl Cloud {
    fn new(rows: &Matrix) -> Self {
        let mean = rows.column_means();
        let centred = rows.clone().minus(&mean);
        Self { mean, centred }
    }

    /// Principal directions as columns, by falling variance.
    fn directions(&self) -> Result<faer::Mat<f64>> {
        let rows = self.centred.as_faer();
        Ok(Factors::of((rows.transpose() * rows).as_ref(), CUTOFF * CUTOFF)?.u)
    }

    /// The third moment along each of some directions.
    fn third_moments(&self, directions: &faer::Mat<f64>) -> Vec<f64> {
        let along = self.centred.as_faer() * directions;
        along.col_iter().map(|column| column.iter().map(|x| x * x * x).sum()).collect()
    }
}

/// A guess at the map from stored rows to residuals.
pub struct Alignment {
    stored_mean: Vec<f64>,
    native_mean: Vec<f64>,
    map: ReverseMap,
}

impl Alignment {
    /// Residuals that rows are taken for.
    pub fn apply(&self, rows: &Matrix) -> Matrix {
        self.map.apply(&rows.clone().minus(&self.stored_mean)).plus(&self.native_mean)
    }
}

/// Aligns by first, second and third moments.
///
/// # Errors
/// When a decomposition does not converge.
pub fn align_moments(rows: &Matrix, auxiliary: &Matrix) -> Result<Alignment> {
    let (stored, native) = (Cloud::new(rows), Cloud::new(auxiliary));
    let (z, r) = (stored.directions()?, native.directions()?);
    let shared = z.ncols().min(r.ncols());
    let (mut z, r) = (z.subcols(0, shared).to_owned(), r.subcols(0, shared).to_owned());
    let signs = stored.third_moments(&z).into_iter().zip(native.third_moments(&r));
    for (at, (stored, native)) in signs.enumerate() {
        if stored * native < 0.0 {
            z.col_mut(at).iter_mut().for_each(|x| *x = -*x);
        }
    }
    Ok(Alignment {
        stored_mean: stored.mean,
        native_mean: native.mean,
        // Where rows have another width there is nothing to complete.
        map: if rows.width() == auxiliary.width() {
            Frames { stored: z, native: r }.completed()?
        } else {
            Frames { stored: z, native: r }.dropped()
        },
    })
}

/// Refines an alignment by assignments in turn with Procrustes maps.
///
/// # Errors
/// When a decomposition does not converge.
pub fn refine(
    mut alignment: Alignment,
    rows: &Matrix,
    auxiliary: &Matrix,
    rng: &mut impl Rng,
) -> Result<Alignment> {
    let stored = Cloud::new(rows).centred;
    let native = Cloud::new(auxiliary).centred;
    for _ in 0..ROUNDS {
        let batch = stored.select(&sample(stored.rows(), BATCH, rng));
        let offered = native.select(&sample(native.rows(), AUXILIARY, rng));
        // Keys keep lengths, so distance says more than angle.
        let assigned = nearest(&alignment.map.apply(&batch), &offered, 1, Metric::Distance);
        let assigned: Vec<usize> = assigned.iter().map(|hit| hit[0] as usize).collect();
        let pairs = Pairs { residuals: offered.select(&assigned), rows: batch };
        alignment.map = Estimator::Procrustes.fit(&pairs)?;
    }
    Ok(alignment)
}

/// Targets found by an alignment: one for each, else zero.
fn found(alignment: &Alignment, rows: &Matrix, gallery: &Matrix, targets: &[usize]) -> Vec<f64> {
    hits(&places(&alignment.apply(rows), gallery, targets, Metric::Cosine), 1)
}

/// What alignment without pairs gets out of the owner's vectors.
///
/// # Errors
/// When a decomposition does not converge.
pub fn channel(subject: &Subject, progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new(CHANNEL, "Alignment without known pairs");
    if let Some(given) = &subject.given {
        match foreign::unfit(given) {
            Some(note) => section.notes.push(note),
            None => foreign::unsupervised(subject, given, &mut section)?,
        }
        return Ok(section);
    }
    let Some(known) = Known::of(subject).filter(|known| known.rows.rows() >= FEWEST_ROWS) else {
        section.notes.push(not_measured());
        return Ok(section);
    };
    let rng = &mut generator(subject.seed, 730);
    let count = known.rows.rows();
    let order = sample(count, count, rng);
    let (auxiliary, released) = order.split_at(count / 2);

    progress("alignment without pairs: one key for all rows");
    let residuals = known.residuals.select(released);
    let release = protect(&residuals, &vec![0; residuals.rows()], subject.keys, rng);
    let auxiliary_residuals = known.residuals.select(auxiliary);
    let targets: Vec<usize> = (0..residuals.rows().min(256)).collect();
    let gallery = residuals.select(&(0..residuals.rows().min(10_000)).collect::<Vec<_>>());
    let rows = release.rows.select(&targets);
    let first = align_moments(&release.rows, &auxiliary_residuals)?;
    let by_moments = found(&first, &rows, &gallery, &targets);
    let refined = refine(first, &release.rows, &auxiliary_residuals, rng)?;
    let by_refined = found(&refined, &rows, &gallery, &targets);
    let mut record = |setting: &str, hits: &[f64], chance: f64| {
        let finding = Finding::share(CHANNEL, setting, "recall_at_1", hits).chance(chance);
        section.findings.push(finding.on(subject.seed, count));
    };
    let chance = 1.0 / gallery.rows() as f64;
    record("keys=one,attack=moments,pairs=0", &by_moments, chance);
    record("keys=one,attack=refined,pairs=0", &by_refined, chance);

    // Targets are the first of the released rows, and so is the gallery.
    let stored = known.rows.select(&released[..targets.len()]);
    let as_stored = hits(&places(&stored, &gallery, &targets, Metric::Cosine), 1);
    record("keys=cells,attack=as-stored,pairs=0", &as_stored, chance);

    progress("alignment without pairs: cell by cell");
    let in_cells = by_cell(&known, auxiliary, released, rng)?;
    if in_cells.moments.is_empty() {
        section.notes.push(format!(
            "No cell has {FEWEST} rows of each half: there is no cloud to align in any. One key for \
             all rows, which your release does not use, is measured for comparison only."
        ));
    } else {
        let chance = mean(&in_cells.chances);
        record("keys=cells,attack=moments,pairs=0", &in_cells.moments, chance);
        record("keys=cells,attack=refined,pairs=0", &in_cells.refined, chance);
    }
    section.notes.push(
        "The attacker has no known pair but half of your documents' vectors as a sample of the \
         same kind, and lays one cloud of points over the other. Figures with one key for all rows \
         are for comparison. Those with one key per cell are about your release; there the attacker \
         is told which sample and which candidates belong to which cell, so chance is one in those. \
         The attack `as-stored` takes stored rows for the vectors themselves. The attacker is granted your \
         principal axes. A failure here is that of these two methods, not a proof."
            .into(),
    );
    section.rest_on(1.0, |f| f.part("keys") == Some("cells"));
    Ok(section)
}

/// Results of alignment cell by cell, target by target.
struct InCells {
    moments: Vec<f64>,
    refined: Vec<f64>,
    /// One in the candidates of the target's cell.
    chances: Vec<f64>,
}

/// Attacks cells of the release one by one. Candidates for a row are the released ones of
/// its cell.
fn by_cell(
    known: &Known,
    auxiliary: &[usize],
    released: &[usize],
    rng: &mut impl Rng,
) -> Result<InCells> {
    let count = known.cells.iter().max().map_or(0, |&last| last as usize + 1);
    let mut of_cell = vec![(Vec::new(), Vec::new()); count];
    released.iter().for_each(|&row| of_cell[known.cells[row] as usize].0.push(row));
    auxiliary.iter().for_each(|&row| of_cell[known.cells[row] as usize].1.push(row));
    of_cell.retain(|(stored, native)| stored.len() >= FEWEST && native.len() >= FEWEST);
    let drawn = sample(of_cell.len(), CELLS, rng);
    let mut out = InCells { moments: Vec::new(), refined: Vec::new(), chances: Vec::new() };
    for (stored, native) in drawn.into_iter().map(|at| &of_cell[at]) {
        let (rows, gallery) = (known.rows.select(stored), known.residuals.select(stored));
        let native = known.residuals.select(native);
        let targets: Vec<usize> = (0..stored.len().min(TARGETS)).collect();
        let attacked = rows.select(&targets);
        let first = align_moments(&rows, &native)?;
        out.moments.extend(found(&first, &attacked, &gallery, &targets));
        let last = refine(first, &rows, &native, rng)?;
        out.refined.extend(found(&last, &attacked, &gallery, &targets));
        out.chances.extend(targets.iter().map(|_| 1.0 / stored.len() as f64));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::axes::tests::subject;
    use super::*;
    use crate::finding::Verdict;
    use crate::subject::KeyFamily;

    /// Squares of normals are skewed; variances fall by a fifth from each direction to the next.
    fn skewed(rows: usize, width: usize, seed: u64) -> Matrix {
        let mut matrix = Matrix::normal(rows, width, &mut generator(seed, 0));
        for row in 0..rows {
            let mut scale = 1.0;
            for x in matrix.row_mut(row) {
                *x = scale * (*x * *x - 1.0);
                scale *= 0.8;
            }
        }
        matrix
    }

    fn recall(released: &Matrix, auxiliary: &Matrix) -> (f64, f64) {
        let rng = &mut generator(3, 0);
        let cells = vec![0; released.rows()];
        let release = protect(released, &cells, KeyFamily::Orthogonal, rng);
        let targets: Vec<usize> = (0..100).collect();
        let rows = release.rows.select(&targets);
        let first = align_moments(&release.rows, auxiliary).expect("an alignment");
        let by_moments = mean(&found(&first, &rows, released, &targets));
        let last = refine(first, &release.rows, auxiliary, rng).expect("an alignment");
        (by_moments, mean(&found(&last, &rows, released, &targets)))
    }

    #[test]
    fn a_skewed_cloud_with_a_falling_spectrum_is_aligned_without_pairs() {
        let (moments, refined) = recall(&skewed(2_000, 8, 1), &skewed(2_000, 8, 2));
        assert!(moments > 0.5, "{moments}");
        assert!(refined > 0.5, "{refined}");
    }

    #[test]
    fn a_round_cloud_gives_nothing_to_align_by() {
        let round = |seed| Matrix::normal(1_000, 24, &mut generator(seed, 0));
        let (moments, refined) = recall(&round(1), &round(2));
        assert!(moments < 0.05 && refined < 0.05, "{moments} {refined}");
    }

    #[test]
    fn guessing_within_the_cell_is_the_chance_of_alignment_by_cells() {
        let section = channel(&subject(400, 16, 4, true), &|_| ()).expect("a section");
        let chance = |setting: &str| {
            let finding = section.findings.iter().find(|f| f.setting == setting);
            finding.and_then(|f| f.chance).unwrap_or_else(|| panic!("no {setting}"))
        };
        // Two hundred released rows in four cells.
        let cells = chance("keys=cells,attack=moments,pairs=0");
        assert!((1.0 / 60.0..1.0 / 40.0).contains(&cells), "{cells}");
        assert_eq!(chance("keys=cells,attack=as-stored,pairs=0"), 1.0 / 200.0);
    }

    #[test]
    fn one_key_for_all_says_nothing_of_a_key_for_every_row() {
        let section = channel(&subject(200, 16, 200, true), &|_| ()).expect("a section");
        let headline = &section.findings[section.headline.expect("a headline")];
        assert_eq!(headline.setting, "keys=cells,attack=as-stored,pairs=0");
        assert_eq!(section.verdict, Some(Verdict::Closed));
    }
}
