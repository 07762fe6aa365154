//! Fields of documents, to filter by: what a record has besides its text, kept a second time for whoever
//! may search.
//!
//! Where a record is a JSON object, its fields are those other than [`NOT_FIELDS`]. They lie in a value
//! per block, sealed under a key of the epoch like the ids, and padded to a multiple of [`PADDING`]
//! bytes. They follow from the records, so nothing sets them but [`set_records`](super::set_records) and
//! what else changes records.
//!
//! | module | content |
//! |---|---|
//! | `block` | the value of a block |
//! | `columns` | the fields of all documents, read once; filters evaluated on them |
//! | `change` | fields changed, moved and sealed anew with their records |

mod block;
mod change;
mod columns;

use serde_json::{Map, Value};

pub use columns::Metadata;

pub(super) use block::BlockFields;
pub(super) use change::{FieldChange, move_fields, rekey_fields, verify_fields};

/// What is no field of a document to filter by.
pub const NOT_FIELDS: [&str; 5] = ["id", "_id", "vector", "text", "title"];

/// Sealed values are of so many bytes, or a multiple of it.
const PADDING: usize = 1024;

/// Bytes of a field, as JSON, that are kept to filter by.
const LONGEST_FIELD: usize = 1024;

/// Bytes of the fields of a document together, as JSON, that are kept to filter by.
const MOST_FIELDS: usize = 16 << 10;

/// Lists and objects inside each other in a field that is kept to filter by: decoders have a limit too.
const DEEPEST_FIELD: usize = 16;

/// The fields of a document: those that are kept to filter by, and the names of those that are too long.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Fields {
    kept: Map<String, Value>,
    long: Vec<String>,
}

impl Fields {
    /// Those of a record; `None` if it has none or is no JSON object.
    pub(super) fn of_record(record: &[u8]) -> Option<Self> {
        let Ok(Value::Object(record)) = serde_json::from_slice(record) else { return None };
        let (mut fields, mut room) = (Self::default(), MOST_FIELDS);
        for (name, value) in record {
            if NOT_FIELDS.contains(&name.as_str()) {
                continue;
            }
            let bytes = value.to_string().len();
            if bytes > LONGEST_FIELD || bytes + name.len() > room || is_deep(&value, DEEPEST_FIELD)
            {
                fields.long.push(name);
            } else {
                room -= bytes + name.len();
                fields.kept.insert(name, value);
            }
        }
        (!fields.kept.is_empty() || !fields.long.is_empty()).then_some(fields)
    }
}

/// Whether lists and objects lie more than so many deep inside each other.
fn is_deep(value: &Value, most: usize) -> bool {
    let inside = |mut parts: Box<dyn Iterator<Item = &Value> + '_>| {
        most == 0 || parts.any(|part| is_deep(part, most - 1))
    };
    match value {
        Value::Array(parts) => inside(Box::new(parts.iter())),
        Value::Object(parts) => inside(Box::new(parts.values())),
        _ => false,
    }
}
