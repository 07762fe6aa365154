//! Texts in and passages out, with a small model that is really computed.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::PathBuf;

use serde_json::json;
use shard_encode::{Encoder, Location};
use tempfile::TempDir;

use crate::input::TextDocument;
use crate::{
    ChunkOptions, ClientError, Error, FetchWay, Filter, MissingIds, Others, SearchOptions,
    Settings, TextOptions, UNWATCHED, Unlock, Vault, encode_queries,
};

fn location(model: &str) -> Location {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../encode/tests/fixtures");
    Location::Folder(fixtures.join(model))
}

fn encoder() -> Encoder {
    Encoder::open(&location("table")).unwrap()
}

fn unlock() -> Unlock {
    Unlock::key_file(vec![7; 32])
}

struct World {
    directory: TempDir,
    vault: Vault,
    encoder: Encoder,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vault");
        let vault = Vault::create(&path, &unlock(), &Settings::blind()).unwrap();
        Self { directory, vault, encoder: encoder() }
    }

    fn with(texts: &[TextDocument], chunks: Option<ChunkOptions>) -> Self {
        let mut world = Self::new();
        world.add(texts, chunks);
        world
    }

    fn add(&mut self, texts: &[TextDocument], chunks: Option<ChunkOptions>) -> crate::Ingested {
        let location = location("table");
        let options = TextOptions { chunks, location: Some(&location), ..TextOptions::default() };
        self.vault.add_texts(texts, &self.encoder, &options).unwrap()
    }

    fn ids(&self) -> Vec<String> {
        let mut ids = self.vault.documents().unwrap().ids().to_vec();
        ids.sort();
        ids
    }
}

fn text(id: &str, text: &str, fields: serde_json::Value) -> TextDocument {
    let serde_json::Value::Object(fields) = fields else { panic!("fields are an object") };
    TextDocument { id: id.into(), title: Some(format!("title of {id}")), text: text.into(), fields }
}

fn some() -> Vec<TextDocument> {
    vec![
        text("a", "the mouse gene binds a protein", json!({"year": 2019, "lang": "en"})),
        text("b", "growth of a tumor in the mouse", json!({"year": 2021, "lang": "de"})),
        text("c", "a factor of the cell", json!({"year": 2023, "tags": ["x", "y"]})),
    ]
}

#[test]
fn texts_come_back_as_passages_from_a_search() {
    let world = World::with(&some(), None);
    let query = encode_queries(&world.encoder, &["tumor growth"], UNWATCHED).unwrap();
    let searcher = world.vault.embedded_with_records(UNWATCHED).unwrap();
    let answer = searcher.search(query.row(0), &SearchOptions::default()).unwrap();
    assert_eq!(answer.hits[0].id, "b");
    for way in [FetchWay::Private, FetchWay::Direct] {
        let passages = searcher.passages(&answer.hits, way).unwrap();
        assert_eq!(passages.len(), 3);
        assert_eq!(passages[0].title.as_deref(), Some("title of b"));
        assert_eq!(passages[0].text.as_deref(), Some("growth of a tumor in the mouse"));
        assert_eq!(passages[0].score, answer.hits[0].score);
        assert_eq!(json!(passages[0].fields), json!({"year": 2021, "lang": "de"}));
    }
}

