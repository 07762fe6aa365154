//! Records of documents from JSON lines: whatever has an `id`, the whole line as it stands.

use std::collections::HashMap;
use std::io::BufRead;
use std::path::Path;

use serde::de::IgnoredAny;

use super::collect::{check_distinct, check_not_empty};
use super::error::{InputError, Record as At};
use super::jsonl::{self, Id};
use super::lines::Lines;
use crate::Record;

/// An object: with only its first field, a list would do as well.
#[derive(serde::Deserialize)]
struct Line {
    id: Id,
    #[serde(flatten)]
    _others: HashMap<String, IgnoredAny>,
}

/// Reads one record per line. Blank lines are skipped.
pub fn records_from(reader: impl BufRead) -> Result<Vec<Record>, InputError> {
    let mut lines = Lines::new(reader);
    let (mut records, mut places) = (Vec::new(), Vec::new());
    while let Some((number, line)) = lines.next_line()? {
        if line.trim().is_empty() {
            continue;
        }
        let Line { id: Id(id), .. } = jsonl::parse(number, line)?;
        check_not_empty(&id, At::Line(number))?;
        records.push(Record { id, bytes: line.trim_end_matches(['\r', '\n']).into() });
        places.push(At::Line(number));
    }
    let ids: Vec<String> = records.iter().map(|record: &Record| record.id.clone()).collect();
    check_distinct(&ids, |row| places[row])?;
    Ok(records)
}

/// Reads records, decompressing a file whose name ends in `.gz`.
pub fn read_records(path: &Path) -> Result<Vec<Record>, InputError> {
    super::open_text(path).and_then(records_from).map_err(|error| error.in_file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_its_line_and_an_id_is_there_once() {
        let text = "{\"id\": 7, \"text\": \"a\"}\r\n\n{\"id\":\"x\"}";
        let records = records_from(text.as_bytes()).unwrap();
        let found: Vec<(&str, &[u8])> =
            records.iter().map(|record| (record.id.as_str(), &record.bytes[..])).collect();
        assert_eq!(found, [("7", &b"{\"id\": 7, \"text\": \"a\"}"[..]), ("x", b"{\"id\":\"x\"}")]);
        for wrong in ["{\"id\": 1}\n{\"id\": \"1\"}", "{\"text\": \"a\"}", "[1]", "{\"id\": \"\"}"]
        {
            assert!(records_from(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
