use std::fs;
use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

/// A folder of small files, removed with it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// A 3 x 2 array.
    fn array(&self) -> PathBuf {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }\n";
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend((0..6u8).flat_map(|value| f32::from(value).to_le_bytes()));
        self.file("docs.npy", &bytes)
    }

    /// The error of reading the array with these ids, without the folder's name.
    fn ids_problem(&self, ids: &[u8]) -> String {
        let ids = self.file("ids.txt", ids);
        let error =
            read_vectors(&self.array(), Some(&ids)).expect_err("the ids are wrong on purpose");
        error.to_string().replace(&format!("{}/", self.0.path().display()), "")
    }
}

#[test]
fn rows_are_named_by_number_or_by_file() {
    let folder = Folder::new();
    assert_eq!(read_vectors(&folder.array(), None).unwrap().ids, ["0", "1", "2"]);
    let ids = folder.file("ids.txt", "a\r\nb c\r\nd".as_bytes());
    let found = read_vectors(&folder.array(), Some(&ids)).unwrap();
    assert_eq!(found.ids, ["a", "b c", "d"]);
    assert_eq!(found.vectors.values(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn ids_that_do_not_fit_are_refused_by_line() {
    let folder = Folder::new();
    assert_eq!(
        folder.ids_problem(b"a\nb\n"),
        "ids.txt: expected 3 ids, one per row, found 2 (rows of docs.npy)"
    );
    assert_eq!(folder.ids_problem(b"a\n\nb\n"), "ids.txt: line 2: the id is empty");
    assert_eq!(folder.ids_problem(b"a\nb\n\xc3\x28\n"), "ids.txt: line 3: not UTF-8 at byte 0");
    assert_eq!(
        folder.ids_problem(b"a\nb\na\n"),
        "ids.txt: line 3: duplicate id \"a\", first on line 1"
    );
}

#[test]
fn a_long_or_strange_id_stays_on_one_short_line() {
    let folder = Folder::new();
    let long = "x\u{1b}".repeat(1000);
    let problem = folder.ids_problem(format!("{long}\nb\n{long}\n").as_bytes());
    assert!(problem.len() < 600 && !problem.contains('\u{1b}'), "{problem}");
}

#[test]
fn ids_from_a_file_go_with_arrays_only() {
    let folder = Folder::new();
    let path = folder.file("docs.jsonl", b"{\"id\": \"a\", \"vector\": [1]}");
    let error = read_vectors(&path, Some(Path::new("ids.txt"))).unwrap_err().to_string();
    assert!(
        error.ends_with("ids from a file (ids.txt) go with .npy only; this format carries its own"),
        "{error}"
    );
}

#[test]
fn compressed_lines_read_like_plain_ones() {
    let folder = Folder::new();
    let text = b"{\"id\": \"a\", \"vector\": [1, 2]}\n{\"id\": \"b\", \"vector\": [3, 4]}\n";
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).unwrap();
    let compressed = encoder.finish().unwrap();
    let plain = read_vectors(&folder.file("docs.jsonl", text), None).unwrap();
    assert_eq!(read_vectors(&folder.file("DOCS.JSONL.GZ", &compressed), None).unwrap(), plain);
    let cut = folder.file("cut.jsonl.gz", &compressed[..compressed.len() - 9]);
    let error = read_vectors(&cut, None).unwrap_err().to_string();
    assert!(error.contains("cut.jsonl.gz: line "), "{error}");
}

#[test]
fn errors_begin_with_the_file() {
    let folder = Folder::new();
    for (name, bytes) in
        [("a.npy", &b"no"[..]), ("a.jsonl", b"{"), ("a.parquet", b"no"), ("a.csv", b"1,2")]
    {
        let path = folder.file(name, bytes);
        for error in
            [read_vectors(&path, None).unwrap_err(), read_queries(&path, None).unwrap_err()]
        {
            let line = format!("{error:#}");
            assert!(line.starts_with(&format!("{}: ", path.display())), "{line}");
            assert_eq!(line, error.to_string());
            assert_eq!(line.lines().count(), 1);
        }
    }
    let missing = read_vectors(&folder.0.path().join("none.npy"), None).unwrap_err().to_string();
    assert!(missing.contains("none.npy: No such file"), "{missing}");
    let directory = folder.0.path().join("folder.npy");
    fs::create_dir(&directory).unwrap();
    let error = read_vectors(&directory, None).unwrap_err().to_string();
    assert!(error.ends_with("expected a file, found a directory"), "{error}");
}

#[cfg(feature = "audit")]
#[test]
fn judgements_are_read_from_files() {
    let folder = Folder::new();
    let judged = folder.file("qrels.tsv", b"query-id\tcorpus-id\tscore\n1\ta\t1\n");
    assert_eq!(read_qrels(&judged).unwrap().len(), 1);
    let wrong = folder.file("wrong.tsv", b"1\ta\n");
    let error = read_qrels(&wrong).unwrap_err().to_string();
    assert!(error.contains("wrong.tsv: line 1: expected 3 columns"), "{error}");
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_build_without_parquet_says_how_to_get_it() {
    let folder = Folder::new();
    let error = read_vectors(&folder.file("docs.parquet", b"PAR1"), None).unwrap_err().to_string();
    assert!(error.contains("the feature `parquet`"), "{error}");
}
