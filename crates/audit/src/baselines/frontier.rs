//! The privacy/utility frontier: how much of exact search each protection keeps, and how many of its
//! rows an attacker links to a native gallery.
//!
//! Utility is the share of the exact top 10 that the protected search returns. Privacy is the recall
//! at 1 of the better of the two attacks of [`native`](super::native) on 256 released rows without
//! identifiers, against a gallery of up to 5,000 native vectors. For the norms, the attacker is
//! granted the vectors of the whole protected collection, and fits principal axes of its own to them.

use anyhow::Result;
use rayon::prelude::*;
use shard_geometry::{VectorSet, exact_top_k};

use super::baseline::Baseline;
use super::measure::{PlainShard, RESAMPLES, SHARD_CANDIDATES, vectors_of};
use super::native::{link_by_norm, link_directly, right};
use super::protected::{CANDIDATES, Protected};
use crate::finding::{Finding, Plot, Section, Series, Verdict};
use crate::subject::Subject;
use crate::tools::matrix::Matrix;
use crate::tools::neighbours::shares;
use crate::tools::statistics::{generator, interval, mean, sample};

/// Documents that are protected by each baseline.
const ROWS: usize = 5000;

/// Queries that are searched with.
const QUERIES: usize = 200;

/// Released rows that are linked.
pub(super) const TARGETS: usize = 256;

/// Native vectors that they are linked to.
pub(super) const GALLERY: usize = 5000;

/// Fewest documents for codebooks and a top 10 that is not everything.
const FEWEST_ROWS: usize = 64;

/// Budgets of the Gaussian release.
const EPSILONS: [f64; 6] = [1.0, 64.0, 512.0, 4096.0, 32768.0, 262_144.0];

const NAME: &str = "frontier";

/// One protection on the frontier.
struct Point {
    utility: Vec<f64>,
    linked: Vec<f64>,
}

/// What the attacker is granted and what the judge knows.
struct Game {
    /// Native vectors of the gallery, and their coordinates on the attacker's own axes.
    gallery: Matrix,
    coordinates: Matrix,
    /// The gallery row of each target.
    answers: Vec<usize>,
}

impl Game {
    /// The better of the attacks that apply, with its name.
    fn link(&self, released: &Matrix, kept: std::ops::Range<usize>) -> (&'static str, Vec<f64>) {
        let norm = right(&link_by_norm(released, &self.coordinates, kept), &self.answers);
        if released.width() == self.gallery.width() {
            let direct = right(&link_directly(released, &self.gallery), &self.answers);
            if mean(&direct) >= mean(&norm) {
                return ("direct", direct);
            }
        }
        ("norm", norm)
    }
}

