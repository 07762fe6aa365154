//! `shard ingest` from outside: what it refuses, without a trace, and what it takes.

use crate::support::{Desk, KEY, VAULT, npy, number, random_rows, vectors};

/// Forty ids, one per line, with one line replaced.
fn ids_with(line: usize, replacement: &[u8]) -> Vec<u8> {
    let lines = (1..=40).map(|number| {
        if number == line { replacement.to_vec() } else { format!("id{number}").into_bytes() }
    });
    lines.flat_map(|id| [id, b"\n".to_vec()].concat()).collect()
}

#[test]
fn values_that_are_no_numbers_are_refused_by_place() {
    let desk = Desk::with_small_vault();
    let values = [(f32::NAN, "NaN"), (f32::INFINITY, "infinity"), (f32::NEG_INFINITY, "infinity")];
    for (value, name) in values {
        let mut rows = random_rows(5, 12, 2);
        rows[3][7] = value;
        desk.npy("bad.npy", &rows);
        desk.ingest_refused(&["bad.npy"], &["bad.npy", "row 3, column 7", name]);
    }
}

#[test]
fn a_double_beyond_single_precision_is_refused() {
    let desk = Desk::with_small_vault();
    let data: Vec<u8> = [1e39_f64; 12].iter().flat_map(|x| x.to_le_bytes()).collect();
    desk.write("bad.npy", npy("<f8", false, &[1, 12], &data));
    desk.ingest_refused(&["bad.npy"], &["bad.npy", "row 0, column 0", "32-bit"]);
}

#[test]
fn a_second_ingest_of_another_width_is_refused() {
    let desk = Desk::with_small_vault();
    for width in [11, 13, 1] {
        desk.npy("other.npy", &random_rows(5, width, 2));
        desk.ingest_refused(&["other.npy"], &[&format!("width {width}"), "expected 12"]);
    }
}

#[test]
fn a_vector_too_long_for_the_fixed_point_is_refused() {
    let desk = Desk::with_small_vault();
    desk.npy("long.npy", &[vec![1e9; 12]]);
    desk.ingest_refused(&["long.npy"], &["norm", "too long"]);
}

#[test]
fn arrays_that_are_no_tables_of_floats_are_refused() {
    let desk = Desk::with_small_vault();
    let rows = random_rows(5, 12, 2);
    let data = vectors::bytes(&rows, f32::to_le_bytes);
    let good = vectors::singles(&rows);
    let cases: [(Vec<u8>, &str); 8] = [
        (npy("<f4", false, &[0, 12], &[]), "there are no vectors"),
        (npy("<f4", false, &[12, 0], &[]), "there are no vectors"),
        (npy("<f4", false, &[60], &data), "two-dimensional"),
        (npy("<i4", false, &[5, 12], &data), "<i4"),
        (npy(">i4", false, &[5, 12], &data), ">i4"),
        (good[..good.len() - 1].to_vec(), "cut short"),
        (good[..40].to_vec(), "header is cut short"),
        (Vec::new(), "too short"),
    ];
    for (file, reason) in cases {
        desk.write("bad.npy", file);
        desk.ingest_refused(&["bad.npy"], &["bad.npy", reason]);
    }
}

#[test]
fn arrays_of_every_order_are_the_same_documents() {
    let desk = Desk::with_small_vault();
    let rows = random_rows(40, 12, 1);
    let columns: Vec<Vec<f32>> =
        (0..12).map(|at| rows.iter().map(|row| row[at]).collect()).collect();
    let big = |rows: &[Vec<f32>]| vectors::bytes(rows, f32::to_be_bytes);
    let little = vectors::bytes(&columns, f32::to_le_bytes);
    let cases = [(">f4", false, big(&rows)), (">f4", true, big(&columns)), ("<f4", true, little)];
    let dump =
        ["dump", VAULT, "--key-file", KEY, "--vectors", "out.npy", "--ids", "ids", "--force"];
    let held = || {
        desk.succeeds(&dump);
        std::fs::read(desk.path("out.npy")).unwrap()
    };
    let expected = held();
    desk.npy("wrong.npy", &random_rows(40, 12, 2));
    for (descr, fortran, data) in cases {
        desk.ingest(&["wrong.npy"]);
        assert!(held() != expected);
        desk.write("other.npy", npy(descr, fortran, &[40, 12], &data));
        desk.ingest(&["other.npy"]);
        assert!(held() == expected, "{descr} {fortran}");
    }
}

