//! The fields of all documents, column by column, and filters evaluated on them.
//!
//! A filter looks at one column after the other, so that it takes milliseconds for 100,000 documents.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use serde_json::Value;

use super::{BlockFields, Fields};
use crate::blind::BlindCollection;
use crate::collection::unusable;
use crate::error::ClientError;
use crate::filter::{Filter, FilterError, Scalar};
use crate::payload::PayloadError;

/// The fields of a collection's documents, to filter by.
#[derive(Default)]
pub struct Metadata {
    /// Places of the collection.
    places: usize,
    columns: BTreeMap<String, Column>,
    /// Fields that some document has and that are too long to be kept.
    long: BTreeSet<String>,
}

/// One field of all documents that have it.
#[derive(Default)]
struct Column {
    /// Ascending.
    rows: Vec<u32>,
    values: Vec<Cell>,
}

/// The field of one document.
enum Cell {
    One(Scalar),
    /// The single values of a list.
    List(Vec<Scalar>),
    /// An object, or what is too long.
    Other,
}

impl Cell {
    fn of(value: &Value) -> Self {
        match value {
            Value::Array(values) => Self::List(values.iter().filter_map(Scalar::of).collect()),
            value => Scalar::of(value).map_or(Self::Other, Self::One),
        }
    }

    fn any(&self, holds: impl Fn(&Scalar) -> bool) -> bool {
        match self {
            Self::One(value) => holds(value),
            Self::List(values) => values.iter().any(holds),
            Self::Other => false,
        }
    }
}

impl Metadata {
    /// Reads the fields of blocks of so many places.
    pub(super) fn of(
        blocks: &BTreeMap<u32, BlockFields>,
        per_block: u32,
        places: usize,
    ) -> Result<Self, PayloadError> {
        let parse = |(&block, fields): (&u32, &BlockFields)| {
            let first = block * per_block;
            fields.rows().map(|(place, fields)| Ok((first + place, fields?))).collect()
        };
        let blocks: Vec<(&u32, &BlockFields)> = blocks.iter().collect();
        let parsed: Result<Vec<Vec<(u32, Fields)>>, PayloadError> =
            blocks.into_par_iter().map(parse).collect();
        let mut metadata = Self { places, ..Self::default() };
        for (row, fields) in parsed?.into_iter().flatten() {
            for name in fields.long {
                metadata.put(&name, row, Cell::Other);
                metadata.long.insert(name);
            }
            for (name, value) in fields.kept {
                metadata.add(&name, row, &value);
            }
        }
        Ok(metadata)
    }

    fn add(&mut self, name: &str, row: u32, value: &Value) {
        self.put(name, row, Cell::of(value));
        if let Value::Object(inner) = value {
            inner
                .iter()
                .for_each(|(field, value)| self.add(&format!("{name}.{field}"), row, value));
        }
    }

    fn put(&mut self, name: &str, row: u32, cell: Cell) {
        if !self.columns.contains_key(name) {
            self.columns.insert(name.to_owned(), Column::default());
        }
        let Some(column) = self.columns.get_mut(name) else { return };
        // A field "a.b" beside a field "b" of an object "a": the first stands.
        if column.rows.last() != Some(&row) {
            column.rows.push(row);
            column.values.push(cell);
        }
    }