#[test]
fn a_filter_returns_the_best_of_those_that_match_and_no_fewer() {
    let texts: Vec<TextDocument> = (0..40)
        .map(|n| {
            let words = ["mouse gene", "tumor growth", "a protein", "the cell"][n % 4];
            let year = json!({"year": 2000 + n, "even": n % 2 == 0});
            text(&format!("d{n}"), &format!("{words} {}", "factor ".repeat(n % 7)), year)
        })
        .collect();
    let world = World::with(&texts, None);
    let query = encode_queries(&world.encoder, &["tumor growth"], UNWATCHED).unwrap();
    let searcher = world.vault.embedded().unwrap();
    let local = world.vault.local().unwrap();
    for (filter, holds) in [
        ("year >= 2020 and even = true", (|n| n >= 20 && n % 2 == 0) as fn(usize) -> bool),
        ("year in (2003, 2007)", |n| n == 3 || n == 7),
        ("not year exists", |_| false),
        ("title = \"title of d1\"", |_| false),
        ("document exists or year < 2002", |n| n < 2),
    ] {
        let parsed: Filter = filter.parse().unwrap();
        let scores =
            shard_geometry::exact_scores(world.vault.documents().unwrap().vectors(), query.row(0));
        let scores: HashMap<String, f64> =
            world.vault.documents().unwrap().ids().iter().cloned().zip(scores.unwrap()).collect();
        let mut naive: Vec<(usize, f64)> =
            (0..40).filter(|&n| holds(n)).map(|n| (n, scores[&format!("d{n}")])).collect();
        naive.sort_by(|a, b| b.1.total_cmp(&a.1));
        for top in [1, 5, 100] {
            let options =
                SearchOptions { top, filter: Some(parsed.clone()), ..SearchOptions::default() };
            let found = searcher.search(query.row(0), &options).unwrap().hits;
            let exact = local.search(query.row(0), top, Some(&parsed)).unwrap();
            assert_eq!(found.len(), naive.len().min(top), "{filter}");
            assert_eq!(exact.len(), found.len());
            for (hit, (_, score)) in found.iter().zip(&naive) {
                assert!((hit.score - score).abs() < 1e-4, "{filter}");
                assert!(holds(hit.id[1..].parse().unwrap()), "{filter}: {}", hit.id);
            }
            for (hit, (_, score)) in exact.iter().zip(&naive) {
                assert!((hit.score - score).abs() < 1e-9, "{filter}");
            }
        }
    }
}

#[test]
fn chunks_know_their_place_and_a_shorter_document_leaves_none_behind() {
    let words: Vec<String> =
        (0..40).map(|n| ["mouse", "gene", "cell", "tumor"][n % 4].into()).collect();
    let long = text("long", &words.join(" "), json!({"year": 2020}));
    let chunks = Some(ChunkOptions { size: 10, overlap: 2 });
    let mut world = World::with(&[long.clone(), text("other", "the cell", json!({}))], chunks);
    assert_eq!(world.ids(), ["long#0", "long#1", "long#2", "long#3", "long#4", "other#0"]);
    let records: BTreeMap<String, serde_json::Value> = world
        .vault
        .records()
        .unwrap()
        .into_iter()
        .map(|record| (record.id, serde_json::from_slice(&record.bytes).unwrap()))
        .collect();
    for number in 0..5 {
        let record = &records[&format!("long#{number}")];
        let at = |name: &str| record[name].as_u64().unwrap() as usize;
        assert_eq!(record["document"], "long");
        assert_eq!(at("chunk"), number);
        assert_eq!(record["text"], long.text[at("start")..at("end")]);
        assert_eq!((&record["year"], &record["title"]), (&json!(2020), &json!("title of long")));
    }
    assert_eq!(records["long#4"]["end"], long.text.len());
    // Shorter, in the same commit; then whole, then gone.
    let before = world.vault.head().unwrap().generation;
    let shorter = text("long", &words[..12].join(" "), json!({"year": 2020}));
    let done = world.add(std::slice::from_ref(&shorter), chunks);
    assert_eq!(done.deleted, 3);
    assert_eq!(world.ids(), ["long#0", "long#1", "other#0"]);
    assert_eq!(world.vault.head().unwrap().generation, before + 1);
    assert_eq!(world.add(&[shorter], None).deleted, 2);
    assert_eq!(world.ids(), ["long", "other#0"]);
    world.add(&[long], chunks);
    assert_eq!(world.ids(), ["long#0", "long#1", "long#2", "long#3", "long#4", "other#0"]);
    let gone = world.vault.delete(&["long".to_owned()], MissingIds::Refuse).unwrap();
    assert_eq!((gone.deleted, gone.documents), (5, 1));
    assert!(world.vault.delete(&["long".to_owned()], MissingIds::Refuse).is_err());
    world.vault.verify(UNWATCHED).unwrap();
}

#[test]
fn a_document_that_only_looks_like_a_chunk_is_left_alone() {
    let mut world =
        World::with(&[text("a#1", "mouse", json!({"document": "x", "chunk": 1}))], None);
    world.add(&[text("a", "gene", json!({}))], Some(ChunkOptions::default()));
    assert_eq!(world.ids(), ["a#0", "a#1"]);
    let refused = world.vault.add_texts(
        &[text("b", "x", json!({"chunk": 7}))],
        &world.encoder,
        &TextOptions { chunks: Some(ChunkOptions::default()), ..TextOptions::default() },
    );
    assert!(matches!(refused, Err(Error::ChunkField { .. })));
}

