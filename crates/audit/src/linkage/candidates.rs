//! What a request for candidates says of the query.
//!
//! A request names the rows to score. From them an attacker estimates the query's direction
//! ([`directions`](super::directions)); and even with no geometry at all, the sets of two requests
//! show whether they are for one query, and the cells of a log what is often asked.
//!
//! In the paper's setting the order of the names is that of the prefix distance, and the attacker
//! knows the vectors of the rows (a reference, or rows aligned). Requests here are sent in the order
//! of handles, which is pseudorandom, and a server has stored rows only. Both are measured.

use std::collections::BTreeSet;

use rayon::prelude::*;

use super::active_cells::ActiveCells;
use super::directions::{Estimator, cosine, cosine_in_cells, ranked_by_stored_rows};
use super::game::REPETITIONS;
use super::requests::{Request, coordinates_of, jittered, requests};
use super::unfit;
use crate::finding::{Finding, Section, Verdict};
use crate::subject::Subject;
use crate::tools::matrix::Matrix;
use crate::tools::neighbours::{Metric, nearest, overlap};
use crate::tools::statistics::{
    area_interval, area_under_curve, generator, interval, mean, sample,
};
use crate::view::SeenRequest;

/// Queries that are tried.
const QUERIES: usize = 200;

/// How far a query is from one that means the same, as a share of its length: cosines of about 0.995,
/// 0.96 and 0.86. The first is all but the same query again, the last a free paraphrase.
pub const JITTERS: [f64; 3] = [0.1, 0.3, 0.6];

/// The fewest queries that what requests name is judged by.
pub const FEWEST_QUERIES: usize = 20;

/// Neighbours that an estimate is to find.
const DEPTH: usize = 10;

const NAME: &str = "request-leakage";

/// The setting of figures on requests that the server really got.
pub const RECORDED: &str = "log=recorded";

/// Shared rows, or cells, over all that two requests name.
pub fn jaccard(first: &[usize], second: &[usize]) -> f64 {
    let (first, second): (BTreeSet<_>, BTreeSet<_>) =
        (first.iter().collect(), second.iter().collect());
    let shared = first.intersection(&second).count();
    shared as f64 / (first.len() + second.len() - shared).max(1) as f64
}

/// What requests for candidates give away on this collection.
///
/// # Errors
/// None so far.
pub fn channel(subject: &Subject, progress: &dyn Fn(&str)) -> anyhow::Result<Section> {
    let mut section = Section::new(NAME, "What a request for candidates says of the query");
    if let Some(note) = unfit(subject) {
        section.notes.push(note);
        return Ok(section);
    }
    let cells = &subject.release().cells;
    let (seed, rows) = (subject.seed, subject.vectors.rows());
    if let Some(active) = ActiveCells::of(&subject.view.requests, cells) {
        section.findings.extend(active_cells(RECORDED, &active, seed, rows));
    }
    let Some(queries) = subject.queries.as_ref().filter(|queries| queries.rows() >= 2) else {
        section.notes.push(
            "Directions and linkability were not measured: that takes at least two sample queries."
                .to_owned(),
        );
        return Ok(section);
    };
    if subject.vectors.rows() < 50 {
        section.notes.push("Not measured: fewer than 50 documents.".to_owned());
        return Ok(section);
    }
    let mut rng = generator(subject.seed, 151);
    let queries = queries.select(&sample(queries.rows(), QUERIES, &mut rng));
    progress("requests: routing sample queries");
    let requests = requests(subject, &queries)?;
    if section.findings.is_empty() {
        let seen = |request: &Request| SeenRequest { candidates: request.as_sent() };
        let log: Vec<SeenRequest> = requests.iter().map(seen).collect();
        if let Some(active) = ActiveCells::of(&log, cells) {
            section.findings.extend(active_cells("log=simulated", &active, seed, rows));
        }
    }
    progress("requests: linkability");
    section.headline = Some(section.findings.len());
    let sets = |requests: &[Request]| -> Vec<Vec<usize>> {
        requests.iter().map(|request| request.ranked.clone()).collect()
    };
    let asked = sets(&requests);
    let mut judged = None;
    for jitter in JITTERS {
        let near =
            sets(&super::requests::requests(subject, &jittered(&queries, jitter, &mut rng))?);
        let linked = linkability(jitter, &asked, &near, seed, rows);
        judged.get_or_insert_with(|| verdict(&linked[0], &asked, &near, "rows"));
        section.findings.extend(linked);
    }
    match judged {
        Some(Ok(verdict)) => section.verdict = Some(verdict),
        Some(Err(reason)) => section.notes.push(reason),
        None => {}
    }
    section.add_detection_limit(1);
    add_directions(&mut section, subject, &queries, &requests, progress)?;
    section.notes.extend([
        "The server learns which rows are asked for, and so whether two requests are for nearly the \
         same query. Scanning all rows instead of naming candidates closes this."
            .to_owned(),
        "In the order of distance is the paper's setting, where a request lists candidates by rank. \
         In the order sent is the order of handles, as Shard sends them, which is unrelated to rank."
            .to_owned(),
        "With vectors known, the attacker is granted the native vectors of all rows. With stored \
         rows only, the cosine is in each cell's own keyed coordinates. Chance: as many \
         random documents (cosine), a blind choice among the candidates (overlap)."
            .to_owned(),
        format!(
            "{} sample queries, routed by the distance of centred prefixes. Jitter of 0.1, 0.3 and \
             0.6 adds noise of that share of a query's length, which leaves cosines of about 0.995, \
             0.96 and 0.86. The verdict is on the first, a nearly repeated query. Chance of jaccard: \
             two different queries.",
            queries.rows()
        ),
    ]);
    Ok(section)
}

