//! Neighbours among rows under one key.
//!
//! Within a cell the key cancels, `<z_i, z_j> = <r_i, r_j>`, so the server can compare rows of one
//! cell as if they were not keyed. The judge counts the share of true neighbours that lie in the
//! document's own cell, which bounds what such a comparison can show, and what it does show: the
//! overlap of the ten nearest rows of the cell by stored coordinates with the ten true neighbours.
//! Under micro-keys no two rows share a key and both are exactly zero.

use super::game::REPETITIONS;
use super::prefix::{DEPTH, neighbours_of};
use super::without_rows;
use crate::finding::{Finding, Section, Verdict};
use crate::subject::Subject;
use crate::tools::neighbours::{Metric, nearest_allowed, nearest_others_within, shares};
use crate::tools::statistics::{generator, interval, mean, sample};
use crate::view::Release;

/// Probes, as in the paper.
const PROBES: usize = 1_000;

/// The attack: the ten nearest rows under the same key, for each probe.
pub fn neighbours_under_key(release: &Release, probes: &[usize]) -> Vec<Vec<u32>> {
    let cells = &release.cells;
    let same_key =
        |query: usize, row: usize| row != probes[query] && cells[row] == cells[probes[query]];
    nearest_allowed(&release.rows.select(probes), &release.rows, DEPTH, Metric::Distance, same_key)
}

/// The share of each probe's neighbours in its own cell.
pub fn shares_in_cell(neighbours: &[Vec<u32>], cells: &[u32], probes: &[usize]) -> Vec<f64> {
    let share = |(neighbours, &probe): (&Vec<u32>, &usize)| {
        let own = neighbours.iter().filter(|&&row| cells[row as usize] == cells[probe]).count();
        own as f64 / neighbours.len().max(1) as f64
    };
    neighbours.iter().zip(probes).map(share).collect()
}

/// The share that random neighbours would have: the mean of `(n_c - 1) / (N - 1)` over the probes.
pub fn chance(cells: &[u32], probes: &[usize]) -> f64 {
    let mut sizes = std::collections::HashMap::new();
    cells.iter().for_each(|cell| *sizes.entry(*cell).or_insert(0_usize) += 1);
    let others = (cells.len().max(2) - 1) as f64;
    let shares: Vec<f64> =
        probes.iter().map(|&probe| (sizes[&cells[probe]] - 1) as f64 / others).collect();
    mean(&shares)
}

/// The row of every document.
pub(crate) fn rows_of_documents(documents: &[usize]) -> Vec<usize> {
    let mut rows = vec![0; documents.len()];
    documents.iter().enumerate().for_each(|(row, &document)| rows[document] = row);
    rows
}

/// Rows as documents.
pub(crate) fn documents_of_rows(documents: &[usize], found: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let document = |&row: &u32| documents[row as usize] as u32;
    found.iter().map(|rows| rows.iter().map(document).collect()).collect()
}

