//! What the commands read: vectors, ids, judgements and texts.
//!
//! Purpose: turn files a user has into checked values, and a file that is wrong into one line saying which file,
//! where in it, and what was expected. Nothing unchecked leaves this module: every id is non-empty and unique,
//! every value finite, every vector as wide as the first, and there is at least one.
//!
//! Concepts: lines are counted from 1, as editors do; rows and columns of arrays from 0, as NumPy does and as the
//! ids given to unnamed rows are.
//!
//! Modules: `npy`, `jsonl`, `parquet` read vectors, one format each; `ids` reads the ids that go with `.npy`;
//! `collect` gathers and checks records for all of them; `lines` reads text; `beir` reads corpora, queries and
//! judgements.
//!
//! Non-goals: no encoding of text into vectors, no writing, no guessing of a format from its content.

mod beir;
mod collect;
mod ids;
mod jsonl;
mod lines;
mod npy;
mod parquet;

use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor};
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use flate2::bufread::MultiGzDecoder;
use shard_geometry::VectorSet;

pub use npy::write_npy;

pub use beir::{Text, parse_qrels, parse_texts, read_qrels, read_texts};

/// Column of a parquet file that holds the ids, unless told otherwise.
pub const ID_COLUMN: &str = "id";
/// Column of a parquet file that holds the vectors, unless told otherwise.
pub const VECTOR_COLUMN: &str = "vector";

/// Vectors with an id each, in the order of the file; documents and queries alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Documents {
    /// One id per row, unique and not empty.
    pub ids: Vec<String>,
    /// Coordinates per row, at least one.
    pub width: usize,
    /// The rows one after another, `ids.len() * width` finite values.
    pub values: Vec<f32>,
}

/// Reads documents from `.npy`, `.jsonl`, `.jsonl.gz` or `.parquet`, by the name's ending.
///
/// `ids` is a text file with one id a line, for `.npy` only; without it the rows of an array are called `0`, `1`
/// and so on. The other formats carry their ids.
pub fn read_vectors(path: &Path, ids: Option<&Path>) -> Result<Documents> {
    read(path, ids, npy::Dimensions::Two)
}

/// Reads queries: as [`read_vectors`], but a one-dimensional `.npy` is welcome and is a single query.
pub fn read_queries(path: &Path, ids: Option<&Path>) -> Result<Documents> {
    read(path, ids, npy::Dimensions::OneOrTwo)
}

/// Reads documents from the named columns of a parquet file, whatever the file is called.
pub fn read_parquet(path: &Path, id_column: &str, vector_column: &str) -> Result<Documents> {
    parquet::read(open(path)?, id_column, vector_column).map_err(in_file(path))
}

/// Reads ids from a text file, one a line.
pub fn read_ids(path: &Path) -> Result<Vec<String>> {
    ids::read(open_text(path)?).map_err(in_file(path))
}

/// Reads an array in the form of `.npy` with its ids, one per line.
pub fn parse_array(array: &[u8], names: &[u8]) -> Result<Documents> {
    npy::read(Cursor::new(array), npy::Dimensions::Two)?.with_ids(ids::read(names)?)
}

fn read(path: &Path, ids: Option<&Path>, dimensions: npy::Dimensions) -> Result<Documents> {
    let format = Format::of(path)?;
    if let Some(ids) = ids
        && format != Format::Npy
    {
        bail!(
            "{}: ids from a file ({}) go with .npy only; this format carries its own",
            path.display(),
            ids.display()
        );
    }
    match format {
        Format::Npy => {
            let array =
                npy::read(BufReader::new(open(path)?), dimensions).map_err(in_file(path))?;
            let Some(ids) = ids else { return Ok(array.with_row_numbers()) };
            let names = read_ids(ids)?;
            array.with_ids(names).map_err(|error| {
                anyhow!("{}: {error:#} (rows of {})", ids.display(), path.display())
            })
        }
        Format::Jsonl => jsonl::read(open_text(path)?).map_err(in_file(path)),
        Format::Parquet => read_parquet(path, ID_COLUMN, VECTOR_COLUMN),
    }
}

/// Ids, and validated vectors.
pub fn vectors(documents: Documents) -> Result<(Vec<String>, VectorSet)> {
    Ok((documents.ids, VectorSet::new(documents.width, documents.values)?))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Npy,
    Jsonl,
    Parquet,
}

impl Format {
    fn of(path: &Path) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if name.ends_with(".npy") {
            Ok(Self::Npy)
        } else if name.ends_with(".jsonl") || name.ends_with(".jsonl.gz") {
            Ok(Self::Jsonl)
        } else if name.ends_with(".parquet") {
            Ok(Self::Parquet)
        } else {
            bail!("{}: expected a .npy, .jsonl, .jsonl.gz or .parquet file", path.display())
        }
    }
}

fn open(path: &Path) -> Result<File> {
    let file = File::open(path).map_err(in_file(path))?;
    if file.metadata().map_err(in_file(path))?.is_dir() {
        bail!("{}: expected a file, found a directory", path.display());
    }
    Ok(file)
}

/// Opens a text file, decompressing it when its name ends in `.gz`.
fn open_text(path: &Path) -> Result<Box<dyn BufRead>> {
    let file = BufReader::new(open(path)?);
    let compressed = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
    Ok(if compressed {
        Box::new(BufReader::new(MultiGzDecoder::new(file)))
    } else {
        Box::new(file)
    })
}

/// Puts the file's name before an error, in one message rather than a chain of causes, so that it stays on one
/// line however it is printed.
fn in_file<E: Display>(path: &Path) -> impl FnOnce(E) -> anyhow::Error {
    move |error| anyhow!("{}: {error:#}", path.display())
}

/// The first line of a library's error; some go on to draw the place in the text.
fn first_line(error: &impl Display) -> String {
    error.to_string().lines().next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests;
