//! One query as JSON: an array of numbers, or an object with `vector`.

use std::fmt;
use std::io::Read;
use std::str;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use super::Documents;
use super::collect::Collector;
use super::error::{InputError, InputProblem, Record};
use super::jsonl::{self, Id};
use super::lines::BYTE_ORDER_MARK;

/// Longest text of a query, far more than the widest vector needs.
const LONGEST: usize = 16 << 20;

/// Reads one query as JSON, `[0.5, ...]` or `{"vector": [0.5, ...]}`, perhaps with an `id`; without
/// one it is called `0`, as the first row of an array is.
///
/// # Errors
/// When there is nothing, something else, or something after it; and when a value is no coordinate.
pub fn query_from(reader: impl Read) -> Result<Documents, InputError> {
    let mut bytes = Vec::new();
    reader.take(1 + LONGEST as u64).read_to_end(&mut bytes)?;
    if bytes.len() > LONGEST {
        let words = format!("expected one query of at most {LONGEST} bytes, found more");
        return Err(InputProblem::Malformed(words).into());
    }
    let text =
        str::from_utf8(&bytes).map_err(|error| InputProblem::NotUtf8(Some(error.valid_up_to())))?;
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    if text.trim().is_empty() {
        let words = format!("there is no query: expected {EXPECTED}");
        return Err(InputProblem::Malformed(words).into());
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let query = Query::deserialize(&mut json).map_err(|error| {
        let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
        jsonl::wrong(&error, error.line(), line)
    })?;
    json.end().map_err(|error| {
        let words = "expected the end after one query; several go into a file of JSON lines";
        Record::Line(error.line()).at(error.column(), InputProblem::Malformed(words.into()))
    })?;
    let mut collector = Collector::default();
    let id = query.id.map_or_else(|| "0".to_owned(), |Id(id)| id);
    collector.push(Record::Row(0), id, query.vector.into_iter())?;
    collector.finish()
}

const EXPECTED: &str = "an array of numbers, or an object with `vector`";

struct Query {
    id: Option<Id>,
    vector: Vec<f64>,
}

#[derive(Deserialize)]
struct Fields {
    id: Option<Id>,
    vector: Vec<f64>,
}

impl<'de> Deserialize<'de> for Query {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct QueryVisitor;

        impl<'de> Visitor<'de> for QueryVisitor {
            type Value = Query;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(EXPECTED)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, values: A) -> Result<Query, A::Error> {
                let vector = Vec::deserialize(SeqAccessDeserializer::new(values))?;
                Ok(Query { id: None, vector })
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Query, A::Error> {
                let fields = Fields::deserialize(MapAccessDeserializer::new(fields))?;
                Ok(Query { id: fields.id, vector: fields.vector })
            }
        }

        deserializer.deserialize_any(QueryVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        query_from(text.as_bytes()).expect_err("the text is wrong on purpose").to_string()
    }

    #[test]
    fn a_query_is_an_array_or_an_object() {
        for (text, id) in [
            ("[1, -2.5]", "0"),
            ("\u{feff} [1,\n -2.5]\n\n", "0"),
            ("{\"vector\": [1, -2.5], \"text\": \"x\"}", "0"),
            ("{\"id\": 7, \"vector\": [1, -2.5]}", "7"),
        ] {
            let found = query_from(text.as_bytes()).unwrap();
            assert_eq!((found.ids[0].as_str(), found.vectors.values()), (id, &[1.0, -2.5][..]));
        }
    }

    #[test]
    fn what_is_no_query_is_refused_in_words() {
        let expected = "expected an array of numbers, or an object with `vector`";
        for nothing in ["", " \n"] {
            assert_eq!(problem(nothing), format!("there is no query: {expected}"));
        }
        assert_eq!(
            problem("[1, 2]\n[3, 4]\n"),
            "line 2, column 1: expected the end after one query; several go into a file of JSON lines"
        );
        assert!(problem("[1, 2] x").contains("expected the end after one query"));
        assert!(problem("\"x\"").ends_with(expected));
        assert_eq!(problem("[1,\nNaN]"), "line 2, column 1: NaN is not a coordinate");
        assert!(problem("{\"vector\": [-Infinity]}").ends_with("infinity is not a coordinate"));
        assert_eq!(problem("[0, 1e39]"), "row 0, column 1: the value does not fit a 32-bit float");
        assert_eq!(problem("[]"), "row 0: the vector has no coordinates");
        assert!(problem("{\"id\": 1}").ends_with("missing field `vector`"));
        assert!(problem("[1, null]").contains("null"));
        assert!(problem("[1, 2").contains("EOF"));
        let bytes = query_from(&b"[1, \xff]"[..]).unwrap_err().to_string();
        assert_eq!(bytes, "not UTF-8 at byte 4");
        let endless = query_from(std::io::repeat(b' ')).unwrap_err().to_string();
        assert!(endless.contains("at most 16777216 bytes"), "{endless}");
    }
}
