//! Ways to match rows of two releases, and what each achieves.
//!
//! Every [`Linker`] turns rows into features that new keys leave alone and matches each row of one
//! release with the nearest of the other; the monotone assignment by norm matches ranks instead.
//! The judge counts the share matched rightly (`recall_at_1`), and how well the distance of
//! features tells pairs of one document from pairs of two (`auc`).

use rand_core::Rng;

use super::features::{
    RowFeatures, combined, nearest_both_ways, nearest_links, norm_rank_links, standardised,
};
use super::game::{Grant, Group, Truth, groups};
use crate::alignment::estimators::{Estimator, Pairs};
use crate::finding::{Finding, Section, Verdict};
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{mean, sample};
use crate::view::Release;

/// Rows that are looked up where every lookup costs a product with all rows.
pub(super) const PROBES: usize = 2_000;

/// A way to match rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linker {
    /// By the cosine of rows under different keys: a control.
    CrossKeyCosine,
    /// By ranks of norms.
    NormRank,
    /// By nearest norm.
    Norm,
    /// By Gram signature.
    Gram,
    /// By unchanged prefix.
    Prefix,
    /// By norm, Gram and neighbour signature together.
    Combined,
    /// By inner products with the rows that those signatures match both ways: norms first, then Gram.
    Anchored,
}

impl Linker {
    /// All of them, the control first.
    pub const ALL: [Self; 7] = [
        Self::CrossKeyCosine,
        Self::NormRank,
        Self::Norm,
        Self::Gram,
        Self::Combined,
        Self::Anchored,
        Self::Prefix,
    ];

    /// As settings spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::CrossKeyCosine => "cross-key-cosine",
            Self::NormRank => "norm-rank",
            Self::Norm => "norm",
            Self::Gram => "gram",
            Self::Prefix => "prefix",
            Self::Combined => "combined",
            Self::Anchored => "anchored",
        }
    }

    /// The features of both releases that it compares, if they have them.
    fn features(self, pair: &Pair) -> Option<(Matrix, Matrix)> {
        let [first, second] = [&pair.first, &pair.second];
        Some(match self {
            Self::CrossKeyCosine => {
                (first.rows.clone().normalised(), second.rows.clone().normalised())
            }
            Self::NormRank | Self::Norm => {
                (pair.features[0].norms.clone(), pair.features[1].norms.clone())
            }
            Self::Gram => standardised(&pair.features[0].gram, &pair.features[1].gram),
            Self::Prefix => (first.prefixes.clone()?, second.prefixes.clone()?),
            Self::Combined => combined(&pair.features[0], &pair.features[1]),
            Self::Anchored => return anchored(pair),
        })
    }
}

/// Two releases as an attacker has them, with the features of their rows.
pub struct Pair {
    /// The older.
    pub first: Release,
    /// The newer.
    pub second: Release,
    features: [RowFeatures; 2],
}

impl Pair {
    /// With features computed.
    pub fn new(first: Release, second: Release) -> Self {
        let features = [&first, &second].map(RowFeatures::of);
        Self { first, second, features }
    }
}

/// The features of [`Linker::Anchored`], where all rows of either release are under one key: the second
/// release turned towards the first. Rows that signatures match both ways, most of them right and some
/// not, are taken for pairs; the orthogonal map between them is fitted, rows are matched again by it, and
/// so on. The fit is to what most pairs agree on, so it gains on them as long as enough are right.
fn anchored(pair: &Pair) -> Option<(Matrix, Matrix)> {
    const ROUNDS: usize = 6;
    let one_key = |release: &Release| release.cells.iter().all(|&cell| cell == release.cells[0]);
    let same_width = pair.first.rows.width() == pair.second.rows.width();
    if !same_width || !one_key(&pair.first) || !one_key(&pair.second) {
        return None;
    }
    let groups = groups(&pair.first, &pair.second, Grant::Nothing);
    let [first, second] = [&pair.first.rows, &pair.second.rows].map(|rows| {
        let mean = rows.column_means();
        rows.clone().minus(&mean)
    });
    let (mut features, mut others) = combined(&pair.features[0], &pair.features[1]);
    for _ in 0..ROUNDS {
        let [forward, backward] = nearest_both_ways(&features, &others, &groups);
        let (own, other): (Vec<usize>, Vec<usize>) =
            mutual(&forward, &backward).into_iter().unzip();
        if own.is_empty() {
            return None;
        }
        let pairs = Pairs { residuals: first.select(&own), rows: second.select(&other) };
        let map = Estimator::Procrustes.fit(&pairs).ok()?;
        (features, others) = (first.clone(), map.apply(&second));
    }
    Some((features, others))
}

/// What a linker achieved.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// One for each common document that was matched, zero for the others.
    pub hits: Vec<f64>,
    /// The area under the curve; an assignment has no scores, so none.
    pub area: Option<f64>,
    /// The share a blind guess would match.
    pub chance: f64,
}

impl Outcome {
    /// What guesses by the distance of features achieved.
    pub(super) fn of(
        guesses: &[Option<usize>],
        [first, second]: [&Matrix; 2],
        groups: &[Group],
        truth: &Truth,
        rng: &mut impl Rng,
    ) -> Self {
        Self {
            hits: truth.hits(guesses),
            area: Some(truth.area(first, second, groups, rng)),
            chance: truth.chance(groups),
        }
    }
}

