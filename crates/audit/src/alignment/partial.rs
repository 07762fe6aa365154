//! Known pairs against keys of cells, far below the rank that would determine a key.
//!
//! An observer has `m` pairs `(r_i, z_i)`, fits a reverse map in every cell that has at least one,
//! and looks for held-out rows in a gallery of native residuals. Diffuse disclosure draws the
//! pairs from the whole collection, so each of `C` cells sees about `m / C`; targeted disclosure
//! puts them into the victim's cell. Pairs are nested: a larger budget adds to a smaller one.
//! A known pair is no candidate any more, and intervals are Wilson's.
//!
//! Beside the estimators of [`super::estimators`], whose estimates are compared with whole
//! candidates by cosine, the matchers of [`super::span`] compare only what the pairs determine,
//! and norms are compared with no pair at all.
//!
//! The table grants the observer the owner's principal axes, as the paper does. The channel plays
//! every attacker of the module `axes`.

use anyhow::{Context, Result};
use shard_geometry::Pca;

use super::axes::{self, Axes, Known};
use super::estimators::Estimator;
use super::foreign;
use super::span::Matcher;
use super::trial::{Attack, Disclosure, Draw, Trial, measure};
use crate::finding::{FEW_PAIRS, Finding, Plot, Section, Series};
use crate::subject::{Corpus, KeyFamily, Subject, cells_of, coordinates, protect};
use crate::tools::matrix::Matrix;
use crate::tools::statistics::generator;

/// Numbers of cells that are compared.
const CELLS: [usize; 4] = [1, 16, 64, 256];

/// Recall at 1 that counts as recovered.
const RECOVERED: f64 = 0.9;

/// Candidates, targets and seeds of the channel, which must be quick; one seed in fitted axes.
const CHANNEL_GALLERY: usize = 5_000;
const CHANNEL_TARGETS: usize = 128;
const CHANNEL_SEEDS: u64 = 2;

/// The channel's name.
const CHANNEL: &str = "partial-alignment";

/// The table's name.
const TABLE: &str = "alignment";

/// What an attacker with the owner's axes does.
const CHANNEL_ATTACKS: [Attack; 4] = [
    Attack::Estimate(Estimator::Procrustes),
    Attack::Estimate(Estimator::LeastSquares),
    Attack::Match(Matcher::Span),
    Attack::Match(Matcher::Gram),
];

/// What an attacker with axes of its own does: the best of either kind.
const FITTED_ATTACKS: [Attack; 2] =
    [Attack::Match(Matcher::Gram), Attack::Estimate(Estimator::LeastSquares)];

/// Pairs in the victim's cell.
const BUDGETS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// The metric that the verdict rests on.
const RECALL: &str = "recall_at_1";

/// The fewest rows that a game makes sense on.
pub(super) const FEWEST_ROWS: usize = 60;

/// The note of a section about a subject that is too small.
pub(super) fn not_measured() -> String {
    format!("Not measured: it needs at least {FEWEST_ROWS} stored rows that are rotated residuals.")
}

