//! The CSV of PostgreSQL's `COPY`: values between commas, quoted with `"` where they must be, `""` for a quote
//! within, line breaks allowed in quotes.
//!
//! Crates for CSV do not tell an empty value from a quoted empty one; here the first is NULL and the second
//! an empty text.

use std::io::BufRead;

/// The longest row that is read.
const MAX_ROW_BYTES: usize = 64 << 20;

/// A row that is no CSV, and where it begins.
#[derive(Debug)]
pub(super) struct BadRow {
    pub(super) line: usize,
    pub(super) what: String,
}

/// Rows one after the other.
pub(super) struct Rows<R> {
    reader: R,
    /// Lines that were read.
    lines: usize,
    /// The line at which the last row began.
    began: usize,
}

impl<R: BufRead> Rows<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, lines: 0, began: 0 }
    }

    /// The line, from 1, at which the last row began.
    pub(super) fn line(&self) -> usize {
        self.began
    }

    /// The next row; `None` in it is NULL.
    pub(super) fn next_row(&mut self) -> Result<Option<Vec<Option<String>>>, BadRow> {
        self.began = self.lines + 1;
        let (mut row, mut quotes) = (Vec::new(), 0);
        loop {
            let before = row.len();
            let bad = |what: &str| BadRow { line: self.began, what: what.to_owned() };
            let limit = (MAX_ROW_BYTES - before) as u64;
            let read = std::io::Read::take(&mut self.reader, limit).read_until(b'\n', &mut row);
            let read = read.map_err(|error| bad(&format!("cannot be read: {error}")))?;
            if read == 0 && before == 0 {
                return Ok(None);
            }
            if read == 0 {
                return Err(bad(if before < MAX_ROW_BYTES {
                    "a quote that does not end"
                } else {
                    "a row of more than 64 MiB"
                }));
            }
            self.lines += 1;
            // Within quotes there is an odd number of them so far.
            quotes += row[before..].iter().filter(|&&byte| byte == b'"').count();
            if row.len() == MAX_ROW_BYTES && row.last() != Some(&b'\n') {
                return Err(bad("a row of more than 64 MiB"));
            }
            if quotes % 2 == 0 {
                break;
            }
        }
        let text = str::from_utf8(&row);
        let text = text.map_err(|_| BadRow { line: self.began, what: "not UTF-8".to_owned() })?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        let values = split(text);
        values
            .map(Some)
            .ok_or_else(|| BadRow { line: self.began, what: "quotes within a value".to_owned() })
    }
}

/// The values of a row whose quotes are even.
fn split(mut text: &str) -> Option<Vec<Option<String>>> {
    let mut values = Vec::new();
    loop {
        let rest = if let Some(mut inner) = text.strip_prefix('"') {
            let mut value = String::new();
            loop {
                let (before, after) = inner.split_once('"')?;
                value.push_str(before);
                let Some(again) = after.strip_prefix('"') else {
                    values.push(Some(value));
                    break after;
                };
                value.push('"');
                inner = again;
            }
        } else {
            let end = text.find(',').unwrap_or(text.len());
            let (value, rest) = text.split_at(end);
            if value.contains('"') {
                return None;
            }
            values.push((!value.is_empty()).then(|| value.to_owned()));
            rest
        };
        match rest.strip_prefix(',') {
            Some(next) => text = next,
            None if rest.is_empty() => return Some(values),
            None => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(text: &[u8]) -> Result<Vec<Vec<Option<String>>>, BadRow> {
        let mut rows = Rows::new(text);
        std::iter::from_fn(|| rows.next_row().transpose()).collect()
    }

    #[test]
    fn nulls_quotes_and_line_breaks_are_told_apart() {
        let found = rows(b"a,,\"\"\r\n\"x \"\"y\"\"\nz\",\",\",3\n").unwrap();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(found[0], [text("a"), None, text("")]);
        assert_eq!(found[1], [text("x \"y\"\nz"), text(","), text("3")]);
        for wrong in [&b"a\"b\"c\n"[..], b"\"a\"b\n", b"\"a", b"\xff\n"] {
            assert!(rows(wrong).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn what_was_quoted_comes_back(values in prop::collection::vec(".*", 1..5)) {
            let quoted: Vec<String> =
                values.iter().map(|value| format!("\"{}\"", value.replace('"', "\"\""))).collect();
            let found = rows(quoted.join(",").as_bytes()).unwrap();
            let values: Vec<Option<String>> = values.into_iter().map(Some).collect();
            prop_assert_eq!(found, vec![values]);
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = rows(&bytes);
        }
    }
}
