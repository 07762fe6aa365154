//! Whether a document is stored at all, by its distance to the nearest stored row.
//!
//! The attacker has the native vectors of suspected documents. Some documents are kept out, all others
//! are members of the store, also those that are not attacked otherwise; the score of a suspect is `-min_j |f(x) - f_j|` over stored
//! rows, in each view `f` of what is stored. Judged are the area under the curve and the share of
//! members found at one false alarm in a hundred.
//!
//! A member's own row would be at distance zero. Whether the score means *membership*, and not that
//! members lie in denser places, shows in the control: the same with each member's own row left
//! out, which must come out at chance.

use super::game::{REPETITIONS, scale_of_norms, squared_distance};
use super::same_key::rows_of_documents;
use super::without_rows;
use crate::alignment::estimators::Pairs;
use crate::alignment::foreign;
use crate::alignment::model::{FEWEST_PAIRS, LinearModel};
use crate::finding::{Finding, Section, Verdict};
use crate::subject::Subject;
use crate::tools::matrix::Matrix;
use crate::tools::neighbours::{Metric, nearest};
use crate::tools::statistics::{
    area_interval, area_under_curve, generator, interval_of_hits, mean, sample,
};

/// Suspects that are members, and as many that are not.
const SUSPECTS: usize = 1_000;

/// Members whose rows are compared number by number.
const MOST_ROWS: usize = 10_000;

/// The false alarms at which members are counted.
const FALSE_ALARMS: f64 = 0.01;

/// The attack: `-min_j |f(x) - f_j|` for every suspect. `left_out` names, for each, a stored row that
/// does not count.
pub fn scores(suspects: &Matrix, stored: &Matrix, left_out: Option<&[usize]>) -> Vec<f64> {
    if suspects.width() == 1 {
        return scores_of_numbers(suspects.values(), stored.values(), left_out);
    }
    // Of the two nearest one is not the row left out. The distance is taken afresh: the expanded
    // square that ranks them is not exact near zero.
    let found = nearest(suspects, stored, 2, Metric::Distance);
    let score = |(suspect, found): (usize, Vec<u32>)| {
        let mut rows = found.into_iter().map(|row| row as usize);
        let row = rows.find(|&row| left_out.is_none_or(|out| out[suspect] != row));
        let distance = |row| squared_distance(suspects.row(suspect), stored.row(row)).sqrt();
        row.map_or(f64::NEG_INFINITY, |row| -distance(row))
    };
    found.into_iter().enumerate().map(score).collect()
}

/// [`scores`] of one number per row, by sorting and bisection.
fn scores_of_numbers(suspects: &[f64], stored: &[f64], left_out: Option<&[usize]>) -> Vec<f64> {
    let mut sorted: Vec<usize> = (0..stored.len()).collect();
    sorted.sort_by(|&a, &b| stored[a].total_cmp(&stored[b]));
    let score = |(suspect, &own): (usize, &f64)| {
        let allowed = |row: &&usize| left_out.is_none_or(|out| out[suspect] != **row);
        let at = sorted.partition_point(|&row| stored[row] < own);
        let below = sorted[..at].iter().rev().find(allowed);
        let above = sorted[at..].iter().find(allowed);
        let gaps = below.into_iter().chain(above).map(|&row| -(stored[row] - own).abs());
        gaps.fold(f64::NEG_INFINITY, f64::max)
    };
    suspects.iter().enumerate().map(score).collect()
}

/// One for each member above the score that a `share` of outsiders exceeds, zero for the others.
pub fn found_at_false_alarms(members: &[f64], outsiders: &[f64], share: f64) -> Vec<f64> {
    if outsiders.is_empty() {
        return vec![0.0; members.len()];
    }
    let mut sorted = outsiders.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let threshold = sorted[(share * sorted.len() as f64) as usize];
    members.iter().map(|&score| f64::from(u8::from(score > threshold))).collect()
}

