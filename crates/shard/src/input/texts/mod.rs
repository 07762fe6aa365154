//! Documents and queries as text.
//!
//! | module | content |
//! |---|---|
//! | `document` | a document as text, and its record |
//! | `lines` | documents from JSON lines |
//! | `csv` | documents from a table with a header |
//! | `files` | Markdown and plain text, a file or a folder of them |

mod csv;
mod document;
mod files;
mod lines;

use std::collections::BTreeMap;
use std::path::Path;

pub use document::TextDocument;
#[cfg(feature = "parquet")]
pub(super) use document::document_of;
pub use lines::texts_from;

use super::error::{InputError, InputProblem};
use super::{Format, VECTOR_COLUMN, jsonl, open, open_text, parquet};

/// Documents as text, and what else was found where they were.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Texts {
    /// The documents; of a folder, in the order of their names.
    pub documents: Vec<TextDocument>,
    /// What was left out.
    pub skipped: Skipped,
}

/// Files of a folder that were left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Skipped {
    /// Files and folders whose name begins with a dot.
    pub hidden: usize,
    /// Links, which are not followed.
    pub links: usize,
    /// Texts without a word.
    pub empty: usize,
    /// Files of other endings, by ending; without one, by an empty text.
    pub endings: BTreeMap<String, usize>,
}

impl Skipped {
    /// Whether nothing was left out.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl std::fmt::Display for Skipped {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts = Vec::new();
        for (count, what) in
            [(self.hidden, "hidden"), (self.links, "links"), (self.empty, "without a word")]
        {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
        for (ending, count) in &self.endings {
            parts.push(match ending.as_str() {
                "" => format!("{count} without an ending"),
                ending => format!("{count} .{}", ending.escape_debug()),
            });
        }
        formatter.write_str(&parts.join(", "))
    }
}

/// What documents of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Vectors: [`read_vectors`](super::read_vectors) reads them.
    Vectors,
    /// Texts: [`read_texts`] reads them.
    Texts,
}

/// Whether the documents of a file or folder are vectors or texts: by its name and, where that leaves it
/// open, by whether its first line has a field `vector`, or its table a column of that name or none called
/// `text`.
///
/// # Errors
/// When there is nothing of that name, or its ending is that of no format.
pub fn holds(path: &Path, vector_column: Option<&str>) -> Result<Holds, InputError> {
    let look = || {
        if path.is_dir() {
            // One that is called like a file was meant to be one.
            return match Format::of(path) {
                Ok(Format::Npy | Format::Jsonl | Format::Parquet | Format::Csv) => {
                    Err(InputProblem::Directory.into())
                }
                _ => Ok(Holds::Texts),
            };
        }
        let has_vectors = match Format::of(path)? {
            Format::Npy => true,
            Format::Csv | Format::Markdown | Format::Plain => false,
            Format::Jsonl => jsonl::has_vectors(open_text(path)?)?,
            // A table of neither is read for vectors, which says what it has instead.
            Format::Parquet => {
                parquet::has_column(open(path)?, vector_column.unwrap_or(VECTOR_COLUMN))?
                    || !parquet::has_column(open(path)?, "text")?
            }
        };
        Ok(if has_vectors { Holds::Vectors } else { Holds::Texts })
    };
    look().map_err(|error: InputError| error.in_file(path))
}

/// Reads texts: from `.jsonl`, `.jsonl.gz`, `.csv`, `.csv.gz` or `.parquet`, with `id` (or `_id`), `text`,
/// perhaps `title` and any other fields; from a `.md` or `.txt` file, which is one document; or from a
/// folder of these, with those inside it, each called by its path from the folder on.
///
/// # Errors
/// When there is nothing of that name or no document in it, its ending is that of no format, an id is
/// missing or there twice, what is to be text is not UTF-8, or a field could not be kept as it is.
pub fn read_texts(path: &Path) -> Result<Texts, InputError> {
    let read = || {
        if path.is_dir() {
            return files::read_folder(path);
        }
        let documents = match Format::of(path)? {
            Format::Npy => return Err(InputProblem::NoTexts.into()),
            Format::Jsonl => texts_from(open_text(path)?)?,
            Format::Csv => csv::read(open_text(path)?)?,
            Format::Parquet => parquet::read_texts(open(path)?)?,
            Format::Markdown | Format::Plain => vec![files::read_file(path)?],
        };
        Ok(Texts { documents, skipped: Skipped::default() })
    };
    // A file of a folder is named already where it is at fault.
    let whole = read().map_err(|error| match error.file() {
        Some(_) => error,
        None => error.in_file(path),
    })?;
    if whole.documents.is_empty() {
        return Err(InputError::from(InputProblem::NoDocuments).in_file(path));
    }
    Ok(whole)
}

/// Reads queries as text: as [`read_texts`], but JSON lines need no ids: a line without one is called by its
/// row, as vectors of queries are.
///
/// # Errors
/// As for [`read_texts`].
pub fn read_query_texts(path: &Path) -> Result<Vec<TextDocument>, InputError> {
    if path.is_dir() || Format::of(path).is_ok_and(|format| format != Format::Jsonl) {
        return Ok(read_texts(path)?.documents);
    }
    let read = || {
        Format::of(path)?;
        let queries = lines::read(open_text(path)?, jsonl::Names::Optional)?;
        if queries.is_empty() { Err(InputProblem::NoDocuments.into()) } else { Ok(queries) }
    };
    read().map_err(|error: InputError| error.in_file(path))
}

#[cfg(test)]
mod tests;
