//! The subject of an audit, from a vault.

use std::collections::HashMap;
use std::hash::Hash;

use shard_audit::linkage::active_cells::ActiveCells;
use shard_audit::linkage::candidates;
use shard_audit::report::shape;
use shard_audit::subject::{FittedAxes, KeyFamily, Subject, coordinates};
use shard_audit::tools::matrix::Matrix;
use shard_audit::view::SeenRequest;
use shard_client::{ClientError, TransformKind};
use shard_geometry::{Pca, VectorSet};
use shard_protocol::{RowBatch, RowHandle};

use super::server_side::ServerSide;
use super::{
    Attacked, AuditOptions, Audited, WholeCounts, blind, foreign, recorded, sampled, select,
};
use crate::input::{InputProblem, TextDocument};
use crate::{Error, Opened, Vault};

/// The fewest documents that attackers fit axes to.
const FEWEST_FOR_AXES: usize = 60;

/// Queries whose requests are recorded.
const MOST_QUERIES: usize = 500;

impl Audited {
    /// Takes from a vault what an audit needs; the vault can be closed then.
    ///
    /// # Errors
    /// When the vault is empty or a query vault, or a document has no text where texts are given.
    pub fn from_vault(vault: &Vault, options: &AuditOptions<'_>) -> Result<Self, Error> {
        let queries = options.queries.map(|queries| {
            select(queries, &(0..queries.rows().min(MOST_QUERIES)).collect::<Vec<_>>())
        });
        let opened = vault.collection()?.ok_or(ClientError::Empty)?;
        let (all_ids, all) = vault.documents()?.into_parts();
        let documents = all_ids.len();
        let cells: Vec<u32> = match &opened {
            // With a key for every document each is a cell of its own.
            Opened::Rotated(collection) => {
                let cell = |row| collection.index().cell(row).unwrap_or(row);
                (0..documents as u32).map(cell).collect()
            }
            Opened::Blind(collection) => blind::blocks_of(collection),
        };
        let kept = sampled(&cells, options);
        let mut notes = Vec::new();
        if kept.len() < documents {
            notes.push(format!(
                "The attacks were run on {} of {documents} documents, in whole {} where they fit: \
                 shares of neighbours under one key come out higher than on all of them, as do chances \
                 of guessing a row.",
                kept.len(),
                if opened.blind().is_some() { "blocks" } else { "cells" },
            ));
        }
        let name = format!("the vault {}", vault.directory().display());
        let ids: Vec<String> = kept.iter().map(|&row| all_ids[row].clone()).collect();
        let texts = options.texts.map(|texts| by_row(texts, &ids)).transpose()?;
        if texts.is_none() {
            notes.push("No texts were given: nothing was read out of vectors.".to_owned());
        }
        if let Some(baseline) = options.baseline {
            let axes = Pca::fit(&all).map_err(ClientError::from)?;
            let vectors = kept_of(all, &kept);
            let protected = baseline.protect(&vectors, options.seed).map_err(Error::audit)?;
            let release = protected.release();
            notes.push(format!(
                "What is audited is not Shard but the baseline `{baseline}` of its vectors."
            ));
            notes.extend(foreign::note_on_width(vectors.width(), release.rows.width()));
            let subject = Subject {
                texts,
                queries: queries.as_ref().map(Matrix::from_vectors),
                ..foreign::subject(&vectors, &axes, vec![release], false, options.seed)
            };
            let (subject, name) =
                (Attacked::Rows(Box::new(subject)), format!("{name} as {baseline}"));
            return Ok(Self { subject, name, documents, ids, whole: None, notes });
        }
        let collection = match &opened {
            Opened::Rotated(collection) => collection,
            Opened::Blind(collection) => {
                if queries.is_none() {
                    notes.push(
                        "No sample queries were given: documents stand in for them.".to_owned(),
                    );
                }
                let vectors = kept_of(all, &kept);
                let sampled = blind::Sampled { vectors: &vectors, kept: &kept, texts };
                let subject =
                    blind::subject(vault, collection, sampled, queries.as_ref(), options)?;
                let subject = Attacked::Blind(Box::new(subject));
                return Ok(Self { subject, name, documents, ids, whole: None, notes });
            }
        };
        // Of fewer documents no attack is made that needs axes.
        let axes = (documents >= FEWEST_FOR_AXES)
            .then(|| FittedAxes::fit(&all, &kept, options.seed).map_err(Error::audit))
            .transpose()?;
        let vectors = kept_of(all, &kept);
        let batch = vault.published_rows()?;
        let requests = match &queries {
            Some(queries) => recorded::requests(collection, &batch, queries, options.watch)?,
            None => {
                notes.push(
                    "No sample queries were given: channels about requests and about quality were \
                     left out or run on stand-ins."
                        .to_owned(),
                );
                Vec::new()
            }
        };
        let (model, index) = (collection.model(), collection.index());
        let handles: HashMap<RowHandle, usize> =
            kept.iter().enumerate().map(|(at, &row)| (index.handle(row as u32), at)).collect();
        let is_canary: Vec<bool> = kept.iter().map(|&row| index.is_canary(row as u32)).collect();
        let (pca, prefix_width) = (model.pca().clone(), model.split().prefix());
        let keys = match model.settings().transform {
            TransformKind::Orthogonal => KeyFamily::Orthogonal,
            TransformKind::Structured => KeyFamily::Structured,
        };
        // With it go the vectors that searches have read.
        drop(opened);
        let whole = (kept.len() < documents).then(|| counts(&batch, &requests, options.seed));
        let server = ServerSide::of(batch, &handles, requests);
        Ok(Self {
            subject: Attacked::Rows(Box::new(Subject {
                coordinates: coordinates(&pca, &vectors),
                vectors: Matrix::from_vectors(&vectors),
                given: None,
                axes,
                other_lengths: server.other_lengths,
                prefix_width,
                cells: renumbered(kept.iter().map(|&row| cells[row])),
                keys,
                texts,
                queries: queries.as_ref().map(Matrix::from_vectors),
                view: server.view,
                canaries: server.documents.iter().map(|&at| is_canary[at]).collect(),
                documents: server.documents,
                seed: options.seed,
            })),
            name,
            documents,
            ids,
            whole,
            notes,
        })
    }
}

