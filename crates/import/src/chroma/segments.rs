//! Collections and their two segments.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, OptionalExtension, Row};
use serde_json::{Map, Value};

use super::{Documents, Problem, hnsw};
use crate::ImportError;

/// A collection and where its parts are.
pub(super) struct Collection {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) dimension: Option<usize>,
    /// How vectors are compared, where it is said.
    pub(super) space: Option<String>,
    metadata_segment: String,
    vector_segment: String,
}

/// Finds a collection by its name.
pub(super) fn find(database: &Connection, name: Option<&str>) -> Result<Collection, Problem> {
    let mut statement =
        database.prepare("SELECT id, name, dimension FROM collections ORDER BY name")?;
    let rows = statement.query_map([], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, Option<i64>>(2)?))
    })?;
    let all: Vec<_> = rows.collect::<Result<_, _>>()?;
    let names = || all.iter().map(|(_, name, _)| name.clone()).collect();
    let wanted: Vec<_> =
        all.iter().filter(|(_, found, _)| name.is_none_or(|name| name == found)).collect();
    let (id, found, dimension) = match (&wanted[..], name) {
        ([one], _) => one,
        ([], Some(name)) => {
            let what = "collection";
            return Err(
                ImportError::Missing { what, name: name.to_owned(), present: names() }.into()
            );
        }
        ([], None) => return Err(ImportError::Empty("the directory".to_owned()).into()),
        (_, None) => {
            return Err(ImportError::Ambiguous { what: "collections", present: names() }.into());
        }
        // Names are unique within one of Chroma's databases only.
        (_, Some(name)) => {
            let why = format!("several databases of this directory have a collection {name:?}");
            return Err(ImportError::unsupported("Chroma", why).into());
        }
    };
    let dimension = dimension.map(|found| {
        let fits = usize::try_from(found).ok().filter(|d| (1..=crate::MAX_DIMENSION).contains(d));
        fits.ok_or_else(|| Problem::Damaged(format!("a collection of dimension {found}")))
    });
    let segment = |scope: &str| {
        let found = database
            .query_row(
                "SELECT id FROM segments WHERE collection = ?1 AND scope = ?2",
                [id, scope],
                |row| row.get::<_, String>(0),
            )
            .optional()?;
        found.ok_or_else(|| Problem::Damaged(format!("the collection has no segment {scope}")))
    };
    Ok(Collection {
        id: id.clone(),
        name: found.clone(),
        dimension: dimension.transpose()?,
        space: space(database, id)?,
        metadata_segment: segment("METADATA")?,
        vector_segment: segment("VECTOR")?,
    })
}

