//! The paper's table of partial alignment, and what it leaves out.

use super::*;
use crate::alignment::trial::Measured;

/// Key and disclosure seeds.
const SEEDS: [u64; 3] = [0, 1, 2];

/// The largest number of pairs.
const MOST_PAIRS: usize = 32_768;

/// The widest prefix of the table.
const PREFIX_WIDTH: usize = 96;

/// Everything the table compares. Ridge without penalty is the least-squares map itself.
const ATTACKS: [Attack; 7] = [
    Attack::Estimate(Estimator::LeastSquares),
    Attack::Estimate(Estimator::RidgeValidated),
    Attack::Estimate(Estimator::ProcrustesDropped),
    Attack::Estimate(Estimator::Procrustes),
    Attack::Estimate(Estimator::Polar),
    Attack::Match(Matcher::Span),
    Attack::Match(Matcher::Gram),
];

/// A row of the paper's table: cells, pairs in all, pairs in a target's cell, recall at 1, cosine.
const PAPER: [(usize, usize, f64, f64, f64); 4] = [
    (1, 32, 32.0, 0.988, 0.356),
    (16, 512, 35.8, 0.939, 0.394),
    (64, 2_048, 34.8, 0.953, 0.412),
    (256, 8_192, 33.7, 0.961, 0.443),
];

/// The paper's first budget at which an attack recovers nine rows of ten.
fn first_in_paper(attack: Attack, cells: usize) -> Option<f64> {
    let row = PAPER.iter().find(|row| row.0 == cells)?;
    match attack {
        Attack::Estimate(Estimator::LeastSquares | Estimator::RidgeValidated) => Some(row.1 as f64),
        Attack::Estimate(Estimator::Procrustes | Estimator::Polar) => Some(4.0 * row.1 as f64),
        _ => None,
    }
}

/// "SHARD under partial alignment", on the largest collection of MiniLM vectors at hand.
///
/// # Errors
/// When there is no collection, or a decomposition does not converge.
pub fn reproduce_alignment(corpora: &[Corpus], progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new(TABLE, "Shard under partial alignment");
    let corpus = corpora
        .iter()
        .max_by_key(|corpus| (corpus.encoder == "minilm", corpus.vectors.rows()))
        .context("partial alignment needs a collection")?;
    let pca = Pca::fit(&corpus.vectors)?;
    let all = coordinates(&pca, &corpus.vectors);
    let (rows, width) = (all.rows(), all.width());
    let prefix_width = PREFIX_WIDTH.min(width / 4).max(1);
    let prefixes = all.columns(0..prefix_width);
    let residuals = all.columns(prefix_width..width);
    drop(all);
    section.notes.push(format!(
        "{} with {} vectors: {rows} documents, prefix {prefix_width}, residual {}, in place of 100,000 \
         e5-small passages. Three of MiniLM's coordinates have no variance, so a key counts as determined \
         when the pairs reach every direction in which residuals vary.",
        corpus.name,
        corpus.encoder,
        width - prefix_width
    ));
    section.notes.push(
        "Recovered residuals are matched by cosine; targets in a cell without a pair are misses; \
         targets, gallery, keys and disclosure are drawn anew for each of the three seeds. \
         `ridge-0` is the least-squares map itself and has its curve; `ridge-cv` takes the penalty \
         by leave-one-out. On exact rows `procrustes-dropped` is the same map as `ols`, and \
         `polar` the same as `procrustes`. Four widths of pairs in one cell are the most that a \
         fit uses. A known pair is no candidate. `first_pairs` is \
         the budget of recall 0.9, to an eighth of a power of two; the paper's are powers of two."
            .into(),
    );
    section.notes.push(
        "`span` projects the gallery onto the anchors' span as well; `gram` compares the inner \
         products with the anchors and the norm, which is all that pairs determine of a row; \
         `norm` uses no pair. None of them is in the paper, which leaves norms out of this experiment."
            .into(),
    );
    let mut lines = Vec::new();
    for count in CELLS.into_iter().filter(|count| rows >= 8 * count) {
        let game = Game {
            residuals: &residuals,
            family: KeyFamily::Orthogonal,
            targets: 256,
            gallery: 10_000,
        };
        let cells = game.cells(&prefixes, count, 0)?;
        let trials: Vec<Trial> = SEEDS
            .iter()
            .map(|&seed| game.trial(&cells, MOST_PAIRS, seed))
            .collect::<Result<_>>()?;
        let table = Table { trials: &trials, count, rows };
        table.norm(&mut section)?;
        for attack in ATTACKS {
            progress(&format!("alignment: C = {count}, {}", attack.name()));
            let line = table.diffuse(attack, &mut section)?;
            if matches!(
                attack,
                Attack::Match(_)
                    | Attack::Estimate(Estimator::LeastSquares | Estimator::Procrustes)
            ) {
                lines.push(line);
            }
            table.targeted(attack, &mut section)?;
        }
    }
    section.headline = headline(&section);
    section.plots.push(plot(
        "alignment",
        "Partial alignment: recovery by known pairs and number of cells",
        "known pairs in all",
        lines,
    ));
    Ok(section)
}

