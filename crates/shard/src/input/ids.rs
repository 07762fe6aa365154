//! Ids in a text file, one per line.

use std::io::{self, BufRead, Write};

use super::collect::{check_distinct, check_not_empty};
use super::error::{InputError, InputProblem, Record};
use super::lines::{BYTE_ORDER_MARK, Lines};

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

/// Writes ids as [`super::read_ids`] reads them.
///
/// # Errors
/// When an id has a line break, of which nothing is written, and when the writer refuses.
pub fn ids_to(mut writer: impl Write, ids: &[String]) -> Result<(), InputError> {
    if let Some(row) = ids.iter().position(|id| id.contains('\n')) {
        return Err(Record::Row(row).with(InputProblem::LineBreak(ids[row].clone())));
    }
    let mut write = || -> io::Result<()> {
        for (row, id) in ids.iter().enumerate() {
            // What a reader takes for a mark of the file is put before what is the id's own.
            if row == 0 && id.starts_with(BYTE_ORDER_MARK) {
                write!(writer, "{BYTE_ORDER_MARK}")?;
            }
            // So is the end of a line.
            let end = if id.ends_with('\r') { "\r\n" } else { "\n" };
            write!(writer, "{id}{end}")?;
        }
        Ok(())
    };
    Ok(write()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let ids = ["\u{feff}", "\u{feff}b", " c ", "d\r", "\re", "f\u{2028}g", "h\u{1b}", "\\n"];
        for first in 0..ids.len() {
            let mut ids: Vec<String> = ids.map(str::to_owned).into();
            ids.rotate_left(first);
            let mut bytes = Vec::new();
            ids_to(&mut bytes, &ids).unwrap();
            assert_eq!(read(bytes.as_slice()).unwrap(), ids);
        }
    }

    #[test]
    fn an_id_of_two_lines_is_refused_before_anything_is_written() {
        let (mut bytes, ids) = (Vec::new(), ["a".to_owned(), "b\nc".to_owned()]);
        let error = ids_to(&mut bytes, &ids).unwrap_err().to_string();
        assert_eq!(error, "row 1: the id \"b\\nc\" has a line break, and ids stand one on a line");
        assert!(bytes.is_empty());
    }
}
