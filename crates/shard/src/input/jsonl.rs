//! Vectors from JSON lines: `{"id": "a", "vector": [0.5, ...]}`.

use std::fmt;
use std::io::BufRead;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::Documents;
use super::collect::{Collector, shown};
use super::error::{InputError, InputProblem, Record};
use super::lines::Lines;

/// Whether records must have an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// Documents are found by theirs.
    Required,
    /// What has none is called by its row, `0`, `1` and so on.
    Optional,
}

/// A line: its id, its vector, and all that it has besides.
#[derive(Default)]
pub(super) struct Line {
    /// `id`, or `_id` where there is no such.
    pub(super) id: Option<String>,
    pub(super) vector: Option<Vec<f64>>,
    pub(super) fields: Map<String, Value>,
}

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LineVisitor;

        impl<'de> Visitor<'de> for LineVisitor {
            type Value = Line;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Line, A::Error> {
                let mut line = Line::default();
                let mut other: Option<Value> = None;
                let twice = |field| Err(de::Error::duplicate_field(field));
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "id" if line.id.is_some() => return twice("id"),
                        "_id" if other.is_some() => return twice("_id"),
                        "vector" if line.vector.is_some() => return twice("vector"),
                        "id" => line.id = Some(map.next_value::<Id>()?.0),
                        "_id" => other = Some(map.next_value()?),
                        "vector" => line.vector = Some(map.next_value()?),
                        _ => {
                            let value = map.next_value()?;
                            if line.fields.insert(name.clone(), value).is_some() {
                                let words = format_args!("duplicate field `{name}`");
                                return Err(de::Error::custom(words));
                            }
                        }
                    }
                }
                match (&line.id, other) {
                    (Some(_), Some(other)) => drop(line.fields.insert("_id".into(), other)),
                    (None, Some(other)) => {
                        line.id = Some(Id::deserialize(other).map_err(de::Error::custom)?.0);
                    }
                    (_, None) => {}
                }
                Ok(line)
            }
        }

        deserializer.deserialize_map(LineVisitor)
    }
}

impl Line {
    /// Reads a line. An integer that only a double could hold, rounded, is refused.
    pub(super) fn parse(number: usize, line: &str) -> Result<Self, InputError> {
        let found: Self = parse(number, line)?;
        let beyond = |value: f64| value.abs() >= i64::MAX as f64;
        if found.fields.values().any(|value| has_double(value, &beyond)) {
            let long = long_integers(line);
            let rounded = |value: &Value| has_double(value, &|value| long.contains(&value));
            if let Some((name, _)) = found.fields.iter().find(|(_, value)| rounded(value)) {
                let words = format!(
                    "an integer of the field {} has more than 64 bits and would be rounded: write it in \
                     quotes",
                    shown(name)
                );
                return Err(Record::Line(number).with(InputProblem::Malformed(words)));
            }
        }
        Ok(found)
    }
}

/// Whether a value is such a double, or has one inside.
fn has_double(value: &Value, is_such: &dyn Fn(f64) -> bool) -> bool {
    match value {
        Value::Number(number) => number.is_f64() && number.as_f64().is_some_and(is_such),
        Value::Array(parts) => parts.iter().any(|part| has_double(part, is_such)),
        Value::Object(parts) => parts.values().any(|part| has_double(part, is_such)),
        _ => false,
    }
}

/// What the integers of sound JSON that have more than 64 bits are as doubles.
fn long_integers(json: &str) -> Vec<f64> {
    let (mut in_text, mut is_escaped) = (false, false);
    // A text separates numbers, with all that is in it.
    let separates = |letter: char| {
        if in_text {
            in_text = is_escaped || letter != '"';
            is_escaped = letter == '\\' && !is_escaped;
            return true;
        }
        in_text = letter == '"';
        !matches!(letter, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')
    };
    let is_long = |number: &&str| {
        !number.contains(['.', 'e', 'E'])
            && number.parse::<i64>().is_err()
            && number.parse::<u64>().is_err()
    };
    json.split(separates).filter(is_long).filter_map(|number| number.parse().ok()).collect()
}

/// Reads one record per line. Blank lines are skipped; what a document has besides its vector is kept as
/// its record.
pub(super) fn read(reader: impl BufRead, names: Names) -> Result<Documents, InputError> {
    let mut lines = Lines::new(reader);
    let mut collector = Collector::default();
    while let Some((number, line)) = lines.next_line()? {
        if line.trim().is_empty() {
            continue;
        }
        let Line { id, vector, fields } = Line::parse(number, line)?;
        let missing = |name: &str| {
            let words = format!("missing field `{name}`");
            Record::Line(number).at(line.trim_end().len(), InputProblem::Malformed(words))
        };
        let id = match names {
            Names::Required => id.ok_or_else(|| missing("id"))?,
            Names::Optional => id.unwrap_or_else(|| collector.rows().to_string()),
        };
        let vector = vector.ok_or_else(|| missing("vector"))?;
        collector.push(Record::Line(number), id, vector.into_iter())?;
        if names == Names::Required {
            collector.keep(fields);
        }
    }
    collector.finish()
}

/// Whether the first line has a vector; where there is none, nothing speaks against it.
pub(super) fn has_vectors(reader: impl BufRead) -> Result<bool, InputError> {
    let mut lines = Lines::new(reader);
    while let Some((number, line)) = lines.next_line()? {
        if !line.trim().is_empty() {
            return Ok(parse::<Line>(number, line)?.vector.is_some());
        }
    }
    Ok(true)
}

/// Parses one line as JSON. The parser sees a text of one line and would call it line 1, so its position is
/// replaced by the place in the file.
pub(super) fn parse<'a, T: Deserialize<'a>>(number: usize, line: &'a str) -> Result<T, InputError> {
    serde_json::from_str(line).map_err(|error| wrong(&error, number, line))
}

/// What is wrong with a line of JSON.
pub(super) fn wrong(error: &serde_json::Error, number: usize, line: &str) -> InputError {
    let message = error.to_string();
    let words = message.rsplit_once(" at line ").map_or(message.as_str(), |(words, _)| words);
    // Some programs write these words for numbers that JSON has not. A sign may stand before.
    let column = error.column();
    let begins = |word: &str| {
        let mut from = [column.saturating_sub(1), column].into_iter();
        error.is_syntax()
            && from.any(|at| line.get(at..).is_some_and(|rest| rest.starts_with(word)))
    };
    let problem = if begins("NaN") {
        InputProblem::NotANumber
    } else if begins("Infinity") {
        InputProblem::Infinite
    } else {
        InputProblem::Malformed(words.to_owned())
    };
    Record::Line(number).at(column, problem)
}

/// An id: a string as it stands, or an integer as its decimal digits.
pub(super) struct Id(pub(super) String);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IdVisitor;

        impl Visitor<'_> for IdVisitor {
            type Value = Id;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an id (a string or an integer)")
            }

            fn visit_str<E: de::Error>(self, id: &str) -> Result<Id, E> {
                Ok(Id(id.to_owned()))
            }

            fn visit_u64<E: de::Error>(self, id: u64) -> Result<Id, E> {
                Ok(Id(id.to_string()))
            }

            fn visit_i64<E: de::Error>(self, id: i64) -> Result<Id, E> {
                Ok(Id(id.to_string()))
            }
        }

        deserializer.deserialize_any(IdVisitor)
    }
}

#[cfg(test)]
mod tests;
