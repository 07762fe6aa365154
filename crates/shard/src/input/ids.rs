//! Ids from a text file, one a line.

use std::io::BufRead;

use anyhow::Result;

use super::collect::{Place, check_distinct, check_not_empty};
use super::lines::Lines;

/// Reads ids; each line is one, spaces and all. Every line counts, since a skipped blank one would shift all ids
/// after it to the wrong row.
pub(super) fn read(reader: impl BufRead) -> Result<Vec<String>> {
    let mut lines = Lines::new(reader);
    let mut ids = Vec::new();
    while let Some((number, line)) = lines.next_line()? {
        check_not_empty(line, Place::Line(number))?;
        ids.push(line.to_owned());
    }
    check_distinct(&ids, |row| Place::Line(row + 1))?;
    Ok(ids)
}
