//! Linkage while documents come and go: the paper's Experiment 28.
//!
//! Two releases of `N` rows share a fraction of their documents; the rest are insertions and
//! deletions that the other never had. Keys and orders are independent. The attacker knows neither
//! which documents are common nor how many; features are standardised from the two releases as
//! they are seen. In the paper's table candidates are the rows of the same cell (the attacker is
//! granted the correspondence of cells), with micro-keys where prefixes are public and show the
//! cells, otherwise the whole other release. The channel of an audit plays both grants, and its
//! verdict is on the game with nothing granted.
//!
//! `recall_at_1` and `auc` are over common documents. The open-set rule takes for matches all
//! pairs that are each other's nearest by prefix, with no threshold; its precision and recall are
//! over what it takes.

mod table;

pub use table::reproduce_churn;

use rand_core::Rng;

use super::format::Format;
use super::game::{
    Grant, Keying, Population, Snapshot, Truth, is_fixed_point, round_to_fixed_point,
};
use super::linker::{Linker, Outcome, Pair, conclude, play, play_prefix, report};
use super::unfit;
use crate::finding::{Finding, Plot, Section, Series, Verdict};
use crate::subject::Subject;
use crate::tools::statistics::{generator, mean, sample};
use crate::view::Release;

/// Percent of documents that both releases have.
const OVERLAPS: [usize; 5] = [25, 50, 75, 90, 100];

/// What rows are matched by.
const LINKERS: [Linker; 4] = [Linker::Prefix, Linker::Norm, Linker::Gram, Linker::Combined];

/// Rows of a release in the audit of a collection.
const AUDIT_ROWS: usize = 2_000;

/// The grant of an attacker who knows nothing of how rows or cells correspond, as settings spell it.
const NOTHING: &str = "nothing";

/// One pair of releases, judged.
struct Game {
    linkers: Vec<(Linker, Outcome)>,
    /// Precision and recall of the open-set rule, if there are prefixes.
    open_set: Option<[f64; 2]>,
}

/// Two releases of `rows` documents each, `percent` of them in both, not yet rounded.
fn releases(
    population: &Population,
    rows: usize,
    percent: usize,
    keying: Keying,
    rng: &mut impl Rng,
) -> [Snapshot; 2] {
    let common = rows * percent / 100;
    let drawn = sample(population.len(), 2 * rows - common, rng);
    [&drawn[..rows], &drawn[rows - common..]]
        .map(|documents| population.release(documents, keying, rng))
}

/// Stores two releases in a format, and matches their rows with what the paper grants.
fn game(mut snapshots: [Snapshot; 2], keying: Keying, format: Format, rng: &mut impl Rng) -> Game {
    snapshots.iter_mut().for_each(|snapshot| format.store(&mut snapshot.release, rng));
    let (pair, truth) = paired(snapshots);
    judged(&pair, &truth, keying.grant(), rng)
}

/// Two releases, and which of their rows belong together.
fn paired([first, second]: [Snapshot; 2]) -> (Pair, Truth) {
    let truth = Truth::new(&first.documents, &second.documents);
    (Pair::new(first.release, second.release), truth)
}

/// Plays every linker.
fn judged(pair: &Pair, truth: &Truth, grant: Grant, rng: &mut impl Rng) -> Game {
    let (prefix, taken) = play_prefix(pair, grant, truth, rng).unzip();
    let by_prefix = prefix.map(|outcome| (Linker::Prefix, outcome));
    let others = LINKERS.into_iter().filter(|&linker| linker != Linker::Prefix);
    let others = others.filter_map(|linker| Some((linker, play(pair, linker, grant, truth, rng)?)));
    Game {
        linkers: by_prefix.into_iter().chain(others).collect(),
        open_set: taken.map(|pairs| truth.precision_and_recall(&pairs)),
    }
}

