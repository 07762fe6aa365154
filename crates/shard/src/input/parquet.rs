//! Vectors from a parquet file, through the crate's row interface (no Arrow).

#[cfg(feature = "parquet")]
mod columns;
#[cfg(feature = "parquet")]
mod guard;
#[cfg(all(test, feature = "parquet"))]
mod tests;

use std::fs::File;

use super::Documents;
use super::error::InputError;

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