    /// The names of all fields, in the order of the alphabet.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.keys().map(String::as_str)
    }

    /// Whether a filter holds, for every place; free places and documents without fields are as those
    /// that have none of the fields.
    ///
    /// # Errors
    /// When a field that the filter compares is too long to be kept.
    pub fn matching(&self, filter: &Filter) -> Result<Vec<bool>, FilterError> {
        let mut holds = vec![false; self.places];
        match filter {
            Filter::Compare { field, comparison, value } => {
                let compared = |found: &Scalar| comparison.holds(found.order(value));
                self.mark(field, &mut holds, |cell| cell.any(compared))?;
            }
            Filter::OneOf { field, values } => {
                let is_one = |found: &Scalar| {
                    values.iter().any(|value| found.order(value).is_some_and(|order| order.is_eq()))
                };
                self.mark(field, &mut holds, |cell| cell.any(is_one))?;
            }
            Filter::Exists { field } => {
                let rows = self.columns.get(field).into_iter().flat_map(|column| &column.rows);
                rows.for_each(|&row| holds[row as usize] = true);
            }
            Filter::All(parts) => {
                holds.fill(true);
                for part in parts {
                    let more = self.matching(part)?;
                    holds.iter_mut().zip(more).for_each(|(holds, more)| *holds &= more);
                }
            }
            Filter::Any(parts) => {
                for part in parts {
                    let more = self.matching(part)?;
                    holds.iter_mut().zip(more).for_each(|(holds, more)| *holds |= more);
                }
            }
            Filter::Not(inner) => {
                holds = self.matching(inner)?;
                holds.iter_mut().for_each(|holds| *holds = !*holds);
            }
        }
        Ok(holds)
    }

    fn mark(
        &self,
        field: &str,
        holds: &mut [bool],
        is_in: impl Fn(&Cell) -> bool,
    ) -> Result<(), FilterError> {
        let is_long = |long: &String| {
            field
                .strip_prefix(long.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if self.long.iter().any(is_long) {
            return Err(FilterError::LongField(field.to_owned()));
        }
        let Some(column) = self.columns.get(field) else { return Ok(()) };
        for (&row, cell) in column.rows.iter().zip(&column.values) {
            holds[row as usize] = is_in(cell);
        }
        Ok(())
    }
}

impl std::fmt::Debug for Metadata {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Metadata({} fields)", self.columns.len())
    }
}

impl BlindCollection {
    /// The fields of its documents, read when they are first asked for.
    ///
    /// # Errors
    /// When a value of the vault is damaged.
    pub fn metadata(&self) -> Result<&Metadata, ClientError> {
        if let Some(metadata) = self.metadata.get() {
            return Ok(metadata);
        }
        let per_block = self.head.shape.rows_per_block() as u32;
        let metadata = Metadata::of(&self.fields, per_block, self.places());
        let metadata = metadata.map_err(unusable("fields"))?;
        Ok(self.metadata.get_or_init(|| metadata))
    }

    /// Whether a filter holds of the document in each place; false where a place is free.
    ///
    /// # Errors
    /// When a field of the filter is too long to be kept, or a value of the vault is damaged.
    pub fn matching(&self, filter: &Filter) -> Result<Vec<bool>, ClientError> {
        let mut holds = self.metadata()?.matching(filter)?;
        let ids = self.blocks.iter().flat_map(|block| block.ids());
        holds.iter_mut().zip(ids).for_each(|(holds, id)| *holds &= id.is_some());
        Ok(holds)
    }

    /// The rows of the chunks of documents: those called `ID#n`, whose fields say that they are chunk `n`
    /// of the document `ID`.
    pub(crate) fn chunks_of(&self, documents: &[&str]) -> Result<Vec<(u32, String)>, ClientError> {
        let metadata = self.metadata()?;
        let (Some(of), Some(numbers)) =
            (metadata.columns.get("document"), metadata.columns.get("chunk"))
        else {
            return Ok(Vec::new());
        };
        let wanted: BTreeSet<&str> = documents.iter().copied().collect();
        let mut found = Vec::new();
        for (&row, document) in of.rows.iter().zip(&of.values) {
            let Cell::One(Scalar::Text(document)) = document else { continue };
            let number = numbers.rows.binary_search(&row).ok().map(|at| &numbers.values[at]);
            let Some(Cell::One(Scalar::Integer(number))) = number else { continue };
            let is_named = self.id(row as usize) == Some(&format!("{document}#{number}"));
            if wanted.contains(document.as_str()) && is_named {
                found.push((row, document.clone()));
            }
        }
        Ok(found)
    }
}
