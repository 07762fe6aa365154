//! Gathers records of any format into [`Documents`], checking each on the way in.

use std::collections::HashMap;

use serde_json::{Map, Value};
use shard_geometry::VectorSet;

use super::Documents;
use super::error::{InputError, InputProblem, Record};

/// An id as an error message shows it: quoted, control and bidirectional characters escaped, long ones cut.
pub(crate) fn shown(id: &str) -> String {
    const LONGEST: usize = 80;
    match id.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}...", &id[..end]),
        None => format!("{id:?}"),
    }
}

/// Narrows a value to 32 bits, or says why it cannot be a coordinate.
pub(super) fn coordinate(value: f64) -> Result<f32, InputProblem> {
    let narrow = value as f32;
    if narrow.is_finite() {
        Ok(narrow)
    } else if value.is_nan() {
        Err(InputProblem::NotANumber)
    } else if value.is_infinite() {
        Err(InputProblem::Infinite)
    } else {
        Err(InputProblem::TooLarge)
    }
}

/// Refuses an id that is empty or only white space.
pub(super) fn check_not_empty(id: &str, record: Record) -> Result<(), InputError> {
    if id.trim().is_empty() { Err(record.with(InputProblem::EmptyId)) } else { Ok(()) }
}

/// Refuses ids that occur twice, naming the id and both its places.
pub(super) fn check_distinct(
    ids: &[String],
    record: impl Fn(usize) -> Record,
) -> Result<(), InputError> {
    let mut first = HashMap::with_capacity(ids.len());
    for (row, id) in ids.iter().enumerate() {
        if let Some(before) = first.insert(id.as_str(), row) {
            let (id, first) = (id.clone(), record(before));
            return Err(record(row).with(InputProblem::DuplicateId { id, first }));
        }
    }
    Ok(())
}

/// Records gathered so far.
#[derive(Debug, Default)]
pub(super) struct Collector {
    ids: Vec<String>,
    records: Vec<Record>,
    width: usize,
    values: Vec<f32>,
    bring_back: Vec<crate::Record>,
}

impl Collector {
    /// Takes one record.
    pub(super) fn push(
        &mut self,
        record: Record,
        id: String,
        vector: impl ExactSizeIterator<Item = f64>,
    ) -> Result<(), InputError> {
        check_not_empty(&id, record)?;
        let width = vector.len();
        if width == 0 {
            return Err(record.with(InputProblem::NoCoordinates));
        }
        if self.ids.is_empty() {
            self.width = width;
        } else if width != self.width {
            return Err(record.with(InputProblem::Width { expected: self.width, found: width }));
        }
        for (column, value) in vector.enumerate() {
            self.values.push(coordinate(value).map_err(|problem| record.at(column, problem))?);
        }
        self.ids.push(id);
        self.records.push(record);
        Ok(())
    }

    /// Keeps all other fields of the record that was taken last.
    pub(super) fn keep(&mut self, mut fields: Map<String, Value>) {
        if let Some(id) = self.ids.last().filter(|_| !fields.is_empty()) {
            fields.insert("id".to_owned(), id.clone().into());
            let bytes = Value::Object(fields).to_string().into_bytes();
            self.bring_back.push(crate::Record { id: id.clone(), bytes });
        }
    }

    /// Records taken so far.
    pub(super) fn rows(&self) -> usize {
        self.ids.len()
    }

    /// Everything taken, provided there is something and no id came twice.
    pub(super) fn finish(self) -> Result<Documents, InputError> {
        if self.ids.is_empty() {
            return Err(InputProblem::NoVectors.into());
        }
        check_distinct(&self.ids, |row| self.records[row])?;
        let vectors = VectorSet::new(self.width, self.values).map_err(InputProblem::from)?;
        Ok(Documents { ids: self.ids, vectors, records: self.bring_back })
    }
}
