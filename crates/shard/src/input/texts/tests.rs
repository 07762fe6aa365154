//! Texts from files of every kind, sound and damaged.

use std::fs;

use serde_json::json;

use super::*;

fn problem(text: &[u8]) -> String {
    texts_from(text).expect_err("the text is wrong on purpose").to_string()
}

/// What is wrong with a file of this name.
fn refused(name: &str, content: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    let error = read_texts(&path).expect_err("the file is wrong on purpose").to_string();
    error.replace(&format!("{}/", folder.path().display()), "")
}

fn read_file(name: &str, content: &[u8]) -> Vec<TextDocument> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    read_texts(&path).unwrap().documents
}

fn document(id: &str, title: Option<&str>, text: &str, fields: serde_json::Value) -> TextDocument {
    let serde_json::Value::Object(fields) = fields else { panic!("fields are an object") };
    TextDocument { id: id.into(), title: title.map(str::to_owned), text: text.into(), fields }
}

#[test]
fn lines_are_read_with_all_their_fields() {
    let lines = "{\"_id\": \"a\", \"title\": \"T\", \"text\": \"body\"}\r\n\n\
                 {\"id\": 7, \"text\": \"q\", \"title\": \"\", \"year\": 2020}\n\
                 {\"id\": 8, \"_id\": 5, \"text\": \"x\", \"title\": null}\n\
                 {\"_id\": {\"$oid\": \"5f\"}, \"id\": 9, \"text\": \"y\"}";
    let found = texts_from(lines.as_bytes()).unwrap();
    assert_eq!(
        found,
        [
            document("a", Some("T"), "body", json!({})),
            document("7", None, "q", json!({"year": 2020})),
            document("8", None, "x", json!({"_id": 5})),
            document("9", None, "y", json!({"_id": {"$oid": "5f"}})),
        ]
    );
    assert_eq!(found[0].with_title(), "T body");
    let record: serde_json::Value = serde_json::from_slice(&found[1].record().bytes).unwrap();
    assert_eq!(record, json!({"id": "7", "text": "q", "year": 2020}));
}

#[test]
fn a_wrong_line_is_named() {
    assert_eq!(problem(b"\n{\"_id\": \"a\"}"), "line 2, column 12: missing field `text`");
    assert_eq!(problem(b"{\"text\": \"a\"}"), "line 1, column 13: missing field `id`");
    assert_eq!(problem(b"{\"_id\": \"\", \"text\": \"\"}"), "line 1: the id is empty");
    assert_eq!(
        problem(b"{\"_id\": \"a\", \"text\": \"\"}\n{\"_id\": \"a\", \"text\": \"\"}"),
        "line 2: duplicate id \"a\", first on line 1"
    );
    assert_eq!(
        problem(b"{\"id\": 1, \"text\": 5}"),
        "line 1, column 20: expected a text as `text`"
    );
    assert!(
        problem(b"{\"id\": 1, \"text\": \"a\", \"x\": 1, \"x\": 2}")
            .contains("duplicate field `x`")
    );
    assert!(
        problem(b"{\"_id\": 1.5, \"text\": \"a\"}")
            .contains("expected an id (a string or an integer)")
    );
    assert!(problem(b"[1]").contains("expected an object"));
    assert_eq!(problem(b"{\"id\": \"\xff\"}"), "line 1: not UTF-8 at byte 8");
}

#[test]
fn a_vector_after_lines_without_is_refused_and_vectors_from_the_first_line_on_are_not_read() {
    let with = "{\"id\": 1, \"text\": \"a\", \"vector\": [1]}\n";
    let without = "{\"id\": 2, \"text\": \"b\"}\n";
    assert_eq!(
        problem(format!("\n{without}{with}").as_bytes()),
        "line 3: there is a `vector` and the first line has none: give every line one, or none"
    );
    let found = texts_from(format!("{with}{without}").as_bytes()).unwrap();
    assert_eq!(found, [document("1", None, "a", json!({})), document("2", None, "b", json!({}))]);
}

