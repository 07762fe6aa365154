//! `shard import`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use shard::{Documents, FitOptions, Ingested, Others, Protection, Record, Vault, VectorSet};
use shard_import::{Imported, Reason, Refused, chroma, faiss, pgvector, qdrant};
use zeroize::Zeroizing;

use super::publish_next;
use crate::args::VaultArguments;
use crate::output::{Output, follow, grouped, note, printable, progress_of_time};
use crate::remote::VectorArguments;

const QDRANT_KEY: &str = "SHARD_QDRANT_KEY";
#[cfg(feature = "postgres")]
const POSTGRES_PASSWORD: &str = "PGPASSWORD";

/// The longest record that a vault keeps.
const MAX_RECORD_BYTES: usize = 16 << 20;

#[derive(Args)]
#[command(subcommand_value_name = "SOURCE", subcommand_help_heading = "Sources")]
pub struct Import {
    /// The vault's directory
    vault: PathBuf,
    /// File with at least 32 random bytes that unlocks the vault instead of a passphrase
    /// (otherwise: SHARD_PASSPHRASE, or asked for at the terminal)
    #[arg(long, value_name = "FILE", global = true)]
    key_file: Option<PathBuf>,
    #[command(flatten)]
    vectors_from: VectorArguments,
    /// Take ids and vectors, and leave out texts and metadata
    #[arg(long, global = true)]
    vectors_only: bool,
    /// Go on without documents that cannot be taken: without a vector, with one that is zero, not
    /// finite or of another dimension, or with an id that was there before
    #[arg(long, global = true)]
    skip_invalid: bool,
    #[command(subcommand)]
    source: Source,
}

/// The store to import from.
#[derive(Subcommand)]
enum Source {
    /// A file of faiss.write_index that holds its vectors: flat, IVFFlat, HNSWFlat, scalar quantiser,
    /// with an IDMap or without
    Faiss {
        /// The index
        index: PathBuf,
        /// Ids of the rows, one per line, for an index without an IDMap [default: row numbers]
        #[arg(long, value_name = "FILE")]
        ids: Option<PathBuf>,
        /// Texts and metadata, .jsonl: each line is an object with an `id`
        #[arg(long, value_name = "FILE")]
        records: Option<PathBuf>,
    },
    /// The directory of a persistent Chroma client
    Chroma {
        /// The directory, with a chroma.sqlite3
        directory: PathBuf,
        /// The collection [default: the only one]
        #[arg(long, value_name = "NAME")]
        collection: Option<String>,
    },
    /// A collection of a Qdrant server; its key is SHARD_QDRANT_KEY
    Qdrant {
        /// The server, https://HOST:6333
        url: String,
        /// The collection
        #[arg(long, value_name = "NAME")]
        collection: String,
        /// Which vector of the points, where they have several
        #[arg(long, value_name = "NAME")]
        vector: Option<String>,
    },
    /// A table with a column of pgvector
    Pgvector {
        /// A CSV of `COPY table TO ... CSV HEADER`, or postgres://USER@HOST/DATABASE (its password:
        /// PGPASSWORD)
        #[arg(value_name = "CSV_OR_URL")]
        from: String,
        /// The table, or SCHEMA.TABLE, exactly as it is written
        #[arg(long, value_name = "NAME")]
        table: Option<String>,
        /// Column with the ids
        #[arg(long, value_name = "COLUMN", default_value = "id")]
        id: String,
        /// Column with the vectors: vector, halfvec or real[]
        #[arg(long, value_name = "COLUMN", default_value = "embedding")]
        vector: String,
        /// Column with the text, which becomes `text` in records
        #[arg(long, value_name = "COLUMN")]
        text: Option<String>,
    },
}