/// How well requests of nearly the same query are told from those of different ones, by the rows or the
/// cells that they name in common: an AUC, and how large that part is.
pub fn linkability(
    jitter: f64,
    requests: &[Vec<usize>],
    near: &[Vec<usize>],
    seed: u64,
    rows: usize,
) -> [Finding; 2] {
    let [same, different] = shares(requests, near);
    let finding = |metric: &str, value: f64| {
        Finding::new(NAME, format!("jitter={jitter}"), metric, value).on(seed, rows)
    };
    [
        finding("auc", area_under_curve(&same, &different))
            .ci95(area_interval(&same, &different, REPETITIONS, seed))
            .chance(0.5),
        finding("jaccard", mean(&same))
            .ci95(interval(&same, REPETITIONS, seed))
            .chance(mean(&different)),
    ]
}

/// What every request has in common with the one for a query near its own, and with one for another query.
fn shares(requests: &[Vec<usize>], near: &[Vec<usize>]) -> [Vec<f64>; 2] {
    [0, 1].map(|shift| {
        let pairs = (0..requests.len()).map(|at| (at, (at + shift) % requests.len()));
        pairs.map(|(a, b)| jaccard(&requests[a], &near[b])).collect()
    })
}

/// The verdict on the AUC of [`linkability`], of requests that name some of `what`. Few queries, and requests that
/// are all alike, have none.
///
/// # Errors
/// With the reason, as a note.
pub fn verdict(
    linked: &Finding,
    requests: &[Vec<usize>],
    near: &[Vec<usize>],
    what: &str,
) -> Result<Verdict, String> {
    if requests.len() < FEWEST_QUERIES {
        return Err(format!(
            "No verdict: whether requests can be linked by the {what} they name takes at least {FEWEST_QUERIES} \
             sample queries, and there were {}.",
            requests.len()
        ));
    }
    if requests.iter().all(|request| jaccard(request, &requests[0]) == 1.0) {
        return Err(format!(
            "No verdict: these queries all ask for the same {what}. Whether others could be told apart was not \
             measured."
        ));
    }
    let shares = shares(requests, near).concat();
    if shares.iter().all(|share| *share == shares[0]) {
        return Err(format!(
            "No verdict: any two of these requests have as many {what} in common as any other two."
        ));
    }
    Ok(Verdict::of(linked, 1.0))
}

/// What a log says of cells, as figures: `log=recorded`, or `log=simulated` of sample queries.
pub fn active_cells(setting: &str, cells: &ActiveCells, seed: u64, rows: usize) -> [Finding; 4] {
    let finding =
        |metric: &str, value: f64| Finding::new(NAME, setting, metric, value).on(seed, rows);
    [
        finding("active_cells_mean", cells.mean).ci95(interval(&cells.counts, REPETITIONS, seed)),
        finding("active_cells_p95", cells.p95),
        finding("active_cells_entropy_bits", cells.entropy),
        finding("same_cell_set", cells.same_set),
    ]
}

