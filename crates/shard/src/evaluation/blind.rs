//! The same comparison for a blind collection: it scores everything, or everything in some cells, so there is
//! no shortlist to judge.

use std::collections::HashMap;
use std::ops::ControlFlow;

use shard_audit::baselines::Run;
use shard_audit::quality::{Bootstrap, Qrels, SystemQuality, evaluate};
use shard_client::{Answer, ClientError, Progress, SearchOptions};
use shard_geometry::{dot_f64, exact_top_k};
use shard_server::Embedded;

use super::{DEPTH, EvaluateOptions, Evaluation, Quality, Scored, TIE, same_top10};
use crate::{Documents, Error, Searcher};

/// Searches for judged queries, and compares with raw exact search.
pub(super) fn compare(
    documents: &Documents,
    searcher: &Searcher<Embedded>,
    queries: &Documents,
    qrels: &Qrels,
    options: &EvaluateOptions<'_>,
) -> Result<Evaluation, Error> {
    let rows: HashMap<&str, u32> =
        (0..).zip(documents.ids()).map(|(row, id)| (id.as_str(), row)).collect();
    let count = queries.ids().len();
    let search = SearchOptions { top: DEPTH, ..options.search.clone() };
    let mut answers: Vec<Answer> = Vec::with_capacity(count);
    let mut watched = ControlFlow::Continue(());
    let each = |number: usize, answer: Answer| {
        answers.push(answer);
        watched = (options.watch)(Progress { done: number as u64 + 1, total: count as u64 });
        watched
    };
    searcher.search_many(queries.vectors(), &search, 1, each)?;
    if watched.is_break() {
        return Err(ClientError::Cancelled.into());
    }
    let (mut found, mut exact) = (Vec::new(), Vec::new());
    let mut max_abs_error = 0.0_f64;
    for (number, answer) in answers.iter().enumerate() {
        let query = queries.vectors().row(number);
        let hits: Vec<Scored> =
            answer.hits.iter().map(|hit| (rows[hit.id.as_str()], hit.score)).collect();
        for &(row, score) in &hits {
            let true_score = dot_f64(query, documents.vectors().row(row as usize));
            max_abs_error = max_abs_error.max((score - true_score).abs());
        }
        let best = exact_top_k(documents.vectors(), query, DEPTH)?;
        exact.push(best.iter().map(|hit| (hit.row, hit.score)).collect::<Vec<Scored>>());
        found.push(hits);
    }
    let named = |rankings: &[Vec<Scored>]| -> Run {
        let names = |hits: &Vec<Scored>| {
            hits.iter().map(|hit| documents.ids()[hit.0 as usize].clone()).collect()
        };
        queries.ids().iter().cloned().zip(rankings.iter().map(names)).collect()
    };
    let raw = evaluate(qrels, &named(&exact))?;
    let blind = evaluate(qrels, &named(&found))?;
    let blind = SystemQuality::against(&raw, &blind, Bootstrap::default()).map_err(Error::audit)?;
    let same = |tie| {
        let pairs = found.iter().zip(&exact);
        pairs.filter(|(ours, theirs)| same_top10(ours, theirs, tie)).count() as f64 / count as f64
    };
    // How many of the raw best ten are found, by score: equal documents count as one another.
    let recall = |(ours, theirs): (&Vec<Scored>, &Vec<Scored>)| {
        let best = theirs.len().min(10);
        let least = best.checked_sub(1).map_or(f64::INFINITY, |last| theirs[last].1 - TIE);
        let true_score = |hit: &Scored| theirs.iter().find(|their| their.0 == hit.0);
        let hits = ours.iter().take(10).filter_map(true_score).filter(|hit| hit.1 >= least);
        hits.count() as f64 / best.max(1) as f64
    };
    let recall10 = found.iter().zip(&exact).map(recall).sum::<f64>() / count.max(1) as f64;
    let mean = |of: &dyn Fn(&Answer) -> usize| {
        answers.iter().map(of).sum::<usize>() / answers.len().max(1)
    };
    let cells = mean(&|answer| answer.cost.active_cells);
    let scored = mean(&|answer| answer.cost.candidates);
    Ok(Evaluation {
        quality: Quality {
            raw: SystemQuality::baseline(&raw),
            rotated: None,
            shard_blind: Some(blind),
            baselines: Vec::new(),
        },
        queries: count - raw.left_out,
        left_out: raw.left_out,
        candidates: scored,
        d_pub: None,
        cells: (cells > 0).then_some(cells),
        recall10: Some(recall10),
        top10_identical: same(TIE),
        top10_strict: same(0.0),
        max_abs_error,
        answers,
    })
}
