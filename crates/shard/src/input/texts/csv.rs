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

/// Reads a document per row. The cells of another column become numbers where all of them are numbers, true or
/// false where all are that, and are texts as they are written otherwise. An empty cell is none.
#[cfg(feature = "csv")]
pub(super) fn read(reader: impl BufRead) -> Result<Vec<TextDocument>, InputError> {
    table::read(reader)
}

#[cfg(feature = "csv")]
mod table {
    use std::collections::HashSet;
    use std::io::BufRead;

    use csv::{Error, ErrorKind, ReaderBuilder, StringRecord};
    use serde_json::{Map, Number, Value};

    use super::super::document::{TextDocument, document_of};
    use crate::input::collect::{check_distinct, check_not_empty};
    use crate::input::error::{InputError, InputProblem, Record};
    use crate::input::lines::BYTE_ORDER_MARK;

    pub(super) fn read(reader: impl BufRead) -> Result<Vec<TextDocument>, InputError> {
        let mut table = ReaderBuilder::new().from_reader(reader);
        let header = table.headers().map_err(wrong)?.clone();
        let names = names(&header)?;
        let mut readings = vec![READINGS.to_vec(); names.len()];
        let (mut texts, mut places): (Vec<TextDocument>, Vec<Record>) = (Vec::new(), Vec::new());
        for row in table.records() {
            let row = row.map_err(wrong)?;
            let place = Record::Line(row.position().map_or(0, |at| at.line() as usize));
            let mut fields = Map::new();
            let mut id = String::new();
            for ((name, cell), readings) in names.iter().zip(&row).zip(&mut readings) {
                if name == "id" {
                    cell.clone_into(&mut id);
                } else if name == "text" || !cell.is_empty() {
                    readings.retain(|read| read(cell).is_some());
                    fields.insert(name.clone(), cell.into());
                }
            }
            check_not_empty(&id, place)?;
            let malformed = |words| place.with(InputProblem::Malformed(words));
            texts.push(document_of(id, fields).map_err(malformed)?);
            places.push(place);
        }
        // The text and the title are no longer among the fields.
        for (name, readings) in names.iter().zip(readings) {
            let Some(read) = readings.first() else { continue };
            for value in texts.iter_mut().filter_map(|text| text.fields.get_mut(name)) {
                if let Some(other) = value.as_str().and_then(read) {
                    *value = other;
                }
            }
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

    /// What a cell is, read as something other than a text; `None` where it is not that.
    type Reading = fn(&str) -> Option<Value>;

    /// How the cells of a column may be read: as the first of these that reads all of them, else as texts.
    const READINGS: [Reading; 2] = [number, truth];

    /// A number, as JSON writes them, that has the value that is written: `007`, `+49` and digits that a
    /// double would round are none. Zeros at the end and the form of the exponent may differ.
    fn number(cell: &str) -> Option<Value> {
        let number: Number = serde_json::from_str(cell).ok()?;
        let written = decimal(cell)?;
        (decimal(&number.to_string())? == written).then_some(Value::Number(number))
    }

    fn truth(cell: &str) -> Option<Value> {
        match cell {
            "true" | "True" => Some(true.into()),
            "false" | "False" => Some(false.into()),
            _ => None,
        }
    }

    /// Whether a number is negative, its digits without zeros on either side, and the power of ten that its last
    /// digit counts. Equal numbers have equal ones; `None` where there is anything but a number.
    fn decimal(written: &str) -> Option<(bool, String, i64)> {
        let (mantissa, exponent) = written.split_once(['e', 'E']).unwrap_or((written, "0"));
        let (negative, mantissa) = match mantissa.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, mantissa),
        };
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{part}");
        if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let significant = digits.trim_end_matches('0');
        if significant.is_empty() {
            return Some((negative, String::new(), 0));
        }
        let zeros = digits.len() - significant.len();
        let power = exponent.parse::<i64>().ok()?.checked_sub(part.len() as i64)?;
        let power = power.checked_add(zeros as i64)?;
        Some((negative, significant.trim_start_matches('0').to_owned(), power))
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