#[test]
fn the_first_texts_fix_the_encoder_and_another_is_refused_by_name() {
    let mut world = World::with(&some(), None);
    let note = world.vault.encoder().unwrap().unwrap();
    assert_eq!(note.identity, world.encoder.identity());
    assert!(note.location.ends_with("table"), "{}", note.location);
    assert_eq!(world.vault.open_encoder(None).unwrap().identity(), note.identity);
    let other = Encoder::open(&location("mean")).unwrap();
    let refused = world.vault.add_texts(&some(), &other, &TextOptions::default()).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains(&note.identity) && refused.contains(other.identity()), "{refused}");
    let refused = world.vault.open_encoder(Some(&location("mean"))).unwrap_err().to_string();
    assert!(refused.contains(&note.identity) && refused.contains(other.identity()), "{refused}");
    // Readers have it, and it outlives a new epoch.
    let reader = world.directory.path().join("reader");
    let reader = world.vault.export(&reader, &unlock()).unwrap();
    assert_eq!(reader.encoder().unwrap().as_ref(), Some(&note));
    world.vault.rekey(UNWATCHED).unwrap();
    assert_eq!(world.vault.encoder().unwrap(), Some(note));
    assert!(matches!(World::new().vault.open_encoder(None), Err(Error::NoEncoder)));
}

#[test]
fn the_same_texts_again_are_no_change_and_nothing_is_encoded() {
    let mut world = World::with(&some(), None);
    let generation = world.vault.head().unwrap().generation;
    let counted = std::sync::Mutex::new(0);
    let watch = |progress: crate::Progress| {
        *counted.lock().unwrap() = progress.total;
        ControlFlow::Continue(())
    };
    let location = location("table");
    let options =
        TextOptions { location: Some(&location), encoding: &watch, ..TextOptions::default() };
    let done = world.vault.add_texts(&some(), &world.encoder, &options).unwrap();
    assert_eq!((done.unchanged, done.records, done.added), (3, 0, 0));
    assert_eq!(world.vault.head().unwrap().generation, generation);
    assert_eq!(*counted.lock().unwrap(), 0);
    // One other among them.
    let mut texts = some();
    texts[1].text = "the protein".into();
    let done = world.vault.add_texts(&texts, &world.encoder, &options).unwrap();
    assert_eq!((done.replaced, done.unchanged, done.records), (1, 2, 1));
    assert_eq!(*counted.lock().unwrap(), 1);
    // Another field alone.
    texts[0].fields.insert("year".into(), 1.into());
    let done = world.vault.add_texts(&texts, &world.encoder, &options).unwrap();
    assert_eq!((done.replaced, done.unchanged, done.records), (0, 3, 1));
    // And no others.
    let options = TextOptions { others: Others::Delete, ..options };
    assert_eq!(world.vault.add_texts(&texts[..1], &world.encoder, &options).unwrap().deleted, 2);
    world.vault.verify(UNWATCHED).unwrap();
}

#[test]
fn what_cannot_be_taken_leaves_the_vault_as_it_was() {
    let mut world = World::with(&some(), None);
    let generation = world.vault.head().unwrap().generation;
    let huge = text("huge", &"mouse ".repeat(3 << 20), json!({}));
    let mut refused = |texts: &[TextDocument], options: &TextOptions<'_>| {
        world.vault.add_texts(texts, &world.encoder, options).unwrap_err()
    };
    let error = refused(&[huge], &TextOptions::default());
    assert!(error.to_string().contains("ingest it in chunks"), "{error}");
    let twice = [some().remove(0), some().remove(0)];
    assert!(matches!(
        refused(&twice, &TextOptions::default()),
        Error::Client(ClientError::DuplicateId(_))
    ));
    let stop = |_| ControlFlow::Break(());
    let fresh = [text("new", "mouse", json!({}))];
    let options = TextOptions { encoding: &stop, ..TextOptions::default() };
    assert!(matches!(refused(&fresh, &options), Error::Client(ClientError::Cancelled)));
    let wrong = TextOptions {
        chunks: Some(ChunkOptions { size: 4, overlap: 4 }),
        ..TextOptions::default()
    };
    assert!(matches!(refused(&fresh, &wrong), Error::Encode(_)));
    assert_eq!(world.vault.head().unwrap().generation, generation);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rotated");
    let mut rotated = Vault::create(&path, &unlock(), &Settings::rotated()).unwrap();
    let error = rotated.add_texts(&fresh, &encoder(), &TextOptions::default()).unwrap_err();
    assert!(error.to_string().contains("blind collections only"), "{error}");
}