/// One way to look at the store.
struct View {
    name: &'static str,
    /// How rows that Shard did not make are read; begins with a comma.
    reading: String,
    /// Whether the server has it, or somebody with more would.
    seen: bool,
    /// Of all members, in their order.
    stored: Matrix,
    members: Matrix,
    outsiders: Matrix,
}

/// Lengths of rows that Shard did not make, in every reading of them.
///
/// # Errors
/// When a decomposition does not converge.
fn by_lengths(
    subject: &Subject,
    rows: &[usize],
    members: &[usize],
    outsiders: &[usize],
    suspects: usize,
) -> anyhow::Result<Vec<View>> {
    let Some(given) = &subject.given else { return Ok(Vec::new()) };
    let stored: Vec<usize> = members.iter().map(|&member| rows[member]).collect();
    let view = |read: foreign::View| {
        let (rows, natives) = read.rows_and_vectors();
        let lengths = |of: &Matrix, which: &[usize]| Matrix::new(1, of.select(which).norms());
        View {
            name: "norm",
            reading: format!(",{}", read.name()),
            seen: true,
            stored: lengths(rows, &stored),
            members: lengths(natives, &members[..suspects]),
            outsiders: lengths(natives, &outsiders[..suspects]),
        }
    };
    let views = foreign::views(subject, given)?.into_iter();
    Ok(views.filter(foreign::View::has_lengths).map(view).collect())
}

/// Rows that Shard did not make, seen through a linear map fitted to known members that are no suspects.
///
/// # Errors
/// When a decomposition does not converge.
fn by_pairs(
    subject: &Subject,
    rows: &[usize],
    members: &[usize],
    outsiders: &[usize],
    suspects: usize,
) -> anyhow::Result<Option<View>> {
    let one_key = subject.release().cells.iter().all(|&cell| cell == 0);
    let Some(given) = subject.given.as_ref().filter(|_| one_key) else { return Ok(None) };
    let row = |&member: &usize| rows[member];
    let widest = given.rows.width().max(given.coordinates.width());
    let shown: Vec<usize> = members[suspects..].iter().take(4 * widest).copied().collect();
    if shown.len() < FEWEST_PAIRS {
        return Ok(None);
    }
    let shown_rows: Vec<usize> = shown.iter().map(row).collect();
    let model = LinearModel::fit(&Pairs {
        residuals: given.coordinates.select(&shown),
        rows: given.rows.select(&shown_rows),
    })?;
    let stored: Vec<usize> = members.iter().map(row).collect();
    let natives = |of: &[usize]| model.of_natives(&given.coordinates.select(of));
    Ok(Some(View {
        name: "known-pairs",
        reading: String::new(),
        seen: true,
        stored: model.of_rows(&given.rows.select(&stored)),
        members: natives(&members[..suspects]),
        outsiders: natives(&outsiders[..suspects]),
    }))
}