pub fn run(arguments: &Import, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let Imported { ids, dimension, vectors, fields, claimed, refused, notes } =
        arguments.source.read()?;
    let reasons = reasons(&refused);
    if !arguments.skip_invalid && !reasons.is_empty() {
        bail!(
            "{} of the {} documents of the source cannot be imported, so nothing was: {}; --skip-invalid \
             imports the others",
            grouped(refused.len()),
            grouped(claimed),
            said(&reasons),
        );
    }
    if ids.is_empty() {
        bail!("none of the {} documents can be imported: {}", grouped(claimed), said(&reasons));
    }

    let place =
        VaultArguments { vault: arguments.vault.clone(), key_file: arguments.key_file.clone() };
    let mut vault = arguments.vectors_from.open(&place)?;
    let with_fields = fields.iter().filter(|fields| !fields.is_empty()).count();
    if vault.settings()?.protection == Protection::Rotated
        && with_fields > 0
        && !arguments.vectors_only
    {
        bail!(
            "this vault is rotated and keeps no records, and {} documents of the source have texts or \
             metadata; --vectors-only leaves them out, and a blind vault would keep them",
            grouped(with_fields),
        );
    }
    let records = if arguments.vectors_only { Vec::new() } else { records(&ids, fields)? };
    let count = ids.len();
    let vectors = VectorSet::new(dimension, vectors)?;
    let documents = Documents::from_vectors(ids, vectors)?;

    let start = Instant::now();
    let (done, set) = take(&mut vault, &documents, records)?;
    let seconds = start.elapsed().as_secs_f64();
    let collection = vault.collection()?.context("the vault is empty")?;
    let total = collection.documents();

    for note in &notes {
        output.line(format!("note: {}", printable(note)))?;
    }
    output.line(format!(
        "the source has {} documents: {} imported, {} refused{}",
        grouped(claimed),
        grouped(count),
        grouped(refused.len()),
        if reasons.is_empty() { String::new() } else { format!(" ({})", said(&reasons)) },
    ))?;
    output.line(format!(
        "{} documents added, {} replaced, {} unchanged, {} in the vault ({seconds:.1} s)",
        grouped(done.added),
        grouped(done.replaced),
        grouped(done.unchanged),
        grouped(total),
    ))?;
    if let Some(uneven) = vault.uneven_lengths(&documents, &collection) {
        note(&uneven.to_string());
    }
    let left_out = if arguments.vectors_only { with_fields } else { 0 };
    match left_out {
        0 => output.line(format!("{} records set", grouped(set)))?,
        left => {
            output.line(format!("texts and metadata of {} documents left out", grouped(left)))?
        }
    }
    if !done.fitted && done.added + done.replaced + set > 0 {
        publish_next(&output, &arguments.vault)?;
    }
    output.result(&json!({
        "claimed": claimed,
        "imported": count,
        "refused": reasons
            .iter()
            .map(|(reason, (count, first))| {
                json!({ "reason": reason.to_string(), "count": count, "first": first })
            })
            .collect::<Vec<_>>(),
        "notes": notes,
        "added": done.added,
        "replaced": done.replaced,
        "unchanged": done.unchanged,
        "documents": total,
        "records_set": set,
        "fields_left_out": left_out,
        "seconds": seconds,
    }))
}

/// Puts documents and their records into the vault. Returns what became of the documents, and how many records
/// are other than before.
fn take(
    vault: &mut Vault,
    documents: &Documents,
    records: Vec<Record>,
) -> Result<(Ingested, usize)> {
    let bar = progress_of_time("importing");
    let watch = follow(&bar);
    let options = FitOptions { watch: &watch, ..FitOptions::default() };
    let done = vault.ingest_with(documents, records, Others::Keep, options);
    bar.finish_and_clear();
    let done = done?;
    let set = done.records;
    Ok((done, set))
}

/// Records of the documents that have anything beside a vector.
fn records(ids: &[String], fields: Vec<Map<String, Value>>) -> Result<Vec<Record>> {
    let documents = ids.iter().zip(fields).filter(|(_, fields)| !fields.is_empty());
    let record = |(id, fields): (&String, Map<String, Value>)| {
        let bytes = serde_json::to_vec(&Value::Object(with_id(id, fields)))?;
        if bytes.len() > MAX_RECORD_BYTES {
            bail!("the texts and metadata of {} are longer than 16 MiB", printable(id));
        }
        Ok(Record { id: id.clone(), bytes })
    };
    documents.map(record).collect()
}

