//! Releases that Shard did not make.
//!
//! Nothing is known of how rows come from vectors, so the attacker tries what there is: rows as given
//! or centred, against all principal coordinates of the vectors or some of them (as many as the rows
//! have directions, the first or the last), both at unit length against scales of single rows, and any
//! linear map with noise where there are pairs to fit one. A [`View`] is one such reading, in which rows
//! and vectors can be compared by length or by inner products with known pairs. What the verdict then
//! rests on is the best of all of them, and chance is that of the best.

use anyhow::Result;

use super::axes::Known;
use super::estimators::{Estimator, Factors};
use super::marginals::in_native_order;
use super::partial::FEWEST_ROWS;
use super::span::Matcher;
use super::trial::{Attack, Disclosure, Draw, Trial, hits, measure};
use super::unsupervised::{align_moments, refine};
use crate::finding::{FEW_PAIRS, Finding, Plot, Section, Series};
use crate::subject::{Given, Subject};
use crate::tools::matrix::Matrix;
use crate::tools::neighbours::{Metric, places};
use crate::tools::statistics::{generator, sample};

/// Candidates and targets of a game.
const GALLERY: usize = 5_000;
const TARGETS: usize = 128;

/// Pairs that are few.
const FEW: [usize; 3] = [1, 8, FEW_PAIRS];

/// Pairs for a model, in widths.
const WIDTHS: [usize; 3] = [1, 2, 4];

/// Variances below this share of the largest are rounding.
const ROUNDING: f64 = 1e-10;

/// A reading of rows and vectors in which they may be compared.
pub(crate) struct View {
    rows: &'static str,
    coordinates: String,
    known: Known,
    /// Whether keys would leave lengths alone in it.
    has_lengths: bool,
}

impl View {
    /// The beginning of a setting.
    pub(super) fn setting(&self) -> String {
        format!("subject=release,{},", self.name())
    }

    /// Rows and vectors in this reading.
    pub(super) fn known(&self) -> &Known {
        &self.known
    }

    /// Rows and vectors, at one scale.
    pub(crate) fn rows_and_vectors(&self) -> (&Matrix, &Matrix) {
        (&self.known.rows, &self.known.residuals)
    }

    /// What was taken of either.
    pub(crate) fn name(&self) -> String {
        format!("rows={},coordinates={}", self.rows, self.coordinates)
    }

    /// Whether lengths say anything.
    pub(crate) fn has_lengths(&self) -> bool {
        self.has_lengths
    }

    /// Whether all that a vector has is in it.
    fn is_whole(&self) -> bool {
        self.coordinates == "all" && self.rows != "given"
    }
}

fn centred(rows: Matrix) -> Matrix {
    let mean = rows.column_means();
    rows.minus(&mean)
}

/// Directions in which rows vary.
fn directions(centred: &Matrix) -> Result<usize> {
    let square = centred.as_faer().transpose() * centred.as_faer();
    Ok(Factors::of(square.as_ref(), ROUNDING)?.rank())
}

/// Every reading of a release.
///
/// # Errors
/// When a decomposition does not converge.
pub(crate) fn views(subject: &Subject, given: &Given) -> Result<Vec<View>> {
    let wide = given.coordinates.width();
    let middle = centred(given.rows.clone());
    let mut parts = vec![("all".to_owned(), 0..wide)];
    let mut narrow = vec![directions(&middle)?, given.rows.width()];
    narrow.retain(|&width| 0 < width && width < wide);
    narrow.dedup();
    for width in narrow {
        parts.push((format!("first-{width}"), 0..width));
        parts.push((format!("last-{width}"), wide - width..wide));
    }
    let documents: Vec<usize> = (0..given.rows.rows()).collect();
    let view = |rows, coordinates: &str, stored: &Matrix, native: Matrix, has_lengths| View {
        rows,
        coordinates: coordinates.to_owned(),
        known: Known::new(
            stored.clone(),
            native,
            subject.release().cells.clone(),
            documents.clone(),
        ),
        has_lengths,
    };
    let mut views = Vec::new();
    for (name, part) in parts {
        let native = given.coordinates.columns(part);
        views.push(view("centred", &name, &middle, native.clone(), true));
        views.push(view("given", &name, &given.rows, native, true));
    }
    let unit = |of: &Matrix| centred(of.clone().normalised());
    let native = unit(&subject.vectors);
    views.push(view("unit-length", "all", &unit(&given.rows), native, false));
    Ok(views)
}