/// Whether this collection's server can tell what is stored from what is not.
///
/// # Errors
/// None so far.
pub fn channel(subject: &Subject, progress: &dyn Fn(&str)) -> anyhow::Result<Section> {
    const NAME: &str = "membership";
    let mut section = Section::new(NAME, "Whether a known document is stored");
    if let Some(note) = without_rows(subject) {
        section.notes.push(note);
        return Ok(section);
    }
    let count = subject.vectors.rows();
    let rows = rows_of_documents(&subject.documents);
    let order = sample(count, count, &mut generator(subject.seed, 160));
    if order.len() < 200 {
        section.notes.push(format!(
            "Not measured: of {} stored documents one false alarm in a hundred cannot be seen.",
            order.len()
        ));
        return Ok(section);
    }
    // All but the outsiders are stored; where nothing is known of how rows were made, members that are
    // no suspects are left to learn it from.
    let suspects = SUSPECTS.min(order.len() / if subject.given.is_some() { 4 } else { 2 });
    let (outsiders, members) = order.split_at(suspects);
    let mut views = views(subject, &rows, members, outsiders, suspects);
    views.extend(by_lengths(subject, &rows, members, outsiders, suspects)?);
    views.extend(by_pairs(subject, &rows, members, outsiders, suspects)?);
    for view in views {
        progress(&format!("membership: {}", view.name));
        // Suspected members are the first of the stored ones.
        let own: Vec<usize> = (0..suspects).collect();
        let outside = scores(&view.outsiders, &view.stored, None);
        let inside = scores(&view.members, &view.stored, None);
        let control = scores(&view.members, &view.stored, Some(&own));
        let seen = if view.seen { "server" } else { "nobody" };
        let setting = format!("view={}{},seen-by={seen}", view.name, view.reading);
        let found = found_at_false_alarms(&inside, &outside, FALSE_ALARMS);
        let area = |same: &[f64]| {
            let interval = area_interval(same, &outside, REPETITIONS, subject.seed);
            (area_under_curve(same, &outside), interval, 0.5)
        };
        for (metric, (value, interval, chance)) in [
            ("auc", area(&inside)),
            ("tpr_at_1_percent_fpr", (mean(&found), interval_of_hits(&found), FALSE_ALARMS)),
            ("auc_own_row_left_out", area(&control)),
        ] {
            section.findings.push(
                Finding::new(NAME, setting.clone(), metric, value)
                    .ci95(interval)
                    .chance(chance)
                    .on(subject.seed, order.len()),
            );
        }
    }
    section.rest_on(1.0, |f| f.metric == "auc" && f.setting.ends_with("seen-by=server"));
    if let (Some(at), Some(verdict)) = (section.headline, section.verdict) {
        let best = &section.findings[at];
        let hidden = match verdict {
            Verdict::Open => "What is stored does not hide it",
            Verdict::Reduced => "What is stored hides it in part",
            Verdict::Closed => "That cannot be told from guessing",
        };
        let note = format!(
            "An attacker who has a document's vector and the model tells whether it is stored with \
             an area under the curve of {:.3} (0.5 is chance). {hidden}.",
            best.value
        );
        section.notes.push(note);
    }
    section.notes.extend([
        "Suspects that are kept out are as many as those that are stored. The attacker is granted \
         native vectors of suspects and, but for the raw store, the model (mean and basis). Keys \
         stay unknown in the view norm, and in as-stored, which takes rows for what they were made \
         from; the view known-pairs has other documents with their rows, of a release that Shard did not \
         make; the view aligned grants all keys and is an upper bound."
            .to_owned(),
        "auc_own_row_left_out is the control: with each member's own row left out, members must \
         look like outsiders."
            .to_owned(),
        "Views that are not on this server are for comparison.".to_owned(),
    ]);
    Ok(section)
}