/// The fields with the document's id, as `shard ingest --records` would have them. A field of that name that
/// says something else is kept as `id_`.
fn with_id(id: &str, mut fields: Map<String, Value>) -> Map<String, Value> {
    if let Some(own) = fields.remove("id") {
        let same = match &own {
            Value::String(own) => own == id,
            Value::Number(own) => own.to_string() == id,
            _ => false,
        };
        if !same {
            let mut name = "id_".to_owned();
            while fields.contains_key(&name) {
                name.push('_');
            }
            fields.insert(name, own);
        }
    }
    fields.insert("id".to_owned(), id.into());
    fields
}

/// How often each reason occurs, and which document was the first.
fn reasons(refused: &[Refused]) -> BTreeMap<Reason, (usize, &str)> {
    let mut reasons = BTreeMap::new();
    for Refused { id, reason } in refused {
        reasons.entry(*reason).or_insert((0, id.as_str())).0 += 1;
    }
    reasons
}

fn said(reasons: &BTreeMap<Reason, (usize, &str)>) -> String {
    let one = |(reason, (count, first)): (&Reason, &(usize, &str))| match count {
        1 => format!("{reason}: {}", printable(first)),
        _ => format!("{reason}: {} and {} more", printable(first), grouped(count - 1)),
    };
    reasons.iter().map(one).collect::<Vec<_>>().join("; ")
}

impl Source {
    fn read(&self) -> Result<Imported> {
        Ok(match self {
            Self::Faiss { index, ids, records } => {
                let with = faiss::Companions { ids: ids.as_deref(), records: records.as_deref() };
                faiss::read(index, with)?
            }
            Self::Chroma { directory, collection } => {
                chroma::read(directory, collection.as_deref())?
            }
            Self::Qdrant { url, collection, vector } => {
                let key = secret(QDRANT_KEY)?;
                qdrant::scroll(&qdrant::Source {
                    url,
                    collection,
                    api_key: key.as_ref().map(|key| key.as_str()),
                    vector: vector.as_deref(),
                })?
            }
            Self::Pgvector { from, table, id, vector, text } => {
                let columns = pgvector::Columns { id, vector, text: text.as_deref() };
                let is_server =
                    ["postgres://", "postgresql://"].iter().any(|s| from.starts_with(s));
                match (is_server, table) {
                    (true, Some(table)) => server_table(from, table, columns)?,
                    (true, None) => bail!("--table names the table of a server"),
                    (false, None) => pgvector::read_csv(Path::new(from), columns)?,
                    (false, Some(_)) => {
                        bail!(
                            "--table is for postgres://USER@HOST/DATABASE, and a CSV is one table"
                        )
                    }
                }
            }
        })
    }
}

#[cfg(feature = "postgres")]
fn server_table(url: &str, table: &str, columns: pgvector::Columns<'_>) -> Result<Imported> {
    let password = secret(POSTGRES_PASSWORD)?;
    Ok(pgvector::query(url, password.as_ref().map(|text| text.as_str()), table, columns)?)
}

#[cfg(not(feature = "postgres"))]
fn server_table(_: &str, _: &str, _: pgvector::Columns<'_>) -> Result<Imported> {
    bail!(
        "this shard was built without the feature postgres, which asks servers; a CSV can be imported"
    )
}

/// A secret of the environment, which others cannot read as they can a command line.
fn secret(variable: &str) -> Result<Option<Zeroizing<String>>> {
    match std::env::var(variable) {
        Ok(text) => Ok(Some(Zeroizing::new(text))),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(_) => bail!("{variable} is not valid UTF-8"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_called_id_is_not_lost() {
        let fields = |value: Value| value.as_object().cloned().unwrap_or_default();
        let with = |value| Value::Object(with_id("7", fields(value)));
        assert_eq!(with(json!({"a": 1})), json!({"id": "7", "a": 1}));
        assert_eq!(with(json!({"id": 7})), json!({"id": "7"}));
        assert_eq!(with(json!({"id": "x", "id_": 1})), json!({"id": "7", "id__": "x", "id_": 1}));
    }
}
