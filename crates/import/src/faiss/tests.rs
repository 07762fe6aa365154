//! Indexes that FAISS wrote (`tests/fixtures/make_faiss.py`), whole and damaged.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

const NAMES: [&str; 8] = [
    "flat_l1",
    "idmap_removed",
    "ivf_full",
    "ivf_sparse",
    "ivf_hashtable",
    "idmap_ivf",
    "hnsw",
    "hnsw_sq8",
];

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/faiss").join(name)
}

fn parsed(bytes: &[u8]) -> Result<Contents, Unread> {
    parse(&mut Bytes::new(bytes, bytes.len() as u64))
}

#[test]
fn every_index_is_read_as_faiss_gives_it_back_or_refused() {
    let expected = std::fs::read(fixture("expected.json")).unwrap();
    let expected: Map<String, Value> = serde_json::from_slice(&expected).unwrap();
    assert_eq!(expected.len(), 21);
    for (name, wanted) in &expected {
        let found = read(&fixture(&format!("{name}.faiss")), Companions::default());
        let Some(wanted) = wanted.as_object() else {
            let refusal = found.unwrap_err().to_string();
            assert!(
                refusal.contains("vectors are not in the file") || refusal.contains("is not read"),
                "{refusal}"
            );
            continue;
        };
        let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(found.refused.is_empty(), "{name}");
        let mut wanted: Vec<(String, Vec<f32>)> = wanted["ids"]
            .as_array()
            .unwrap()
            .iter()
            .zip(wanted["vectors"].as_array().unwrap())
            .map(|(id, vector)| {
                let values = vector.as_array().unwrap().iter();
                let vector = values.map(|value| value.as_f64().unwrap() as f32).collect();
                (id.as_str().unwrap().to_owned(), vector)
            })
            .collect();
        assert_eq!(found.claimed, wanted.len(), "{name}");
        let mut rows: Vec<(String, Vec<f32>)> = (0..found.ids.len())
            .map(|row| (found.ids[row].clone(), found.vector(row).to_vec()))
            .collect();
        wanted.sort_by(|a, b| a.0.cmp(&b.0));
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        if name.contains("sq8") {
            // FAISS may fuse the product with the sum: one rounding less.
            for (row, wanted) in rows.iter().zip(&wanted) {
                assert_eq!(row.0, wanted.0, "{name}");
                for (a, b) in row.1.iter().zip(&wanted.1) {
                    assert!(
                        (a - b).abs() <= 4.0 * f32::EPSILON * b.abs().max(1.0),
                        "{name}: {a} and {b}"
                    );
                }
            }
        } else {
            assert_eq!(rows, wanted, "{name}");
        }
    }
}

#[test]
fn refusals_say_why() {
    let refusal = |name: &str| read(&fixture(name), Companions::default()).unwrap_err().to_string();
    assert!(refusal("refused_pq.faiss").contains("compressed codes"));
    assert!(refusal("refused_ivfpq.faiss").contains("compressed codes"));
    assert!(refusal("refused_pretransform.faiss").contains("IndexPreTransform"));
    assert!(refusal("refused_sq4.faiss").contains("fewer than eight bits"));
    assert!(refusal("refused_refine.faiss").contains("IxRF"));
    assert!(refusal("expected.json").contains("not a file of faiss.write_index"));
}

#[test]
fn rows_take_ids_and_records_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let (ids, records) = (folder.path().join("ids.txt"), folder.path().join("records.jsonl"));
    let names: Vec<String> = (0..12).map(|row| format!("name {row}")).collect();
    std::fs::write(&ids, names.join("\n")).unwrap();
    std::fs::write(&records, "{\"id\": \"name 3\", \"text\": \"three\", \"year\": 3}\n").unwrap();
    let with = Companions { ids: Some(&ids), records: Some(&records) };
    let flat = read(&fixture("flat_ip.faiss"), with).unwrap();
    assert_eq!(flat.ids, names);
    assert_eq!(flat.fields[3]["text"], "three");
    assert!(flat.fields[4].is_empty());
    // The lists of an inverted index are in another order than its rows.
    let lists = read(&fixture("ivf_sparse.faiss"), with).unwrap();
    assert_eq!((&lists.ids, &lists.vectors), (&flat.ids, &flat.vectors));

    let refused = |index: &str, with, reason: &str| {
        let error = read(&fixture(index), with).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    };
    refused("idmap.faiss", with, "ids of its own");
    refused("flat_ip.faiss", Companions { ids: None, ..with }, "of no row of the index");
    std::fs::write(&ids, names[..11].join("\n")).unwrap();
    refused("flat_ip.faiss", with, "11 ids for 12 rows");
}

#[test]
fn truncated_indexes_are_refused_at_every_length() {
    for name in NAMES {
        let bytes = std::fs::read(fixture(&format!("{name}.faiss"))).unwrap();
        for length in 0..bytes.len() {
            assert!(parsed(&bytes[..length]).is_err(), "{name} of {length} bytes");
        }
        assert!(parsed(&[&bytes[..], &[0]].concat()).is_err(), "{name} and a byte");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn damaged_indexes_never_panic(
        name in 0..NAMES.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..9),
    ) {
        let mut bytes = std::fs::read(fixture(&format!("{}.faiss", NAMES[name]))).unwrap();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(contents) = parsed(&bytes) {
            prop_assert_eq!(contents.vectors.len(), contents.numbers.len() * contents.dimension);
        }
    }
}