/// Plays one linker; `None` when the releases lack what it compares.
pub fn play(
    pair: &Pair,
    linker: Linker,
    grant: Grant,
    truth: &Truth,
    rng: &mut impl Rng,
) -> Option<Outcome> {
    let (first, second) = linker.features(pair)?;
    let mut groups = groups(&pair.first, &pair.second, grant);
    let mut probed = None;
    if linker == Linker::CrossKeyCosine && grant == Grant::Nothing {
        let probes = sample(first.rows(), PROBES, rng);
        groups[0].first.clone_from(&probes);
        probed = Some(truth.among(&probes));
    }
    let truth = probed.as_ref().unwrap_or(truth);
    if linker == Linker::NormRank {
        let guesses = norm_rank_links(&first, &second, &groups);
        let chance = truth.chance(&groups);
        return Some(Outcome { hits: truth.hits(&guesses), area: None, chance });
    }
    let guesses = nearest_links(&first, &second, &groups);
    Some(Outcome::of(&guesses, [&first, &second], &groups, truth, rng))
}

/// The prefix linker, and beside it the open-set rule: all pairs that are each other's nearest are
/// taken for matches. `None` when the releases have no prefixes.
pub(super) fn play_prefix(
    pair: &Pair,
    grant: Grant,
    truth: &Truth,
    rng: &mut impl Rng,
) -> Option<(Outcome, Vec<(usize, usize)>)> {
    let (first, second) = (pair.first.prefixes.as_ref()?, pair.second.prefixes.as_ref()?);
    let groups = groups(&pair.first, &pair.second, grant);
    let [forward, backward] = nearest_both_ways(first, second, &groups);
    let outcome = Outcome::of(&forward, [first, second], &groups, truth, rng);
    Some((outcome, mutual(&forward, &backward)))
}

/// Pairs of rows that are each other's guess.
fn mutual(forward: &[Option<usize>], backward: &[Option<usize>]) -> Vec<(usize, usize)> {
    let pairs = forward.iter().enumerate().filter_map(|(row, other)| Some((row, (*other)?)));
    pairs.filter(|&(row, other)| backward[other] == Some(row)).collect()
}

/// Adds `recall_at_1` and `auc` of one setting, over seeds.
pub(super) fn report(
    section: &mut Section,
    setting: &str,
    outcomes: &[Outcome],
    paper: [Option<f64>; 2],
    (seed, rows): (u64, usize),
) {
    let hits: Vec<Vec<f64>> =
        outcomes.iter().map(|it| it.hits.clone()).filter(|hits| !hits.is_empty()).collect();
    if hits.is_empty() {
        return;
    }
    let chances: Vec<f64> = outcomes.iter().map(|it| it.chance).collect();
    section.findings.push(
        Finding::share(&section.name, setting, "recall_at_1", &hits.concat())
            .chance(mean(&chances))
            .paper(paper[0])
            .on(seed, rows),
    );
    let areas: Vec<f64> = outcomes.iter().filter_map(|it| it.area).collect();
    if !areas.is_empty() {
        section.findings.push(
            Finding::new(&section.name, setting, "auc", mean(&areas))
                .chance(0.5)
                .paper(paper[1])
                .on(seed, rows),
        );
    }
}

/// Sets verdict and headline by the best linker among the settings that start with `among`, and
/// says so after an `opening` that fits the verdict.
pub(super) fn conclude(section: &mut Section, among: &str, opening: impl Fn(Verdict) -> String) {
    section.rest_on(1.0, |it| it.metric == "recall_at_1" && it.setting.starts_with(among));
    let (Some(at), Some(verdict)) = (section.headline, section.verdict) else { return };
    let best = &section.findings[at];
    let note = format!(
        "{} A server that kept the old rows recognises {:.1} % of documents (chance {:.2} %).",
        opening(verdict),
        100.0 * best.value,
        100.0 * best.chance.unwrap_or(0.0),
    );
    section.notes.push(note);
}

#[cfg(test)]
mod tests {
    use super::super::game::squared_distance;
    use super::super::planted;
    use super::*;
    use crate::tools::statistics::generator;

    #[test]
    fn unrelated_releases_are_linked_by_chance_alone() {
        let release = |seed| Release {
            rows: planted::normals(500, 12, seed),
            cells: (0..500).map(|row| row % 5).collect(),
            prefixes: Some(planted::normals(500, 4, seed + 10)),
        };
        let documents: Vec<usize> = (0..500).collect();
        let truth = Truth::new(&documents, &documents);
        let pair = Pair::new(release(1), release(2));
        let mut rng = generator(8, 8);
        for linker in [Linker::NormRank, Linker::Norm, Linker::Gram, Linker::Prefix] {
            let outcome = play(&pair, linker, Grant::CellLabels, &truth, &mut rng).unwrap();
            assert!((outcome.chance - 0.01).abs() < 1e-9);
            assert!(mean(&outcome.hits) < 0.03, "{linker:?} {}", mean(&outcome.hits));
            assert!(outcome.area.is_none_or(|area| (area - 0.5).abs() < 0.08), "{linker:?}");
        }
    }

    #[test]
    fn mutual_neighbours_are_those_of_the_definition() {
        let (first, second) = (planted::normals(70, 3, 1), planted::normals(50, 3, 2));
        let group =
            Group { first: (5..70).collect(), second: (0..50).filter(|row| row % 7 > 0).collect() };
        let near = |x: &[f64], rows: &[usize], of: &Matrix| {
            let distance = |&row: &usize| squared_distance(x, of.row(row));
            *rows.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap()
        };
        let expected: Vec<(usize, usize)> = group
            .first
            .iter()
            .map(|&row| (row, near(first.row(row), &group.second, &second)))
            .filter(|&(row, other)| near(second.row(other), &group.first, &first) == row)
            .collect();
        assert!(expected.len() > 5);
        let groups = [group];
        let [forward, backward] = nearest_both_ways(&first, &second, &groups);
        assert_eq!(mutual(&forward, &backward), expected);
        assert_eq!(forward, nearest_links(&first, &second, &groups));
        assert_eq!(backward.iter().flatten().count(), groups[0].second.len());
    }
}
