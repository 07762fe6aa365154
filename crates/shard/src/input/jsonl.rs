//! Vectors from JSON lines: `{"id": "a", "vector": [0.5, ...]}`.

use std::fmt;
use std::io::BufRead;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use super::Documents;
use super::collect::Collector;
use super::error::{InputError, InputProblem, Record};
use super::lines::Lines;

#[derive(serde::Deserialize)]
struct Line {
    id: Id,
    vector: Vec<f64>,
}

/// Reads one record per line, keeping only the vectors in memory. Blank lines are skipped, other fields ignored.
pub(super) fn read(reader: impl BufRead) -> Result<Documents, InputError> {
    let mut lines = Lines::new(reader);
    let mut collector = Collector::default();
    while let Some((number, line)) = lines.next_line()? {
        if line.trim().is_empty() {
            continue;
        }
        let line: Line = parse(number, line)?;
        collector.push(Record::Line(number), line.id.0, line.vector.into_iter())?;
    }
    collector.finish()
}

/// Parses one line as JSON. The parser sees a text of one line and would call it line 1, so its position is
/// replaced by the place in the file.
pub(super) fn parse<'a, T: Deserialize<'a>>(number: usize, line: &'a str) -> Result<T, InputError> {
    serde_json::from_str(line).map_err(|error| {
        let message = error.to_string();
        let problem =
            message.rsplit_once(" at line ").map_or(message.as_str(), |(problem, _)| problem);
        let problem = InputProblem::Malformed(problem.to_owned());
        Record::Line(number).at(error.column(), problem)
    })
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
