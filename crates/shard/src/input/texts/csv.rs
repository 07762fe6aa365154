//! Documents from a table with a header: columns `id` or `_id`, `text`, perhaps `title`, and others.

use std::io::BufRead;

use super::document::TextDocument;
use crate::input::error::InputError;
#[cfg(not(feature = "csv"))]
use crate::input::error::InputProblem;

/// Says how to get what this build lacks.
#[cfg(not(feature = "csv"))]
pub(super) fn read(_: impl BufRead) -> Result<Vec<TextDocument>, InputError> {
    Err(InputProblem::NoCsv.into())
}

/// Reads a document per row. Cells of other columns that are written as JSON writes a number, `true` or
/// `false` become these, empty ones are none, and all others are texts.
#[cfg(feature = "csv")]
pub(super) fn read(reader: impl BufRead) -> Result<Vec<TextDocument>, InputError> {
    table::read(reader)
}

#[cfg(feature = "csv")]
mod table {
    use std::collections::HashSet;
    use std::io::BufRead;

    use csv::{Error, ErrorKind, ReaderBuilder, StringRecord};
    use serde_json::{Map, Value};

    use super::super::document::{TextDocument, document_of};
    use crate::input::collect::{check_distinct, check_not_empty};
    use crate::input::error::{InputError, InputProblem, Record};
    use crate::input::lines::BYTE_ORDER_MARK;

    pub(super) fn read(reader: impl BufRead) -> Result<Vec<TextDocument>, InputError> {
        let mut table = ReaderBuilder::new().from_reader(reader);
        let header = table.headers().map_err(wrong)?.clone();
        let names = names(&header)?;
        let (mut texts, mut places): (Vec<TextDocument>, Vec<Record>) = (Vec::new(), Vec::new());
        for row in table.records() {
            let row = row.map_err(wrong)?;
            let place = Record::Line(row.position().map_or(0, |at| at.line() as usize));
            let mut fields = Map::new();
            let mut id = String::new();
            for (name, cell) in names.iter().zip(&row) {
                match name.as_str() {
                    "id" => cell.clone_into(&mut id),
                    "text" => drop(fields.insert(name.clone(), cell.into())),
                    _ if cell.is_empty() => {}
                    "title" => drop(fields.insert(name.clone(), cell.into())),
                    _ => drop(fields.insert(name.clone(), value(cell))),
                }
            }
            check_not_empty(&id, place)?;
            let malformed = |words| place.with(InputProblem::Malformed(words));
            texts.push(document_of(id, fields).map_err(malformed)?);
            places.push(place);
        }
        let ids: Vec<String> = texts.iter().map(|text| text.id.clone()).collect();
        check_distinct(&ids, |row| places[row])?;
        Ok(texts)
    }

    /// The names of columns, each once, with an id and a text among them. `_id` is called `id`.
    fn names(header: &StringRecord) -> Result<Vec<String>, InputError> {
        let malformed = |words| Record::Line(1).with(InputProblem::Malformed(words));
        let plain = |name: &str| name.trim().trim_start_matches(BYTE_ORDER_MARK).to_owned();
        let mut names: Vec<String> = header.iter().map(plain).collect();
        if !names.iter().any(|name| name == "id")
            && let Some(name) = names.iter_mut().find(|name| *name == "_id")
        {
            "id".clone_into(name);
        }
        for wanted in ["id", "text"] {
            if !names.iter().any(|name| name == wanted) {
                let found = names.join(", ");
                let words = format!("expected a column {wanted:?}, found {}", found.escape_debug());
                return Err(malformed(words));
            }
        }
        let mut seen = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(malformed(format!("there are two columns {twice:?}")));
        }
        Ok(names)
    }

    /// A number, true or false where that is written as the cell is, and the cell as text otherwise: no digit
    /// of `007`, `1.10` or a number that a double would round is lost.
    fn value(cell: &str) -> Value {
        match serde_json::from_str(cell) {
            Ok(value @ (Value::Number(_) | Value::Bool(_)))
                if value.to_string().as_str() == cell =>
            {
                value
            }
            _ => cell.into(),
        }
    }

    fn wrong(error: Error) -> InputError {
        let place = error.position().map(|at| Record::Line(at.line() as usize));
        let problem = match error.into_kind() {
            ErrorKind::Io(error) => InputProblem::Io(error),
            ErrorKind::Utf8 { err, .. } => {
                InputProblem::Malformed(format!("column {} is not UTF-8", err.field()))
            }
            ErrorKind::UnequalLengths { expected_len, len, .. } => InputProblem::Malformed(
                format!("expected {expected_len} cells as in the header, found {len}"),
            ),
            other => InputProblem::Malformed(format!("not a table: {other:?}")),
        };
        match place {
            Some(place) => place.with(problem),
            None => problem.into(),
        }
    }
}
