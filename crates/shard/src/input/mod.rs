//! Files with vectors, ids, texts and judgements, read into checked values.
//!
//! A file that is wrong becomes one line that says which file, where in it, and what was expected
//! ([`InputError`]). Nothing unchecked leaves this module: every id is non-empty and unique, every
//! value finite, every vector as wide as the first, and there is at least one. `read_*` take a
//! path, `*_from` bytes or a reader, `*_to` a writer.
//!
//! Lines are counted from 1, as editors do; rows and columns of arrays from 0, as NumPy does and as
//! the ids given to unnamed rows are.
//!
//! Modules: `npy`, `jsonl`, `parquet` read vectors, one format each, and `query` a single one as
//! JSON; `ids` reads the ids that go with `.npy`; `npy` and `ids` write as well; `collect` gathers
//! and checks records for all of them; `lines` reads text; `texts` reads documents and queries as text,
//! `qrels` judgements, `records` what documents bring back.
//!
//! Non-goals: no encoding of text into vectors, no guessing of a format from its content beyond whether
//! a file of documents has vectors.

mod collect;
mod error;
mod ids;
mod jsonl;
mod lines;
mod npy;
mod parquet;
#[cfg(feature = "audit")]
mod qrels;
mod query;
mod records;
mod texts;

#[cfg(feature = "parquet")]
use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::path::Path;

use shard_geometry::VectorSet;

pub use error::{InputError, InputProblem, Place, Record};
pub use ids::ids_to;
pub use npy::{FloatBits, npy_to, write_npy};
#[cfg(feature = "audit")]
pub use qrels::{qrels_from, read_qrels};
pub use query::query_from;
pub use records::{read_records, records_from};
pub use texts::{
    Holds, Skipped, TextDocument, Texts, holds, read_query_texts, read_texts, texts_from,
};

use collect::Collector;
pub(crate) use collect::shown;
use jsonl::Names;
use npy::Dimensions;

/// Column of a parquet file that holds the ids, unless told otherwise.
pub const ID_COLUMN: &str = "id";
/// Column of a parquet file that holds the vectors, unless told otherwise.
pub const VECTOR_COLUMN: &str = "vector";

/// Vectors with an id each, in order; documents and queries alike. Ids are unique and not empty. Where the
/// file had other fields they are here as records.
#[derive(Clone, PartialEq, Debug)]
pub struct Documents {
    ids: Vec<String>,
    vectors: VectorSet,
    records: Vec<crate::Record>,
}

impl Documents {
    /// Pairs of an id and a vector.
    ///
    /// ```
    /// let documents = shard::Documents::new([("a", [1.0, 0.0]), ("b", [0.6, 0.8])])?;
    /// assert_eq!(documents.ids(), ["a", "b"]);
    /// # Ok::<(), shard::InputError>(())
    /// ```
    ///
    /// # Errors
    /// When there are none, an id is empty or occurs twice, a value is not finite, or a vector is
    /// not as wide as the first.
    pub fn new<I: Into<String>, V: AsRef<[f32]>>(
        documents: impl IntoIterator<Item = (I, V)>,
    ) -> Result<Self, InputError> {
        let mut collector = Collector::default();
        for (row, (id, vector)) in documents.into_iter().enumerate() {
            let values = vector.as_ref().iter().map(|&value| f64::from(value));
            collector.push(Record::Row(row), id.into(), values)?;
        }
        collector.finish()
    }

    /// Ids for a set of vectors.
    ///
    /// # Errors
    /// When there is not one id per vector, or one is empty or occurs twice.
    pub fn from_vectors(ids: Vec<String>, vectors: VectorSet) -> Result<Self, InputError> {
        if ids.len() != vectors.rows() {
            let (vectors, ids) = (vectors.rows(), ids.len());
            return Err(InputProblem::IdCount { vectors, ids, of: None }.into());
        }
        for (row, id) in ids.iter().enumerate() {
            collect::check_not_empty(id, Record::Row(row))?;
        }
        collect::check_distinct(&ids, Record::Row)?;
        Ok(Self { ids, vectors, records: Vec::new() })
    }

    /// The ids, in order.
    pub fn ids(&self) -> &[String] {
        &self.ids
    }

    /// The vectors, in order.
    pub fn vectors(&self) -> &VectorSet {
        &self.vectors
    }

    /// The records of those that have one: all fields that the file had of them besides the vector.
    pub fn records(&self) -> &[crate::Record] {
        &self.records
    }

    /// Ids and vectors.
    pub fn into_parts(self) -> (Vec<String>, VectorSet) {
        (self.ids, self.vectors)
    }
}

