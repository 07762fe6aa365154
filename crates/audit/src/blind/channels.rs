//! The sections of the report on a blind collection.

use anyhow::Result;

use super::attacks::{self, OnRows};
use super::limit::{Try, detected_from, judge, planted};
use super::{BlindSubject, SeenCells, Stream};
use crate::finding::{DETECTED_FROM, Finding, Section, Verdict};
use crate::linkage::active_cells::ActiveCells;
use crate::linkage::candidates::{RECORDED, active_cells, linkability, verdict};
use crate::text;
use crate::tools::evidence::ALARM;
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{below, generator};
use crate::tools::uniformity::{against_noise, strongest};
use crate::view::SeenRequest;

/// Measures one channel of a blind collection. The callback is told what is being done.
pub type Run = fn(&BlindSubject, &dyn Fn(&str)) -> Result<Section>;

/// How ciphertexts are read, as notes say it.
const READINGS: &str = "Stored blocks are read in three ways that need no key: as coefficients, at the places \
     where a row would stand if nothing hid it; as the words that are stored; and through the server's own \
     answers to the recorded requests, one number per row and request.";

fn on_rows(
    blind: &BlindSubject,
    mut section: Section,
    progress: &dyn Fn(&str),
    attack: OnRows,
) -> Result<Section> {
    let mut tried = Vec::new();
    for reading in &blind.readings {
        progress(&format!("as {}", reading.name));
        tried.push((reading.name, attack(&reading.subject)?));
    }
    let first = &blind.readings[0].subject;
    let plant = |level: f64| {
        progress(&format!("with a planted leak of {level}"));
        attack(&planted(first, level))
    };
    let leak = format!("the vectors are mixed into {}, at a correlation", blind.readings[0].name);
    judge(&mut section, &tried, (blind.seed, first.vectors.rows()), &leak, plant)?;
    section.notes.push(READINGS.to_owned());
    Ok(section)
}

