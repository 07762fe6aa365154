use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::super::{Documents, read_parquet, read_vectors};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format!("{name}.parquet"))
}

fn problem(name: &str) -> String {
    let path = fixture(name);
    let error = read_vectors(&path, None).expect_err("the file is wrong on purpose").to_string();
    let (file, problem) = error.split_once(": ").expect("the file's name comes first");
    assert_eq!(Path::new(file), path);
    problem.to_owned()
}

/// The rows that every good fixture holds.
fn assert_rows(found: &Documents) {
    assert_eq!(found.vectors.width(), 3);
    #[rustfmt::skip]
    let expected = [0.5, -1.0, 2.0, 0.25, 0.0, -3.5, 1.0, 1.5, 0.125, -0.75, 4.0, 8.0, 0.0, 0.0, 1.0];
    assert_eq!(found.vectors.values(), expected);
}

const NAMES: [&str; 5] = ["alpha", "beta", "gamma", "delta", "épsilon"];

#[test]
fn snappy_strings_and_floats_are_read_across_row_groups() {
    let found = read_vectors(&fixture("snappy_float"), None).unwrap();
    assert_eq!(found.ids, NAMES);
    assert_rows(&found);
}

#[test]
fn zstd_integers_and_doubles_are_read() {
    let found = read_vectors(&fixture("zstd_double"), None).unwrap();
    assert_eq!(found.ids, ["10", "20", "-30", "1099511627776", "0"]);
    assert_rows(&found);
}

#[test]
fn half_floats_are_read_from_columns_of_other_names() {
    let found = read_parquet(&fixture("gzip_half"), "key", "embedding").unwrap();
    assert_eq!(found.ids, NAMES);
    assert_rows(&found);
}

#[test]
fn fixed_size_and_old_lists_are_read() {
    assert_rows(&read_vectors(&fixture("lz4_fixed"), None).unwrap());
    let old = read_vectors(&fixture("old_list"), None).unwrap();
    assert_eq!(old.ids, ["0", "1", "2", "3", "4"]);
    assert_rows(&old);
}

#[test]
fn a_missing_column_is_named_beside_those_there() {
    assert_eq!(problem("gzip_half"), "expected a column \"id\", found title, embedding, key");
}

#[test]
fn columns_of_other_types_are_refused() {
    assert_eq!(problem("bad_id_type"), "column \"id\": expected strings or integers, found DOUBLE");
    assert_eq!(
        problem("bad_vector_type"),
        "column \"vector\": expected lists of floats, found lists of INT32"
    );
    assert_eq!(
        problem("bad_not_a_list"),
        "column \"vector\": expected lists of floats, found DOUBLE"
    );
}

#[test]
fn faults_of_a_row_name_the_row() {
    assert_eq!(problem("bad_null_id"), "row 1: column \"id\" is null");
    assert_eq!(problem("bad_null_vector"), "row 1: column \"vector\" is null");
    assert_eq!(problem("bad_null_element"), "row 1: column \"vector\" is null at position 1");
    assert_eq!(problem("bad_nan"), "row 1, column 2: NaN is not a coordinate");
    assert_eq!(problem("bad_overflow"), "row 0, column 1: the value does not fit a 32-bit float");
    assert_eq!(
        problem("bad_width"),
        "row 1: expected 3 coordinates as in the vectors before, found 1"
    );
    assert_eq!(problem("bad_empty_vector"), "row 0: the vector has no coordinates");
    assert_eq!(problem("bad_utf8"), "row 1: column \"id\" is not UTF-8");
    assert_eq!(problem("bad_duplicate"), "row 2: duplicate id \"a\", first on row 0");
    assert_eq!(problem("bad_no_rows"), "there are no vectors");
}

#[test]
fn a_file_that_is_not_parquet_or_is_cut_short_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("short.parquet");
    let whole = fs::read(fixture("snappy_float")).unwrap();
    for length in [0, 3, 7, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        let error =
            super::read(File::open(&path).unwrap(), "id", "vector").unwrap_err().to_string();
        assert!(error.starts_with("not a parquet file: "), "{error}");
    }
}

#[test]
fn a_flipped_bit_in_any_byte_is_an_error_or_still_a_table() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flipped.parquet");
    let whole = fs::read(fixture("zstd_double")).unwrap();
    for byte in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[byte] ^= 1 << (byte % 8);
        fs::write(&path, &bytes).unwrap();
        if let Ok(found) = super::read(File::open(&path).unwrap(), "id", "vector") {
            assert_eq!(found.vectors.values().len(), found.ids.len() * found.vectors.width());
        }
    }
}
