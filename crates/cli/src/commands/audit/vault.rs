//! The subject of an audit, from a vault.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::path::Path;

use anyhow::{Context, Result, bail};
use shard_audit::linkage::active_cells::ActiveCells;
use shard_audit::linkage::candidates;
use shard_audit::report::shape;
use shard_audit::subject::{KeyFamily, Subject, coordinates};
use shard_audit::tools::matrix::Matrix;
use shard_audit::view::SeenRequest;
use shard_client::{Collection, TransformKind, published_rows, stored_vectors};
use shard_geometry::VectorSet;
use shard_protocol::{RowBatch, RowHandle};

use super::arguments::Audit;
use super::held::Held;
use super::{Audited, Whole, foreign, recorded, sample};
use crate::output::grouped;
use crate::unlock;
use shard::input::vectors;
use shard::input::{Text, read_queries, read_texts};

/// Queries whose requests are recorded.
const MOST_QUERIES: usize = 500;

/// Opens the vault, takes what an audit needs, and closes it again.
pub fn audited(arguments: &Audit) -> Result<Audited> {
    let queries = read_sample_queries(arguments)?;
    let vault = unlock::open(&arguments.vault())?;
    let collection = Collection::open(&vault)?;
    let (all, batch) = (stored_vectors(&vault)?, published_rows(&vault)?);
    drop(vault);

    let (model, index) = (collection.model(), collection.index());
    // With a key for every document each is a cell of its own.
    let cells: Vec<u32> =
        (0..all.rows() as u32).map(|row| index.cell(row).unwrap_or(row)).collect();
    let kept = sample::documents(&cells, arguments.sample, arguments.seed);
    let vectors = select(&all, &kept)?;
    let mut notes = Vec::new();
    if kept.len() < all.rows() {
        notes.push(format!(
            "The attacks were run on {} of {} documents (--sample), in whole cells where they fit: \
             shares of neighbours under one key come out higher than on all of them, as do chances \
             of guessing a row.",
            grouped(kept.len()),
            grouped(all.rows())
        ));
    }
    let name = format!("the vault {}", arguments.vault().vault.display());
    let documents = all.rows();
    let ids: Vec<String> = kept.iter().map(|&row| index.id(row as u32).to_owned()).collect();
    let texts = arguments.texts.as_deref().map(|path| texts(path, &ids)).transpose()?;
    if texts.is_none() {
        notes.push("No texts were given (--texts): nothing was read out of vectors.".to_owned());
    }
    if let Some(baseline) = arguments.baseline {
        let release = baseline.protect(&vectors, arguments.seed)?.release();
        notes.push(format!(
            "What is audited is not Shard but the baseline `{baseline}` of its vectors."
        ));
        notes.extend(foreign::note_on_width(vectors.width(), release.rows.width()));
        let subject = Subject {
            texts,
            queries: queries.as_ref().map(Matrix::from_vectors),
            ..foreign::subject(&vectors, vec![release], arguments.seed)?
        };
        let name = format!("{name} as {baseline}");
        return Ok(Audited { subject, name, documents, ids, whole: None, notes });
    }
    let requests = match &queries {
        Some(queries) => recorded::requests(&collection, &batch, queries)?,
        None => {
            notes.push(
                "No sample queries were given (--queries): channels about requests and about \
                 quality were left out or run on stand-ins."
                    .to_owned(),
            );
            Vec::new()
        }
    };
    let mut dropped: HashSet<RowHandle> =
        (0..documents as u32).map(|row| index.handle(row)).collect();
    let handles: HashMap<RowHandle, usize> =
        kept.iter().enumerate().map(|(at, &row)| (index.handle(row as u32), at)).collect();
    dropped.retain(|handle| !handles.contains_key(handle));
    let whole = (!dropped.is_empty()).then(|| whole(&batch, &requests, arguments.seed));
    let held = Held::of(batch, &handles, &dropped, requests);
    Ok(Audited {
        subject: Subject {
            coordinates: coordinates(model.pca(), &vectors),
            vectors: Matrix::from_vectors(&vectors),
            prefix_width: model.split().prefix(),
            cells: renumbered(kept.iter().map(|&row| cells[row])),
            keys: match model.settings().transform {
                TransformKind::Orthogonal => KeyFamily::Orthogonal,
                TransformKind::Structured => KeyFamily::Structured,
            },
            texts,
            queries: queries.as_ref().map(Matrix::from_vectors),
            view: held.view,
            documents: held.documents,
            seed: arguments.seed,
        },
        name,
        documents,
        ids,
        whole,
        notes,
    })
}

/// Counts rows, cells and requests before a sample is drawn.
fn whole(batch: &RowBatch, requests: &[SeenRequest], seed: u64) -> Whole {
    let cells = renumbered(batch.rows().iter().map(|row| *row.cell));
    let mut sizes = vec![0; cells.iter().max().map_or(0, |&last| last as usize + 1)];
    cells.iter().for_each(|&cell| sizes[cell as usize] += 1);
    let active = ActiveCells::of(requests, &cells);
    let figures =
        |active| candidates::active_cells(candidates::RECORDED, &active, seed, cells.len());
    Whole {
        shape: shape::of_cells(&sizes, batch.width(), seed),
        requests: active.map_or(Vec::new(), |active| figures(active).to_vec()),
    }
}

/// Texts by row, each with its title before it.
fn texts(path: &Path, ids: &[String]) -> Result<Vec<String>> {
    let by_id: HashMap<String, Text> =
        read_texts(path)?.into_iter().map(|text| (text.id.clone(), text)).collect();
    let text = |id: &String| match by_id.get(id) {
        Some(text) => Ok(text.with_title()),
        None => bail!("{}: no text for document {id:?}", path.display()),
    };
    ids.iter().map(text).collect()
}

fn read_sample_queries(arguments: &Audit) -> Result<Option<VectorSet>> {
    let Some(path) = &arguments.queries else { return Ok(None) };
    let (_, queries) =
        vectors(read_queries(path, None)?).with_context(|| path.display().to_string())?;
    let first: Vec<usize> = (0..queries.rows().min(MOST_QUERIES)).collect();
    Ok(Some(select(&queries, &first)?))
}

/// Some rows.
fn select(vectors: &VectorSet, rows: &[usize]) -> Result<VectorSet> {
    let values = rows.iter().flat_map(|&row| vectors.row(row)).copied().collect();
    Ok(VectorSet::new(vectors.width(), values)?)
}

/// Cells numbered in the order of appearance.
fn renumbered<T: Eq + Hash>(cells: impl Iterator<Item = T>) -> Vec<u32> {
    let mut numbers = HashMap::new();
    cells
        .map(|cell| {
            let next = numbers.len() as u32;
            *numbers.entry(cell).or_insert(next)
        })
        .collect()
}