/// Adds the findings of some pairs of releases of one setting.
fn add(
    section: &mut Section,
    labels: &str,
    games: &[Game],
    paper: impl Fn(Linker) -> [Option<f64>; 2],
    paper_precision: Option<f64>,
    (seed, rows): (u64, usize),
) {
    for linker in LINKERS {
        let outcomes: Vec<Outcome> = games
            .iter()
            .flat_map(|game| &game.linkers)
            .filter(|(own, _)| *own == linker)
            .map(|(_, outcome)| outcome.clone())
            .collect();
        let setting = format!("{labels},linker={}", linker.name());
        report(section, &setting, &outcomes, paper(linker), (seed, rows));
    }
    let open: Vec<[f64; 2]> = games.iter().filter_map(|game| game.open_set).collect();
    for (at, metric) in ["open_set_precision", "open_set_recall"].into_iter().enumerate() {
        let values: Vec<f64> = open.iter().map(|both| both[at]).collect();
        if !values.is_empty() {
            let setting = format!("{labels},linker=prefix-mutual-nearest");
            section.findings.push(
                Finding::new(&section.name, setting, metric, mean(&values))
                    .paper(paper_precision.filter(|_| at == 0))
                    .on(seed, rows),
            );
        }
    }
}

/// `recall_at_1` by overlap, a line for each of `lines`: its name, and the settings that it has at
/// an overlap.
fn plot(section: &Section, name: &str, lines: &[(String, String)]) -> Plot {
    let line = |(name, pattern): &(String, String)| {
        let points = OVERLAPS.into_iter().filter_map(|percent| {
            let setting = pattern.replace('*', &percent.to_string());
            let of = |f: &&Finding| f.setting == setting && f.metric == "recall_at_1";
            let finding = section.findings.iter().find(of)?;
            Some((percent as f64, finding.value, finding.ci95))
        });
        Series { name: name.clone(), points: points.collect() }
    };
    let series = lines.iter().map(line).filter(|series| !series.points.is_empty());
    Plot {
        name: name.to_owned(),
        title: "Linkage by overlap".to_owned(),
        x_label: "documents in both releases, percent".to_owned(),
        y_label: "common documents recognised".to_owned(),
        logarithmic: false,
        series: series.collect(),
    }
}

