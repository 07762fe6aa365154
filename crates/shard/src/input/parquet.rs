//! Vectors from a parquet file, through the crate's row interface (no Arrow).

#[cfg(feature = "parquet")]
mod columns;
#[cfg(feature = "parquet")]
mod guard;
#[cfg(all(test, feature = "parquet"))]
mod tests;

/// Reads a column of ids and a column of vectors.
#[cfg(feature = "parquet")]
pub(super) fn read(
    file: std::fs::File,
    id_column: &str,
    vector_column: &str,
) -> anyhow::Result<super::Documents> {
    guard::without_panics(|| columns::read(file, id_column, vector_column))
}

/// Says how to get what this build lacks.
#[cfg(not(feature = "parquet"))]
pub(super) fn read(
    _file: std::fs::File,
    _id_column: &str,
    _vector_column: &str,
) -> anyhow::Result<super::Documents> {
    anyhow::bail!(
        "this build cannot read parquet; build with `--features parquet`, or save the vectors as .npy or .jsonl"
    )
}
