use super::super::planted;
use super::super::requests::requests;
use super::*;
use crate::finding::Verdict;

const DOCUMENTS: usize = 1_500;
const CELLS: usize = 60;

/// Every query of a collection twice, as rows by place.
fn log(subject: &Subject) -> Vec<SeenRequest> {
    let queries = subject.queries.as_ref().unwrap();
    let made = requests(subject, queries).unwrap();
    let one = made.iter().map(|request| SeenRequest { candidates: request.as_sent() });
    let one: Vec<SeenRequest> = one.collect();
    [one.clone(), one].concat()
}

/// Canaries as they must not be, made-up rows: one in every cell, as long as one of the documents, and of those of a
/// request's cells eight that are drawn anew for every request.
fn planted_canaries() -> Subject {
    let mut subject = planted::subject(DOCUMENTS, 24, 8, CELLS, 0.5, false);
    subject.view.requests = log(&subject);
    let mut rng = generator(7, 7);
    let release = &mut subject.view.releases[0];
    let norms = release.rows.norms();
    let cells = release.members().len();
    let made = Matrix::normal(cells, release.rows.width(), &mut rng).normalised();
    let mut values = release.rows.values().to_vec();
    for (cell, row) in made.iter().enumerate() {
        let length = norms[below(norms.len(), &mut rng)];
        values.extend(row.iter().map(|x| x * length));
        release.cells.push(cell as u32);
    }
    release.rows = Matrix::new(release.rows.width(), values);
    let first = norms.len();
    // Nobody looks up the documents of made-up rows.
    subject.canaries = (0..first + cells).map(|row| row >= first).collect();
    for request in &mut subject.view.requests {
        let active: BTreeSet<u32> =
            request.candidates.iter().map(|&row| release.cells[row]).collect();
        let active: Vec<u32> = active.into_iter().collect();
        let chosen = sample(active.len(), active.len().min(8), &mut rng);
        request.candidates.extend(chosen.iter().map(|&at| first + active[at] as usize));
    }
    subject
}

fn area(section: &Section, setting: &str) -> f64 {
    let mut found = section.findings.iter();
    let found = found.find(|finding| finding.setting == setting && finding.metric == "auc");
    found.expect("a figure").value
}

#[test]
fn canaries_that_are_drawn_anew_for_every_request_are_found() {
    let section = channel(&planted_canaries(), &|_| {}).unwrap();
    for setting in ["trick=best", "single=instability", "single=company", "single=one-per-cell"] {
        assert!(area(&section, setting) > 0.9, "{setting}: {:?}", section.findings);
    }
    assert!(area(&section, "single=equal-length") > 0.65, "{:?}", section.findings);
    assert_ne!(section.verdict, Some(Verdict::Closed));
    let precision = section.findings.iter().find(|finding| finding.metric == "precision").unwrap();
    assert!(precision.value > 0.8 && precision.chance.unwrap() < 0.05, "{precision:?}");
}

#[test]
fn canaries_that_a_rekey_draws_anew_are_found_by_the_older_release() {
    let mut subject = planted_canaries();
    subject.view.requests.clear();
    let mut older = subject.view.releases[0].clone();
    older.rows = older.rows.select(&(0..DOCUMENTS).collect::<Vec<_>>());
    older.cells.truncate(DOCUMENTS);
    for x in &mut older.rows.values_mut()[..] {
        *x = -*x;
    }
    // Their lengths are copies, so in the newer release they are moved a little.
    let newer = &mut subject.view.releases[0].rows;
    for row in DOCUMENTS..newer.rows() {
        newer.row_mut(row).iter_mut().for_each(|x| *x *= 1.01);
    }
    subject.view.releases.insert(0, older);
    let section = channel(&subject, &|_| {}).unwrap();
    assert!(area(&section, "single=older-release") > 0.95, "{:?}", section.findings);
}

#[test]
fn documents_that_are_called_canaries_are_not_found() {
    let mut closed = 0;
    for seed in 0..6 {
        let mut subject = planted::subject(DOCUMENTS, 24, 8, CELLS, 0.5, false);
        subject.view.requests = log(&subject);
        subject.seed = seed;
        subject.canaries = vec![false; DOCUMENTS];
        for row in sample(DOCUMENTS, 120, &mut generator(seed, 3)) {
            subject.canaries[row] = true;
        }
        let section = channel(&subject, &|_| {}).unwrap();
        closed += usize::from(section.verdict == Some(Verdict::Closed));
        assert!((area(&section, "trick=together") - 0.5).abs() < 0.15);
    }
    assert!(closed >= 5, "{closed} of 6");
}

#[test]
fn a_collection_without_canaries_says_so() {
    let subject = planted::subject(100, 12, 4, 4, 0.5, false);
    let section = channel(&subject, &|_| {}).unwrap();
    assert!(section.findings.is_empty() && section.notes[0].starts_with("Not measured"));
}
