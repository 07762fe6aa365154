//! The log of changes that a segment has not taken in yet.

use rusqlite::Connection;
use serde_json::{Map, Value};

use super::segments::Collection;
use super::{Documents, Problem};
use crate::MAX_DIMENSION;

/// What an entry does, by Chroma's numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Add,
    Update,
    Upsert,
    Delete,
}

/// Applies what is in the log beyond the entries that metadata and vectors have reached.
pub(super) fn apply(
    database: &Connection,
    collection: &Collection,
    metadata_reached: i64,
    vectors_reached: i64,
    documents: &mut Documents,
) -> Result<(), Problem> {
    // The topic is persistent://TENANT/NAMESPACE/COLLECTION.
    let mut statement = database.prepare(
        "SELECT seq_id, operation, id, vector, encoding, metadata FROM embeddings_queue \
         WHERE seq_id > ?1 AND substr(topic, -length(?2) - 1) = '/' || ?2 ORDER BY seq_id",
    )?;
    let from = metadata_reached.min(vectors_reached);
    let mut rows = statement.query(rusqlite::params![from, collection.id])?;
    while let Some(row) = rows.next()? {
        let entry: i64 = row.get(0)?;
        let id: String = row.get(2)?;
        let operation = match row.get::<_, i64>(1)? {
            0 => Operation::Add,
            1 => Operation::Update,
            2 => Operation::Upsert,
            3 => Operation::Delete,
            other => {
                return Err(Problem::Damaged(format!("an unknown operation {other} in the log")));
            }
        };
        let vector = match row.get::<_, Option<Vec<u8>>>(3)? {
            Some(bytes) => Some(decode(&bytes, row.get::<_, Option<String>>(4)?.as_deref())?),
            None => None,
        };
        if entry > vectors_reached {
            change_vector(documents, operation, &id, vector);
        }
        if entry > metadata_reached {
            let text = row.get::<_, Option<String>>(5)?;
            let metadata = text.map(|text| {
                serde_json::from_str(&text).map_err(|error| {
                    Problem::Damaged(format!("metadata of {id:?} in the log: {error}"))
                })
            });
            change_fields(documents, operation, id, metadata.transpose()?.unwrap_or_default());
        }
    }
    Ok(())
}

fn change_vector(
    documents: &mut Documents,
    operation: Operation,
    id: &str,
    vector: Option<Vec<f32>>,
) {
    let vectors = &mut documents.vectors;
    if operation == Operation::Delete {
        vectors.remove(id);
        return;
    }
    let Some(vector) = vector else { return };
    let wanted = match operation {
        Operation::Add => !vectors.contains_key(id),
        Operation::Update => vectors.contains_key(id),
        Operation::Upsert | Operation::Delete => true,
    };
    if wanted {
        vectors.insert(id.to_owned(), vector);
    }
}

fn change_fields(
    documents: &mut Documents,
    operation: Operation,
    id: String,
    changes: Map<String, Value>,
) {
    let known = documents.fields.contains_key(&id);
    match operation {
        Operation::Delete => {
            documents.fields.remove(&id);
            return;
        }
        Operation::Add if known => return,
        Operation::Update if !known => return,
        Operation::Add | Operation::Update | Operation::Upsert => {}
    }
    if !known {
        documents.ids.push(id.clone());
    }
    let fields = documents.fields.entry(id).or_default();
    for (key, value) in changes {
        if value.is_null() {
            fields.remove(&key);
        } else {
            fields.insert(key, value);
        }
    }
}

/// A vector of the log: floats or 32-bit integers, little-endian.
fn decode(bytes: &[u8], encoding: Option<&str>) -> Result<Vec<f32>, Problem> {
    let (values, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() || values.len() > MAX_DIMENSION {
        return Err(Problem::Damaged(format!("a vector of {} bytes in the log", bytes.len())));
    }
    match encoding {
        Some("FLOAT32") | None => {
            Ok(values.iter().map(|&value| f32::from_le_bytes(value)).collect())
        }
        Some("INT32") => Ok(values.iter().map(|&value| i32::from_le_bytes(value) as f32).collect()),
        Some(other) => Err(Problem::Damaged(format!("vectors encoded as {other:?} in the log"))),
    }
}
