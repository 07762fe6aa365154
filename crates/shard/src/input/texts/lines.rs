//! Documents from JSON lines: `id` or `_id`, `text`, perhaps `title`, and whatever else there is.

use std::io::BufRead;

use super::document::{TextDocument, document_of};
use crate::input::collect::{check_distinct, check_not_empty};
use crate::input::error::{InputError, InputProblem, Record};
use crate::input::jsonl::{Line, Names};
use crate::input::lines::Lines;

/// Reads one document or query per line. Blank lines are skipped. Vectors are not read; where the first line
/// has none, no other may have one.
pub fn texts_from(reader: impl BufRead) -> Result<Vec<TextDocument>, InputError> {
    read(reader, Names::Required)
}

/// The same; ids may have to be there.
pub(super) fn read(reader: impl BufRead, names: Names) -> Result<Vec<TextDocument>, InputError> {
    let mut lines = Lines::new(reader);
    let mut texts: Vec<TextDocument> = Vec::new();
    let mut records = Vec::new();
    let mut first_has_vector = None;
    while let Some((number, line)) = lines.next_line()? {
        if line.trim().is_empty() {
            continue;
        }
        let found = Line::parse(number, line)?;
        let first_has_one = *first_has_vector.get_or_insert(found.vector.is_some());
        if found.vector.is_some() && !first_has_one {
            let words =
                "there is a `vector` and the first line has none: give every line one, or none";
            return Err(Record::Line(number).with(InputProblem::Malformed(words.to_owned())));
        }
        let at_end = |words: String| {
            Record::Line(number).at(line.trim_end().len(), InputProblem::Malformed(words))
        };
        let id = match (found.id, names) {
            (Some(id), _) => id,
            (None, Names::Optional) => texts.len().to_string(),
            (None, Names::Required) => return Err(at_end("missing field `id`".to_owned())),
        };
        check_not_empty(&id, Record::Line(number))?;
        texts.push(document_of(id, found.fields).map_err(at_end)?);
        records.push(Record::Line(number));
    }
    let ids: Vec<String> = texts.iter().map(|text| text.id.clone()).collect();
    check_distinct(&ids, |row| records[row])?;
    Ok(texts)
}
