//! Known pairs against keys of cells, far below the rank that would determine a key.
//!
//! An observer has `m` pairs `(r_i, z_i)`, fits a reverse map in every cell that has at least one,
//! and looks for held-out rows in a gallery of native residuals. Diffuse disclosure draws the
//! pairs from the whole collection, so each of `C` cells sees about `m / C`; targeted disclosure
//! puts them into the victim's cell. Pairs are nested: a larger budget adds to a smaller one.
//! Intervals are percentiles of a bootstrap over seeds, then over targets of a seed.
//!
//! Beside the estimators of [`super::estimators`], whose estimates are compared with whole
//! candidates by cosine, the matchers of [`super::span`] compare only what the pairs determine,
//! and norms are compared with no pair at all.

use anyhow::{Context, Result};
use shard_geometry::Pca;

use super::estimators::Estimator;
use super::span::{Matcher, fixed_point_scale};
use super::trial::{Attack, Disclosure, Draw, Measured, Trial, measure};
use crate::finding::{Finding, Plot, Section, Series, Verdict};
use crate::subject::{Corpus, KeyFamily, Subject, cells_of, coordinates, protect};
use crate::tools::matrix::Matrix;
use crate::tools::statistics::generator;

/// Numbers of cells that are compared.
const CELLS: [usize; 4] = [1, 16, 64, 256];

/// Recall at 1 that counts as recovered.
const RECOVERED: f64 = 0.9;

/// Candidates, targets and seeds of the channel, which must be quick.
const CHANNEL_GALLERY: usize = 5_000;
const CHANNEL_TARGETS: usize = 128;
const CHANNEL_SEEDS: u64 = 2;

/// The channel's name.
const CHANNEL: &str = "partial-alignment";

/// The table's name.
const TABLE: &str = "alignment";

/// What the attacker does with the owner's release.
const CHANNEL_ATTACKS: [Attack; 4] = [
    Attack::Estimate(Estimator::Procrustes),
    Attack::Estimate(Estimator::LeastSquares),
    Attack::Match(Matcher::Span),
    Attack::Match(Matcher::Gram),
];

/// The release under attack at the scale of residuals, and the residual of each of its rows;
/// canaries are left out. `None` when rows are not turned residuals.
pub(super) struct Known {
    pub(super) rows: Matrix,
    pub(super) residuals: Matrix,
    pub(super) cells: Vec<u32>,
    /// The document of each.
    pub(super) documents: Vec<usize>,
    pub(super) most_in_a_cell: usize,
}

impl Known {
    pub(super) fn of(subject: &Subject) -> Option<Self> {
        let release = subject.release();
        let width = subject.coordinates.width().checked_sub(subject.public)?;
        if width == 0 || release.rows.width() != width {
            return None;
        }
        let known = subject.documents.iter().enumerate();
        let (places, documents): (Vec<usize>, Vec<usize>) =
            known.filter_map(|(row, document)| Some((row, (*document)?))).unzip();
        let residuals = subject.residuals();
        let mut rows = release.rows.select(&places);
        // The attacker's reference is native residuals, whose norms set the scale.
        let scale = fixed_point_scale(&rows, &residuals);
        rows.values_mut().iter_mut().for_each(|x| *x /= scale);
        Some(Self {
            rows,
            residuals: residuals.select(&documents),
            cells: places.iter().map(|&row| release.cells[row]).collect(),
            documents,
            most_in_a_cell: release.members().iter().map(Vec::len).max().unwrap_or(0),
        })
    }

    /// A game on these rows.
    pub(super) fn trial(&self, draw: &Draw) -> Result<Trial> {
        let stored = draw.stored();
        Trial::new(
            self.rows.select(&stored),
            self.residuals.select(&stored),
            stored.iter().map(|&row| self.cells[row]).collect(),
            draw.targets.len(),
            self.residuals.select(&draw.gallery),
        )
    }
}

/// The fewest rows that a game makes sense on.
pub(super) const FEWEST_ROWS: usize = 60;

/// The note of a section about a subject that is too small.
pub(super) fn not_measured() -> String {
    format!("Not measured: it needs at least {FEWEST_ROWS} stored rows that are turned residuals.")
}