/// Adds the cosine and the overlap of estimated directions.
fn add_directions(
    section: &mut Section,
    subject: &Subject,
    queries: &Matrix,
    requests: &[Request],
    progress: &dyn Fn(&str),
) -> anyhow::Result<()> {
    let release = subject.release();
    let members = release.members();
    let rows = subject.vectors.rows();
    let truth = nearest(queries, &subject.vectors, DEPTH, Metric::Product);
    let residuals = coordinates_of(subject, queries)?.columns(subject.residual());
    let [cosine_chance, overlap_chance] = blind(subject, queries, requests, &truth);
    for (order, sent) in [("distance", false), ("sent", true)] {
        let places = |request: &Request| -> (Vec<usize>, Vec<usize>) {
            let rows = if sent { request.as_sent() } else { request.ranked.clone() };
            (rows.iter().map(|&row| subject.documents[row]).collect(), rows)
        };
        let asked: Vec<(Vec<usize>, Vec<usize>)> = requests.iter().map(places).collect();
        for estimator in Estimator::ALL {
            progress(&format!("requests: {} by {order}", estimator.name()));
            let known = asked.par_iter().flat_map_iter(|(documents, _)| {
                let places: Vec<usize> = (0..documents.len()).collect();
                estimator.direction(&subject.vectors.select(documents), &places)
            });
            let known = Matrix::new(queries.width(), known.collect());
            let cosines: Vec<f64> =
                known.iter().zip(queries.iter()).map(|(a, b)| cosine(a, b)).collect();
            let found = nearest(&known, &subject.vectors, DEPTH, Metric::Cosine);
            // Keys keep products within a cell, so the cosine in keyed coordinates is that of the
            // same estimate from residuals.
            let in_cells = asked.par_iter().enumerate().map(|(at, (documents, rows))| {
                let cells: Vec<u32> = rows.iter().map(|&row| release.cells[row]).collect();
                let own = subject.residuals(documents);
                cosine_in_cells(estimator, &own, &cells, residuals.row(at))
            });
            let in_cells: Vec<f64> = in_cells.collect();
            let stored: Vec<Vec<u32>> = asked
                .par_iter()
                .map(|(_, rows)| ranked_by_stored_rows(estimator, release, &members, rows))
                .collect();
            let stored = super::same_key::documents_of_rows(&subject.documents, &stored);
            for (vectors, cosines, found, chance) in
                [("known", cosines, found, Some(cosine_chance)), ("stored", in_cells, stored, None)]
            {
                let setting =
                    format!("vectors={vectors},order={order},estimator={}", estimator.name());
                let mut cosine = Finding::new(NAME, setting.clone(), "cosine", mean(&cosines))
                    .ci95(interval(&cosines, REPETITIONS, subject.seed))
                    .on(subject.seed, rows);
                cosine.chance = chance;
                section.findings.push(cosine);
                section.findings.push(
                    Finding::new(NAME, setting, "nn_overlap_at_10", overlap(&truth, &found))
                        .chance(overlap_chance)
                        .on(subject.seed, rows),
                );
            }
        }
    }
    Ok(())
}