#[test]
fn ids_that_do_not_name_the_rows_are_refused() {
    let desk = Desk::with_small_vault();
    let cases: [(Vec<u8>, &[&str]); 6] = [
        (ids_with(9, b"id2"), &["line 9", "duplicate id \"id2\"", "line 2"]),
        (ids_with(9, b"caf\xe9"), &["line 9", "not UTF-8"]),
        (ids_with(9, b""), &["line 9", "empty"]),
        (ids_with(9, b" \t"), &["line 9", "empty"]),
        (b"a\nb\n".to_vec(), &["expected 40 ids", "found 2", "docs.npy"]),
        (ids_with(9, &[b'x'; 65_536]), &["65536 bytes"]),
    ];
    for (file, reasons) in cases {
        desk.write("ids.txt", file);
        desk.ingest_refused(&["docs.npy", "--ids", "ids.txt"], reasons);
    }
    desk.ingest_refused(&["docs.npy", "--ids", "none.txt"], &["none.txt", "No such file"]);
}

#[test]
fn files_that_are_not_there_or_not_of_a_known_kind_are_refused() {
    let desk = Desk::with_small_vault();
    desk.write("docs.bin", "1,2,3\n");
    desk.ingest_refused(&["docs.bin"], &["docs.bin", ".npy, .jsonl, .jsonl.gz, .parquet"]);
    desk.ingest_refused(&["none.npy"], &["none.npy", "No such file"]);
    std::fs::create_dir(desk.path("folder.npy")).unwrap();
    desk.ingest_refused(&["folder.npy"], &["folder.npy", "found a directory"]);
}

#[cfg(unix)]
#[test]
fn a_file_name_with_a_line_break_does_not_break_the_line() {
    let desk = Desk::with_small_vault();
    desk.write("two\nlines.npy", "");
    desk.ingest_refused(&["two\nlines.npy"], &["two\\nlines.npy"]);
}

#[test]
fn json_lines_are_refused_by_line() {
    let desk = Desk::with_small_vault();
    let vector = |width: usize| vec!["0.5"; width].join(", ");
    let good = format!("{{\"id\": \"a\", \"vector\": [{}]}}\n", vector(12));
    let second = |record: &str| format!("{good}{record}\n").into_bytes();
    let cases: [(Vec<u8>, &[&str]); 8] = [
        (second("{\"id\": \"b\""), &["line 2"]),
        (second("{\"id\": \"b\"}"), &["line 2", "vector"]),
        (second("{\"id\": \"b\", \"vector\": [\"x\"]}"), &["line 2", "expected f64"]),
        (second("{\"id\": \"b\", \"vector\": [NaN]}"), &["line 2"]),
        (second(&format!("{{\"id\": \"b\", \"vector\": [{}]}}", vector(11))), &["line 2", "11"]),
        (second(&good), &["line 2", "duplicate id \"a\"", "line 1"]),
        ([good.as_bytes(), b"{\"id\": \"\xff\"}\n"].concat(), &["line 2", "not UTF-8"]),
        (b"\n".to_vec(), &["there are no vectors"]),
    ];
    for (file, reasons) in cases {
        desk.write("bad.jsonl", file);
        desk.ingest_refused(&["bad.jsonl"], &[&["bad.jsonl"], reasons].concat());
    }
    desk.write("good.jsonl", &good);
    desk.ingest_refused(&["good.jsonl", "--ids", "ids.txt"], &["ids", ".npy only"]);
    assert_eq!(number(&desk.ingest(&["good.jsonl"]), "documents"), 41.0);
}

#[test]
fn fewer_rows_than_cells_leave_the_vault_empty() {
    for count in [1, 3] {
        let desk = Desk::new();
        desk.npy("docs.npy", &random_rows(count, 12, 1));
        desk.succeeds(&[
            "init",
            VAULT,
            "--protection",
            "rotated",
            "--cells",
            "4",
            "--key-file",
            KEY,
        ]);
        let before = desk.snapshot(VAULT);
        let reason = format!("{count} rows cannot fill 4 cells");
        desk.refused(&["ingest", VAULT, "docs.npy", "--key-file", KEY], &[&reason]);
        assert!(desk.snapshot(VAULT) == before);
        // The refusal decided nothing: a corpus that fits is still welcome.
        desk.npy("docs.npy", &random_rows(8, 12, 1));
        assert_eq!(number(&desk.ingest(&["docs.npy"]), "documents"), 8.0);
    }
}