/// Partial alignment of the owner's release.
///
/// # Errors
/// When a decomposition does not converge.
pub fn channel(subject: &Subject, progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new(CHANNEL, "Known pairs against the keys of cells");
    let Some(known) = Known::of(subject).filter(|known| known.rows.rows() >= FEWEST_ROWS) else {
        section.notes.push(not_measured());
        return Ok(section);
    };
    let (rows, seed) = (known.rows.rows(), subject.seed);
    let all: Vec<usize> = (0..rows).collect();
    let trials: Vec<Trial> = (0..CHANNEL_SEEDS)
        .map(|number| {
            let draw = Draw::new(
                &all,
                CHANNEL_TARGETS,
                CHANNEL_GALLERY,
                20_000,
                &mut generator(seed, 400 + number),
            );
            known.trial(&draw)
        })
        .collect::<Result<_>>()?;
    let chance = 1.0 / trials[0].candidates() as f64;
    let record = |section: &mut Section, measured: &Measured, setting: &str| {
        section.findings.push(measured.finding(CHANNEL, setting, chance).on(seed, rows));
        if let Some(cosine) = measured.cosine {
            let setting =
                format!("{setting}attack={},pairs={}", measured.attack.name(), measured.budget);
            let finding = Finding::new(CHANNEL, setting, "cosine", cosine).chance(0.0);
            section.findings.push(finding.on(seed, rows));
        }
    };

    let norm = measure(&trials, Attack::Norm, Disclosure::Targeted, 0, seed)?;
    record(&mut section, &norm, "disclosure=none,");
    section.notes.push(format!(
        "A key turns a row and leaves its length: with a list of {} candidate texts and no known \
         pair, the length alone names the right one for {:.1} % of the rows.",
        trials[0].candidates(),
        100.0 * norm.recall
    ));
    if known.most_in_a_cell <= 1 {
        section.notes.push(
            "Every row has its own key, so pairs of other rows say nothing about it: only its \
             length is left."
                .into(),
        );
    } else {
        let mut lines = Vec::new();
        for attack in CHANNEL_ATTACKS {
            progress(&format!("pairs in the victim's cell: {}", attack.name()));
            let mut points = Vec::new();
            for budget in [1, 2, 4, 8, 16, 32, 64] {
                if budget >= known.most_in_a_cell {
                    break;
                }
                let measured = measure(&trials, attack, Disclosure::Targeted, budget, seed)?;
                record(&mut section, &measured, "disclosure=targeted,");
                points.push((budget as f64, measured.recall, Some(measured.interval)));
                if measured.is_complete() {
                    break;
                }
            }
            lines.push(Series { name: attack.name().into(), points });
        }
        section.plots.push(plot(
            "alignment-in-cell",
            "Rows recovered from pairs in their own cell",
            "known pairs in the cell",
            lines,
        ));
        by_cells(subject, &known, &mut section, progress)?;
        section.notes.push(
            "Targeted disclosure puts the pairs into the victim's own cell; diffuse disclosure \
             spreads them, and more cells then need more pairs in all. `ols` and `procrustes` are \
             the published attacks; `span` and `gram` compare only what the pairs determine, which \
             takes fewer pairs where rows are exact. `gram` uses all that the pairs and one row have in common."
                .into(),
        );
    }
    conclude(&mut section);
    Ok(section)
}

/// The finding that needs the fewest pairs to recover rows, or that recovers most; and what it
/// means: open when at most one pair does.
fn conclude(section: &mut Section) {
    let pairs = |finding: &Finding| {
        let named = finding.setting.split(',').find_map(|part| part.strip_prefix("pairs="));
        named.and_then(|pairs| pairs.parse::<usize>().ok()).unwrap_or(usize::MAX)
    };
    let recalls = || {
        let all = section.findings.iter().enumerate();
        all.filter(|(_, f)| f.metric == "recall_at_1" && !f.setting.contains("cells="))
    };
    let cheapest = recalls().filter(|(_, f)| f.value >= RECOVERED).min_by_key(|(_, f)| pairs(f));
    let best = || recalls().max_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let Some((at, finding)) = cheapest.or_else(best) else { return };
    let chance = finding.chance.unwrap_or(0.0);
    let verdict = match (finding.value >= RECOVERED, pairs(finding)) {
        (true, 0 | 1) => Verdict::Open,
        _ if finding.value > 5.0 * chance + 0.01 => Verdict::Reduced,
        _ => Verdict::Closed,
    };
    (section.verdict, section.headline) = (Some(verdict), Some(at));
}

/// The same residuals protected anew with other numbers of cells, pairs spread over all.
fn by_cells(
    subject: &Subject,
    known: &Known,
    section: &mut Section,
    progress: &dyn Fn(&str),
) -> Result<()> {
    if subject.public == 0 {
        return Ok(());
    }
    let prefixes = subject.prefixes().select(&known.documents);
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
        let chance = 1.0 / trials[0].candidates() as f64;
        for attack in attacks {
            let mut points = Vec::new();
            for budget in (0..8).map(|power| 4_usize.pow(power)).filter(|&m| m < rows) {
                let measured = measure(&trials, attack, Disclosure::Diffuse, budget, seed)?;
                let setting = format!("disclosure=diffuse,cells={count},");
                let finding = measured.finding(CHANNEL, &setting, chance);
                section.findings.push(finding.on(seed, rows));
                points.push((budget as f64, measured.recall, Some(measured.interval)));
                if measured.is_complete() {
                    break;
                }
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
        Trial::new(release.rows, residuals, cells, draw.targets.len(), gallery)
    }
}

mod table;
pub use table::reproduce_alignment;

#[cfg(test)]
mod tests;
