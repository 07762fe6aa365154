//! The same documents under new keys: can a server that kept the old rows recognise them?
//!
//! [`channel`] asks it of the owner's own release, [`reproduce_linkage`] is the paper's table; the
//! ways to match rows are in [`linker`](super::linker).

use anyhow::ensure;
use rand_core::Rng;
use shard_geometry::OrthogonalKey;

use super::features::nearest_links;
use super::format::Format;
use super::game::{
    Grant, Group, Keying, Population, Snapshot, Truth, is_fixed_point, round_to_fixed_point,
};
use super::linker::{Linker, Outcome, PROBES, Pair, conclude, play, report};
use super::{pooled, unfit};
use crate::finding::{Section, Verdict};
use crate::subject::{Corpus, Subject};
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{generator, sample};
use crate::view::Release;

/// Rows of a release in the game; more are sampled.
const LIMIT: usize = 10_000;

/// Known pairs granted against a keyed prefix, as in the paper.
const ANCHORS: usize = 200;

/// How releases of the table are stored.
const FORMATS: [Format; 4] = [Format::Clean, Format::Half, Format::Int8, Format::Noise];

/// The rows of this collection against themselves after a change of keys.
///
/// The first release is the real one; the second has the same rows in the same cells under fresh keys,
/// in a fresh order, with fresh cell numbers and in the same fixed point. Nothing of how rows or cells correspond is granted, so every match is with the whole
/// release. Where the server has two releases that Shard did not make, those are matched.
///
/// # Errors
/// None so far.
pub fn channel(subject: &Subject, progress: &dyn Fn(&str)) -> anyhow::Result<Section> {
    let mut section = Section::new("release-linkage", "Recognising rows after a change of keys");
    if subject.prefix_width == 0 {
        between(subject, &mut section, progress);
        return Ok(section);
    }
    if let Some(note) = unfit(subject) {
        section.notes.push(note);
        return Ok(section);
    }
    let Some((first, documents)) = observed(subject, &mut section) else { return Ok(section) };
    progress("release-linkage: a second release");
    let mut rng = generator(subject.seed, 121);
    let second = released_again(subject, &first, &documents, &mut rng);
    let truth = Truth::new(&documents, &second.documents);
    let pair = Pair::new(first, second.release);
    play_all(&mut section, &pair, &truth, subject.seed, progress, &mut rng);
    if pair.first.prefixes.is_none() {
        section.notes.push(
            "The server holds no prefix, so rows cannot be linked by an unchanged one.".to_owned(),
        );
    }
    section.notes.push(
        "The second release keeps documents, cells and fixed point; keys, order and cell numbers are \
         fresh. The attacker is granted no correspondence of cells."
            .to_owned(),
    );
    Ok(section)
}

/// The rows of a release under fresh keys.
fn released_again(
    subject: &Subject,
    first: &Release,
    documents: &[usize],
    rng: &mut impl Rng,
) -> Snapshot {
    let population = Population::of_rows(first, documents, subject.keys);
    let all: Vec<usize> = (0..documents.len()).collect();
    let mut second = population.release(&all, Keying::of(first), rng);
    if is_fixed_point(first) {
        round_to_fixed_point(&mut second.release);
    }
    if first.prefixes.is_none() {
        second.release.prefixes = None;
    }
    second
}

/// Plays every linker with nothing granted, and concludes.
fn play_all(
    section: &mut Section,
    pair: &Pair,
    truth: &Truth,
    seed: u64,
    progress: &dyn Fn(&str),
    rng: &mut impl Rng,
) {
    let common = truth.common().count();
    let same_width = pair.first.rows.width() == pair.second.rows.width();
    for linker in Linker::ALL {
        if linker == Linker::CrossKeyCosine && !same_width {
            continue;
        }
        progress(&format!("release-linkage: {}", linker.name()));
        if let Some(outcome) = play(pair, linker, Grant::Nothing, truth, rng) {
            let setting = format!("linker={}", linker.name());
            report(section, &setting, &[outcome], [None, None], (seed, common));
        }
    }
    conclude(section, "linker=", |verdict| {
        let opening = match verdict {
            Verdict::Open => "Changing the keys does not make releases unlinkable.",
            Verdict::Reduced => "Changing the keys leaves some rows linkable.",
            Verdict::Closed => "No attack that was run links the releases better than guessing.",
        };
        opening.to_owned()
    });
}