/// The vectors that are attacked; where these are all, none is copied.
fn kept_of(all: VectorSet, kept: &[usize]) -> VectorSet {
    if kept.len() == all.rows() { all } else { select(&all, kept) }
}

/// Counts rows, cells and requests before a sample is drawn.
fn counts(batch: &RowBatch, requests: &[SeenRequest], seed: u64) -> WholeCounts {
    let cells = renumbered(batch.rows().iter().map(|row| *row.cell));
    let mut sizes = vec![0; cells.iter().max().map_or(0, |&last| last as usize + 1)];
    cells.iter().for_each(|&cell| sizes[cell as usize] += 1);
    let active = ActiveCells::of(requests, &cells);
    let figures =
        |active| candidates::active_cells(candidates::RECORDED, &active, seed, cells.len());
    WholeCounts {
        shape: shape::of_cells(&sizes, batch.width(), seed),
        requests: active.map_or(Vec::new(), |active| figures(active).to_vec()),
    }
}

/// Texts by row, each with its title before it.
fn by_row(texts: &[TextDocument], ids: &[String]) -> Result<Vec<String>, Error> {
    let by_id: HashMap<&str, &TextDocument> =
        texts.iter().map(|text| (text.id.as_str(), text)).collect();
    let text = |id: &String| match by_id.get(id.as_str()) {
        Some(text) => Ok(text.with_title()),
        None => Err(InputProblem::NoText(id.clone()).into()),
    };
    ids.iter().map(text).collect()
}

/// Cells numbered in the order of appearance.
pub(super) fn renumbered<T: Eq + Hash>(cells: impl Iterator<Item = T>) -> Vec<u32> {
    let mut numbers = HashMap::new();
    cells
        .map(|cell| {
            let next = numbers.len() as u32;
            *numbers.entry(cell).or_insert(next)
        })
        .collect()
}