/// Reads documents from `.npy`, `.jsonl`, `.jsonl.gz` or `.parquet`, by the name's ending.
///
/// `ids` is a text file with one id per line, for `.npy` only; without it the rows of an array are
/// called `0`, `1` and so on. The other formats carry their ids.
pub fn read_vectors(path: &Path, ids: Option<&Path>) -> Result<Documents, InputError> {
    read(path, ids, Dimensions::Two)
}

/// Reads queries: as [`read_vectors`], but a one-dimensional `.npy` is welcome and is a single query, and JSON lines
/// need no ids: a line without one is called by its row, as those of a `.npy` are.
pub fn read_queries(path: &Path, ids: Option<&Path>) -> Result<Documents, InputError> {
    read(path, ids, Dimensions::OneOrTwo)
}

/// Reads documents from the named columns of a parquet file, whatever the file is called.
pub fn read_parquet(
    path: &Path,
    id_column: &str,
    vector_column: &str,
) -> Result<Documents, InputError> {
    let read = || parquet::read(open(path)?, id_column, vector_column);
    read().map_err(|error| error.in_file(path))
}

/// Reads ids from a text file, one per line.
pub fn read_ids(path: &Path) -> Result<Vec<String>, InputError> {
    open_text(path).and_then(ids::read).map_err(|error| error.in_file(path))
}

/// Reads an array in the form of `.npy` with its ids, one per line.
pub fn npy_from(array: impl BufRead + Seek, names: impl BufRead) -> Result<Documents, InputError> {
    npy::read(array, Dimensions::Two)?.with_ids(ids::read(names)?, None)
}

/// Reads JSON lines, `{"id": "a", "vector": [0.5, ...]}`.
pub fn jsonl_from(lines: impl BufRead) -> Result<Documents, InputError> {
    jsonl::read(lines, Names::Required)
}

fn read(path: &Path, ids: Option<&Path>, dimensions: Dimensions) -> Result<Documents, InputError> {
    let read = || {
        let format = Format::of(path)?;
        if let Some(ids) = ids
            && format != Format::Npy
        {
            return Err(InputProblem::IdsNotWanted(ids.to_owned()).into());
        }
        match format {
            Format::Npy => {
                let array = npy::read(BufReader::new(open(path)?), dimensions)?;
                let Some(ids) = ids else { return Ok(array.with_row_numbers()) };
                let named = array.with_ids(read_ids(ids)?, Some(path));
                named.map_err(|error| error.in_file(ids))
            }
            Format::Jsonl => {
                let names = match dimensions {
                    Dimensions::Two => Names::Required,
                    Dimensions::OneOrTwo => Names::Optional,
                };
                jsonl::read(open_text(path)?, names)
            }
            Format::Parquet => parquet::read(open(path)?, ID_COLUMN, VECTOR_COLUMN),
            Format::Csv | Format::Markdown | Format::Plain => {
                Err(InputProblem::NoVectorsHere.into())
            }
        }
    };
    // The file of ids is named already where it is at fault.
    read().map_err(|error| if error.file().is_some() { error } else { error.in_file(path) })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Npy,
    Jsonl,
    Parquet,
    Csv,
    Markdown,
    Plain,
}

impl Format {
    fn of(path: &Path) -> Result<Self, InputProblem> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if name.ends_with(".npy") {
            Ok(Self::Npy)
        } else if name.ends_with(".jsonl") || name.ends_with(".jsonl.gz") {
            Ok(Self::Jsonl)
        } else if name.ends_with(".parquet") {
            Ok(Self::Parquet)
        } else if name.ends_with(".csv") || name.ends_with(".csv.gz") {
            Ok(Self::Csv)
        } else if name.ends_with(".md") || name.ends_with(".markdown") {
            Ok(Self::Markdown)
        } else if name.ends_with(".txt") {
            Ok(Self::Plain)
        } else {
            Err(InputProblem::UnknownFormat)
        }
    }
}

fn open(path: &Path) -> Result<File, InputError> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() { Err(InputProblem::Directory.into()) } else { Ok(file) }
}

/// Opens a text file, decompressing it when its name ends in `.gz`.
fn open_text(path: &Path) -> Result<Box<dyn BufRead>, InputError> {
    let file = BufReader::new(open(path)?);
    let compressed = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
    if !compressed {
        return Ok(Box::new(file));
    }
    #[cfg(feature = "gzip")]
    return Ok(Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(file))));
    #[cfg(not(feature = "gzip"))]
    Err(InputProblem::NoGzip.into())
}

/// The first line of a library's error; some go on to draw the place in the text.
#[cfg(feature = "parquet")]
fn first_line(error: &impl Display) -> String {
    error.to_string().lines().next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests;