/// Matches the oldest and the newest of several releases of the same documents, row by row.
fn between(subject: &Subject, section: &mut Section, progress: &dyn Fn(&str)) {
    let [first, .., second] = subject.view.releases.as_slice() else {
        section.notes.push(
            "Not measured: vectors that Shard did not make take a second release of the same \
             documents."
                .to_owned(),
        );
        return;
    };
    let count = second.rows.rows();
    if count < 50 || first.rows.rows() != count {
        section.notes.push("Not measured: fewer than 50 rows, or not as many in both.".to_owned());
        return;
    }
    let mut rng = generator(subject.seed, 123);
    let chosen = sample(count, LIMIT, &mut rng);
    // An order of its own for each, so that nothing can be read off the places of rows.
    let shuffled: Vec<usize> =
        sample(chosen.len(), chosen.len(), &mut rng).into_iter().map(|at| chosen[at]).collect();
    let truth = Truth::new(&chosen, &shuffled);
    let pair = Pair::new(part(first, &chosen), part(second, &shuffled));
    play_all(section, &pair, &truth, subject.seed, progress, &mut rng);
    section.notes.push(
        "Matched are the two releases given, each in an order of its own; the attacker is granted \
         nothing of how rows correspond."
            .to_owned(),
    );
}

/// At most [`LIMIT`] rows of the release, with their documents for the judge; or a note why not.
fn observed(subject: &Subject, section: &mut Section) -> Option<(Release, Vec<usize>)> {
    let release = subject.release();
    if release.rows.rows() < 50 {
        section.notes.push("Not measured: fewer than 50 rows.".to_owned());
        return None;
    }
    if release.rows.width() != subject.coordinates.width() - subject.prefix_width {
        section.notes.push(
            "Not measured: rows are not as wide as residuals, and a second release of that kind \
             cannot be made here."
                .to_owned(),
        );
        return None;
    }
    let mut chosen: Vec<usize> = (0..release.rows.rows()).collect();
    if chosen.len() > LIMIT {
        chosen = sample(chosen.len(), LIMIT, &mut generator(subject.seed, 120));
        section.notes.push(format!("Measured on a random sample of {LIMIT} rows."));
    }
    let documents = chosen.iter().map(|&row| subject.documents[row]).collect();
    Some((part(release, &chosen), documents))
}

/// Some rows of a release.
fn part(release: &Release, rows: &[usize]) -> Release {
    Release {
        rows: release.rows.select(rows),
        cells: rows.iter().map(|&row| release.cells[row]).collect(),
        prefixes: release.prefixes.as_ref().map(|prefixes| prefixes.select(rows)),
    }
}

