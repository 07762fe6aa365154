//! The header of a NumPy array: a short dictionary in Python's own notation.

use std::io::BufRead;

use super::{InputError, malformed};

/// Reads the preamble and the text of the header, whose length is bounded before it is believed.
/// The header of a plain array is a short dictionary with one tuple; eighteen digits in all keep
/// any product of them below 10^18 < 2^64.
pub(super) fn header_text(reader: &mut impl BufRead) -> Result<String, InputError> {
    const LONGEST: usize = 10_000; // NumPy's own limit.
    const DIGITS: usize = 18;
    const BRACKETS: usize = 8;

    let mut start = [0; 8];
    reader
        .read_exact(&mut start)
        .map_err(|_| malformed("not a NumPy array: the file is too short"))?;
    if &start[..6] != b"\x93NUMPY" {
        return Err(malformed("not a NumPy array: the first bytes are not its signature"));
    }
    let mut length = [0; 4];
    let length_bytes = match start[6] {
        1 => 2,
        2 | 3 => 4,
        version => {
            let words = format!("not a NumPy array: version {version} of the format is unknown");
            return Err(malformed(words));
        }
    };
    reader
        .read_exact(&mut length[..length_bytes])
        .map_err(|_| malformed("not a NumPy array: the file is too short"))?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(malformed(format!(
            "not a plain NumPy array: expected a header of at most {LONGEST} bytes, found {length}"
        )));
    }
    let mut text = vec![0; length];
    reader
        .read_exact(&mut text)
        .map_err(|_| malformed("not a NumPy array: the header is cut short"))?;
    let count = |wanted: fn(&u8) -> bool| text.iter().filter(|byte| wanted(byte)).count();
    if count(u8::is_ascii_digit) > DIGITS || count(|byte| b"([{".contains(byte)) > BRACKETS {
        return Err(malformed(
            "not a plain NumPy array: the type or the shape is too long for a table of floats",
        ));
    }
    String::from_utf8(text).map_err(|_| malformed("not a NumPy array: the header is no text"))
}

/// What the header says: `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }`.
pub(super) struct Header {
    /// The type, as Python writes it.
    pub(super) descr: String,
    /// Columns one after the other instead of rows.
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<u64>,
}

impl Header {
    pub(super) fn parse(text: &str) -> Result<Self, InputError> {
        Self::read(text)
            .ok_or_else(|| malformed("not a NumPy array: the header is not that of an array"))
    }

    fn read(text: &str) -> Option<Self> {
        let fields = text.trim().strip_prefix('{')?.strip_suffix('}')?;
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        for field in split_at_commas(fields)? {
            let (key, value) = field.split_once(':')?;
            let value = value.trim();
            match key.trim().trim_matches(['\'', '"']) {
                "descr" if descr.is_none() && !value.is_empty() => descr = Some(value.to_owned()),
                "fortran_order" if fortran_order.is_none() => {
                    fortran_order = Some(match value {
                        "True" => true,
                        "False" => false,
                        _ => return None,
                    });
                }
                "shape" if shape.is_none() => {
                    let sizes = value.strip_prefix('(')?.strip_suffix(')')?;
                    let sizes = split_at_commas(sizes)?;
                    shape =
                        Some(sizes.iter().map(|size| size.parse().ok()).collect::<Option<_>>()?);
                }
                _ => return None,
            }
        }
        Some(Self { descr: descr?, fortran_order: fortran_order?, shape: shape? })
    }
}

/// The parts between commas that stand in no bracket and no quotes; the last may be left empty.
fn split_at_commas(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut depth, mut quote, mut start) = (Vec::new(), 0_usize, None, 0);
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.checked_sub(1)?,
            (None, ',') if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    parts.extend((!last.is_empty()).then_some(last));
    (depth == 0 && quote.is_none()).then_some(parts)
}