/// What knowing nothing gives: the cosine of as many random documents' centroid with the query,
/// and the overlap of ten random candidates with the true ten.
fn blind(
    subject: &Subject,
    queries: &Matrix,
    requests: &[Request],
    truth: &[Vec<u32>],
) -> [f64; 2] {
    let mut rng = generator(subject.seed, 152);
    let (mut cosines, mut overlaps) = (Vec::new(), Vec::new());
    for ((query, request), truth) in queries.iter().zip(requests).zip(truth) {
        let count = request.documents.len();
        let random = subject.vectors.select(&sample(subject.vectors.rows(), count, &mut rng));
        cosines.push(cosine(&Estimator::Centroid.direction(&random, &vec![0; count]), query));
        let inside =
            truth.iter().filter(|&&row| request.documents.contains(&(row as usize))).count();
        overlaps.push(inside as f64 / count.max(1) as f64);
    }
    [mean(&cosines), mean(&overlaps)]
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;
    use crate::finding::DETECTED_FROM;

    fn value(section: &Section, setting: &str, metric: &str) -> f64 {
        let of = |f: &&Finding| f.setting == setting && f.metric == metric;
        section.findings.iter().find(of).unwrap().value
    }

    #[test]
    fn ranked_candidates_give_the_direction_away_and_their_names_the_query() {
        let section = channel(&planted::subject(600, 16, 12, 4, 0.5, false), &|_| {}).unwrap();
        let known = |order: &str| {
            let setting = format!("vectors=known,order={order},estimator=log-rank");
            value(&section, &setting, "cosine")
        };
        assert!(known("distance") > 0.8, "{}", known("distance"));
        assert!(known("distance") > known("sent"), "rank says more than handles");
        assert!(value(&section, "jitter=0.1", "auc") > 0.99);
        let shared = ["0.1", "0.3", "0.6"]
            .map(|jitter| value(&section, &format!("jitter={jitter}"), "jaccard"));
        assert!(shared[0] > shared[1] && shared[1] > shared[2], "{shared:?}");
        let headline = &section.findings[section.headline.unwrap()];
        assert!(headline.setting == "jitter=0.1" && headline.ci95.is_some(), "{headline:?}");
        assert_eq!(section.verdict, Some(Verdict::Open));
    }

    #[test]
    fn random_candidates_say_nothing() {
        let mut subject = planted::subject(600, 16, 12, 4, 0.5, false);
        // Prefixes that have nothing to do with the vectors route every query at random.
        let noise = planted::normals(600, 12, 9);
        for row in 0..600 {
            subject.coordinates.row_mut(row)[..12].copy_from_slice(noise.row(row));
        }
        let section = channel(&subject, &|_| {}).unwrap();
        for finding in section.findings.iter().filter(|f| f.setting.starts_with("vectors=known")) {
            let gap = (finding.value - finding.chance.unwrap()).abs();
            assert!(gap < 0.12, "{finding:?}");
        }
    }

    #[test]
    fn few_queries_and_requests_that_are_all_alike_have_no_verdict() {
        let judged = |requests: &[Vec<usize>]| {
            let [auc, _] = linkability(0.1, requests, requests, 1, 10);
            let [low, high] = auc.ci95.expect("an interval");
            assert!(low < high, "{auc:?}");
            verdict(&auc, requests, requests, "cells")
        };
        let apart = |count: usize| -> Vec<Vec<usize>> { (0..count).map(|at| vec![at]).collect() };
        assert_eq!(judged(&apart(FEWEST_QUERIES)), Ok(Verdict::Open));
        for few in [2, FEWEST_QUERIES - 1] {
            let reason = judged(&apart(few)).unwrap_err();
            assert!(reason.contains(&format!("there were {few}.")), "{reason}");
        }
        let reason = judged(&vec![vec![3, 1]; 100]).unwrap_err();
        assert!(reason.contains("all ask for the same cells"), "{reason}");
    }

    #[test]
    fn candidates_of_few_or_of_equal_queries_have_no_verdict() {
        let section = |rows: &[usize]| {
            let mut subject = planted::subject(300, 16, 8, 4, 1.0, false);
            subject.queries = subject.queries.map(|queries| queries.select(rows));
            channel(&subject, &|_| {}).unwrap()
        };
        for (rows, reason) in [(&[0, 1][..], "there were 2."), (&[0; 40], "the same rows")] {
            let section = section(rows);
            assert!(section.verdict.is_none(), "{section:?}");
            assert!(section.notes[0].contains(reason), "{:?}", section.notes);
            assert!(section.findings.iter().all(|it| it.metric != DETECTED_FROM));
        }
    }

    #[test]
    fn sets_are_compared_whatever_their_order() {
        assert_eq!(jaccard(&[1, 2, 3], &[3, 2, 9]), 0.5);
        assert_eq!(jaccard(&[], &[]), 0.0);
    }

    #[test]
    fn without_queries_only_the_log_is_reported() {
        let mut subject = planted::subject(100, 16, 8, 2, 1.0, false);
        subject.queries = None;
        subject.view.requests = vec![SeenRequest { candidates: vec![4, 5] }];
        let section = channel(&subject, &|_| {}).unwrap();
        assert!(section.findings.iter().all(|finding| finding.setting == "log=recorded"));
        assert!(section.verdict.is_none() && section.notes[0].contains("sample queries"));
    }
}