#[test]
fn an_integer_that_would_be_rounded_is_refused_and_other_numbers_are_what_they_say() {
    for long in ["12345678901234567890123", "-9223372036854775809", "18446744073709551616"] {
        for value in [long.to_owned(), format!("[1, {{\"deep\": {long}}}]")] {
            let line = format!("{{\"id\": 1, \"text\": \"a\", \"size\": 1e30, \"n\": {value}}}");
            assert_eq!(
                problem(format!("\n{line}").as_bytes()),
                "line 2: an integer of the field \"n\" has more than 64 bits and would be rounded: \
                 write it in quotes"
            );
        }
    }
    let line = r#"{"id": 1, "text": "say \" 12345678901234567890123 \\", "price": 1.10, "size": 1e30,
                   "most": 18446744073709551615, "least": -9223372036854775808,
                   "serial": "12345678901234567890123"}"#;
    let found = texts_from(line.replace('\n', " ").as_bytes()).unwrap();
    let fields = json!({"price": 1.1, "size": 1e30, "most": u64::MAX, "least": i64::MIN,
                        "serial": "12345678901234567890123"});
    assert_eq!(found[0].fields, *fields.as_object().unwrap());
}

/// What the cells of a column of a table become.
#[cfg(feature = "csv")]
fn column(cells: &[&str]) -> Vec<serde_json::Value> {
    let rows = cells.iter().enumerate().map(|(row, cell)| format!("{row},a,{cell}\n"));
    let table = format!("id,text,cell\n{}", rows.collect::<String>());
    let documents = read_file("t.csv", table.as_bytes());
    documents.iter().map(|found| found.fields.get("cell").cloned().unwrap_or_default()).collect()
}

#[cfg(feature = "csv")]
#[test]
fn a_column_is_numbers_where_every_cell_is_one() {
    let prices = column(&["2.25", "3", "1.10", "", "-0.5", "1e5", "2020.0", "0.00", "-0"]);
    let expected = [
        json!(2.25),
        json!(3),
        json!(1.1),
        json!(null),
        json!(-0.5),
        json!(1e5),
        json!(2020.0),
        json!(0.0),
        json!(-0.0),
    ];
    assert_eq!(prices, expected);
    for (cell, number) in [
        ("18446744073709551615", json!(u64::MAX)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("0.30000000000000004", json!(0.1 + 0.2)),
        ("1E+2", json!(100.0)),
        ("100e-2", json!(1.0)),
        ("5e-324", json!(5e-324)),
    ] {
        assert_eq!(column(&["7", cell]), [json!(7), number]);
    }
}

#[cfg(feature = "csv")]
#[test]
fn a_cell_that_is_no_number_leaves_all_of_its_column_as_written() {
    for cell in [
        "007",
        "+49",
        "1.",
        ".5",
        " 3",
        "0x1f",
        "NaN",
        "inf",
        "1e400",
        "1e-400",
        "1e-99999999999999999999",
        "12345678901234567890123",
        "9007199254740993.0",
        "0.1000000000000000055511151231257827",
        "true",
        "null",
        "[1]",
        "x",
    ] {
        let cells = ["1.10", cell, "2"];
        assert_eq!(column(&cells), cells);
        assert_eq!(column(&[cell]) == [json!(cell)], cell != "true", "{cell}");
    }
}

#[cfg(feature = "csv")]
#[test]
fn a_column_is_truths_where_every_cell_is_one() {
    let truths = column(&["True", "False", "", "true", "false"]);
    assert_eq!(truths, [json!(true), json!(false), json!(null), json!(true), json!(false)]);
    for cells in [["True", "1"], ["False", "no"], ["true", "TRUE"]] {
        assert_eq!(column(&cells), cells);
    }
}

#[cfg(feature = "csv")]
#[test]
fn tables_give_numbers_and_truths_and_keep_texts() {
    let table = "\u{feff}_id,title,text,year,open,code,note\r\n\
                 a,T,\"two\nlines, \"\"quoted\"\"\",2020,true,007,\r\n\
                 b,,plain,1.5,false,x,y\r\n";
    assert_eq!(
        read_file("t.csv", table.as_bytes()),
        [
            document(
                "a",
                Some("T"),
                "two\nlines, \"quoted\"",
                json!({"year": 2020, "open": true, "code": "007"})
            ),
            document(
                "b",
                None,
                "plain",
                json!({"year": 1.5, "open": false, "code": "x", "note": "y"})
            ),
        ]
    );
}

#[cfg(feature = "csv")]
#[test]
fn a_wrong_table_is_told_where() {
    assert_eq!(
        refused("t.csv", b"a,b\n1,2\n"),
        "t.csv: line 1: expected a column \"id\", found a, b"
    );
    assert_eq!(
        refused("t.csv", b"id,b\n1,2\n"),
        "t.csv: line 1: expected a column \"text\", found id, b"
    );
    assert_eq!(refused("t.csv", b"id,text,x,x\n"), "t.csv: line 1: there are two columns \"x\"");
    assert_eq!(
        refused("t.csv", b"id,text\n1,a\n2\n"),
        "t.csv: line 3: expected 2 cells as in the header, found 1"
    );
    assert_eq!(refused("t.csv", b"id,text\n,a\n"), "t.csv: line 2: the id is empty");
    assert_eq!(
        refused("t.csv", b"id,text\n1,a\n1,b\n"),
        "t.csv: line 3: duplicate id \"1\", first on line 2"
    );
    assert_eq!(refused("t.csv", b"id,text\n1,\xff\n"), "t.csv: line 2: column 1 is not UTF-8");
    assert_eq!(refused("t.csv", b"id,text\n"), "t.csv: there are no documents");
}

#[test]
fn a_folder_is_read_by_name_and_says_what_it_leaves_out() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    write("b.md", "---\n# no heading\n---\n```\n# code\n```\n## The *title* ##\nwords");
    write("a/z.txt", "# no Markdown");
    write("a/Y.MD", "Under\n=====\nwords");
    write("c.md", " \n");
    write(".hidden.md", "x");
    write("picture.png", "x");
    write("other.PNG", "x");
    write("Makefile", "x");
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.path(), folder.path().join("loop")).unwrap();
    let Texts { documents, skipped } = read_texts(folder.path()).unwrap();
    let found: Vec<(&str, Option<&str>)> = documents
        .iter()
        .map(|document| (document.id.as_str(), document.title.as_deref()))
        .collect();
    assert_eq!(
        found,
        [("a/Y.MD", Some("Under")), ("a/z.txt", None), ("b.md", Some("The *title*"))]
    );
    assert!(documents[2].text.contains("no heading"), "all of the text is kept");
    #[cfg(unix)]
    assert_eq!(
        skipped.to_string(),
        "1 hidden, 1 links, 1 without a word, 1 without an ending, 2 .png"
    );
    assert_eq!(holds(folder.path(), None).unwrap(), Holds::Texts);
}