/// The channel of an audit: Shard, the baselines and a grid of Gaussian releases on the owner's documents.
///
/// # Errors
/// When the vectors cannot be protected or searched, which finite ones can.
pub fn channel(subject: &Subject, progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new(NAME, "Privacy against utility");
    let (seed, total) = (subject.seed, subject.vectors.rows());
    let Some(queries) = &subject.queries else {
        section
            .notes
            .push("Not measured: no sample queries were given to judge utility by.".into());
        return Ok(section);
    };
    if total < FEWEST_ROWS {
        section.notes.push(format!("Not measured: {total} documents are too few."));
        return Ok(section);
    }
    section.notes.push(
        "Utility is the share of the exact top 10 found; linkage is recall at 1 of the better of two \
         attacks, by cosine and by norm. An attacker with known pairs or two releases can do more: see \
         the channels of alignment and linkage."
            .into(),
    );

    // All documents, or a sample; targets come first in it, so that they are in the gallery.
    let stored = subject.documents.len();
    let rows = sample(stored, ROWS, &mut generator(seed, 1));
    let chosen: Vec<usize> = rows.iter().map(|&row| subject.documents[row]).collect();
    if chosen.len() < stored {
        section.notes.push(format!(
            "Measured on {} of {} documents, drawn at random.",
            chosen.len(),
            stored,
        ));
    }
    let base = vectors_of(&subject.vectors.select(&chosen))?;
    let asked = sample(queries.rows(), QUERIES, &mut generator(seed, 2));
    let queries = vectors_of(&queries.select(&asked))?;
    let targets = TARGETS.min(chosen.len());
    let gallery: Vec<usize> = (0..chosen.len().min(GALLERY)).collect();

    progress("frontier: exact search and Shard");
    let exact = search(&queries, |query| {
        Ok(exact_top_k(&base, query, 10)?.iter().map(|hit| hit.row).collect())
    })?;
    let shard = PlainShard::fit(&base, subject.prefix_width.max(1))?;
    let game = Game {
        gallery: Matrix::from_vectors(&base).select(&gallery),
        coordinates: shard.coordinates.select(&gallery),
        answers: (0..targets).collect(),
    };
    let mut points: Vec<(String, &str, Point)> = Vec::new();
    if subject.prefix_width > 0 {
        let found = shard.search(&queries, SHARD_CANDIDATES.min(chosen.len()), 10)?;
        let released = subject.release().rows.select(&rows[..targets]);
        // Shard's axes are those of all documents, not of the sample that the baselines protect.
        let whole = Game {
            gallery: game.gallery.clone(),
            coordinates: subject.coordinates.select(&chosen[..gallery.len()]),
            answers: game.answers.clone(),
        };
        let (attack, linked) = whole.link(&released, subject.prefix_width..base.width());
        points.push(("shard".into(), attack, Point { utility: shares(&exact, &found), linked }));
    } else {
        section.notes.push(
            "What is audited is not Shard's, and nothing searches it here: there is no verdict, and \
             the baselines stand for comparison."
                .into(),
        );
    }

    let gaussian = EPSILONS.map(|epsilon| Baseline::Gaussian { epsilon });
    for baseline in [Baseline::Raw, Baseline::Global, Baseline::PqOnly].into_iter().chain(gaussian)
    {
        progress(&format!("frontier: {baseline}"));
        let protected = baseline.protect(&base, seed)?;
        let found = search(&queries, |query| ranked(&protected, query))?;
        let release = protected.release().rows;
        let kept = 0..release.width();
        let (attack, linked) = game.link(&release.select(&game.answers), kept);
        let system = match baseline {
            Baseline::Gaussian { epsilon } => format!("gaussian,epsilon={epsilon}"),
            other => other.to_string(),
        };
        points.push((system, attack, Point { utility: shares(&exact, &found), linked }));
    }

    let chance = 1.0 / gallery.len() as f64;
    for (system, attack, point) in &points {
        let finding = |setting: String, metric: &str, values: &[f64]| {
            Finding::new(NAME, setting, metric, mean(values))
                .ci95(interval(values, RESAMPLES, seed))
                .on(seed, chosen.len())
        };
        let setting = format!("system={system},attack={attack}");
        section.findings.push(
            Finding::share(NAME, setting, "link_recall_at_1", &point.linked)
                .chance(chance)
                .on(seed, chosen.len()),
        );
        section.findings.push(
            finding(format!("system={system}"), "top_10_overlap", &point.utility)
                .chance((10.0 / chosen.len() as f64).min(1.0)),
        );
    }
    if subject.prefix_width > 0 {
        section.headline = Some(0);
        section.verdict = Some(Verdict::of(&section.findings[0], 1.0));
        section.add_detection_limit(1);
    }
    section.notes.push(conclusion(&points));
    section.plots.push(plot(&points));
    Ok(section)
}

/// What the points say: whether a protection that ranks well, as nine tenths of the exact top 10, is
/// linked less than half of the time.
fn conclusion(points: &[(String, &str, Point)]) -> String {
    let useful: Vec<&(String, &str, Point)> =
        points.iter().filter(|(_, _, point)| mean(&point.utility) >= 0.9).collect();
    let unlinked: Vec<&str> = useful
        .iter()
        .filter(|(_, _, point)| mean(&point.linked) < 0.5)
        .map(|(system, ..)| system.as_str())
        .collect();
    if useful.is_empty() {
        "No protection that was tried finds nine tenths of the exact top 10 here.".into()
    } else if unlinked.is_empty() {
        "Every protection that ranks well here can be linked: an attacker who already has the \
         documents' vectors finds out which stored row is which document, by its direction or by its \
         length. Noise hides the link only where it destroys the ranking."
            .into()
    } else {
        format!(
            "Of the protections that rank well here, these are linked less than half of the time: {}. \
             That is about the two attacks of this channel only.",
            unlinked.join("; ")
        )
    }
}

