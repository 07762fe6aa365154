//! What the server of a blind collection sees without an attack.

use std::collections::HashSet;
use std::hash::Hash;

use anyhow::Result;

use super::BlindSubject;
use crate::finding::{Finding, Section};

/// The collection's size.
///
/// # Errors
/// None so far.
pub fn collection_size(blind: &BlindSubject, _: &dyn Fn(&str)) -> Result<Section> {
    const NAME: &str = "collection-size";
    let seen = &blind.seen;
    let (shape, documents) = (&seen.shape, seen.documents);
    let finding = |metric: &str, value: usize| {
        Finding::new(NAME, "", metric, value as f64).on(blind.seed, documents)
    };
    let mut section = Section::new(NAME, "How large the collection is");
    section.findings = vec![
        finding("blocks", seen.blocks),
        finding("places_in_a_block", shape.rows_per_block()),
        finding("tiles", shape.tiles()),
        finding("width_of_a_tile", shape.tile()),
        finding("blocks_of_checks", seen.checks),
        finding("stored_bytes", seen.stored_bytes),
        finding("documents_by_sealed_values", documents).constructed(),
    ];
    section.headline = Some(0);
    section.notes.push(format!(
        "The server counts {} blocks of {} places: at most {} documents, of {} to {} dimensions, since free \
         places look like the others. It also sees the numbers of the epoch and of the revision, and for how \
         long each block was there. Bytes are those of blocks, hints, checks and records.",
        seen.blocks,
        shape.rows_per_block(),
        seen.blocks * shape.rows_per_block(),
        (shape.tiles() - 1) * shape.tile() + 1,
        shape.tiles() * shape.tile(),
    ));
    section.notes.push(format!(
        "A publish leaves the sealed values of the vault beside the blocks, and their lengths say exactly how \
         many documents each block has, {documents} in all, and how wide these are. This audit did not publish \
         them, so that figure is by construction."
    ));
    if let Some(cells) = &seen.cells {
        let count = cells.blocks.len();
        section.findings.push(finding("cells", count));
        section.notes.push(format!(
            "The list of blocks says which of the {count} cells each belongs to, so the server counts the blocks \
             of every cell: documents of one cell are near each other."
        ));
    }
    if let Some(records) = &seen.records {
        let (pages, slots) = (records.shape.pages(), records.shape.slots());
        section.findings.push(finding("pages_of_records", pages));
        section.findings.push(finding("slots_of_records", slots));
        section.notes.push(format!(
            "Of records it counts {pages} pages with {slots} slots of {} bytes, free ones included.",
            records.shape.slot_bytes()
        ));
    }
    Ok(section)
}

/// Which blocks change, and when.
///
/// # Errors
/// None so far.
pub fn block_changes(blind: &BlindSubject, _: &dyn Fn(&str)) -> Result<Section> {
    const NAME: &str = "block-changes";
    let seen = &blind.seen;
    let finding = |metric: &str, value: usize| {
        Finding::new(NAME, "", metric, value as f64).on(blind.seed, seen.documents).constructed()
    };
    let mut section = Section::new(NAME, "Which blocks change, and when");
    section.findings = vec![
        finding("places_that_may_have_changed", seen.shape.rows_per_block()),
        finding("blocks_told_apart", seen.blocks),
    ];
    section.headline = Some(0);
    section.notes.push(format!(
        "Every publish shows its time and which of the {} blocks it replaces. Which of a block's {} places \
         changed is what `release-churn` attacks. Rows lie in the order of ingestion, so a block that \
         changes often tells about when its documents came. This follows from how blocks are named; the \
         audit changes no document and publishes no change.",
        seen.blocks,
        seen.shape.rows_per_block()
    ));
    if seen.cells.is_some() {
        section.notes.push(
            "It also shows in which cell something changed. A document whose new vector belongs to another \
             cell changes a block in each of the two."
                .to_owned(),
        );
    }
    Ok(section)
}

/// Sizes and times of requests.
///
/// # Errors
/// None so far.
pub fn request_shape(blind: &BlindSubject, _: &dyn Fn(&str)) -> Result<Section> {
    const NAME: &str = "request-shape";
    let requests = &blind.seen.requests;
    let count = requests.len();
    let finding = |metric: &str, value: usize| {
        Finding::new(NAME, "", metric, value as f64).on(blind.seed, count)
    };
    let mut section = Section::new(NAME, "Sizes and times of requests");
    let up = distinct(requests.iter().map(|it| it.0));
    let down = distinct(requests.iter().map(|it| it.1));
    section.findings = vec![
        finding("sizes_of_exchanges", distinct(requests.iter().copied())),
        finding("sizes_of_requests", up),
        finding("sizes_of_answers", down),
        finding("requests_recorded", count),
    ];
    if let Some(&(up, down)) = requests.first() {
        section.findings.push(finding("request_bytes", up));
        section.findings.push(finding("answer_bytes", down));
    }
    section.headline = Some(0);
    let sizes = if (up, down) == (1, 1) {
        format!("All {count} requests that were recorded have one size, and so have their answers")
    } else {
        let sizes = |count: usize| match count {
            1 => "one size".to_owned(),
            _ => format!("{count} sizes"),
        };
        let (up, down) = (sizes(up), sizes(down));
        format!("The {count} requests that were recorded have {up}, and their answers have {down}")
    };
    section.notes.push(format!(
        "{sizes}. The server sees that there was a search, when and from which address. It also sees that a \
         client gives up: one that finds an answer false asks no more until there are fresh checks."
    ));
    if let Some(cells) = &blind.seen.cells {
        let (probe, count) = (cells.probe, cells.blocks.len());
        let named = if cells.are_named() { probe } else { 0 };
        section.findings.push(finding("cells_named_by_a_search", named));
        section.notes.push(if cells.are_named() {
            format!(
                "These requests asked for {probe} of {count} cells, as a search does unless it says otherwise, \
                 and named them. An answer has the size of the cells that were asked for. What that tells is \
                 what `request-leakage` measures."
            )
        } else {
            format!(
                "These requests asked for all cells that have blocks, as a search does unless it says otherwise \
                 ({probe} of {count}), and named none."
            )
        });
    }
    if let Some(records) = &blind.seen.records {
        let fetches = &records.fetches;
        let slots = distinct(fetches.iter().map(|it| it.0));
        let sizes = distinct(fetches.iter().copied());
        section.findings.push(finding("fetches_recorded", fetches.len()));
        section.findings.push(finding("numbers_of_slots_fetched", slots));
        section.findings.push(finding("sizes_of_fetches", sizes));
        section.notes.push(format!(
            "{} private fetches of records were recorded, for {slots} different numbers of slots, with {sizes} \
             sizes of message and answer. As many sizes as numbers is as it should be: the server sees how many \
             slots are asked for. A direct fetch, which names pages, was not made.",
            fetches.len()
        ));
    }
    Ok(section)
}

/// How many different ones there are.
fn distinct<T: Eq + Hash>(items: impl Iterator<Item = T>) -> usize {
    items.collect::<HashSet<T>>().len()
}
