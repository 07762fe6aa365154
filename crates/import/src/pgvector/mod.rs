//! A table of PostgreSQL with the extension pgvector.
//!
//! [`read_csv`] takes what `COPY table TO STDOUT CSV HEADER` writes (`csv`); a CSV has no types, so every other
//! column becomes text. `query` asks the server (feature `postgres`), and columns keep the types that JSON
//! has.

mod csv;
#[cfg(feature = "postgres")]
mod server;
#[cfg(feature = "postgres")]
mod value;

use std::path::Path;

use serde_json::{Map, Value};

use crate::collect::Collector;
use crate::{ImportError, Imported, MAX_DIMENSION, Reason};
#[cfg(feature = "postgres")]
pub use server::query;

/// Which columns are what. All others become fields under their own names.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    /// The ids.
    pub id: &'a str,
    /// The vectors: `vector`, `halfvec`, or on a server also `real[]`.
    pub vector: &'a str,
    /// The text, which becomes the field `text`.
    pub text: Option<&'a str>,
}

impl Default for Columns<'_> {
    fn default() -> Self {
        Self { id: "id", vector: "embedding", text: None }
    }
}

/// The field that gets the text.
const TEXT: &str = "text";

/// Where the columns of a table are.
struct Places {
    id: usize,
    vector: usize,
    /// The others with the names of their fields.
    fields: Vec<(usize, String)>,
}

impl Columns<'_> {
    fn find(&self, names: &[String]) -> Result<Places, ImportError> {
        let place = |wanted: &str| {
            names.iter().position(|name| name == wanted).ok_or_else(|| {
                let (name, present) = (wanted.to_owned(), names.to_vec());
                ImportError::Missing { what: "column", name, present }
            })
        };
        let (id, vector) = (place(self.id)?, place(self.vector)?);
        let text = self.text.map(place).transpose()?;
        let others = (0..names.len()).filter(|&at| at != id && at != vector);
        let field =
            |at: usize| (at, if Some(at) == text { TEXT.into() } else { names[at].clone() });
        let fields: Vec<(usize, String)> = others.map(field).collect();
        let mut sorted: Vec<&String> = fields.iter().map(|(_, name)| name).collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|two| two[0] == two[1]) {
            Some(two) => {
                Err(ImportError::Option(format!("two columns would become the field {:?}", two[0])))
            }
            None => Ok(Places { id, vector, fields }),
        }
    }
}

/// Reads a CSV with a line of names.
///
/// # Errors
/// When the file cannot be read, is not such a CSV, or has no such columns.
pub fn read_csv(path: &Path, columns: Columns<'_>) -> Result<Imported, ImportError> {
    let file = std::fs::File::open(path).map_err(ImportError::read(path))?;
    let mut lines = csv::Rows::new(std::io::BufReader::new(file));
    let wrong =
        |line: usize, what: &str| ImportError::damaged(path, format!("line {line}: {what}"));
    let next =
        |lines: &mut csv::Rows<_>| lines.next_row().map_err(|bad| wrong(bad.line, &bad.what));
    let header = next(&mut lines)?.ok_or_else(|| ImportError::damaged(path, "empty"))?;
    let names: Vec<String> = header.into_iter().map(Option::unwrap_or_default).collect();
    let places = columns.find(&names)?;
    let mut collector = Collector::new(None);
    let mut rows = 0;
    while let Some(mut row) = next(&mut lines)? {
        rows += 1;
        let line = lines.line();
        if row.len() != names.len() {
            let (found, expected) = (row.len(), names.len());
            return Err(wrong(line, &format!("{found} values where {expected} are expected")));
        }
        let id = row[places.id].take();
        let Some(id) = id.filter(|id| !id.is_empty()) else {
            collector.refuse(format!("line {line}"), Reason::NoId);
            continue;
        };
        let Some(vector) = row[places.vector].take() else {
            collector.refuse(id, Reason::NoVector);
            continue;
        };
        let vector = parse_vector(&vector).ok_or_else(|| {
            wrong(line, &format!("the column {:?} is no vector like [1,2,3]", columns.vector))
        })?;
        let mut fields = Map::new();
        for (at, name) in &places.fields {
            fields.insert(name.clone(), row[*at].take().map_or(Value::Null, Value::String));
        }
        collector.push(id, &vector, fields);
    }
    collector.note("a CSV has no types: fields are text, or null");
    collector.finish(&path.display().to_string(), rows)
}

/// The text of a `vector` or a `halfvec`.
fn parse_vector(text: &str) -> Option<Vec<f32>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    let values: Option<Vec<f32>> =
        inner.split(',').map(|value| value.trim().parse().ok()).collect();
    values.filter(|values| values.len() <= MAX_DIMENSION)
}

#[cfg(test)]
mod tests;