/// Partial alignment of the owner's release.
///
/// # Errors
/// When a decomposition does not converge.
pub fn channel(subject: &Subject, progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new(CHANNEL, "Known pairs against the keys of cells");
    if let Some(given) = &subject.given {
        match foreign::unfit(given) {
            Some(note) => section.notes.push(note),
            None => foreign::partial(subject, given, &mut section, progress)?,
        }
        return Ok(section);
    }
    let Some(known) = Known::of(subject).filter(|known| known.rows.rows() >= FEWEST_ROWS) else {
        section.notes.push(not_measured());
        return Ok(section);
    };
    let mut lines = Vec::new();
    for (axes, known) in known.in_fitted_axes(subject) {
        let targets = if axes == Axes::Reference { CHANNEL_TARGETS } else { CHANNEL_TARGETS / 2 };
        let effort = Effort { seeds: 1, targets, attacks: &FITTED_ATTACKS };
        lines.extend(play(subject, axes, &known, &effort, &mut section, progress)?);
    }
    let effort =
        Effort { seeds: CHANNEL_SEEDS, targets: CHANNEL_TARGETS, attacks: &CHANNEL_ATTACKS };
    lines.extend(play(subject, Axes::Owner, &known, &effort, &mut section, progress)?);
    let micro = known.most_in_a_cell <= 1;
    if !micro {
        section.plots.push(plot(
            "alignment-in-cell",
            "Rows recovered from pairs in their own cell",
            "known pairs in the cell",
            lines,
        ));
        by_cells(subject, &known, &mut section, progress)?;
    }
    section.rest_on(1.0, |f| f.metric == RECALL && axes::counts(f));
    section.notes.extend(summary(&section));
    section.notes.push(axes::NOTE.into());
    section.notes.push(if micro {
        "Every row has its own key, so pairs of other rows say nothing about it: only its length \
         is left."
            .into()
    } else {
        format!(
            "Targeted disclosure puts the pairs into the victim's own cell; diffuse disclosure \
             spreads them, and more cells then need more pairs in all. A cell with fewer rows than \
             pairs asked for gives what it has (`in_cell_pairs`). `ols` and `procrustes` are the \
             published attacks; `span` and `gram` compare only what the pairs determine, which \
             takes fewer pairs. `gram` uses all that the pairs and one row have in common, and the \
             length alone where there is no pair. Open means that {FEW_PAIRS} pairs in a row's cell \
             or fewer are enough."
        )
    });
    Ok(section)
}

/// The effort spent on a setting of the channel.
struct Effort<'a> {
    seeds: u64,
    targets: usize,
    attacks: &'a [Attack],
}

/// Norms, and pairs in the victim's cell, against rows seen in some axes; the lines of the plot.
fn play(
    subject: &Subject,
    axes: Axes,
    known: &Known,
    effort: &Effort<'_>,
    section: &mut Section,
    progress: &dyn Fn(&str),
) -> Result<Vec<Series>> {
    let (rows, seed) = (known.rows.rows(), subject.seed);
    let all: Vec<usize> = (0..rows).collect();
    let trials: Vec<Trial> = (0..effort.seeds)
        .map(|number| {
            let rng = &mut generator(seed, 400 + number);
            let draw = Draw::new(&all, effort.targets, CHANNEL_GALLERY, 20_000, rng);
            Trial::on(known, &draw)
        })
        .collect::<Result<_>>()?;
    let norm = measure(&trials, Attack::Norm, Disclosure::Targeted, 0)?;
    let setting = format!("{}disclosure=none,", axes.setting());
    section.findings.push(norm.finding(CHANNEL, &setting).on(seed, rows));
    let budgets = BUDGETS.into_iter().filter(|&budget| budget < known.most_in_a_cell);
    let budgets: Vec<usize> = budgets.collect();
    let mut lines = Vec::new();
    let attacks = effort.attacks.iter().filter(|_| !budgets.is_empty());
    for &attack in attacks {
        progress(&format!("pairs in the victim's cell: {}{}", axes.setting(), attack.name()));
        let mut points = Vec::new();
        for &budget in &budgets {
            let measured = measure(&trials, attack, Disclosure::Targeted, budget)?;
            let setting = format!("{}disclosure=targeted,", axes.setting());
            let recall = measured.finding(CHANNEL, &setting);
            points.push((budget as f64, recall.value, recall.ci95));
            let other = |metric, value| Finding::new(CHANNEL, &recall.setting, metric, value);
            let pairs = other("in_cell_pairs", measured.pairs);
            let cosine = measured.cosine.map(|cosine| other("cosine", cosine).chance(0.0));
            let findings = [Some(pairs), cosine].into_iter().flatten();
            let findings: Vec<Finding> = [recall].into_iter().chain(findings).collect();
            section.findings.extend(findings.into_iter().map(|finding| finding.on(seed, rows)));
        }
        lines.push(Series { name: format!("{}, {} axes", attack.name(), axes.name()), points });
    }
    Ok(lines)
}