/// The paper's Experiment 25: two snapshots of 10,000 documents under independent keys, each in an
/// order of its own; 64 cells whose numbers the attacker may compare, and micro-keys.
///
/// # Errors
/// When no collection has the vectors, or one has no principal axes.
pub fn reproduce_linkage(corpora: &[Corpus], progress: &dyn Fn(&str)) -> anyhow::Result<Section> {
    let mut section = Section::new("linkage", "Linkage of two releases of one population");
    for encoder in ["minilm", "wordllama"] {
        let Some((vectors, data)) = pooled(corpora, encoder, LIMIT) else { continue };
        if vectors.rows() < 640 {
            section.notes.push(format!("{encoder}: too few documents."));
            continue;
        }
        let population = Population::fit(&vectors, 2 * LIMIT, 64, 0)?;
        for keying in [Keying::Cells, Keying::Micro] {
            progress(&format!("linkage: {encoder}, {} keys", keying.name()));
            one_keying(&population, keying, encoder, &mut section);
        }
        section.notes.push(format!(
            "{encoder}: {} of the documents of {data} in each snapshot.",
            population.len().min(LIMIT)
        ));
    }
    ensure!(!section.findings.is_empty(), "no collection of minilm or wordllama vectors was given");
    section.notes.extend([
        "The paper's figures are for e5-small. Seeds 0, 1, 2. With cell keys candidates are the \
         rows of the same cell, whose number the attacker is granted; with micro-keys the whole \
         release."
            .to_owned(),
        "Clean is f32, norms and sums are f64; int8 has one symmetric scale for a release; noise is \
         Gaussian with 1 % of the root mean square coordinate."
            .to_owned(),
        "keyed-prefix is an ablation: the whole prefix under one key for a release, unknown, and \
         with 200 known pairs and orthogonal Procrustes; it is matched against the whole release \
         from 2,000 probes, as is the cross-key cosine under micro-keys."
            .to_owned(),
        "Under micro-keys the Gram signature is of rows under different keys, all that there is."
            .to_owned(),
        "Of documents with the very same vector one is taken: nothing tells them apart.".to_owned(),
    ]);
    Ok(section)
}

/// What the linkers achieved in one format, by seed.
#[derive(Default)]
struct Outcomes {
    linkers: [Vec<Outcome>; Linker::ALL.len()],
    /// Of the keyed prefix, without and with known pairs.
    ablation: [Vec<Outcome>; 2],
}

/// Adds all formats and linkers of one keying, over three seeds.
fn one_keying(population: &Population, keying: Keying, encoder: &str, section: &mut Section) {
    let mut outcomes: [Outcomes; FORMATS.len()] = Default::default();
    for seed in 0..3 {
        let mut rng = generator(seed, 122);
        let documents = sample(population.len(), LIMIT, &mut rng);
        // The formats are compared on the same releases, whose keys cost the most.
        let snapshots = [(); 2].map(|()| population.release(&documents, keying, &mut rng));
        for (format, outcomes) in FORMATS.into_iter().zip(&mut outcomes) {
            one_pair(snapshots.clone(), keying, format, outcomes, &mut rng);
        }
    }
    let rows = population.len().min(LIMIT);
    for (format, outcomes) in FORMATS.into_iter().zip(&outcomes) {
        let labels = format!("encoder={encoder},keys={},format={}", keying.name(), format.name());
        for (linker, outcomes) in Linker::ALL.into_iter().zip(&outcomes.linkers) {
            let clean_e5 = encoder == "minilm" && format == Format::Clean;
            let paper = if clean_e5 { paper_figures(keying, linker) } else { [None, None] };
            let setting = format!("{labels},linker={}", linker.name());
            report(section, &setting, outcomes, paper, (0, rows));
        }
        for (anchors, outcomes) in [0, ANCHORS].into_iter().zip(&outcomes.ablation) {
            let setting = format!("{labels},linker=keyed-prefix,anchors={anchors}");
            report(section, &setting, outcomes, [None, None], (0, rows));
        }
    }
}

/// Plays all linkers on two releases stored in one format.
fn one_pair(
    mut snapshots: [Snapshot; 2],
    keying: Keying,
    format: Format,
    outcomes: &mut Outcomes,
    rng: &mut impl Rng,
) {
    snapshots.iter_mut().for_each(|snapshot| format.store(&mut snapshot.release, rng));
    let [first, second] = snapshots;
    let truth = Truth::new(&first.documents, &second.documents);
    let pair = Pair::new(first.release, second.release);
    for (linker, outcomes) in Linker::ALL.into_iter().zip(&mut outcomes.linkers) {
        // A control that is at chance on exact rows needs no rounded ones.
        if linker != Linker::CrossKeyCosine || format == Format::Clean {
            outcomes.extend(play(&pair, linker, keying.grant(), &truth, rng));
        }
    }
    // The prefix is the same whatever keys the residual: once is enough.
    if keying == Keying::Cells {
        let [unknown, known] = keyed_prefix(&pair, &truth, rng);
        outcomes.ablation[0].push(unknown);
        outcomes.ablation[1].push(known);
    }
}

