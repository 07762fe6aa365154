//! What is wrong with a folder is told in one sentence that names it.

use std::fs;
use std::path::Path;

use shard_encode::{EncodeError, Encoder, Location};
use tempfile::TempDir;

/// A copy of the fixture without any file of sentence-transformers.
fn model() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/bare");
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        fs::copy(from.join(file), folder.path().join(file)).unwrap();
    }
    folder
}

fn refused(folder: &Path) -> EncodeError {
    let error = Encoder::open(&Location::Folder(folder.to_owned())).unwrap_err();
    let told = error.to_string();
    assert!(told.contains(&*folder.to_string_lossy()), "{told}");
    assert!(!told.contains('\n'), "{told}");
    error
}

/// Replaces words of a file of the model.
fn change(folder: &TempDir, file: &str, from: &str, to: &str) {
    let path = folder.path().join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{file} has no {from}");
    fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn the_unchanged_copy_opens() {
    let folder = model();
    let encoder = Encoder::open(&Location::Folder(folder.path().to_owned())).unwrap();
    assert_eq!(encoder.dimension(), 16);
}

#[test]
fn a_folder_that_is_none_or_has_no_model() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(refused(&folder.path().join("none")), EncodeError::NoFolder { .. }));
    assert!(matches!(refused(folder.path()), EncodeError::NoModel { .. }));
}

#[test]
fn a_missing_file_is_named() {
    for file in ["config.json", "tokenizer.json"] {
        let folder = model();
        fs::remove_file(folder.path().join(file)).unwrap();
        let error = refused(folder.path());
        assert!(
            matches!(&error, EncodeError::Missing { file: missing, .. } if missing.ends_with(file)),
            "{error}"
        );
    }
    let folder = model();
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    assert!(matches!(refused(folder.path()), EncodeError::NoModel { .. }));
}

#[test]
fn an_architecture_that_is_not_computed() {
    let changes = [
        (r#""model_type": "bert""#, r#""model_type": "nomic_bert""#, "nomic_bert"),
        (r#""hidden_act": "gelu""#, r#""hidden_act": "silu""#, "silu"),
        (r#""num_attention_heads": 4"#, r#""num_attention_heads": 3"#, "sizes"),
        (r#""hidden_size": 16"#, r#""hidden_size": 0"#, "sizes"),
        (
            r#""model_type""#,
            r#""position_embedding_type": "relative_key", "model_type""#,
            "relative_key",
        ),
    ];
    for (from, to, word) in changes {
        let folder = model();
        change(&folder, "config.json", from, to);
        let error = refused(folder.path());
        assert!(matches!(error, EncodeError::Architecture { .. }), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    let folder = model();
    let modules = r#"[{"type": "sentence_transformers.models.Transformer", "path": ""},
        {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
        {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]"#;
    fs::write(folder.path().join("modules.json"), modules).unwrap();
    let error = refused(folder.path());
    assert!(error.to_string().contains("models.Dense"), "{error}");
}

#[test]
fn weights_that_are_cut_off_at_any_place() {
    let folder = model();
    let path = folder.path().join("model.safetensors");
    let whole = fs::read(&path).unwrap();
    for length in [0, 4, 8, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        let error = refused(folder.path());
        assert!(matches!(error, EncodeError::Damaged { .. }), "{length}: {error}");
    }
}

#[test]
fn a_tensor_of_another_shape_is_named() {
    let folder = model();
    change(&folder, "config.json", r#""intermediate_size": 40"#, r#""intermediate_size": 48"#);
    let error = refused(folder.path());
    let EncodeError::Tensor { tensor, .. } = &error else { panic!("{error}") };
    assert_eq!(tensor, "encoder.layer.0.intermediate.dense.weight");

    let folder = model();
    change(&folder, "config.json", r#""num_hidden_layers": 2"#, r#""num_hidden_layers": 3"#);
    let error = refused(folder.path());
    assert!(
        error.to_string().contains("encoder.layer.2") && error.to_string().contains("missing"),
        "{error}"
    );
}

#[test]
fn a_tokenizer_that_does_not_fit_the_weights() {
    let folder = model();
    change(&folder, "tokenizer.json", r#""growth":"#, r#""beyond":49,"growth":"#);
    let error = refused(folder.path());
    assert!(
        matches!(error, EncodeError::TokenizerMismatch { largest: 49, rows: 49, .. }),
        "{error}"
    );
}

#[test]
fn files_that_are_no_json() {
    for file in ["config.json", "tokenizer.json", "modules.json", "sentence_bert_config.json"] {
        let folder = model();
        fs::write(folder.path().join(file), "{").unwrap();
        let error = refused(folder.path());
        assert!(
            matches!(&error, EncodeError::Damaged { file: damaged, .. } if damaged.ends_with(file)),
            "{error}"
        );
    }
}

#[test]
fn a_configuration_that_is_too_large_is_not_read() {
    let folder = model();
    let file = fs::File::create(folder.path().join("config.json")).unwrap();
    file.set_len(1 << 40).unwrap();
    let error = refused(folder.path());
    assert!(matches!(error, EncodeError::TooLarge { bytes, .. } if bytes == 1 << 40), "{error}");
}

#[cfg(not(feature = "endpoint"))]
#[test]
fn a_build_without_endpoints_says_so() {
    let location = "http://127.0.0.1:9/v1#model".parse().unwrap();
    assert!(matches!(Encoder::open(&location), Err(EncodeError::NoEndpoints)));
}
