//! The collections that tables are made from, and the checksums of their files.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use shard_audit::quality::Qrels;
use shard_audit::subject::Corpus;
use shard_geometry::VectorSet;

use shard::input::{TextDocument, read_qrels, read_queries, read_texts, read_vectors};
use shard_cli::output::progress;

/// Collections that the tables know, and the encoder of the vectors in their own folder.
const SETS: [&str; 4] = ["scifact", "nfcorpus", "cranfield", "wiki100k"];
const ENCODER: &str = "minilm";
/// Encoders with a folder of their own inside.
const OTHER_ENCODERS: [&str; 1] = ["wordllama"];

/// What was read.
pub struct Corpora {
    pub corpora: Vec<Corpus>,
    /// Files by their path below the data directory, with the SHA-256 of each.
    pub checksums: Vec<(String, String)>,
}

/// Reads every collection that is there.
pub fn read(directory: &Path) -> Result<Corpora> {
    let mut all = Corpora { corpora: Vec::new(), checksums: Vec::new() };
    let found: Vec<&str> =
        SETS.into_iter().filter(|set| directory.join(set).join("docs.npy").is_file()).collect();
    if found.is_empty() {
        bail!(
            "{}: expected a folder with docs.npy for at least one of {}",
            directory.display(),
            SETS.join(", ")
        );
    }
    let bar = progress("reading", found.len());
    for set in found {
        all.read_set(directory, set)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(all)
}

impl Corpora {
    fn read_set(&mut self, directory: &Path, set: &str) -> Result<()> {
        let folder = directory.join(set);
        let (ids_file, query_ids_file) = (folder.join("ids.txt"), folder.join("query_ids.txt"));
        let encoded = |folder: &Path| -> Result<(Vec<String>, VectorSet, Vec<String>, VectorSet)> {
            let (docs, queries) = (folder.join("docs.npy"), folder.join("queries.npy"));
            let (ids, documents) = read_vectors(&docs, Some(&ids_file))?.into_parts();
            let (query_ids, queries) = read_queries(&queries, Some(&query_ids_file))?.into_parts();
            Ok((ids, documents, query_ids, queries))
        };
        let qrels: Qrels = read_qrels(&folder.join("qrels.tsv"))?;
        let corpus_file = folder.join("corpus.jsonl.gz");
        let mut texts: Option<HashMap<String, TextDocument>> = None;
        if corpus_file.is_file() {
            let read = read_texts(&corpus_file)?.documents;
            texts = Some(read.into_iter().map(|text| (text.id.clone(), text)).collect());
        }
        let mut folders = vec![(ENCODER, folder.clone())];
        folders.extend(OTHER_ENCODERS.map(|encoder| (encoder, folder.join(encoder))));
        for (encoder, inner) in folders {
            if !inner.join("docs.npy").is_file() {
                continue;
            }
            let (ids, vectors, query_ids, queries) = encoded(&inner)?;
            let texts = texts.as_ref().map(|texts| in_row_order(&ids, texts)).transpose();
            self.corpora.push(Corpus {
                name: set.to_owned(),
                encoder: encoder.to_owned(),
                texts: texts.with_context(|| corpus_file.display().to_string())?,
                ids,
                vectors,
                query_ids,
                queries,
                qrels: qrels.clone(),
            });
            for file in ["docs.npy", "queries.npy"] {
                self.sum(directory, &inner.join(file))?;
            }
        }
        for file in [ids_file, query_ids_file, folder.join("qrels.tsv"), corpus_file] {
            if file.is_file() {
                self.sum(directory, &file)?;
            }
        }
        Ok(())
    }

    fn sum(&mut self, directory: &Path, file: &Path) -> Result<()> {
        let name = file.strip_prefix(directory).unwrap_or(file).display().to_string();
        let sum = checksum(file).with_context(|| format!("cannot read {}", file.display()))?;
        self.checksums.push((name, sum));
        Ok(())
    }
}

fn in_row_order(ids: &[String], texts: &HashMap<String, TextDocument>) -> Result<Vec<String>> {
    let text = |id: &String| {
        texts
            .get(id)
            .map(TextDocument::with_title)
            .with_context(|| format!("no text for document {id:?}"))
    };
    ids.iter().map(text).collect()
}

/// SHA-256 in hexadecimal.
fn checksum(path: &Path) -> std::io::Result<String> {
    let (mut file, mut hasher) = (File::open(path)?, Sha256::new());
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => hasher.update(&buffer[..count]),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_sha256() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(checksum(file.path()).unwrap(), expected);
    }
}
