//! Directories of three versions of Chroma (`tests/fixtures/make_chroma.py`) against what Chroma says of them.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::{Map, Value};
use shard_import::{ImportError, chroma};
use tempfile::TempDir;

const VERSIONS: [&str; 3] = ["0.4.24", "0.5.23", "1.5.9"];

fn fixture(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/chroma-{version}"))
}

/// A fixture, decompressed.
fn unpacked(version: &str) -> TempDir {
    fn unpack(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                unpack(&path, &to.join(name));
            } else if let Some(name) = name.strip_suffix(".gz") {
                let mut bytes = Vec::new();
                GzDecoder::new(fs::File::open(&path).unwrap()).read_to_end(&mut bytes).unwrap();
                fs::write(to.join(name), bytes).unwrap();
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    unpack(&fixture(version), folder.path());
    folder
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

#[test]
fn every_collection_is_read_as_chroma_gives_it_back() {
    for version in VERSIONS {
        let directory = unpacked(version);
        let said = fs::read(fixture(version).join("expected.json")).unwrap();
        let said: Map<String, Value> = serde_json::from_slice(&said).unwrap();
        for (name, said) in said.iter().filter(|(name, _)| *name != "empty") {
            let found = chroma::read(directory.path(), Some(name)).unwrap();
            let at = format!("{version}, {name}");
            assert_eq!(found.claimed as u64, said["count"].as_u64().unwrap(), "{at}");
            assert_eq!(found.ids.len(), found.claimed, "{at}: {:?}", found.refused);
            for (place, id) in list(&said["ids"]).iter().enumerate() {
                let id = id.as_str().unwrap();
                let row = found.ids.iter().position(|found| found == id);
                let row = row.unwrap_or_else(|| panic!("{at}: {id} is missing"));
                let vector: Vec<f32> = list(&said["vectors"][place])
                    .iter()
                    .map(|v| v.as_f64().unwrap() as f32)
                    .collect();
                // What Chroma divides and multiplies again is rounded; from the log it comes over as it was.
                let rounding = if name == "angles" { f32::EPSILON } else { 0.0 };
                assert_eq!(found.vector(row).len(), vector.len(), "{at}: {id}");
                for (&found, &said) in found.vector(row).iter().zip(&vector) {
                    assert!(
                        (found - said).abs() <= rounding * said.abs(),
                        "{at}: {id}: {found}, {said}"
                    );
                }
                let mut fields = said["metadata"][place].as_object().cloned().unwrap_or_default();
                let text = said["texts"][place].clone();
                let key = if fields.contains_key("text") { "document" } else { "text" };
                if !text.is_null() {
                    fields.insert(key.to_owned(), text);
                }
                assert_eq!(found.fields[row], fields, "{at}: {id}");
            }
        }
    }
}

#[test]
fn a_collection_that_is_not_named_must_be_the_only_one() {
    let directory = unpacked("1.5.9");
    let refused = |name, reason: &str| {
        let error = chroma::read(directory.path(), name).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    };
    refused(None, "several collections, name one: angles, empty, log-only, synced");
    refused(Some("none"), "no collection \"none\"; there are angles, empty, log-only, synced");
    refused(Some("empty"), "holds no documents");
}

#[test]
fn what_is_no_directory_of_chroma_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = || chroma::read(folder.path(), None).unwrap_err().to_string();
    assert!(refused().contains("no chroma.sqlite3"));
    fs::write(folder.path().join("chroma.sqlite3"), "not a database, but long enough to be one")
        .unwrap();
    assert!(refused().contains("chroma.sqlite3: file is not a database"), "{}", refused());
    let directory = unpacked("1.5.9");
    let header = |name: &str| {
        let folders = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
        folders.map(|folder| folder.join(name)).filter(|file| file.exists()).collect::<Vec<_>>()
    };
    // Nothing of the vectors is taken for zero or left out when the index is damaged.
    for file in header("data_level0.bin") {
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() / 8]).unwrap();
    }
    let damaged = chroma::read(directory.path(), Some("synced"));
    assert!(matches!(damaged, Err(ImportError::Damaged { .. })), "{damaged:?}");
    for file in header("index_metadata.pickle") {
        fs::remove_file(file).unwrap();
    }
    let missing = chroma::read(directory.path(), Some("synced")).unwrap_err().to_string();
    assert!(missing.contains("the index of the vectors is missing"), "{missing}");
}