macro_rules! on_rows {
    ($(#[$doc:meta])* $name:ident, $channel:literal, $title:literal, $attack:path, $note:expr) => {
        $(#[$doc])*
        ///
        /// # Errors
        /// When a decomposition does not converge.
        pub fn $name(blind: &BlindSubject, progress: &dyn Fn(&str)) -> Result<Section> {
            let mut section = on_rows(blind, Section::new($channel, $title), progress, $attack)?;
            section.notes.push($note.to_owned());
            Ok(section)
        }
    };
}

on_rows!(
    /// Neighbours among rows as they are read.
    neighbours, "same-key-neighbours", "Neighbours among stored rows", attacks::neighbours,
    "Rows of a block are hidden by one pair of secrets, so they are also compared with each other alone. \
     Chance is to name rows as often as the attacker does, whoever is asked about."
);
on_rows!(
    /// Known pairs against the pad of a block, and against all of them.
    known_pairs, "partial-alignment", "Known pairs against the pads of blocks", attacks::known_pairs,
    "The attacker is granted every other row of the block, or two thousand pairs from anywhere, and your \
     principal axes."
);
on_rows!(
    /// Rows looked up in a reference corpus.
    reference, "reference-lookup", "Finding rows in a reference corpus", attacks::reference,
    "The attacker has a list with all of your documents, and your principal axes."
);
on_rows!(
    /// The cloud of rows laid over that of other documents.
    unsupervised, "unsupervised-alignment", "Alignment without known pairs", attacks::unsupervised,
    "The attacker has half of your documents as a sample of the same kind, and your principal axes."
);
on_rows!(
    /// The same documents in another epoch.
    releases, "release-linkage", "Recognising rows after a change of keys", attacks::releases,
    "Simulated: the audit itself encrypts the same rows in the same places under the keys of another epoch; \
     the vault is not rekeyed. The attacker is not told which rows or blocks correspond. Answers are not \
     compared: those of two epochs are for different requests."
);
on_rows!(
    /// Whether a document is stored.
    membership, "membership", "Whether a known document is stored", attacks::membership,
    "Half of the documents count as stored and half are kept out. The attacker has the vectors of all, and \
     your principal axes."
);

/// Which rows of a changed block changed.
///
/// # Errors
/// None so far.
pub fn churn(blind: &BlindSubject, progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new("release-churn", "Which rows of a changed block changed");
    progress("blocks before and after");
    let (changes, seed) = (&blind.changes, blind.seed);
    let tried = [("coefficients", attacks::changes(changes, seed))];
    let plant = |level: f64| Ok(attacks::changes(&attacks::planted_changes(changes, level), seed));
    let leak = "the difference of every row that stays is made as small as if what is stored of it had, before \
                and after, a correlation";
    judge(&mut section, &tried, (seed, changes.changed.len()), leak, plant)?;
    section.notes.push(
        "Simulated: the audit itself encrypts blocks again under their next revision, with a quarter of their \
         rows replaced; the vault is not changed. The length of every row's difference to what stood in its \
         place before is compared. The server does see which blocks are new."
            .to_owned(),
    );
    Ok(section)
}

/// What requests and answers say of the query.
///
/// # Errors
/// None so far.
pub fn requests(blind: &BlindSubject, progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new("request-leakage", "What a request says of the query");
    progress("requests that were recorded");
    let (requests, seed) = (&blind.requests, blind.seed);
    let attack = |readings: &[Matrix; 2]| attacks::requests(&requests.queries, readings, seed);
    let tried: Vec<(&str, Vec<Try>)> =
        requests.readings.iter().map(|(name, readings)| (*name, attack(readings))).collect();
    let plant = |level: f64| {
        let first = requests.readings.first();
        Ok(first.map_or(Vec::new(), |(_, readings)| {
            attack(&attacks::planted_requests(requests, readings, level))
        }))
    };
    let first = requests.readings.first().map_or("nothing", |(name, _)| *name);
    let leak = format!("the queries are mixed into {first}, at a correlation");
    judge(&mut section, &tried, (seed, requests.queries.rows()), &leak, plant)?;
    let named = match blind.seen.cells {
        None => "Requests name no candidates and no cells.",
        Some(_) => "These requests asked for all cells and named none.",
    };
    section.notes.push(format!(
        "Every query was asked twice. The attacker tells requests for one query from requests for two, and \
         is given the list of queries to name the one that was asked. {named}"
    ));
    if let Some(cells) = &blind.seen.cells {
        progress("cells that requests name");
        add_named_cells(&mut section, cells, seed);
    }
    Ok(section)
}

/// Adds what the cells that requests name say of the query, by the game of candidates. They are named in the
/// clear, so that they tell something is no fault; where they are named, the verdict rests on them unless the
/// ciphertexts tell as much.
fn add_named_cells(section: &mut Section, cells: &SeenCells, seed: u64) {
    let queries = cells.asked.len();
    let of_ciphertexts = section.verdict;
    let mut linked: Vec<Finding> = Vec::new();
    let mut judged = None;
    for (jitter, near) in cells.near.iter().filter(|_| queries > 0) {
        let figures = linkability(*jitter, &cells.asked, near, seed, queries);
        judged.get_or_insert_with(|| verdict(&figures[0], &cells.asked, near, "cells"));
        linked.extend(figures);
    }
    let by_cells = judged.as_ref().and_then(|judged| judged.as_ref().ok()).copied();
    let rests_on_cells = match of_ciphertexts {
        None => by_cells > Some(Verdict::Closed),
        Some(Verdict::Closed) => cells.are_named() && by_cells.is_some(),
        of_ciphertexts => by_cells > of_ciphertexts,
    };
    if rests_on_cells {
        // The limit of ciphertexts says nothing of this figure.
        section.findings.retain(|finding| finding.metric != DETECTED_FROM);
        (section.verdict, section.headline) = (by_cells, Some(section.findings.len()));
    }
    section.findings.extend(linked);
    if rests_on_cells {
        section.add_detection_limit(1);
    }
    let log = cells.asked.iter().map(|cells| SeenRequest { candidates: cells.clone() });
    let own: Vec<u32> = (0..cells.blocks.len() as u32).collect();
    if let Some(active) = ActiveCells::of(&log.collect::<Vec<_>>(), &own) {
        section.findings.extend(active_cells(RECORDED, &active, seed, queries));
    }
    if let Some(first) = section.notes.first_mut().filter(|_| of_ciphertexts.is_some()) {
        *first = format!("Of the ciphertexts alone: {first}");
    }
    let said = if cells.are_named() {
        format!(
            "A search of this vault asks for {} of its {} cells and names them in the clear, so the server can \
             tell whether two requests are about similar things. {queries} queries were asked so, and one near \
             each: a jitter of 0.1, 0.3 and 0.6 adds noise of that share of a query's length, which leaves \
             cosines of about 0.995, 0.96 and 0.86. Of the named cells, the verdict is on the first, a nearly \
             repeated query. A search of all cells names none.",
            cells.probe,
            cells.blocks.len()
        )
    } else {
        "A search of this vault asks for all cells that have blocks, and names none. One that is told to ask \
         for fewer names them, in the clear."
            .to_owned()
    };
    section.notes.insert(0, said);
    if let Some(Err(reason)) = judged.filter(|_| cells.are_named()) {
        if section.verdict > Some(Verdict::Closed) {
            section.notes.insert(1, format!("Of the named cells alone: {reason}"));
        } else {
            // The ciphertexts alone must not speak for requests that name cells.
            section.verdict = None;
            section.findings.retain(|finding| finding.metric != DETECTED_FROM);
            section.notes.insert(0, reason);
        }
    }
}

/// What the list of blocks says of documents: which of them are in one cell, and so near each other.
///
/// # Errors
/// None so far.
pub fn shape(blind: &BlindSubject, progress: &dyn Fn(&str)) -> Result<Section> {
    const NAME: &str = "shape";
    let mut section = Section::new(NAME, "What the server sees by looking");
    let Some(cells) = &blind.seen.cells else {
        section.notes.push(
            "Not measured: a blind collection has no two rows whose inner product a server could compute, and \
             this one has no cells. What can be counted is listed as seen."
                .to_owned(),
        );
        return Ok(section);
    };
    progress("documents of one cell");
    let documents = cells.of_documents.len();
    let finding = |setting: &str, metric: &str, value: f64| {
        Finding::new(NAME, setting, metric, value).on(blind.seed, documents)
    };
    let told = attacks::likeness_in_cells(&blind.readings[0].subject, &cells.of_documents);
    if let Some(told) = told {
        let told_apart = finding(&told.setting, told.metric, told.value);
        section.findings.push(told_apart.ci95(told.interval).chance(told.chance));
        section.headline = Some(0);
        section.verdict = Some(Verdict::of(&section.findings[0], 1.0));
        section.add_detection_limit(1);
    }
    let with_blocks = cells.blocks.iter().filter(|&&blocks| blocks > 0);
    let largest = cells.blocks.iter().max().copied().unwrap_or(0);
    section.findings.extend([
        finding("", "cells", cells.blocks.len() as f64),
        finding("", "cells_with_blocks", with_blocks.count() as f64),
        finding("", "blocks_of_the_largest_cell", largest as f64),
    ]);
    section.notes.push(
        if section.verdict.is_some() {
            "The list of blocks says, in the clear, which cell each of them belongs to, and documents of one \
             cell are near each other. The figure is how often two documents of one cell are more alike than \
             two of different cells. The server can compute no inner product, and does not see which \
             documents these are."
        } else {
            "Not measured: the list of blocks says which cell each of them belongs to, but there are too few \
             documents, or too few in different cells, to say what that tells."
        }
        .to_owned(),
    );
    Ok(section)
}

/// Words read out of rows as they are read.
///
/// # Errors
/// When a decomposition does not converge.
pub fn words(blind: &BlindSubject, progress: &dyn Fn(&str)) -> Result<Section> {
    /// How many times as far as the interval reaches a figure must be from chance: six deviations.
    const WIDER: f64 = 3.0;
    let subject = &blind.readings[0].subject;
    let found = |section: &Section| {
        let finding = section.headline.and_then(|at| section.findings.get(at))?;
        let [low, _] = finding.ci95?;
        section.verdict?;
        Some(finding.value - WIDER * (finding.value - low) > finding.chance.unwrap_or(0.0))
    };
    let mut section = text::channel(subject, progress)?;
    // The limit that counts is that of the rule above.
    section.findings.retain(|finding| finding.metric != DETECTED_FROM);
    section.verdict = match found(&section) {
        None => return Ok(section),
        Some(true) => section.verdict.map(|verdict| match verdict {
            Verdict::Open => Verdict::Open,
            _ => Verdict::Reduced,
        }),
        Some(false) => Some(Verdict::Closed),
    };
    section.notes.retain(|note| !note.contains("cell"));
    let mut limit = None;
    for level in [0.5, 0.2, 0.1] {
        progress(&format!("with a planted leak of {level}"));
        if found(&text::channel(&planted(subject, level), progress)?) != Some(true) {
            break;
        }
        limit = Some(level);
    }
    let rows = subject.vectors.rows();
    match limit {
        Some(level) => {
            let finding =
                detected_from(&section.name, "planted=correlation", level, blind.seed, rows);
            section.findings.push(finding);
            section.notes.push(format!(
                "Only {} were tried. Words are read of them where the vectors are mixed in at a correlation of \
                 {level} or more. A weaker leak could pass.",
                blind.readings[0].name
            ));
        }
        None if section.verdict == Some(Verdict::Closed) => {
            section.verdict = None;
            section.notes.push(
                "No verdict: this decoder reads nothing where a correlation of a half is planted, so that it \
                 reads nothing means nothing."
                    .to_owned(),
            );
        }
        None => {}
    }
    Ok(section)
}

/// Whether stored blocks, requests and answers are what uniform noise would be.
///
/// # Errors
/// None so far.
pub fn noise(blind: &BlindSubject, progress: &dyn Fn(&str)) -> Result<Section> {
    const NAME: &str = "ciphertext-noise";
    let mut section = Section::new(NAME, "Whether ciphertexts look like noise");
    for stream in &blind.streams {
        progress(&format!("{} as {}", stream.of, stream.reading));
        for tested in against_noise(stream.modulus, &stream.pieces) {
            let setting =
                format!("of={},reading={},test={}", stream.of, stream.reading, tested.test);
            let finding = Finding::new(NAME, setting, "evidence_digits", tested.evidence);
            section.findings.push(finding.on(blind.seed, stream.pieces.len()));
        }
    }
    let evidence = |at: &usize| section.findings[*at].value;
    let worst =
        (0..section.findings.len()).rev().max_by(|a, b| evidence(a).total_cmp(&evidence(b)));
    let (Some(worst), Some(stream)) = (worst, blind.streams.first()) else {
        section.notes.push("Not measured: there are no words.".to_owned());
        return Ok(section);
    };
    section.headline = Some(worst);
    let alarm = evidence(&worst) >= ALARM;
    section.verdict = Some(if alarm { Verdict::Open } else { Verdict::Closed });
    section.notes.push(if alarm {
        "This should not be: ciphertexts can be told from noise. Do not rely on this collection, and report it."
            .to_owned()
    } else {
        format!(
            "No test tells the words from uniform noise. The figure is the strongest evidence of {} tests, in \
             digits: noise shows d digits less than once in 10^d times, and the alarm is at {ALARM}.",
            section.findings.len()
        )
    });
    progress("with words that nothing hides");
    if let Some(share) = unmasked_limit(stream, blind.seed) {
        let finding = detected_from(
            NAME,
            "planted=words-without-a-pad",
            share,
            blind.seed,
            stream.pieces.len(),
        );
        section.findings.push(finding);
        section.notes.push(format!(
            "Where one word of {:.0} of {} as {} is replaced by one that no pad hides, it is found. Nothing \
             else was planted.",
            1.0 / share,
            stream.of,
            stream.reading
        ));
    } else if !alarm {
        section.verdict = None;
        section.notes.push(
            "No verdict: a tenth of the words without a pad was not found, so that nothing is found means \
             nothing."
                .to_owned(),
        );
    }
    Ok(section)
}

/// The smallest share of words without a pad that is found, of shares tried from a tenth downwards. Such
/// words are as small as rows and errors are: below a millionth of the modulus.
fn unmasked_limit(stream: &Stream, seed: u64) -> Option<f64> {
    let shares = [1e-1, 1e-2, 1e-3, 1e-4, 1e-5];
    let is_found = |share: &&f64| {
        let rng = &mut generator(seed, 906);
        let mut pieces = stream.pieces.clone();
        for word in pieces.iter_mut().flatten() {
            if (below(1 << 30, rng) as f64) < **share * (1 << 30) as f64 {
                *word = below((stream.modulus >> 20) as usize, rng) as u64;
            }
        }
        strongest(&against_noise(stream.modulus, &pieces)) >= ALARM
    };
    shares.iter().take_while(is_found).last().copied()
}
