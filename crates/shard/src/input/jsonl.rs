//! Vectors from JSON lines: `{"id": "a", "vector": [0.5, ...]}`.

use std::fmt;
use std::io::BufRead;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use super::Documents;
use super::collect::Collector;
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

#[derive(serde::Deserialize)]
struct Named {
    id: Id,
    vector: Vec<f64>,
}

#[derive(serde::Deserialize)]
struct Unnamed {
    id: Option<Id>,
    vector: Vec<f64>,
}

/// Reads one record per line, keeping only the vectors in memory. Blank lines are skipped, other fields ignored.
pub(super) fn read(reader: impl BufRead, names: Names) -> Result<Documents, InputError> {
    let mut lines = Lines::new(reader);
    let mut collector = Collector::default();
    while let Some((number, line)) = lines.next_line()? {
        if line.trim().is_empty() {
            continue;
        }
        let (id, vector) = match names {
            Names::Required => {
                let Named { id, vector } = parse(number, line)?;
                (Some(id), vector)
            }
            Names::Optional => {
                let Unnamed { id, vector } = parse(number, line)?;
                (id, vector)
            }
        };
        let id = id.map_or_else(|| collector.rows().to_string(), |Id(id)| id);
        collector.push(Record::Line(number), id, vector.into_iter())?;
    }
    collector.finish()
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
