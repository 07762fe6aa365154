//! Gathers records of any format into [`Documents`], checking each on the way in.

use std::collections::HashMap;
use std::fmt;

use anyhow::{Result, anyhow, bail};

use super::Documents;

/// Where a record stands in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A row of a table, counted from 0.
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "only tables have rows"))]
    Row(usize),
    /// A line of text, counted from 1.
    Line(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Row(row) => write!(formatter, "row {row}"),
            Self::Line(line) => write!(formatter, "line {line}"),
        }
    }
}

/// An id as an error message shows it: quoted, control characters escaped, long ones cut.
pub(super) fn shown(id: &str) -> String {
    const LONGEST: usize = 80;
    match id.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}...", &id[..end]),
        None => format!("{id:?}"),
    }
}

/// Narrows a value to 32 bits, or says why it cannot be a coordinate. The value itself is not repeated: a query
/// is not for logs.
pub(super) fn coordinate(value: f64) -> Result<f32> {
    let narrow = value as f32;
    if narrow.is_finite() {
        Ok(narrow)
    } else if value.is_nan() {
        bail!("NaN is not a coordinate")
    } else if value.is_infinite() {
        bail!("infinity is not a coordinate")
    } else {
        bail!("the value does not fit a 32-bit float")
    }
}

/// Refuses an id that is empty or only white space.
pub(super) fn check_not_empty(id: &str, place: Place) -> Result<()> {
    if id.trim().is_empty() {
        bail!("{place}: the id is empty");
    }
    Ok(())
}

/// Refuses ids that occur twice, naming the id and both its places.
pub(super) fn check_distinct(ids: &[String], place: impl Fn(usize) -> Place) -> Result<()> {
    let mut first = HashMap::with_capacity(ids.len());
    for (row, id) in ids.iter().enumerate() {
        if let Some(before) = first.insert(id.as_str(), row) {
            bail!("{}: duplicate id {}, first on {}", place(row), shown(id), place(before));
        }
    }
    Ok(())
}

/// Records gathered so far.
#[derive(Debug, Default)]
pub(super) struct Collector {
    ids: Vec<String>,
    places: Vec<Place>,
    width: usize,
    values: Vec<f32>,
}

impl Collector {
    /// Takes one record.
    pub(super) fn push(
        &mut self,
        place: Place,
        id: String,
        vector: impl ExactSizeIterator<Item = f64>,
    ) -> Result<()> {
        check_not_empty(&id, place)?;
        let width = vector.len();
        if width == 0 {
            bail!("{place}: the vector has no coordinates");
        }
        if self.ids.is_empty() {
            self.width = width;
        } else if width != self.width {
            bail!(
                "{place}: expected {} coordinates as in the vectors before, found {width}",
                self.width
            );
        }
        for (column, value) in vector.enumerate() {
            self.values.push(
                coordinate(value)
                    .map_err(|problem| anyhow!("{place}, column {column}: {problem}"))?,
            );
        }
        self.ids.push(id);
        self.places.push(place);
        Ok(())
    }

    /// Everything taken, provided there is something and no id came twice.
    pub(super) fn finish(self) -> Result<Documents> {
        if self.ids.is_empty() {
            bail!("there are no vectors");
        }
        check_distinct(&self.ids, |row| self.places[row])?;
        Ok(Documents { ids: self.ids, width: self.width, values: self.values })
    }
}