/// The paper's top-1 and AUC of its Table `shard-micro`.
fn paper_figures(keying: Keying, linker: Linker) -> [Option<f64>; 2] {
    match (keying, linker) {
        (Keying::Cells, Linker::CrossKeyCosine) => [Some(0.0057), Some(0.501)],
        (Keying::Cells, Linker::NormRank) => [Some(0.9957), None],
        (Keying::Cells, Linker::Gram) => [Some(0.9993), Some(1.0)],
        (Keying::Micro, Linker::CrossKeyCosine) => [Some(0.0003), Some(0.497)],
        (Keying::Micro, Linker::NormRank) => [Some(0.9943), None],
        (_, Linker::Prefix) => [Some(0.9993), Some(1.0)],
        _ => [None, None],
    }
}

/// The keyed-prefix ablation, without and with known pairs; those are not judged.
fn keyed_prefix(pair: &Pair, truth: &Truth, rng: &mut impl Rng) -> [Outcome; 2] {
    let [first, second] = [&pair.first, &pair.second].map(|release| {
        let mut prefixes = release.prefixes.clone().expect("snapshots have prefixes");
        let key = OrthogonalKey::sample(prefixes.width(), rng);
        (0..prefixes.rows()).for_each(|row| key.apply(prefixes.row_mut(row)));
        prefixes
    });
    let common: Vec<(usize, usize)> = truth.common().collect();
    let mut order = sample(common.len(), PROBES + ANCHORS, rng);
    let probes = order.split_off(ANCHORS.min(order.len() / 2));
    let anchors: Vec<(usize, usize)> = order.into_iter().map(|at| common[at]).collect();
    let probes: Vec<usize> = probes.into_iter().map(|at| common[at].0).collect();
    let group = Group { first: probes.clone(), second: (0..second.rows()).collect() };
    let (groups, truth) = ([group], truth.among(&probes));
    let aligned = aligned_by_pairs(&first, &second, &anchors);
    [first, aligned].map(|first| {
        let guesses = nearest_links(&first, &second, &groups);
        Outcome::of(&guesses, [&first, &second], &groups, &truth, rng)
    })
}

