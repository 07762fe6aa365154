//! A passage that was found.

use serde_json::{Map, Value};
use shard_client::Hit;

/// A document that a search found, with what its record brings back.
#[derive(Clone, PartialEq, Debug)]
pub struct Passage {
    /// The document's id; of a chunk, that of the whole document, `#` and the chunk's number.
    pub id: String,
    /// How well it fits.
    pub score: f64,
    /// Its title, if it has one.
    pub title: Option<String>,
    /// Its text; `None` if the document has no record, or one without a text.
    pub text: Option<String>,
    /// All other fields of its record; an `id` or `_id` that is not the document's is among them. Those of a
    /// chunk have `document`, the id of the whole document, its number `chunk`, and where it is in the text
    /// of the document, in bytes, `start` and `end`.
    pub fields: Map<String, Value>,
}

impl Passage {
    /// A hit, with the document's record as it was fetched. Of a record that is no JSON object, what is a
    /// text is the text.
    pub fn new(hit: &Hit, record: Option<&[u8]>) -> Self {
        let bare = Self {
            id: hit.id.clone(),
            score: hit.score,
            title: None,
            text: None,
            fields: Map::new(),
        };
        let Some(record) = record else { return bare };
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(record) else {
            return Self { text: std::str::from_utf8(record).ok().map(str::to_owned), ..bare };
        };
        let is_id = |value: &Value| match value {
            Value::String(text) => *text == hit.id,
            Value::Number(number) => number.to_string() == hit.id,
            _ => false,
        };
        if let Some(name) =
            ["id", "_id"].into_iter().find(|name| fields.get(*name).is_some_and(is_id))
        {
            fields.remove(name);
        }
        let mut text_of = |name: &str| match fields.remove(name) {
            Some(Value::String(text)) => Some(text),
            Some(other) => {
                fields.insert(name.to_owned(), other);
                None
            }
            None => None,
        };
        let (title, text) = (text_of("title"), text_of("text"));
        Self { title, text, fields, ..bare }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(record: Option<&[u8]>) -> Passage {
        Passage::new(&Hit { id: "a".into(), row: 0, score: 0.5 }, record)
    }

    #[test]
    fn a_record_gives_title_text_and_all_other_fields() {
        let found = passage(Some(br#"{"id": "a", "title": "T", "text": "x", "year": 2020}"#));
        assert_eq!((found.title.as_deref(), found.text.as_deref()), (Some("T"), Some("x")));
        assert_eq!(Value::Object(found.fields), serde_json::json!({"year": 2020}));
        let found = passage(Some(br#"{"_id": "a", "title": 3, "text": null}"#));
        assert_eq!((found.title, found.text), (None, None));
        assert_eq!(Value::Object(found.fields), serde_json::json!({"title": 3, "text": null}));
        let found = passage(Some(br#"{"id": "a", "_id": "other", "text": "x"}"#));
        assert_eq!(Value::Object(found.fields), serde_json::json!({"_id": "other"}));
        let found = passage(Some(br#"{"id": "a", "_id": "a", "text": "x"}"#));
        assert_eq!(Value::Object(found.fields), serde_json::json!({"_id": "a"}));
        let found = passage(Some(br#"{"id": 3, "text": "x"}"#));
        assert_eq!(Value::Object(found.fields), serde_json::json!({"id": 3}));
        assert_eq!(passage(Some(b"just words")).text.as_deref(), Some("just words"));
        assert_eq!(passage(Some(b"[1]")).text.as_deref(), Some("[1]"));
        assert_eq!(passage(Some(b"\xff")).text, None);
        assert_eq!(passage(None).text, None);
    }
}