fn search(
    queries: &VectorSet,
    find: impl Fn(&[f32]) -> Result<Vec<u32>> + Sync,
) -> Result<Vec<Vec<u32>>> {
    (0..queries.rows()).into_par_iter().map(|row| find(queries.row(row))).collect()
}

fn ranked(protected: &Protected, query: &[f32]) -> Result<Vec<u32>> {
    let hits = protected.search_in_the_clear(query, 10, CANDIDATES)?;
    Ok(hits.iter().map(|hit| hit.row).collect())
}

/// Linkage over utility: a dot for each protection, a line for the Gaussian budgets. Raw vectors, which
/// find and give away everything, are left out.
fn plot(points: &[(String, &str, Point)]) -> Plot {
    let mut series: Vec<Series> = Vec::new();
    for (system, _, point) in points.iter().filter(|(system, ..)| system != "raw") {
        let name = system.split(',').next().unwrap_or(system);
        let point = (mean(&point.utility), mean(&point.linked), None);
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => series.push(Series { name: name.to_owned(), points: vec![point] }),
        }
    }
    series.iter_mut().for_each(|one| one.points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0)));
    Plot {
        name: NAME.into(),
        title: "Privacy against utility".into(),
        x_label: "share of the exact top 10 found".into(),
        y_label: "rows linked to a native gallery (recall at 1)".into(),
        logarithmic: false,
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::sample::subject;

    fn value(section: &Section, system: &str, metric: &str) -> f64 {
        let named = |finding: &&Finding| {
            let setting = &finding.setting;
            finding.metric == metric && setting.starts_with(&format!("system={system}"))
        };
        section.findings.iter().find(named).expect("a finding").value
    }

    #[test]
    fn raw_and_shard_are_useful_and_linked_and_strong_noise_is_neither() {
        let section = channel(&subject(300, 16, 1), &|_| ()).unwrap();
        for system in ["raw", "shard"] {
            assert!(value(&section, system, "top_10_overlap") > 0.99, "{system}");
            assert!(value(&section, system, "link_recall_at_1") > 0.95, "{system}");
        }
        assert_eq!(section.verdict, Some(Verdict::Open));
        assert!(value(&section, "gaussian,epsilon=1", "link_recall_at_1") < 0.05);
        assert!(value(&section, "gaussian,epsilon=1", "top_10_overlap") < 0.25);
        let gaussian = section.plots[0].series.iter().find(|s| s.name == "gaussian").unwrap();
        assert_eq!(gaussian.points.len(), EPSILONS.len());
    }

    #[test]
    fn a_server_that_holds_noise_is_closed() {
        let mut subject = subject(300, 16, 1);
        let mut rng = generator(9, 9);
        let mut normals = shard_geometry::gaussian::Normals::new(&mut rng);
        let rows = &mut subject.view.releases[0].rows;
        rows.values_mut().iter_mut().for_each(|x| *x = normals.draw());
        let section = channel(&subject, &|_| ()).unwrap();
        assert!(value(&section, "shard", "link_recall_at_1") < 0.03);
        assert_eq!(section.verdict, Some(Verdict::Closed));
        assert!(section.notes.iter().all(|note| !note.starts_with("Every protection")));
        assert!(section.notes.iter().any(|note| note.contains("half of the time: shard")));
    }

    #[test]
    fn what_cannot_be_measured_is_a_note() {
        let mut without = subject(300, 16, 1);
        without.queries = None;
        for subject in [without, subject(20, 16, 1)] {
            let section = channel(&subject, &|_| ()).unwrap();
            assert!(section.findings.is_empty() && section.notes[0].starts_with("Not measured"));
        }
    }
}
