//! Ids from a text file, one per line.

use std::io::BufRead;

use super::collect::{check_distinct, check_not_empty};
use super::error::{InputError, Record};
use super::lines::Lines;

/// Reads ids; each line is one, spaces and all. Every line counts, since a skipped blank one would shift all ids
/// after it to the wrong row.
pub(super) fn read(reader: impl BufRead) -> Result<Vec<String>, InputError> {
    let mut lines = Lines::new(reader);
    let mut ids = Vec::new();
    while let Some((number, line)) = lines.next_line()? {
        check_not_empty(line, Record::Line(number))?;
        ids.push(line.to_owned());
    }
    check_distinct(&ids, |row| Record::Line(row + 1))?;
    Ok(ids)
}