/// Known pairs against a release.
///
/// # Errors
/// When a decomposition does not converge.
pub(super) fn partial(
    subject: &Subject,
    given: &Given,
    section: &mut Section,
    progress: &dyn Fn(&str),
) -> Result<()> {
    let (rows, seed, name) = (given.rows.rows(), subject.seed, section.name.clone());
    let all: Vec<usize> = (0..rows).collect();
    let draw = Draw::new(&all, TARGETS, GALLERY, rows, &mut generator(seed, 760));
    let mut lines = Vec::new();
    for view in views(subject, given)? {
        let setting = view.setting();
        progress(&format!("known pairs: {}", setting.trim_end_matches(',')));
        let trial = [Trial::on(&view.known, &draw)?];
        if view.has_lengths {
            let found = measure(&trial, Attack::Norm, Disclosure::Targeted, 0)?;
            section.findings.push(found.finding(&name, &setting).on(seed, rows));
        }
        let widest = given.coordinates.width().max(given.rows.width());
        let models = WIDTHS.map(|widths| widths * widest);
        let matcher = if view.has_lengths { Matcher::Gram } else { Matcher::Span };
        let mut attacks = vec![(Attack::Match(matcher), FEW.to_vec())];
        if view.is_whole() {
            attacks.push((Attack::Estimate(Estimator::LeastSquares), FEW.to_vec()));
            attacks.push((Attack::Model, models.to_vec()));
        }
        for (attack, mut budgets) in attacks {
            // The largest budget stands for all pairs there are, where there are fewer.
            let most = view.known.most_in_a_cell.saturating_sub(1);
            budgets.iter_mut().for_each(|budget| *budget = (*budget).min(most));
            budgets.retain(|&budget| budget > 0);
            budgets.dedup();
            let mut points = Vec::new();
            for budget in budgets {
                let found = measure(&trial, attack, Disclosure::Targeted, budget)?;
                let finding = found.finding(&name, &setting).on(seed, rows);
                points.push((budget as f64, finding.value, finding.ci95));
                section.findings.push(finding);
            }
            if view.is_whole() && attack != Attack::Estimate(Estimator::LeastSquares) {
                let rows = view.rows.replace('-', " ");
                lines.push(Series { name: format!("{}, {rows}", attack.name()), points });
            }
        }
    }
    section.plots.push(Plot {
        name: "alignment-of-release".into(),
        title: "Rows recovered from known pairs".into(),
        x_label: "known pairs under the same key".into(),
        y_label: "recall at 1".into(),
        logarithmic: true,
        series: lines,
    });
    section.rest_on(1.0, |f| f.metric == "recall_at_1");
    section.notes.push(format!(
        "Nothing is known of how these rows were made. They are read as given and centred, against all \
         principal coordinates of the originals and against as many of the first and of the last as the \
         rows have directions, and both at unit length. With no pair, lengths are compared; with up to \
         {FEW_PAIRS}, inner products with the pairs; with up to four times the width, a linear map with \
         noise of any shape is fitted. The verdict rests on the best of all, and chance is that of the \
         best. Open means that {FEW_PAIRS} pairs or fewer are enough."
    ));
    Ok(())
}

/// No known pair: rows taken for vectors, columns told by their distributions, clouds laid over
/// each other.
///
/// # Errors
/// When a decomposition does not converge.
pub(super) fn unsupervised(subject: &Subject, given: &Given, section: &mut Section) -> Result<()> {
    let (count, seed, name) = (given.rows.rows(), subject.seed, section.name.clone());
    let rng = &mut generator(seed, 761);
    let order = sample(count, count, rng);
    let (auxiliary, released) = order.split_at(count / 2);
    let targets: Vec<usize> = (0..released.len().min(256)).collect();
    let released = &released[..released.len().min(GALLERY)];
    let rows = given.rows.select(released);
    let mut record = |attack: &str, rows: &Matrix, gallery: &Matrix| {
        let found = hits(&places(&rows.select(&targets), gallery, &targets, Metric::Cosine), 1);
        let setting = format!("subject=release,attack={attack},pairs=0");
        let finding = Finding::share(&name, setting, "recall_at_1", &found);
        let finding = finding.chance(1.0 / gallery.rows() as f64).on(seed, count);
        section.findings.push(finding);
    };
    let vectors = subject.vectors.select(released);
    let others = subject.vectors.select(auxiliary);
    if rows.width() == vectors.width() {
        record("as-stored", &centred(rows.clone()), &centred(vectors.clone()));
    }
    let mean = others.column_means();
    let columns = in_native_order(&rows, &others).minus(&mean);
    record("marginals", &columns, &vectors.clone().minus(&mean));
    let native = given.coordinates.select(auxiliary);
    let gallery = given.coordinates.select(released);
    let first = align_moments(&rows, &native)?;
    record("moments", &first.apply(&rows), &gallery);
    if rows.width() == native.width() {
        let last = refine(first, &rows, &native, rng)?;
        record("refined", &last.apply(&rows), &gallery);
    }
    section.rest_on(1.0, |_| true);
    section.notes.push(
        "The attacker has no known pair but half of the originals as a sample of the same kind. Rows are \
         taken for the vectors themselves; their columns are told by how their numbers are distributed, \
         which undoes permutations and signs; and one cloud of points is laid over the other. A failure \
         here is that of these methods, not a proof."
            .into(),
    );
    Ok(())
}

/// Why a release cannot be attacked; `None` if it can.
pub(super) fn unfit(given: &Given) -> Option<String> {
    let rows = given.rows.rows();
    (rows < FEWEST_ROWS).then(|| format!("Not measured: it needs at least {FEWEST_ROWS} rows."))
}
