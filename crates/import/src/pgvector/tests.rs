use serde_json::json;

use super::*;

fn read(text: &str, columns: Columns<'_>) -> Result<Imported, ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    std::fs::write(&path, text).unwrap();
    read_csv(&path, columns)
}

#[test]
fn a_csv_of_copy_becomes_documents() {
    let text = "id,body,embedding,price\n\
                1,\"a, \"\"quoted\"\"\nline\",\"[1,2.5,-3e-05]\",12.50\n\
                2,\"\",\"[0.5,0,0]\",\n";
    let imported = read(text, Columns { text: Some("body"), ..Columns::default() }).unwrap();
    assert_eq!(imported.ids, ["1", "2"]);
    assert_eq!(imported.vectors, [1.0, 2.5, -3e-5, 0.5, 0.0, 0.0]);
    assert_eq!((imported.dimension, imported.claimed), (3, 2));
    let fields: Vec<Value> = imported.fields.into_iter().map(Value::Object).collect();
    assert_eq!(fields[0], json!({"text": "a, \"quoted\"\nline", "price": "12.50"}));
    assert_eq!(fields[1], json!({"text": "", "price": null}));
}

#[test]
fn rows_that_cannot_be_taken_are_named() {
    let text = "id,embedding\n1,\"[1,2]\"\n2,\n,\"[1,2]\"\n1,\"[3,4]\"\n5,\"[0,0]\"\n6,\"[NaN,1]\"\n7,\"[1]\"\n";
    let imported = read(text, Columns::default()).unwrap();
    assert_eq!((imported.ids.len(), imported.claimed), (1, 7));
    let refused: Vec<(&str, Reason)> =
        imported.refused.iter().map(|refused| (&refused.id[..], refused.reason)).collect();
    assert_eq!(
        refused,
        [
            ("2", Reason::NoVector),
            ("line 4", Reason::NoId),
            ("1", Reason::Duplicate),
            ("5", Reason::Zero),
            ("6", Reason::NotFinite),
            ("7", Reason::Dimension),
        ]
    );
}

#[test]
fn a_table_that_is_not_as_named_is_refused() {
    let refused = |text: &str, columns, reason: &str| {
        let error = read(text, columns).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    };
    let other = Columns { vector: "v", ..Columns::default() };
    refused("id,embedding\n1,[1]\n", other, "no column \"v\"; there are id, embedding");
    refused(
        "id,embedding\n1,x\n",
        Columns::default(),
        "line 2: the column \"embedding\" is no vector",
    );
    refused("id,embedding\n1\n", Columns::default(), "line 2: 1 values where 2 are expected");
    refused("id,embedding\n", Columns::default(), "no documents");
    let twice = Columns { text: Some("a"), ..Columns::default() };
    refused("id,embedding,a,text\n", twice, "two columns would become the field \"text\"");
}
