//! Lines of UTF-8 text, numbered.

use std::io::BufRead;
use std::str;

use super::error::{InputError, InputProblem, Record};

/// What some editors put before the first line of a file.
pub(super) const BYTE_ORDER_MARK: char = '\u{feff}';

/// Reads a text line by line into one buffer, so that a file of any size takes the memory of its longest line.
pub(super) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    number: usize,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), number: 0 }
    }

    /// The next line with its number, counted from 1, without its ending (LF or CRLF) and without the byte order
    /// mark some editors put before the first.
    pub(super) fn next_line(&mut self) -> Result<Option<(usize, &str)>, InputError> {
        self.buffer.clear();
        self.number += 1;
        let number = self.number;
        let length = self
            .reader
            .read_until(b'\n', &mut self.buffer)
            .map_err(|error| Record::Line(number).with(InputProblem::Io(error)))?;
        if length == 0 {
            return Ok(None);
        }
        let line = str::from_utf8(&self.buffer).map_err(|error| {
            Record::Line(number).with(InputProblem::NotUtf8(Some(error.valid_up_to())))
        })?;
        let line = line.strip_suffix('\n').unwrap_or(line);
        let line = line.strip_suffix('\r').unwrap_or(line);
        let line =
            if number == 1 { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line };
        Ok(Some((number, line)))
    }
}
