//! What an endpoint answers, checked.

use serde::Deserialize;
use serde_json::Value;

/// The most dimensions a vector may have.
const DIMENSION_LIMIT: usize = 1 << 16;
/// The most characters of an endpoint's own words that are repeated.
const MESSAGE_LIMIT: usize = 200;

#[derive(Deserialize)]
struct Wire {
    data: Vec<Item>,
    #[serde(default)]
    model: String,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    embedding: Vec<f32>,
}

/// Vectors one after the other, in the order of the texts.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) vectors: Vec<f32>,
    pub(super) model: String,
}

/// An answer for so many texts.
pub(super) fn parse(bytes: &[u8], texts: usize) -> Result<Answer, String> {
    let wire: Wire = serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => format!("its JSON has another form: {error}"),
        _ => format!("it is no JSON: {error}"),
    })?;
    if wire.data.len() != texts {
        return Err(format!("it has {} vectors for {texts} texts", wire.data.len()));
    }
    let dimension = wire.data.first().map_or(0, |item| item.embedding.len());
    if dimension == 0 || dimension > DIMENSION_LIMIT {
        return Err(format!("its vectors have {dimension} dimensions"));
    }
    let mut vectors = vec![f32::NAN; texts * dimension];
    for Item { index, embedding } in wire.data {
        if embedding.len() != dimension {
            return Err(format!(
                "it has vectors of {dimension} and of {} dimensions",
                embedding.len()
            ));
        }
        if !embedding.iter().all(|value| value.is_finite()) {
            return Err("it has values that are not finite".into());
        }
        match vectors.chunks_exact_mut(dimension).nth(index) {
            Some(row) if row[0].is_nan() => row.copy_from_slice(&embedding),
            _ => return Err(format!("its index {index} is there twice or too large")),
        }
    }
    Ok(Answer { vectors, model: wire.model })
}

/// Whether the answer is by the model asked for. Some endpoints name none, some add a version.
pub(super) fn same_model(asked: &str, answered: &str) -> bool {
    let (asked, answered) = (asked.to_lowercase(), answered.to_lowercase());
    let base = asked.strip_suffix(":latest").unwrap_or(&asked);
    answered.is_empty()
        || answered
            .strip_prefix(base)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ':', '@']))
}

/// What an endpoint says of an error, in one line.
pub(super) fn message(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let parsed: Value = serde_json::from_str(&text).unwrap_or_default();
    let nested =
        [&parsed["error"]["message"], &parsed["error"], &parsed["message"], &parsed["detail"]];
    let said = nested.into_iter().find_map(Value::as_str).unwrap_or(&text);
    let words: Vec<&str> = said.split_whitespace().collect();
    let line = words.join(" ");
    line.chars().filter(|character| !character.is_control()).take(MESSAGE_LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_put_where_their_index_says() {
        let text = r#"{"data":[{"index":1,"embedding":[3,4]},{"index":0,"embedding":[1,2.5]}],"model":"m"}"#;
        let answer = parse(text.as_bytes(), 2).unwrap();
        assert_eq!(answer.vectors, [1.0, 2.5, 3.0, 4.0]);
        assert_eq!(answer.model, "m");
    }

    #[test]
    fn answers_that_cannot_be_are_refused() {
        let refused = [
            ("<html>", "no JSON"),
            (r#"{"data":[]"#, "no JSON"),
            (r#"{"error":"no"}"#, "another form"),
            (r#"{"data":[{"index":0,"embedding":"AAAA"}]}"#, "another form"),
            (
                r#"{"data":[{"index":0,"embedding":[null]},{"index":1,"embedding":[1]}]}"#,
                "another form",
            ),
            (r#"{"data":[{"index":0,"embedding":[NaN]},{"index":1,"embedding":[1]}]}"#, "no JSON"),
            (
                r#"{"data":[{"index":0,"embedding":[1e39]},{"index":1,"embedding":[1]}]}"#,
                "out of range",
            ),
            (r#"{"data":[{"index":0,"embedding":[1]}]}"#, "1 vectors for 2 texts"),
            (r#"{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}"#, "twice"),
            (r#"{"data":[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]}"#, "too large"),
            (
                r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}"#,
                "of 1 and of 2",
            ),
            (r#"{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}"#, "0 dimensions"),
        ];
        for (text, reason) in refused {
            let error = parse(text.as_bytes(), 2).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn a_model_may_add_its_version_and_is_not_another() {
        for (asked, answered) in [
            ("nomic-embed-text", "nomic-embed-text:latest"),
            ("nomic-embed-text:latest", "nomic-embed-text"),
            ("text-embedding-ada-002", "text-embedding-ada-002-v2"),
            ("BAAI/bge-small", "baai/bge-small"),
            ("any", ""),
        ] {
            assert!(same_model(asked, answered), "{asked} {answered}");
        }
        for (asked, answered) in [("bge-small", "bge-base"), ("e5", "e5x"), ("bge-small", "bge")] {
            assert!(!same_model(asked, answered), "{asked} {answered}");
        }
    }

    #[test]
    fn an_error_is_told_in_one_short_line() {
        assert_eq!(message(br#"{"error":{"message":"too\n long"}}"#), "too long");
        assert_eq!(message(br#"{"error":"no such model"}"#), "no such model");
        assert_eq!(message(b"gone"), "gone");
        assert_eq!(message("x".repeat(5000).as_bytes()).len(), MESSAGE_LIMIT);
    }
}