/// The figures in a sentence.
fn summary(section: &Section) -> Option<String> {
    let of = |axes: &'static str| {
        section.findings.iter().filter(move |f| f.metric == RECALL && f.part("axes") == Some(axes))
    };
    let by_norm = |axes| {
        let norm = of(axes).find(|f| f.part("attack") == Some("norm"));
        norm.map_or(0.0, |f| 100.0 * f.value)
    };
    let mut text = format!(
        "A key rotates rows and keeps their lengths and inner products. An attacker who has the same \
         collection names {:.1} % of the rows by their lengths alone.",
        by_norm("owner"),
    );
    // The fewest pairs that recover rows, or the most rows.
    let recovered = of("reference").filter(|f| f.value >= RECOVERED).min_by_key(|f| f.pairs());
    let most = || of("reference").max_by(|a, b| a.value.total_cmp(&b.value));
    if let Some(best) = recovered.or_else(most) {
        text += &format!(
            " One who has a list of texts that holds yours, and fits axes to it, names {:.1} % by \
             lengths, and {:.1} % with {} known pairs in a row's cell, among {:.0} candidates.",
            by_norm("reference"),
            100.0 * best.value,
            best.pairs(),
            1.0 / best.chance?,
        );
    }
    Some(text)
}

/// The same residuals protected anew with other numbers of cells, pairs spread over all.
fn by_cells(
    subject: &Subject,
    known: &Known,
    section: &mut Section,
    progress: &dyn Fn(&str),
) -> Result<()> {
    if subject.prefix_width == 0 {
        return Ok(());
    }
    let prefixes = subject.prefixes(&known.documents);
    let (rows, seed) = (known.rows.rows(), subject.seed);
    let attacks = [Attack::Estimate(Estimator::LeastSquares), Attack::Match(Matcher::Gram)];
    let mut lines = Vec::new();
    for count in CELLS.into_iter().filter(|count| rows >= 8 * count) {
        progress(&format!("pairs spread over {count} cells"));
        let game = Game {
            residuals: &known.residuals,
            family: subject.keys,
            targets: CHANNEL_TARGETS / 2,
            gallery: CHANNEL_GALLERY,
        };
        let cells = game.cells(&prefixes, count, seed)?;
        let trials = [game.trial(&cells, 20_000, seed)?];
        for attack in attacks {
            let mut points = Vec::new();
            for budget in (0..8).map(|power| 4_usize.pow(power)).filter(|&m| m < rows) {
                let measured = measure(&trials, attack, Disclosure::Diffuse, budget)?;
                let setting = format!("subject=anew,axes=owner,disclosure=diffuse,cells={count},");
                let finding = measured.finding(CHANNEL, &setting);
                points.push((budget as f64, finding.value, finding.ci95));
                section.findings.push(finding.on(seed, rows));
            }
            lines.push(Series { name: format!("{}, C = {count}", attack.name()), points });
        }
    }
    section.plots.push(plot(
        "alignment-by-cells",
        "Recovery by known pairs and number of cells",
        "known pairs in all",
        lines,
    ));
    Ok(())
}

fn plot(name: &str, title: &str, x_label: &str, series: Vec<Series>) -> Plot {
    Plot {
        name: name.into(),
        title: title.into(),
        x_label: x_label.into(),
        y_label: "recall at 1".into(),
        logarithmic: true,
        series,
    }
}

/// Residuals to be protected again and again.
struct Game<'a> {
    residuals: &'a Matrix,
    family: KeyFamily,
    targets: usize,
    gallery: usize,
}

impl Game<'_> {
    /// Cells of all rows.
    fn cells(&self, prefixes: &Matrix, count: usize, seed: u64) -> Result<Vec<u32>> {
        cells_of(prefixes, count, &mut generator(seed, 500 + count as u64))
    }

    /// A game under fresh keys. Only rows that take part in it are protected.
    fn trial(&self, cells: &[u32], disclosed: usize, seed: u64) -> Result<Trial> {
        let rng = &mut generator(seed, 600);
        let all: Vec<usize> = (0..self.residuals.rows()).collect();
        let draw = Draw::new(&all, self.targets, self.gallery, disclosed, rng);
        let stored = draw.stored();
        let residuals = self.residuals.select(&stored);
        let cells: Vec<u32> = stored.iter().map(|&row| cells[row]).collect();
        let release = protect(&residuals, &cells, self.family, rng);
        let gallery = self.residuals.select(&draw.gallery);
        Trial::new(&draw, release.rows, residuals, cells, gallery)
    }
}

mod table;
pub use table::reproduce_alignment;

#[cfg(test)]
mod tests;
