//! The directory of a persistent Chroma client, versions 0.4 to 1.5.
//!
//! `chroma.sqlite3` has the collections and for each two segments. The metadata segment is in the same
//! database: a row of `embeddings` per document, its values in `embedding_metadata`, the text under
//! `chroma:document`. The vector segment is a folder with an index of hnswlib (`hnsw`) and a pickle that says
//! which of its labels is which id (`pickle`). Both are brought forward now and then from
//! `embeddings_queue`, the log of all changes; each knows up to which entry it has come. What is in the log
//! beyond that is applied here as Chroma would apply it: an addition of a known id and an update of an
//! unknown one change nothing.

mod hnsw;
mod pickle;
mod queue;
mod segments;

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde_json::{Map, Value};

use crate::collect::Collector;
use crate::{ImportError, Imported, Reason};
use segments::Collection;

/// The key under which Chroma keeps a document's text.
const DOCUMENT: &str = "chroma:document";

/// The field that gets the text.
pub const TEXT: &str = "text";

/// The field that gets the text where the metadata has a [`TEXT`] already.
pub const OTHER_TEXT: &str = "document";

/// Documents of a collection while they are put together.
#[derive(Default)]
struct Documents {
    /// In the order in which they were added; what was deleted leaves a gap.
    ids: Vec<String>,
    fields: HashMap<String, Map<String, Value>>,
    vectors: HashMap<String, Vec<f32>>,
}

/// Reads a collection; its name may be left out where there is only one.
///
/// # Errors
/// When the directory is not Chroma's or is damaged, or there is no such collection.
pub fn read(directory: &Path, collection: Option<&str>) -> Result<Imported, ImportError> {
    let file = directory.join("chroma.sqlite3");
    if !file.is_file() {
        let what = "not the directory of a persistent Chroma client: it has no chroma.sqlite3";
        return Err(ImportError::damaged(directory, what));
    }
    let damaged = |error: rusqlite::Error| ImportError::damaged(&file, error.to_string());
    let mut database =
        Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(damaged)?;
    // One transaction, so that a client that writes meanwhile is seen before or after its change.
    let database = database.transaction().map_err(damaged)?;
    let found = segments::find(&database, collection).map_err(|error| error.in_file(&file))?;
    let documents = gather(&database, directory, &found).map_err(|error| error.in_file(&file))?;
    let mut collector = Collector::new(found.dimension);
    collector.note(format!("the collection is {:?}", found.name));
    let Documents { ids, mut fields, mut vectors } = documents;
    let claimed = fields.len();
    let mut renamed = 0;
    for id in ids {
        // An id that was deleted and added again is in the list twice.
        let Some(mut values) = fields.remove(&id) else { continue };
        renamed += usize::from(name_text(&mut values));
        match vectors.remove(&id) {
            Some(vector) => collector.push(id, &vector, values),
            None => collector.refuse(id, Reason::NoVector),
        }
    }
    if renamed > 0 {
        collector.note(format!(
            "{renamed} documents have metadata called {TEXT:?}; their own text is {OTHER_TEXT:?}"
        ));
    }
    if !vectors.is_empty() {
        collector
            .note(format!("{} vectors of documents that were deleted were left", vectors.len()));
    }
    collector.finish(&format!("the collection {:?}", found.name), claimed)
}

/// Puts a document's text where others look for it. Returns whether the place was taken.
fn name_text(fields: &mut Map<String, Value>) -> bool {
    let Some(text) = fields.remove(DOCUMENT) else { return false };
    let taken = fields.contains_key(TEXT);
    let mut name = if taken { OTHER_TEXT.to_owned() } else { TEXT.to_owned() };
    while fields.contains_key(&name) {
        name.push('_');
    }
    fields.insert(name, text);
    taken
}

/// The segments with the log on top.
fn gather(
    database: &Connection,
    directory: &Path,
    collection: &Collection,
) -> Result<Documents, Problem> {
    let mut documents = Documents::default();
    let metadata_reached = segments::metadata(database, collection, &mut documents)?;
    let vectors_reached = segments::vectors(database, directory, collection, &mut documents)?;
    queue::apply(database, collection, metadata_reached, vectors_reached, &mut documents)?;
    Ok(documents)
}

/// What is wrong, before it is known in which file.
enum Problem {
    Sql(rusqlite::Error),
    Damaged(String),
    Other(ImportError),
}

impl Problem {
    fn in_file(self, file: &Path) -> ImportError {
        match self {
            Self::Sql(error) => ImportError::damaged(file, error.to_string()),
            Self::Damaged(what) => ImportError::damaged(file, what),
            Self::Other(error) => error,
        }
    }
}

impl From<rusqlite::Error> for Problem {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<ImportError> for Problem {
    fn from(error: ImportError) -> Self {
        Self::Other(error)
    }
}