#[test]
fn what_is_no_text_is_refused_in_one_sentence() {
    assert_eq!(refused("a.txt", b"a\0b"), "a.txt: not a text: it has NUL bytes");
    assert_eq!(refused("a.txt", b"ab\xffc"), "a.txt: not UTF-8 at byte 2");
    assert_eq!(refused("a.md", b" \n"), "a.md: there is no text in it");
    assert_eq!(refused("a.npy", b"x"), "a.npy: there are no texts in a .npy file");
    assert!(refused("a.pdf", b"x").starts_with("a.pdf: expected a .npy, .jsonl,"));
    assert_eq!(refused("a.jsonl", b"\n"), "a.jsonl: there are no documents");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), b"\0").unwrap();
    let error = read_texts(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with("a.txt: not a text: it has NUL bytes"), "{error}");
    assert!(read_texts(&folder.path().join("nothing.txt")).is_err());
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_text() {
    assert_eq!(
        read_file("a.md", "\u{feff}# T\nx".as_bytes()),
        [document("a.md", Some("T"), "# T\nx", json!({}))]
    );
}

#[test]
fn whether_a_file_has_vectors_is_seen_by_its_first_line() {
    let folder = tempfile::tempdir().unwrap();
    let look = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        holds(&path, None)
    };
    assert_eq!(
        look("a.jsonl", "\n{\"id\": 1, \"vector\": [1], \"text\": \"x\"}\nbroken").unwrap(),
        Holds::Vectors
    );
    assert_eq!(look("a.jsonl", "{\"id\": 1, \"text\": \"x\"}").unwrap(), Holds::Texts);
    assert_eq!(look("a.csv", "").unwrap(), Holds::Texts);
    assert_eq!(look("a.npy", "").unwrap(), Holds::Vectors);
    assert!(look("a.jsonl", "broken").is_err());
    assert!(look("a.bin", "").is_err());
}