/// How vectors are compared: in the collection's metadata of old, later in its configuration or schema.
fn space(database: &Connection, id: &str) -> Result<Option<String>, Problem> {
    let of_metadata = database
        .query_row(
            "SELECT str_value FROM collection_metadata WHERE collection_id = ?1 AND key = 'hnsw:space'",
            [id],
            |row| row.get::<_, Option<String>>(0),
        )
        .optional()?
        .flatten();
    if of_metadata.is_some() {
        return Ok(of_metadata);
    }
    for (column, paths) in [
        ("schema_str", &["/keys/#embedding/float_list/vector_index/config/space"][..]),
        ("config_json_str", &["/hnsw/space", "/hnsw_configuration/space"]),
    ] {
        if !has_column(database, "collections", column)? {
            continue;
        }
        let sql = format!("SELECT {column} FROM collections WHERE id = ?1");
        let text: Option<String> = database.query_row(&sql, [id], |row| row.get(0))?;
        let settings: Option<Value> = text.and_then(|text| serde_json::from_str(&text).ok());
        let found = settings.and_then(|settings| {
            paths.iter().find_map(|path| settings.pointer(path)?.as_str().map(str::to_owned))
        });
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn has_column(database: &Connection, table: &str, column: &str) -> Result<bool, Problem> {
    let sql = "SELECT count(*) FROM pragma_table_info(?1) WHERE name = ?2";
    Ok(database.query_row(sql, [table, column], |row| row.get::<_, i64>(0))? > 0)
}

/// Up to which entry of the log a segment has come. Older versions wrote the number as bytes.
fn reached(database: &Connection, segment: &str) -> Result<Option<i64>, Problem> {
    let sql = "SELECT seq_id FROM max_seq_id WHERE segment_id = ?1";
    match database.query_row(sql, [segment], |row| row.get::<_, Sql>(0)).optional()? {
        None | Some(Sql::Null) => Ok(None),
        Some(Sql::Integer(number)) => Ok(Some(number)),
        Some(Sql::Blob(bytes)) if bytes.len() <= 8 => {
            Ok(Some(bytes.iter().fold(0, |number, &byte| number << 8 | i64::from(byte))))
        }
        Some(_) => Err(Problem::Damaged("max_seq_id holds something that is no number".to_owned())),
    }
}

/// Ids, texts and metadata. Returns up to which entry of the log they have come.
pub(super) fn metadata(
    database: &Connection,
    collection: &Collection,
    documents: &mut Documents,
) -> Result<i64, Problem> {
    let segment = &collection.metadata_segment;
    let mut statement = database
        .prepare("SELECT id, embedding_id FROM embeddings WHERE segment_id = ?1 ORDER BY id")?;
    let rows = statement
        .query_map([segment], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
    let mut of_row = HashMap::new();
    for row in rows {
        let (row, id) = row?;
        documents.ids.push(id.clone());
        documents.fields.insert(id.clone(), Map::new());
        of_row.insert(row, id);
    }
    for (table, many) in [("embedding_metadata", false), ("embedding_metadata_array", true)] {
        if !has_column(database, table, "key")? {
            continue; // lists came with later versions
        }
        // The oldest versions had no truth values.
        let truth =
            if has_column(database, table, "bool_value")? { "m.bool_value" } else { "NULL" };
        let sql = format!(
            "SELECT m.id, m.key, m.string_value, m.int_value, m.float_value, {truth} FROM {table} m \
             JOIN embeddings e ON e.id = m.id WHERE e.segment_id = ?1 ORDER BY m.rowid"
        );
        let mut statement = database.prepare(&sql)?;
        let mut rows = statement.query([segment])?;
        while let Some(row) = rows.next()? {
            let (owner, key): (i64, String) = (row.get(0)?, row.get(1)?);
            let fields = of_row.get(&owner).and_then(|id| documents.fields.get_mut(id));
            let fields = fields.ok_or_else(|| Problem::Damaged("metadata of nobody".to_owned()))?;
            let value = value(row)?;
            if !many {
                fields.insert(key, value);
            } else if let Value::Array(list) =
                fields.entry(key).or_insert_with(|| Value::Array(Vec::new()))
            {
                list.push(value);
            }
        }
    }
    Ok(reached(database, segment)?.unwrap_or(0))
}

/// The one value of a row that is set.
fn value(row: &Row<'_>) -> Result<Value, Problem> {
    if let Some(text) = row.get::<_, Option<String>>(2)? {
        return Ok(text.into());
    }
    if let Some(truth) = row.get::<_, Option<i64>>(5)? {
        return Ok((truth != 0).into());
    }
    if let Some(number) = row.get::<_, Option<i64>>(3)? {
        return Ok(number.into());
    }
    Ok(row.get::<_, Option<f64>>(4)?.into())
}

/// Vectors of the index, where one was written. Returns up to which entry of the log they have come.
pub(super) fn vectors(
    database: &Connection,
    directory: &Path,
    collection: &Collection,
    documents: &mut Documents,
) -> Result<i64, Problem> {
    let reached = reached(database, &collection.vector_segment)?;
    // A name from the database becomes a path: no more than a UUID may.
    let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if !plain(&collection.vector_segment) {
        return Err(Problem::Damaged("a segment whose name is no UUID".to_owned()));
    }
    let folder = directory.join(&collection.vector_segment);
    // Versions before 1.0 make an empty index at once, and write the pickle with the first vectors.
    if !folder.join(hnsw::NAMES).is_file() {
        return match reached {
            // What the index had is no longer in the log.
            Some(entry) if entry > 0 => {
                Err(ImportError::damaged(&folder, "the index of the vectors is missing").into())
            }
            _ => Ok(0),
        };
    }
    let stored = match collection.space.as_deref() {
        Some("cosine") => hnsw::Stored::Divided,
        _ => hnsw::Stored::AsTheyCame,
    };
    let index = hnsw::read(&folder, collection.dimension, stored)?;
    documents.vectors = index.vectors;
    // Before 0.5.4 the pickle said it.
    Ok(reached.or(index.reached).unwrap_or(0))
}