/// What the server sees of neighbourhoods by comparing rows under the same key.
///
/// # Errors
/// None so far.
pub fn channel(subject: &Subject, progress: &dyn Fn(&str)) -> anyhow::Result<Section> {
    const NAME: &str = "same-key-neighbours";
    let mut section = Section::new(NAME, "Neighbours among rows under one key");
    if let Some(note) = without_rows(subject) {
        section.notes.push(note);
        return Ok(section);
    }
    let (count, release) = (subject.vectors.rows(), subject.release());
    let rows = rows_of_documents(&subject.documents);
    let probes: Vec<(usize, usize)> = sample(count, PROBES, &mut generator(subject.seed, 110))
        .into_iter()
        .map(|document| (document, rows[document]))
        .collect();
    if count < 50 || probes.len() < 25 {
        section
            .notes
            .push(format!("Not measured: {count} documents are too few to have neighbourhoods."));
        return Ok(section);
    }
    progress("same-key-neighbours: true neighbours");
    let (documents, probe_rows): (Vec<usize>, Vec<usize>) = probes.into_iter().unzip();
    // Without a residual to compare there are only whole rows, by their distances.
    let metric = if subject.prefix_width == 0 { Metric::Distance } else { Metric::Cosine };
    let truth = neighbours_of(&subject.vectors, &documents, metric);
    let residual = subject.residual();
    let residual_truth =
        nearest_others_within(&subject.coordinates, residual, &documents, DEPTH, Metric::Cosine);
    progress("same-key-neighbours: rows of one key");
    let found = documents_of_rows(&subject.documents, &neighbours_under_key(release, &probe_rows));
    let cells: Vec<u32> = rows.iter().map(|&row| release.cells[row]).collect();
    let chance = chance(&cells, &documents);
    let random = chance.min(DEPTH as f64 / (count - 1) as f64);
    for (metric, values, chance) in [
        ("nn_overlap_at_10", shares(&truth, &found), random),
        ("true_neighbours_in_cell", shares_in_cell(&truth, &cells, &documents), chance),
        ("shared_residual_edges", shares_in_cell(&residual_truth, &cells, &documents), chance),
    ] {
        section.findings.push(
            Finding::new(NAME, "seen-by=server", metric, mean(&values))
                .ci95(interval(&values, REPETITIONS, subject.seed))
                .chance(chance)
                .on(subject.seed, count),
        );
    }
    if let Some(given) = &subject.given {
        // Scales of single rows change distances and not angles.
        let cells = &release.cells;
        let by_angle = nearest_allowed(
            &given.rows.select(&probe_rows),
            &given.rows,
            DEPTH,
            Metric::Cosine,
            |query, row| row != probe_rows[query] && cells[row] == cells[probe_rows[query]],
        );
        let angles = neighbours_of(&subject.vectors, &documents, Metric::Cosine);
        let shared = shares(&angles, &documents_of_rows(&subject.documents, &by_angle));
        section.findings.push(
            Finding::new(NAME, "rank-by=cosine,seen-by=server", "nn_overlap_at_10", mean(&shared))
                .ci95(interval(&shared, REPETITIONS, subject.seed))
                .chance(random)
                .on(subject.seed, count),
        );
        judge_foreign(&mut section);
        return Ok(section);
    }
    section.headline = Some(0);
    let keys = release.members().iter().filter(|rows| !rows.is_empty()).count();
    let micro = keys == release.rows.rows();
    section.verdict =
        Some(if micro { Verdict::Closed } else { Verdict::of(&section.findings[0], 1.0) });
    if !micro {
        section.add_detection_limit(1);
    }
    section.notes.push(if micro {
        "Closed: every row has a key of its own, so no two rows can be compared.".to_owned()
    } else {
        format!(
            "Rows in a cell share a key, which cancels in their products: the server can compare \
             them exactly. With {keys} keys, ranking the rows of a cell finds {:.0} % of each \
             document's ten true neighbours. {:.0} % of them are in its own cell at all, the most \
             that comparing rows of one key can find.",
            100.0 * section.findings[0].value,
            100.0 * section.findings[1].value,
        )
    });
    Ok(section)
}

/// The verdict on rows that Shard did not make: what counts is whether keys keep distances or angles.
fn judge_foreign(section: &mut Section) {
    section.rest_on(1.0, |finding| finding.metric == "nn_overlap_at_10");
    let Some(overlap) = section.headline.map(|at| &section.findings[at]) else { return };
    section.notes.push(format!(
        "Rows that may share a key can be compared with each other. Ranking them as they are stored \
         finds {:.0} % of each document's ten true neighbours.",
        100.0 * overlap.value
    ));
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    #[test]
    fn one_key_for_all_shows_the_residuals_neighbours() {
        let subject = planted::subject(300, 16, 4, 1, 1.0, false);
        let section = channel(&subject, &|_| {}).unwrap();
        assert!(section.findings[0].value > 0.3, "{:?}", section.findings[0]);
        assert_eq!(section.findings[1].value, 1.0);
        // All neighbours are under the key, but only the residual's are found.
        assert_eq!(section.findings[section.headline.unwrap()].metric, "nn_overlap_at_10");
        assert_eq!(section.verdict, Some(Verdict::Reduced));
    }

    #[test]
    fn micro_keys_share_no_residual_edge() {
        let subject = planted::subject(300, 16, 4, 300, 1.0, false);
        let section = channel(&subject, &|_| {}).unwrap();
        assert!(section.findings.iter().all(|finding| finding.value == 0.0));
        assert_eq!(section.verdict, Some(Verdict::Closed));
    }

    #[test]
    fn random_cells_hold_as_many_neighbours_as_chance_says() {
        let mut subject = planted::subject(600, 16, 4, 1, 1.0, false);
        subject.view.releases[0].cells = (0..600).map(|row| row * 7 % 5).collect();
        let section = channel(&subject, &|_| {}).unwrap();
        let in_cell = &section.findings[1];
        assert!((in_cell.value - in_cell.chance.unwrap()).abs() < 0.03, "{in_cell:?}");
    }

    #[test]
    fn chance_counts_the_other_rows_of_the_cell() {
        assert_eq!(chance(&[0, 0, 0, 1, 1], &[0, 3]), (2.0 / 4.0 + 1.0 / 4.0) / 2.0);
    }
}
