//! Filters read from words and from JSON.

use serde_json::json;

use super::*;

fn words(text: &str) -> Filter {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn problem(text: &str) -> String {
    text.parse::<Filter>().expect_err("it is wrong on purpose").to_string()
}

#[test]
fn words_and_json_say_the_same() {
    for (text, json) in [
        ("year >= 2020", json!({"year": {"$gte": 2020}})),
        ("year=2020", json!({"year": 2020})),
        ("year == 2020.5", json!({"year": {"$eq": 2020.5}})),
        ("year != -3", json!({"year": {"$ne": -3}})),
        ("year <> null", json!({"year": {"$ne": null}})),
        ("a < x and a <= \"x y\"", json!({"$and": [{"a": {"$lt": "x"}}, {"a": {"$lte": "x y"}}]})),
        ("a > 1 AND b = true", json!({"a": {"$gt": 1}, "b": true})),
        ("lang in (en, 'd e', 3)", json!({"lang": {"$in": ["en", "d e", 3]}})),
        ("lang not in (en)", json!({"lang": {"$nin": ["en"]}})),
        ("a exists", json!({"a": {"$exists": true}})),
        ("a not exists", json!({"a": {"$exists": false}})),
        ("not a exists", json!({"a": {"$exists": false}})),
        ("not (a = 1 or b = 2)", json!({"$not": {"$or": [{"a": 1}, {"b": 2}]}})),
        ("not a = 1", json!({"a": {"$not": {"$eq": 1}}})),
        ("a=1 or b=2 and c=3", json!({"$or": [{"a": 1}, {"$and": [{"b": 2}, {"c": 3}]}]})),
        ("\"in\" = 'and'", json!({"in": "and"})),
        ("author.name = \"a \\\"b\\\" \\\\ c\"", json!({"author.name": "a \"b\" \\ c"})),
        ("date >= 2020-01-31", json!({"date": {"$gte": "2020-01-31"}})),
        ("größe > 1e3", json!({"größe": {"$gt": 1e3}})),
    ] {
        assert_eq!(words(text), Filter::from_json(&json).unwrap(), "{text}");
    }
    assert_eq!(Filter::from_json(&json!({})).unwrap(), Filter::All(Vec::new()));
}

#[test]
fn words_that_make_no_filter_are_told_where_and_why() {
    for (text, expected) in [
        ("", "column 1: expected the name of a field, found the end"),
        ("year", "column 5: expected one of =, !=, <, <=, >, >=, `in` and `exists`, found the end"),
        ("year >=", "column 8: expected a value, found the end"),
        ("topic = heart disease", "column 15: expected `and`, `or` or the end, found `disease`"),
        ("a = (", "column 5: expected a value, found `(`"),
        ("lang in en", "column 9: expected `(`, found `en`"),
        ("lang in ()", "column 10: expected a value, found `)`"),
        ("lang in (en de)", "column 13: expected `,` or `)`, found `de`"),
        ("(a = 1", "column 7: expected `)`, found the end"),
        ("a = 1)", "column 6: expected `and`, `or` or the end, found `)`"),
        ("a = \"x", "column 5: the quotation that begins with \" does not end"),
        ("größe ~ 1", "column 7: expected one of"),
        ("and = 1", "column 1: expected the name of a field, found `and`"),
        ("a not = 1", "column 7: expected one of"),
        ("! a = 1", "column 3: expected one of"),
    ] {
        let found = problem(text);
        assert!(found.contains(expected), "{text}: {found}");
    }
}

#[test]
fn json_that_makes_no_filter_is_told_why() {
    for (json, expected) in [
        (json!([1]), "expected an object, found a list"),
        (json!({"$nor": []}), "the operator \"$nor\" is not known: there are $eq,"),
        (json!({"a": {"$regex": "x"}}), "the operator \"$regex\" is not known"),
        (json!({"a": {"b": 1}}), "a field inside it is called \"a.b\""),
        (json!({"a": {}}), "the field \"a\" is asked nothing"),
        (json!({"a": [1, 2]}), "$eq of \"a\" takes a single value, found a list: $in takes a list"),
        (json!({"a": {"$in": 1}}), "$in of \"a\" takes a list, found a number"),
        (json!({"a": {"$in": [[1]]}}), "takes single values, found a list"),
        (json!({"a": {"$exists": 1}}), "$exists takes true or false, found a number"),
        (json!({"$and": []}), "$and takes a list of filters, with one at least"),
        (json!({"$or": {"a": 1}}), "$or takes a list of filters"),
    ] {
        let found = Filter::from_json(&json).unwrap_err().to_string();
        assert!(found.contains(expected), "{json}: {found}");
    }
}

#[test]
fn filters_without_end_are_refused() {
    let deep = format!("{}a = 1{}", "(".repeat(5000), ")".repeat(5000));
    assert_eq!(deep.parse::<Filter>(), Err(FilterError::TooDeep));
    let many = format!("{}a = 1", "not ".repeat(5000));
    assert_eq!(words(&many), words("a = 1"));
    assert!(problem(&"a".repeat(LONGEST + 1)).contains("at most 65536"));
    let mut json = json!({"a": 1});
    for _ in 0..100 {
        json = json!({"$not": json});
    }
    assert_eq!(Filter::from_json(&json), Err(FilterError::TooDeep));
    let mut json = json!(1);
    for _ in 0..100 {
        json = json!({"$not": json});
    }
    assert_eq!(Filter::from_json(&json!({"a": json})), Err(FilterError::TooDeep));
}