/// The game on this collection, under keys like its own.
///
/// # Errors
/// None so far.
pub fn channel(subject: &Subject, progress: &dyn Fn(&str)) -> anyhow::Result<Section> {
    const NAME: &str = "release-churn";
    let mut section = Section::new(NAME, "Recognising rows while documents come and go");
    if let Some(note) = unfit(subject) {
        section.notes.push(note);
        return Ok(section);
    }
    let population = Population::of(subject);
    // At 25 % overlap two releases of N rows need 1.75 N documents.
    let rows = AUDIT_ROWS.min(population.len() * 4 / 7);
    if rows < 50 {
        section.notes.push(format!(
            "Not measured: {} documents are too few for two releases that differ.",
            population.len()
        ));
        return Ok(section);
    }
    let keying = Keying::of(subject.release());
    let public = subject.release().prefixes.is_some();
    let fixed_point = is_fixed_point(subject.release());
    let store = |release: &mut Release| {
        if fixed_point {
            round_to_fixed_point(release);
        }
        if !public {
            release.prefixes = None;
        }
    };
    let mut grants = vec![(NOTHING, Grant::Nothing)];
    if keying == Keying::Cells {
        grants.push(("cells", Grant::CellLabels));
    }
    for percent in OVERLAPS {
        progress(&format!("release-churn: {percent} % overlap"));
        let mut rng = generator(subject.seed, 130 + percent as u64);
        let mut snapshots = releases(&population, rows, percent, keying, &mut rng);
        snapshots.iter_mut().for_each(|snapshot| store(&mut snapshot.release));
        let (pair, truth) = paired(snapshots);
        for &(name, grant) in &grants {
            let game = judged(&pair, &truth, grant, &mut rng);
            let labels = format!("overlap={percent},granted={name}");
            add(&mut section, &labels, &[game], |_| [None, None], None, (subject.seed, rows));
        }
    }
    let line = |linker: &Linker| {
        let name = linker.name();
        (name.to_owned(), format!("overlap=*,granted={NOTHING},linker={name}"))
    };
    let lines: Vec<(String, String)> = LINKERS.iter().map(line).collect();
    section.plots.push(plot(&section, "linkage-by-overlap", &lines));
    conclude(&mut section, &format!("overlap=25,granted={NOTHING},"), |verdict| {
        let hides = match verdict {
            Verdict::Open => "hides nothing of those that stay",
            Verdict::Reduced => "hides only some of those that stay",
            Verdict::Closed => "leaves those that stay no better linked than by guessing",
        };
        format!("Replacing three documents in four between releases {hides}.")
    });
    section.notes.push(format!(
        "Pairs of releases of {rows} documents under {} keys, {}. The verdict and the plot are on the \
         attacker who is granted nothing. The other attacker is granted which cells correspond, which \
         the sizes of cells may reveal.",
        keying.name(),
        if fixed_point { "rounded to fixed point as the stored rows are" } else { "not rounded" },
    ));
    if !public {
        section.notes.push(
            "The server holds no prefix: linkage by prefix is closed and was not played."
                .to_owned(),
        );
    }
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;
    use crate::finding::Verdict;
    use crate::tools::matrix::Matrix;

    fn value(section: &Section, setting: &str, metric: &str) -> f64 {
        let of = |f: &&Finding| f.setting == setting && f.metric == metric;
        section.findings.iter().find(of).expect("the setting was played").value
    }

    #[test]
    fn prefix_and_norm_link_at_every_overlap_and_gram_only_at_high_ones() {
        let section = channel(&planted::subject(700, 24, 8, 4, 0.7, true), &|_| {}).unwrap();
        for percent in OVERLAPS {
            for linker in ["prefix", "norm"] {
                let setting = format!("overlap={percent},granted=nothing,linker={linker}");
                assert!(value(&section, &setting, "recall_at_1") > 0.98, "{setting}");
            }
        }
        let gram = |percent: usize| {
            value(&section, &format!("overlap={percent},granted=cells,linker=gram"), "recall_at_1")
        };
        assert!(gram(100) > 0.99 && gram(25) < 0.6, "{} {}", gram(100), gram(25));
        let open = "overlap=25,granted=cells,linker=prefix-mutual-nearest";
        assert!(value(&section, open, "open_set_recall") > 0.99);
        assert!(value(&section, open, "open_set_precision") < 0.8);
        assert_eq!(section.verdict, Some(Verdict::Open));
        assert_eq!(section.plots[0].series.len(), 4);
        assert!(section.plots[0].series.iter().all(|series| series.points.len() == 5));
        let headline = &section.findings[section.headline.unwrap()];
        assert!(headline.setting.starts_with("overlap=25,granted=nothing,"), "{headline:?}");
    }

    #[test]
    fn releases_are_rounded_as_coarsely_as_the_stored_rows() {
        let mut subject = planted::subject(700, 24, 8, 4, 0.7, false);
        // A fixed point of four steps: norms of whole numbers no longer tell documents apart.
        let rows = &mut subject.view.releases[0].rows;
        rows.values_mut().iter_mut().for_each(|x| *x = (4.0 * *x).round());
        let section = channel(&subject, &|_| {}).unwrap();
        let norm = value(&section, "overlap=100,granted=nothing,linker=norm", "recall_at_1");
        assert!(norm < 0.2, "{norm}");
        assert_ne!(section.verdict, Some(Verdict::Open));
        assert!(!section.notes.iter().any(|note| note.contains("hides nothing")));
    }

    #[test]
    fn releases_with_nothing_in_common_are_at_chance() {
        let subject = planted::subject(700, 24, 8, 4, 0.7, true);
        let mut population = Population::of(&subject);
        let play = |population: &Population, keying, format| {
            let mut rng = generator(1, 1);
            game(releases(population, 350, 100, keying, &mut rng), keying, format, &mut rng)
        };
        let linked = play(&population, Keying::Cells, Format::Clean);
        assert!(linked.linkers.iter().all(|(_, outcome)| mean(&outcome.hits) > 0.9));
        // Equal norms, equal prefixes, and no company: nothing is left to link by.
        population.residuals = population.residuals.normalised();
        population.prefixes = Matrix::zeros(700, 8);
        population.cells = (0..700).map(|_| 0).collect();
        let micro = play(&population, Keying::Micro, Format::Int8);
        for (linker, outcome) in &micro.linkers {
            assert!(mean(&outcome.hits) < 0.03, "{linker:?} {}", mean(&outcome.hits));
        }
    }
}
