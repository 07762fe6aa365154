//! Our vectors against those of the reference implementations (`fixtures/generate`, `fixtures/generate-minilm`).

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::Deserialize;
use shard_encode::{EncodeError, Encoder, Location, Purpose};

#[derive(Deserialize)]
struct Expected {
    texts: Vec<String>,
    query: Vec<Vec<f32>>,
    passage: Vec<Vec<f32>>,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn open(folder: &Path) -> Encoder {
    Encoder::open(&Location::Folder(folder.to_owned())).unwrap()
}

fn expected(file: &Path) -> Expected {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

fn encode<S: AsRef<str> + Sync>(encoder: &Encoder, texts: &[S], purpose: Purpose) -> Vec<f32> {
    encoder.encode(texts, purpose, &|_, _| ControlFlow::Continue(())).unwrap()
}

/// The largest difference between the values of two vectors.
fn difference(one: &[f32], other: &[f32]) -> f32 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn tiny_models_agree_with_the_reference() {
    for name in ["mean", "cls", "max", "bare", "roberta", "table", "wordllama"] {
        let folder = fixture(name);
        let encoder = open(&folder);
        let expected = expected(&folder.join("expected.json"));
        for (purpose, rows) in
            [(Purpose::Query, expected.query), (Purpose::Passage, expected.passage)]
        {
            let vectors = encode(&encoder, &expected.texts, purpose);
            assert_eq!(vectors.len(), rows.len() * encoder.dimension());
            for ((text, row), vector) in
                expected.texts.iter().zip(&rows).zip(vectors.chunks(encoder.dimension()))
            {
                let difference = difference(row, vector);
                assert!(difference < 1e-5, "{name}, {purpose:?}, {text:?}: {difference:e}");
            }
        }
    }
}

#[test]
fn queries_and_passages_differ_where_the_model_has_prompts_and_only_there() {
    for (name, differ) in [("cls", true), ("mean", false)] {
        let encoder = open(&fixture(name));
        let texts = ["the mouse gene"];
        let query = encode(&encoder, &texts, Purpose::Query);
        let passage = encode(&encoder, &texts, Purpose::Passage);
        assert_eq!(difference(&query, &passage) > 1e-3, differ, "{name}");
    }
}

/// Texts of many lengths, of which no two are the same.
fn many(count: usize) -> Vec<String> {
    let words = ["mouse", "gene", "protein", "tumor", "cells", "growth", "binds"];
    let word = |at: usize| words[at % words.len()];
    (0..count)
        .map(|text| {
            (0..text * 7 % 17)
                .map(|at| word(text / (at + 1) + at * at))
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

#[test]
fn a_batch_does_not_change_a_vector_nor_the_order() {
    for name in ["mean", "max", "table"] {
        let encoder = open(&fixture(name));
        let texts = many(300);
        let together = encode(&encoder, &texts, Purpose::Passage);
        for (text, vector) in texts.iter().zip(together.chunks(encoder.dimension())) {
            let alone = encode(&encoder, &[text], Purpose::Passage);
            assert!(difference(&alone, vector) < 2e-6, "{name}: {text}");
        }
    }
}

#[test]
fn the_watcher_sees_every_text_once_and_can_end_the_work() {
    for name in ["mean", "table"] {
        let encoder = open(&fixture(name));
        let texts = many(200);
        let seen = Mutex::new(Vec::new());
        let watch = |done, total| {
            seen.lock().unwrap().push((done, total));
            ControlFlow::Continue(())
        };
        encoder.encode(&texts, Purpose::Passage, &watch).unwrap();
        let seen = seen.into_inner().unwrap();
        assert!(seen.is_sorted());
        assert_eq!((seen[0], *seen.last().unwrap()), ((0, 200), (200, 200)));

        let watch =
            |done, _| if done > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let error = encoder.encode(&texts, Purpose::Passage, &watch).unwrap_err();
        assert!(matches!(error, EncodeError::Ended), "{error}");
    }
}

#[test]
fn no_texts_have_no_vectors() {
    let encoder = open(&fixture("mean"));
    assert!(encode(&encoder, &[""; 0], Purpose::Query).is_empty());
}

#[test]
fn pieces_have_at_most_so_many_tokens_and_are_longer_than_the_model_reads() {
    let encoder = open(&fixture("mean"));
    // Fifty tokens, more than the twenty that the model takes at once.
    let text = "the cell of the mouse ".repeat(10);
    let pieces = encoder.pieces(&text, 8, 2).unwrap();
    assert_eq!(pieces.len(), 8);
    assert_eq!((pieces[0].start, pieces[7].end), (0, text.trim_end().len()));
    for piece in &pieces {
        let words = text[piece.clone()].split_whitespace().count();
        assert!(words <= 8, "{words}");
    }
    assert_eq!(&text[pieces[0].clone()], "the cell of the mouse the cell of");
    assert_eq!(&text[pieces[1].clone()], "cell of the mouse the cell of the");
}

#[test]
fn pieces_of_a_long_text_go_on_over_the_stretches_it_is_read_in() {
    let encoder = open(&fixture("mean"));
    for line in ["the cell of the mouse ", "the cell of the mouse\n"] {
        let text = line.repeat(10_000);
        let words = |piece: &std::ops::Range<usize>| text[piece.clone()].split_whitespace().count();
        let pieces = encoder.pieces(&text, 8, 2).unwrap();
        // Fifty thousand words, each piece six further than the one before.
        assert_eq!(pieces.len(), 8333);
        assert!(pieces.iter().all(|piece| words(piece) == 8));
        assert!(pieces.windows(2).all(|two| words(&(two[1].start..two[0].end)) == 2));
    }
}

#[test]
fn the_identity_is_that_of_what_the_vectors_depend_on() {
    let copy = tempfile::tempdir().unwrap();
    let from = fixture("bare");
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        std::fs::copy(from.join(file), copy.path().join(file)).unwrap();
    }
    let original = open(&from).identity().to_owned();
    assert!(original.starts_with("bert sha256:"), "{original}");
    assert_eq!(open(copy.path()).identity(), original);

    // A file that says how long texts may be changes vectors, so it changes the name.
    std::fs::write(copy.path().join("sentence_bert_config.json"), r#"{"max_seq_length": 9}"#)
        .unwrap();
    let shorter = open(copy.path()).identity().to_owned();
    assert_ne!(shorter, original);
    let weights = copy.path().join("model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&weights, bytes).unwrap();
    assert_ne!(open(copy.path()).identity(), shorter);
    assert!(open(&fixture("table")).identity().starts_with("static sha256:"));
}

#[test]
fn a_folder_that_is_named_after_e5_gets_its_words() {
    let parent = tempfile::tempdir().unwrap();
    let vectors = |name: &str, purpose, text: &str| {
        let folder = parent.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        for file in ["config.json", "tokenizer.json", "model.safetensors"] {
            std::fs::copy(fixture("bare").join(file), folder.join(file)).unwrap();
        }
        encode(&open(&folder), &[text], purpose)
    };
    let plain = |text| vectors("plain", Purpose::Query, text);
    assert_eq!(vectors("tiny-e5-v2", Purpose::Query, "gene"), plain("query: gene"));
    assert_eq!(vectors("tiny-e5-v2", Purpose::Passage, "gene"), plain("passage: gene"));
    assert_eq!(vectors("e5-instruct", Purpose::Query, "gene"), plain("gene"));
}

/// `SHARD_MINILM` names a folder with all-MiniLM-L6-v2, as `scripts/get-minilm` makes one.
#[test]
fn minilm_agrees_with_sentence_transformers() {
    let Some(folder) = std::env::var_os("SHARD_MINILM") else {
        eprintln!(
            "not tested: SHARD_MINILM does not name a folder with all-MiniLM-L6-v2 (scripts/get-minilm)"
        );
        return;
    };
    let encoder = open(Path::new(&folder));
    let expected = expected(&fixture("minilm.json"));
    let vectors = encode(&encoder, &expected.texts, Purpose::Passage);
    for ((text, row), vector) in
        expected.texts.iter().zip(&expected.passage).zip(vectors.chunks(encoder.dimension()))
    {
        let cosine: f64 = row.iter().zip(vector).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
        assert!(cosine >= 0.9999, "{text:?}: {cosine}");
        let norm: f64 = vector.iter().map(|&value| f64::from(value).powi(2)).sum();
        assert!((norm - 1.0).abs() < 1e-5, "{text:?}: {norm}");
    }
}
