use super::*;

fn problem(text: &[u8]) -> String {
    read(text, Names::Required).expect_err("the text is wrong on purpose").to_string()
}

#[test]
fn records_are_read_in_order() {
    let text = "\u{feff}{\"id\": \"a\", \"vector\": [1, -2.5]}\r\n\r\n{\"vector\": [1e-3, 0], \"id\": 7, \"title\": \"x\"}\n{\"id\": -7, \"vector\": [0, 1]}";
    let found = read(text.as_bytes(), Names::Required).unwrap();
    assert_eq!(found.ids, ["a", "7", "-7"]);
    assert_eq!(found.vectors.width(), 2);
    assert_eq!(found.vectors.values(), [1.0, -2.5, 0.001, 0.0, 0.0, 1.0]);
}

#[test]
fn bad_json_names_line_and_column() {
    assert_eq!(
        problem(b"\n{\"id\": \"a\", \"vector\": [1,]}"),
        "line 2, column 26: trailing comma"
    );
    for (word, words) in [
        ("NaN", "NaN is not a coordinate"),
        ("-NaN", "NaN is not a coordinate"),
        ("Infinity", "infinity is not a coordinate"),
        ("-Infinity", "infinity is not a coordinate"),
        ("nan", "expected ident"),
    ] {
        let found = problem(format!("{{\"id\": \"a\", \"vector\": [0, {word}]}}").as_bytes());
        assert!(found.starts_with("line 1, column 2") && found.ends_with(words), "{found}");
    }
    assert_eq!(
        problem(b"{\"id\": \"a\", \"vector\": [1e999]}"),
        "line 1, column 28: number out of range"
    );
}

#[test]
fn a_missing_field_is_named() {
    assert_eq!(problem(b"{\"vector\": [1]}"), "line 1, column 15: missing field `id`");
    assert_eq!(problem(b"{\"id\": \"a\"}"), "line 1, column 11: missing field `vector`");
}

#[test]
fn an_id_is_a_string_or_an_integer() {
    for id in ["1.5", "null", "[1]", "true", "99999999999999999999"] {
        let found = problem(format!("{{\"id\": {id}, \"vector\": [1]}}").as_bytes());
        assert!(found.ends_with("expected an id (a string or an integer)"), "{found}");
    }
    assert_eq!(problem(b"{\"id\": \" \", \"vector\": [1]}"), "line 1: the id is empty");
}

#[test]
fn fields_beside_a_vector_are_kept_as_they_are_or_refused() {
    let line = b"{\"id\": 7, \"_id\": 5, \"vector\": [12345678901234567890123], \"n\": 1e30}";
    let found = read(&line[..], Names::Required).unwrap();
    let record: Value = serde_json::from_slice(&found.records[0].bytes).unwrap();
    assert_eq!(record, serde_json::json!({"id": "7", "_id": 5, "n": 1e30}));
    assert_eq!(
        problem(b"{\"id\": 7, \"vector\": [1], \"n\": 12345678901234567890123}"),
        "line 1: an integer of the field \"n\" has more than 64 bits and would be rounded: write it in quotes"
    );
}

#[test]
fn a_vector_is_a_list_of_numbers() {
    let found = problem(b"{\"id\": \"a\", \"vector\": [1, null]}");
    assert_eq!(found, "line 1, column 30: invalid type: null, expected f64");
    assert_eq!(
        problem(b"{\"id\": \"a\", \"vector\": []}"),
        "line 1: the vector has no coordinates"
    );
}

#[test]
fn a_wrong_width_names_the_line() {
    assert_eq!(
        problem(b"{\"id\": \"a\", \"vector\": [1, 2]}\n{\"id\": \"b\", \"vector\": [1]}"),
        "line 2: expected 2 coordinates as in the vectors before, found 1"
    );
}

#[test]
fn a_value_too_large_names_line_and_column() {
    assert_eq!(
        problem(b"{\"id\": \"a\", \"vector\": [1, 1e39]}"),
        "line 1, column 1: the value does not fit a 32-bit float"
    );
}

#[test]
fn text_that_is_not_utf8_names_the_line() {
    assert_eq!(
        problem(b"{\"id\": \"a\", \"vector\": [1]}\n{\"id\": \"\xff\", \"vector\": [1]}"),
        "line 2: not UTF-8 at byte 8"
    );
}

#[test]
fn a_duplicate_id_names_both_lines() {
    assert_eq!(
        problem(b"{\"id\": \"7\", \"vector\": [1]}\n\n{\"id\": 7, \"vector\": [2]}"),
        "line 3: duplicate id \"7\", first on line 1"
    );
}

#[test]
fn an_empty_file_has_no_vectors() {
    assert_eq!(problem(b"\n\n"), "there are no vectors");
}

#[test]
fn queries_without_ids_are_called_by_their_row() {
    let text = b"{\"vector\": [1]}\n\n{\"id\": \"b\", \"vector\": [2]}\n{\"vector\": [3]}";
    let found = read(&text[..], Names::Optional).unwrap();
    assert_eq!(found.ids, ["0", "b", "2"]);
    assert_eq!(problem(text), "line 1, column 15: missing field `id`");
    let twice = b"{\"id\": 1, \"vector\": [1]}\n{\"vector\": [2]}";
    let error = read(&twice[..], Names::Optional).unwrap_err().to_string();
    assert_eq!(error, "line 2: duplicate id \"1\", first on line 1");
}