fn views(
    subject: &Subject,
    rows: &[usize],
    members: &[usize],
    outsiders: &[usize],
    suspects: usize,
) -> Vec<View> {
    let release = subject.release();
    let view = |name, seen, stored: Matrix, native: &dyn Fn(&[usize]) -> Matrix| View {
        name,
        reading: String::new(),
        seen,
        stored,
        members: native(&members[..suspects]),
        outsiders: native(&outsiders[..suspects]),
    };
    // Lengths are of all members; whole rows, which are compared with each other, of some.
    let (some, others) = members.split_at(MOST_ROWS.min(members.len()));
    let row = |&member: &usize| rows[member];
    let member_rows: Vec<usize> = some.iter().map(row).collect();
    let residuals = |of: &[usize]| subject.residuals(of);
    let mut stored = release.rows.select(&member_rows);
    let length = |row: usize| release.rows.row(row).iter().map(|x| x * x).sum::<f64>().sqrt();
    let other_lengths = others.iter().map(|member| length(row(member)));
    let other_lengths: Vec<f64> = other_lengths.chain(subject.other_lengths.clone()).collect();
    // The attacker has norms of stored rows and of suspects, and not which belong together.
    let suspected: Vec<usize> =
        members[..suspects].iter().chain(&outsiders[..suspects]).copied().collect();
    let scale = scale_of_norms(&stored.norms(), &residuals(&suspected).norms());
    stored.values_mut().iter_mut().for_each(|x| *x /= scale);
    let others = other_lengths.into_iter().map(|length| length / scale);
    let norms = Matrix::new(1, stored.norms().into_iter().chain(others).collect());
    let mut views = Vec::new();
    // Lengths of rows that Shard did not make are taken in every reading, see [`by_lengths`].
    if subject.given.is_none() {
        let lengths = |of: &[usize]| Matrix::new(1, residuals(of).norms());
        views.push(view("norm", true, norms, &lengths));
    }
    if stored.width() == subject.residual().len() {
        views.push(view("as-stored", true, stored, &residuals));
    }
    if subject.prefix_width > 0 {
        let prefixes = |of: &[usize]| subject.prefixes(of);
        let stored = match &release.prefixes {
            Some(stored) => stored.select(&member_rows),
            None => prefixes(some),
        };
        views.push(view("prefix", release.prefixes.is_some(), stored, &prefixes));
    }
    views.push(view("aligned", false, residuals(some), &residuals));
    let raw = |of: &[usize]| subject.vectors.select(of);
    views.push(view("raw", false, raw(some), &raw));
    views
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;
    use crate::finding::Verdict;

    fn value(section: &Section, view: &str, metric: &str) -> f64 {
        let of = |f: &&Finding| f.setting.contains(&format!("view={view},")) && f.metric == metric;
        section.findings.iter().find(of).unwrap().value
    }

    #[test]
    fn members_are_told_by_norm_and_the_control_is_at_chance() {
        let section = channel(&planted::subject(800, 16, 4, 8, 0.8, false), &|_| {}).unwrap();
        for view in ["norm", "prefix", "aligned", "raw"] {
            assert!(value(&section, view, "auc") > 0.99, "{view}");
            assert!(value(&section, view, "tpr_at_1_percent_fpr") > 0.9, "{view}");
            let control = value(&section, view, "auc_own_row_left_out");
            assert!((control - 0.5).abs() < 0.07, "{view} {control}");
        }
        assert_eq!(section.verdict, Some(Verdict::Open));
    }

    #[test]
    fn a_store_of_noise_says_nothing_of_membership() {
        let mut subject = planted::subject(800, 16, 4, 8, 0.8, false);
        subject.view.releases[0].rows = planted::normals(800, 12, 5);
        let section = channel(&subject, &|_| {}).unwrap();
        assert!((value(&section, "norm", "auc") - 0.5).abs() < 0.07);
        assert!(value(&section, "norm", "tpr_at_1_percent_fpr") < 0.05);
        assert_eq!(section.verdict, Some(Verdict::Closed));
        assert!(!section.notes.iter().any(|note| note.contains("does not hide")));
    }

    #[test]
    fn scores_are_distances_to_the_nearest_row_that_counts() {
        for width in [1, 3] {
            let (suspects, stored) =
                (planted::normals(40, width, 1), planted::normals(60, width, 2));
            let out: Vec<usize> = (0..40).collect();
            for left_out in [None, Some(out.as_slice())] {
                let found = scores(&suspects, &stored, left_out);
                for (suspect, &score) in found.iter().enumerate() {
                    let expected = (0..60)
                        .filter(|&row| left_out.is_none() || row != suspect)
                        .map(|row| squared_distance(suspects.row(suspect), stored.row(row)).sqrt())
                        .fold(f64::INFINITY, f64::min);
                    assert!((score + expected).abs() < 1e-12, "{width} {suspect}");
                }
            }
        }
    }

    #[test]
    fn members_are_counted_above_the_false_alarms() {
        let outsiders: Vec<f64> = (0..100).map(f64::from).collect();
        let found = found_at_false_alarms(&[98.5, 98.0, 200.0, 1.0], &outsiders, 0.01);
        assert_eq!(found, [1.0, 0.0, 1.0, 0.0]);
    }
}
