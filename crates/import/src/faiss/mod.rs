//! Files of `faiss.write_index`.
//!
//! A file is one index: four letters that name its kind, then the fields of that kind, little-endian and
//! without padding. Kinds contain each other. `vector<T>` is a count of 64 bits and as many items.
//!
//! ```text
//! header       dimension i32, rows i64, 2 x i64 (unused), trained u8, metric i32, argument f32 if metric > 1
//! IxFI IxF2 IxFl  header, count u64 of floats, floats                               IndexFlat
//! IxSQ         header, quantiser, vector<u8> codes                                  IndexScalarQuantizer
//! IxMp IxM2    header, index, vector<i64> ids                                       IndexIDMap, IndexIDMap2
//! IHNf IHNs    header, graph, index                                                 IndexHNSWFlat, IndexHNSWSQ
//! IwFl         header, lists u64, probes u64, index (centroids), direct map, lists  IndexIVFFlat
//!
//! quantiser    type i32, range statistic i32, its argument f32, dimension u64, bytes per code u64,
//!              vector<f32> trained
//! graph        vector<f64>, vector<i32> x 2, vector<u64>, vector<i32>, then 5 x i32
//! direct map   kind u8, vector<i64>, and if the kind is 2 a vector of pairs of i64
//! lists        "ilar", lists u64, bytes per code u64, "full" and vector<u64> sizes, or "sprs" and
//!              vector<u64> of pairs (list, size); then for each list with rows its codes and i64 ids
//! ```
//!
//! Kinds that keep codes of a product quantiser or the like are refused: the vectors are not in the file.

mod index;
mod scalar;

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value};

use crate::bytes::{self, Bytes, Malformed};
use crate::collect::Collector;
use crate::{ImportError, Imported};
use index::{Contents, Kind, Unread};

/// What goes with an index, which holds vectors and numbers only.
#[derive(Clone, Copy, Default)]
pub struct Companions<'a> {
    /// Text file with one id per row, for an index without ids of its own.
    pub ids: Option<&'a Path>,
    /// JSON lines with an `id` each, whose other fields are those of that document.
    pub records: Option<&'a Path>,
}

/// Reads an index.
///
/// # Errors
/// When a file cannot be read or is damaged, the index does not hold its vectors, or what goes with it does
/// not fit.
pub fn read(index: &Path, with: Companions<'_>) -> Result<Imported, ImportError> {
    let mut bytes = bytes::open(index)?;
    let contents = parse(&mut bytes).map_err(|unread| match unread {
        Unread::Malformed(Malformed(what)) => ImportError::damaged(index, what),
        Unread::Unsupported(why) => ImportError::unsupported(index.display().to_string(), why),
    })?;
    let rows = contents.numbers.len();
    let mut collector = Collector::new(Some(contents.dimension));
    collector.note(format!("the index is {}", contents.kind));
    if contents.lossy {
        collector.note("its vectors are as FAISS gives them back: rounded when they were added");
    }
    let names = names(index, &contents, with.ids)?;
    let mut records = with.records.map(records).transpose()?.unwrap_or_default();
    for (row, name) in names.into_iter().enumerate() {
        let fields = records.remove(&name).unwrap_or_default();
        let vector = &contents.vectors[row * contents.dimension..][..contents.dimension];
        collector.push(name, vector, fields);
    }
    if let Some(path) = with.records
        && let Some(other) = records.keys().min()
    {
        let count = records.len();
        let what = format!("{count} lines are of no row of the index, the first of {other:?}");
        return Err(ImportError::damaged(path, what));
    }
    collector.finish(&index.display().to_string(), rows)
}

/// Reads an index and nothing after it.
fn parse<R: Read>(bytes: &mut Bytes<R>) -> Result<Contents, Unread> {
    let contents = index::read(bytes, 0)?;
    match bytes.left() {
        0 => Ok(contents),
        left => Err(Malformed(format!("{left} bytes follow the index")).into()),
    }
}

/// The id of each row.
fn names(
    index: &Path,
    contents: &Contents,
    ids: Option<&Path>,
) -> Result<Vec<String>, ImportError> {
    let Some(path) = ids else {
        return Ok(contents.numbers.iter().map(ToString::to_string).collect());
    };
    if contents.kind == Kind::IdMap {
        let why = "the index has ids of its own, and a file of ids is for one without";
        return Err(ImportError::unsupported(index.display().to_string(), why));
    }
    let text = std::fs::read_to_string(path).map_err(ImportError::read(path))?;
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() != contents.numbers.len() {
        let (found, rows) = (lines.len(), contents.numbers.len());
        return Err(ImportError::damaged(path, format!("{found} ids for {rows} rows")));
    }
    let name = |&number: &i64| {
        let line = usize::try_from(number).ok().and_then(|row| lines.get(row));
        line.map(|line| (*line).to_owned()).ok_or_else(|| {
            let why = format!("row {number} is not a line of the file of ids");
            ImportError::unsupported(index.display().to_string(), why)
        })
    };
    contents.numbers.iter().map(name).collect()
}

/// The fields of documents by id.
fn records(path: &Path) -> Result<HashMap<String, Map<String, Value>>, ImportError> {
    let text = std::fs::read_to_string(path).map_err(ImportError::read(path))?;
    let mut records = HashMap::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |what: &str| ImportError::damaged(path, format!("line {}: {what}", at + 1));
        let value = serde_json::from_str(line).map_err(|error| wrong(&error.to_string()))?;
        let Value::Object(mut fields) = value else { return Err(wrong("not an object")) };
        let id = match fields.remove("id") {
            Some(Value::String(id)) => id,
            Some(Value::Number(id)) => id.to_string(),
            _ => return Err(wrong("no id")),
        };
        if records.insert(id, fields).is_some() {
            return Err(wrong("the id occurs twice"));
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests;