/// `first W` with the orthogonal `W` that minimises `|A W - B|` over known pairs of rows: with
/// `A^T B = U S V^T`, `W = U V^T`.
pub fn aligned_by_pairs(first: &Matrix, second: &Matrix, pairs: &[(usize, usize)]) -> Matrix {
    let known = |rows: Vec<usize>, matrix: &Matrix| matrix.select(&rows);
    let a = known(pairs.iter().map(|pair| pair.0).collect(), first);
    let b = known(pairs.iter().map(|pair| pair.1).collect(), second);
    let product = a.as_faer().transpose() * b.as_faer();
    let svd = product.thin_svd().expect("a finite matrix has singular values");
    first.times(&Matrix::from_faer((svd.U() * svd.V().transpose()).as_ref()))
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;
    use crate::finding::Finding;

    fn recall(section: &Section, setting: &str) -> f64 {
        let of = |f: &&Finding| f.setting == setting && f.metric == "recall_at_1";
        section.findings.iter().find(of).expect("the setting was played").value
    }

    #[test]
    fn everything_but_the_cosine_links_cell_keyed_releases() {
        let section = channel(&planted::subject(400, 24, 8, 4, 0.7, true), &|_| {}).unwrap();
        assert!(recall(&section, "linker=cross-key-cosine") < 0.03);
        for linker in ["norm-rank", "norm", "gram", "combined", "prefix"] {
            assert!(recall(&section, &format!("linker={linker}")) > 0.99, "{linker}");
        }
        assert_eq!(section.verdict, Some(Verdict::Open));
    }

    #[test]
    fn another_release_has_every_document_in_a_cell_of_the_same_size() {
        let subject = planted::subject(400, 24, 8, 4, 0.7, false);
        let (first, documents) = observed(&subject, &mut Section::new("", "")).unwrap();
        let second = released_again(&subject, &first, &documents, &mut generator(1, 1));
        let sizes =
            |release: &Release| -> Vec<usize> { release.members().iter().map(Vec::len).collect() };
        assert_eq!(sizes(&second.release), sizes(&first));
        assert_eq!(Truth::new(&documents, &second.documents).common().count(), 400);
    }

    #[test]
    fn two_releases_of_somebody_else_are_matched_with_each_other() {
        let mut subject = planted::subject(300, 12, 4, 1, 1.0, false);
        subject.prefix_width = 0;
        let first = planted::normals(300, 12, 5);
        subject.view.releases[0].rows = first.clone();
        assert!(channel(&subject, &|_| {}).unwrap().verdict.is_none());
        let key = OrthogonalKey::sample(12, &mut generator(3, 3));
        let mut second = first;
        (0..300).for_each(|row| key.apply(second.row_mut(row)));
        let other = |rows| Release { rows, cells: vec![0; 300], prefixes: None };
        subject.view.releases.push(other(second));
        let section = channel(&subject, &|_| {}).unwrap();
        assert!(recall(&section, "linker=norm") > 0.99);
        assert_eq!(section.verdict, Some(Verdict::Open));
        subject.view.releases[1] = other(planted::normals(300, 9, 6));
        let section = channel(&subject, &|_| {}).unwrap();
        assert_eq!(section.verdict, Some(Verdict::Closed));
        assert!(recall(&section, "linker=norm") < 0.05);
    }

    #[test]
    fn micro_keys_leave_the_norm_and_private_routing_no_prefix() {
        let section = channel(&planted::subject(400, 24, 8, 400, 0.7, false), &|_| {}).unwrap();
        assert!(recall(&section, "linker=norm-rank") > 0.99);
        assert!(recall(&section, "linker=gram") < 0.2);
        assert!(section.findings.iter().all(|finding| finding.setting != "linker=prefix"));
    }

    #[test]
    fn known_pairs_undo_the_key_of_a_prefix() {
        let first = planted::normals(60, 6, 3);
        let key = OrthogonalKey::sample(6, &mut generator(3, 3));
        let mut second = first.clone();
        (0..60).for_each(|row| key.apply(second.row_mut(row)));
        let pairs: Vec<(usize, usize)> = (0..6).map(|row| (row, row)).collect();
        let aligned = aligned_by_pairs(&first, &second, &pairs);
        let worst = aligned.values().iter().zip(second.values()).map(|(a, b)| (a - b).abs());
        assert!(worst.fold(0.0, f64::max) < 1e-9);
    }

    #[test]
    fn documents_with_the_very_same_vector_are_taken_once() {
        let distinct = planted::normals(40, 8, 5);
        let twice = distinct.iter().chain(distinct.iter()).flatten().map(|&x| x as f32).collect();
        let vectors = shard_geometry::VectorSet::new(8, twice).unwrap();
        let population = Population::fit(&vectors, 80, 2, 0).unwrap();
        assert_eq!(population.len(), 40);
        let mut norms = population.residuals.norms();
        norms.sort_unstable_by(f64::total_cmp);
        assert!(norms.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn reproduction_needs_vectors() {
        assert!(reproduce_linkage(&[], &|_| {}).is_err());
    }
}