#[test]
fn one_row_is_a_collection_of_one_cell_or_one_key() {
    for cells in ["1", "micro"] {
        let desk = Desk::with_vault(cells, &random_rows(1, 12, 1));
        assert_eq!(desk.found(&[]), ["0"]);
    }
}

#[test]
fn a_width_that_leaves_no_residual_is_refused() {
    let desk = Desk::new();
    desk.npy("docs.npy", &random_rows(8, 1, 1));
    desk.succeeds(&["init", VAULT, "--protection", "rotated", "--cells", "1", "--key-file", KEY]);
    desk.refused(&["ingest", VAULT, "docs.npy", "--key-file", KEY], &["width 1"]);
}

#[cfg(feature = "parquet")]
mod parquet {
    use super::*;

    fn empty_vault() -> Desk {
        let desk = Desk::new();
        desk.succeeds(&[
            "init",
            VAULT,
            "--protection",
            "rotated",
            "--cells",
            "2",
            "--key-file",
            KEY,
        ]);
        desk
    }

    /// How many documents a rotated vault takes of a file with more columns, for which it has no place: that
    /// is said.
    fn vectors_taken(desk: &Desk, file: &[&str]) -> f64 {
        let ingest = [&["ingest", VAULT, "--key-file", KEY], file, &["--json", "-"]].concat();
        let output = desk.shard(&ingest).output().unwrap();
        assert!(output.status.success());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, "only vectors were taken: a rotated vault keeps no other fields\n");
        number(&serde_json::from_slice(&output.stdout).unwrap(), "added")
    }

    #[test]
    fn parquet_brings_its_ids() {
        let desk = empty_vault();
        desk.fixture("snappy_float.parquet");
        desk.npy("query.npy", &[vec![0.0, 0.0, 1.0]]);
        assert_eq!(vectors_taken(&desk, &["snappy_float.parquet"]), 5.0);
        let found = desk.hits(&["-k", "2", "--candidates", "5"]);
        assert_eq!(found[0].0, "delta");
        assert!((found[0].1 - 8.0).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn parquet_columns_can_be_named() {
        let desk = empty_vault();
        desk.fixture("gzip_half.parquet");
        desk.npy("query.npy", &[vec![0.0, 0.0, -1.0]]);
        let ingest = ["ingest", VAULT, "gzip_half.parquet", "--key-file", KEY];
        desk.refused(&ingest, &["gzip_half.parquet", "\"id\"", "key"]);
        let columns = ["gzip_half.parquet", "--id-column", "key", "--vector-column", "embedding"];
        assert_eq!(vectors_taken(&desk, &columns), 5.0);
        assert_eq!(desk.found(&["--candidates", "5"])[0], "beta");
    }

    #[test]
    fn wrong_parquet_files_are_refused() {
        let desk = Desk::with_small_vault();
        let cases = [
            ("bad_nan", "NaN"),
            ("bad_overflow", "32-bit"),
            ("bad_width", "expected 3 coordinates"),
            ("bad_empty_vector", "no coordinates"),
            ("bad_duplicate", "duplicate id \"a\""),
            ("bad_no_rows", "there are no vectors"),
            ("bad_null_id", "null"),
            ("bad_null_vector", "null"),
            ("bad_null_element", "null"),
            ("bad_id_type", "strings or integers"),
            ("bad_vector_type", "lists of floats"),
            ("bad_not_a_list", "lists of floats"),
            ("bad_utf8", "UTF-8"),
        ];
        for (name, reason) in cases {
            let file = format!("{name}.parquet");
            desk.fixture(&file);
            desk.ingest_refused(&[&file], &[&file, reason]);
        }
        desk.write("cut.parquet", "PAR1");
        desk.ingest_refused(&["cut.parquet"], &["cut.parquet", "not a parquet file"]);
    }
}