/// The strongest attack on a cell: recovery with the fewest pairs in it.
fn headline(section: &Section) -> Option<usize> {
    let targeted = section.findings.iter().position(|f| {
        f.setting.contains("targeted") && f.setting.contains("attack=gram") && f.value >= RECOVERED
    });
    let firsts = section.findings.iter().enumerate();
    let firsts = firsts.filter(|(_, f)| f.metric == "first_in_cell_pairs");
    targeted.or_else(|| firsts.min_by(|a, b| a.1.value.total_cmp(&b.1.value)).map(|(at, _)| at))
}

struct Table<'a> {
    trials: &'a [Trial],
    count: usize,
    rows: usize,
}

impl Table<'_> {
    fn finding(&self, setting: &str, metric: &str, value: f64) -> Finding {
        Finding::new(TABLE, setting, metric, value).on(SEEDS[0], self.rows)
    }

    fn norm(&self, section: &mut Section) -> Result<()> {
        let measured = measure(self.trials, Attack::Norm, Disclosure::Diffuse, 0)?;
        let setting = format!("disclosure=none,cells={},", self.count);
        let finding = measured.finding(TABLE, &setting);
        section.findings.push(finding.on(SEEDS[0], self.rows));
        Ok(())
    }

    /// The curve over pairs of the whole collection.
    fn diffuse(&self, attack: Attack, section: &mut Section) -> Result<Series> {
        let mut points = Vec::new();
        let mut first = None;
        let paper = PAPER
            .iter()
            .find(|row| row.0 == self.count && attack == Attack::Estimate(Estimator::LeastSquares));
        for budget in (0..).map(|power| 1 << power).take_while(|&m: &usize| m <= MOST_PAIRS) {
            if budget > self.rows / 2 {
                break;
            }
            let measured = measure(self.trials, attack, Disclosure::Diffuse, budget)?;
            let paper = paper.filter(|row| row.1 == budget);
            let setting = format!("disclosure=diffuse,cells={},", self.count);
            let finding = measured.finding(TABLE, &setting);
            let finding = finding.paper(paper.map(|row| row.3)).on(SEEDS[0], self.rows);
            let (setting, at) = (finding.setting.clone(), section.findings.len());
            section.findings.push(finding);
            let others = [
                ("cosine", measured.cosine, paper.map(|row| row.4)),
                ("in_cell_pairs", Some(measured.pairs), paper.map(|row| row.2)),
                ("full_rank_coverage", measured.full_rank, paper.map(|_| 0.0)),
            ];
            for (metric, value, paper) in others {
                if let Some(value) = value {
                    section.findings.push(self.finding(&setting, metric, value).paper(paper));
                }
            }
            if measured.recall >= RECOVERED && first.is_none() {
                first = Some(self.first_budget(attack, measured.clone())?);
            }
            points.push((budget as f64, measured.recall, section.findings[at].ci95));
        }
        if let Some(first) = first {
            let setting = format!("cells={},attack={}", self.count, attack.name());
            let paper = first_in_paper(attack, self.count);
            let budget = self.finding(&setting, "first_pairs", first.budget as f64).paper(paper);
            let in_cell = self.finding(&setting, "first_in_cell_pairs", first.pairs);
            let paper = PAPER.iter().find(|row| row.0 == self.count && paper == Some(row.1 as f64));
            section.findings.extend([budget, in_cell.paper(paper.map(|row| row.2))]);
            if let Some(share) = first.full_rank {
                let coverage = self.finding(&setting, "first_full_rank_coverage", share);
                section.findings.push(coverage.paper(paper.map(|_| 0.0)));
            }
        }
        Ok(Series { name: format!("{}, C = {}", attack.name(), self.count), points })
    }

    /// The first budget that recovers rows, by bisection down to an eighth of the power of two
    /// below `found`, which is a power of two that does.
    fn first_budget(&self, attack: Attack, mut found: Measured) -> Result<Measured> {
        let below = found.budget / 2;
        let (mut fails, mut recovers) = (8, 16);
        while recovers - fails > 1 {
            let middle = (fails + recovers) / 2;
            let budget = below * middle / 8;
            // Few pairs have no eighths.
            if budget == below {
                fails = middle;
                continue;
            }
            let measured = measure(self.trials, attack, Disclosure::Diffuse, budget)?;
            if measured.recall >= RECOVERED {
                (recovers, found) = (middle, measured);
            } else {
                fails = middle;
            }
        }
        Ok(found)
    }

    /// Pairs in the victim's cell.
    fn targeted(&self, attack: Attack, section: &mut Section) -> Result<()> {
        // With one cell all pairs are in the victim's; how many cells there are hardly matters.
        if self.count != 64 {
            return Ok(());
        }
        for budget in [1, 2, 4, 8, 16, 32, 64, 128] {
            let measured = measure(self.trials, attack, Disclosure::Targeted, budget)?;
            let setting = format!("disclosure=targeted,cells={},", self.count);
            let finding = measured.finding(TABLE, &setting);
            section.findings.push(finding.on(SEEDS[0], self.rows));
        }
        Ok(())
    }
}
