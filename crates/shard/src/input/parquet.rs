//! Vectors from a parquet file, through the crate's row interface (no Arrow).

#[cfg(feature = "parquet")]
mod columns;
#[cfg(feature = "parquet")]
mod fields;
#[cfg(feature = "parquet")]
mod guard;
#[cfg(all(test, feature = "parquet"))]
mod tests;

use std::fs::File;

use super::error::InputError;
use super::{Documents, TextDocument};

/// Reads a column of ids and a column of vectors.
#[cfg(feature = "parquet")]
pub(super) fn read(
    file: File,
    id_column: &str,
    vector_column: &str,
) -> Result<Documents, InputError> {
    guard::without_panics(|| columns::read(file, id_column, vector_column))
}

/// Says how to get what this build lacks.
#[cfg(not(feature = "parquet"))]
pub(super) fn read(_: File, _: &str, _: &str) -> Result<Documents, InputError> {
    Err(super::InputProblem::NoParquet.into())
}

/// Reads documents as text: `id` or `_id`, `text`, perhaps `title`, and all other columns but the vector.
#[cfg(feature = "parquet")]
pub(super) fn read_texts(file: File) -> Result<Vec<TextDocument>, InputError> {
    guard::without_panics(|| columns::read_texts(file))
}

/// Whether there is a column of this name.
#[cfg(feature = "parquet")]
pub(super) fn has_column(file: File, name: &str) -> Result<bool, InputError> {
    guard::without_panics(|| columns::has_column(file, name))
}

/// Says how to get what this build lacks.
#[cfg(not(feature = "parquet"))]
pub(super) fn read_texts(_: File) -> Result<Vec<TextDocument>, InputError> {
    Err(super::InputProblem::NoParquet.into())
}

/// Says how to get what this build lacks.
#[cfg(not(feature = "parquet"))]
pub(super) fn has_column(_: File, _: &str) -> Result<bool, InputError> {
    Err(super::InputProblem::NoParquet.into())
}
