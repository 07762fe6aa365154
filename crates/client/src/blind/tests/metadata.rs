//! Fields of records: kept with their documents through every change, and filtered by as one would by hand.

use std::cmp::Ordering;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::collection::export_query_vault;
use crate::{
    Comparison, EncoderNote, Filter, FilterError, Record, Scalar, encoder_note, set_records,
};

/// A record of fields, for the document of this number.
fn record(number: usize, fields: &Value) -> Record {
    let mut all = json!({"id": name(number), "title": "T", "text": "words"});
    let all_fields = all.as_object_mut().unwrap();
    all_fields.extend(fields.as_object().unwrap().clone());
    Record { id: name(number), bytes: all.to_string().into_bytes() }
}

fn set(world: &mut World, fields: &[(usize, Value)]) {
    let records = fields.iter().map(|(number, fields)| record(*number, fields)).collect();
    set_records(&mut world.vault, records, &mut world.rng).unwrap();
}

/// The documents that a filter holds of.
fn matching(collection: &BlindCollection, filter: &Filter) -> Vec<String> {
    let holds = collection.matching(filter).unwrap();
    let ids = collection.ids().filter(|(place, _)| holds[*place as usize]);
    let mut ids: Vec<String> = ids.map(|(_, id)| id.to_owned()).collect();
    ids.sort();
    ids
}

fn named(world: &World, filter: &str) -> Vec<String> {
    matching(&world.collection(), &filter.parse().unwrap())
}

#[test]
fn fields_follow_their_documents_through_every_change() {
    let mut world = World::with(40);
    let years: Vec<(usize, Value)> = (0..40).map(|n| (n, json!({"year": 2000 + n}))).collect();
    set(&mut world, &years);
    assert_eq!(named(&world, "year >= 2038"), ["doc-038", "doc-039"]);
    world.check();
    set(&mut world, &[(3, json!({"year": 2050})), (4, json!({}))]);
    assert_eq!(named(&world, "year = 2003 or year = 2004"), [""; 0]);
    assert_eq!(named(&world, "year > 2039"), ["doc-003"]);
    assert_eq!(named(&world, "not year exists"), ["doc-004"]);
    // Whoever takes the place of a document has none of its fields.
    world.delete([38, 39].into_iter());
    world.put([(50, vector(50, 1.0, false)), (51, vector(51, 1.0, false))].into_iter());
    assert_eq!(named(&world, "not year exists"), ["doc-004", "doc-050", "doc-051"]);
    world.delete((5..30).collect::<Vec<_>>().into_iter());
    compact(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    assert_eq!(named(&world, "year in (2030, 2037)"), ["doc-030", "doc-037"]);
    world.check();
    rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    assert_eq!(named(&world, "year in (2030, 2037)"), ["doc-030", "doc-037"]);
    world.check();
}

#[test]
fn a_change_writes_the_fields_of_the_blocks_it_touches_in_whole_kilobytes() {
    let mut world = World::with(40);
    set(&mut world, &(0..40).map(|n| (n, json!({"n": n}))).collect::<Vec<_>>());
    let before = world.root();
    set(&mut world, &[(9, json!({"n": -1, "more": "x".repeat(900)}))]);
    let changed = world.changed(&before);
    let fields: Vec<&Slot> =
        changed.iter().filter(|slot| matches!(slot, Slot::Metadata(_))).collect();
    assert_eq!(fields, [&Slot::Metadata(1)]);
    let snapshot = world.vault.snapshot().unwrap();
    for number in 0..5 {
        let length = snapshot.read(Slot::Metadata(number)).unwrap().len();
        assert_eq!(length, if number == 1 { 2048 } else { 1024 });
    }
}

#[test]
fn an_ingest_with_records_is_one_commit() {
    let mut world = World::empty();
    let note = EncoderNote { identity: "one".into(), location: "/there".into() };
    let ids: Vec<String> = (0..10).map(name).collect();
    let values = (0..10).flat_map(|n| vector(n, 1.0, false)).collect();
    let vectors = VectorSet::new(WIDTH, values).unwrap();
    let documents = Documents { ids: &ids, vectors: &vectors, sample_queries: None };
    let mut take = |records: Vec<Record>, encoder: Option<EncoderNote>| {
        let intake = Intake { records, encoder, ..Intake::of(documents) };
        take_in(&mut world.vault, intake, UNWATCHED, &mut world.rng)
    };
    // Records of nobody are refused before anything is written.
    assert!(take(vec![record(99, &json!({}))], None).is_err());
    let first: Vec<Record> = (0..10).map(|n| record(n, &json!({"n": n}))).collect();
    let done = take(first.clone(), Some(note.clone())).unwrap();
    assert_eq!((done.added, done.records), (10, 10));
    let done = take(first, Some(note.clone())).unwrap();
    assert_eq!((done.unchanged, done.records), (10, 0));
    assert!(take(vec![record(99, &json!({}))], None).is_err());
    let other = EncoderNote { identity: "two".into(), location: "/there".into() };
    assert!(matches!(take(Vec::new(), Some(other)), Err(ClientError::OtherEncoder { .. })));
    let moved = EncoderNote { location: "/elsewhere".into(), ..note };
    take(vec![record(3, &json!({"n": 30}))], Some(moved.clone())).unwrap();
    // The vault was made by generation 1.
    assert_eq!(world.root().header.generation, 3);
    assert_eq!(named(&world, "n >= 8"), ["doc-003", "doc-008", "doc-009"]);
    verify_vault(&world.vault, UNWATCHED).unwrap();
    rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    assert_eq!(encoder_note(&world.vault).unwrap(), Some(moved));
}

#[test]
fn readers_filter_and_know_the_encoder() {
    let mut world = World::with(20);
    set(&mut world, &[(3, json!({"a": 1})), (4, json!({"a": 2}))]);
    let note = EncoderNote { identity: "one".into(), location: "/here".into() };
    let (ids, vectors) = ([name(3)], VectorSet::new(WIDTH, vector(3, 1.0, false)).unwrap());
    let documents = Documents { ids: &ids, vectors: &vectors, sample_queries: None };
    let intake = Intake { encoder: Some(note.clone()), ..Intake::of(documents) };
    take_in(&mut world.vault, intake, UNWATCHED, &mut world.rng).unwrap();
    let directory = world.directory.path().join("query");
    let vault =
        export_query_vault(&world.vault, &directory, &unlock(), cost(), &mut world.rng).unwrap();
    let reader = BlindCollection::open(&vault).unwrap();
    assert_eq!(matching(&reader, &"a > 1".parse().unwrap()), ["doc-004"]);
    assert_eq!(encoder_note(&vault).unwrap(), Some(note));
    verify_vault(&vault, UNWATCHED).unwrap();
}

#[test]
fn records_that_are_no_objects_have_no_fields_and_long_ones_say_so() {
    let mut world = World::with(10);
    let records = vec![
        Record { id: name(1), bytes: b"\xff\x00 bytes".to_vec() },
        Record { id: name(2), bytes: b"[1, 2]".to_vec() },
        record(3, &json!({"long": {"x": "y".repeat(2000)}, "short": 1})),
        // As deep as a decoder of JSON goes, and more fields than are kept.
        Record {
            id: name(4),
            bytes: format!("{{\"deep\": {}1{}}}", "[".repeat(120), "]".repeat(120)).into_bytes(),
        },
        record(5, &(0..40).map(|n| (format!("many{n}"), json!("z".repeat(900)))).collect()),
    ];
    set_records(&mut world.vault, records, &mut world.rng).unwrap();
    assert_eq!(named(&world, "deep exists"), ["doc-004"]);
    assert!(world.collection().matching(&"deep = 1".parse().unwrap()).is_err());
    assert_eq!(named(&world, "many39 exists"), ["doc-005"]);
    world.check();
    assert_eq!(named(&world, "short = 1 and long exists"), ["doc-003"]);
    for filter in ["long = 1", "long.x = y", "not (short = 2 and long in (1))"] {
        let refused = world.collection().matching(&filter.parse().unwrap());
        let refused = refused.unwrap_err();
        assert!(matches!(refused, ClientError::Filter(FilterError::LongField(_))), "{filter}");
    }
}

#[test]
fn damage_of_fields_is_found() {
    let mut world = World::with(20);
    set(&mut world, &[(3, json!({"a": 1})), (12, json!({"a": 2}))]);
    type Damage = fn(&mut crate::vault::Transaction<'_>, &mut ChaCha20Rng);
    let damages: [(&str, Damage); 4] = [
        ("fields that are gone", |transaction, _| transaction.remove(Slot::Metadata(0)).unwrap()),
        ("fields of another block", |transaction, rng| {
            let other = transaction.before().read(Slot::Metadata(1)).unwrap().to_vec();
            transaction.put(Slot::Metadata(0), &other, rng).unwrap();
        }),
        ("fields of no block", |transaction, rng| {
            let other = transaction.before().read(Slot::Metadata(1)).unwrap().to_vec();
            transaction.put(Slot::Metadata(9), &other, rng).unwrap();
        }),
        ("fields that are none", |transaction, rng| {
            transaction.put(Slot::Metadata(0), &[1, 0], rng).unwrap();
        }),
    ];
    for (what, damage) in damages {
        let mut copy = world.copy(8);
        let mut transaction = copy.vault.transaction(&mut copy.rng).unwrap();
        damage(&mut transaction, &mut world.rng);
        transaction.commit(&mut copy.rng).unwrap();
        assert!(verify_vault(&copy.vault, UNWATCHED).is_err(), "{what}");
    }
    world.check();
}

/// Values that collide often.
fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..3).prop_map(Value::from),
        prop_oneof![Just(1.0), Just(0.5), Just(-1.5)].prop_map(Value::from),
        Just(Value::from(u64::MAX)),
        "[ab]{0,2}".prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => scalar(),
        1 => proptest::collection::vec(scalar(), 0..3).prop_map(Value::from),
        1 => scalar().prop_map(|inner| json!({"y": inner})),
    ]
}

fn fields() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("[xyz]", value(), 0..3).prop_map(|fields| json!(fields))
}

fn filter() -> impl Strategy<Value = Filter> {
    let field = || prop_oneof!["[xyz]", Just("x.y".to_owned())];
    let single = || scalar().prop_map(|value| Scalar::of(&value).unwrap());
    let comparison = prop_oneof![
        Just(Comparison::Equal),
        Just(Comparison::Less),
        Just(Comparison::LessOrEqual),
        Just(Comparison::Greater),
        Just(Comparison::GreaterOrEqual),
    ];
    let leaf = prop_oneof![
        (field(), comparison, single()).prop_map(|(field, comparison, value)| {
            Filter::Compare { field, comparison, value }
        }),
        (field(), proptest::collection::vec(single(), 0..3))
            .prop_map(|(field, values)| Filter::OneOf { field, values }),
        field().prop_map(|field| Filter::Exists { field }),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Filter::All),
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Filter::Any),
            inner.prop_map(|inner| Filter::Not(Box::new(inner))),
        ]
    })
}

/// The order of two single values of one kind.
fn order(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::Null, Value::Null) => Some(Ordering::Equal),
        (Value::Bool(one), Value::Bool(other)) => Some(one.cmp(other)),
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        (Value::Number(one), Value::Number(other)) => {
            one.as_f64().unwrap().partial_cmp(&other.as_f64().unwrap())
        }
        _ => None,
    }
}

fn json_of(scalar: &Scalar) -> Value {
    match scalar {
        Scalar::Null => Value::Null,
        Scalar::Bool(value) => json!(value),
        Scalar::Integer(value) => {
            json!(u64::try_from(*value).map_or(json!(*value as i64), |v| json!(v)))
        }
        Scalar::Real(value) => json!(value),
        Scalar::Text(text) => json!(text),
    }
}

/// A filter by hand, document by document.
fn naive(filter: &Filter, document: &Value) -> bool {
    let found = |field: &str| match field.split_once('.') {
        Some((outer, inner)) => document.get(outer).and_then(|outer| outer.get(inner)),
        None => document.get(field),
    };
    let any = |field: &str, holds: &dyn Fn(&Value) -> bool| match found(field) {
        Some(Value::Array(values)) => values.iter().any(holds),
        Some(value) => holds(value),
        None => false,
    };
    match filter {
        Filter::Compare { field, comparison, value } => any(field, &|found| {
            let order = order(found, &json_of(value));
            match comparison {
                Comparison::Equal => order == Some(Ordering::Equal),
                Comparison::Less => order == Some(Ordering::Less),
                Comparison::Greater => order == Some(Ordering::Greater),
                Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
                Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
            }
        }),
        Filter::OneOf { field, values } => any(field, &|found| {
            values.iter().any(|value| order(found, &json_of(value)) == Some(Ordering::Equal))
        }),
        Filter::Exists { field } => found(field).is_some(),
        Filter::All(parts) => parts.iter().all(|part| naive(part, document)),
        Filter::Any(parts) => parts.iter().any(|part| naive(part, document)),
        Filter::Not(inner) => !naive(inner, document),
    }
}

#[test]
fn filters_hold_of_what_they_hold_of_by_hand() {
    let mut world = World::with(24);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..8 {
        let tree = proptest::collection::vec(fields(), 24).new_tree(&mut runner).unwrap();
        let documents = proptest::strategy::ValueTree::current(&tree);
        set(&mut world, &documents.iter().cloned().enumerate().collect::<Vec<_>>());
        let collection = world.collection();
        for _ in 0..100 {
            let tree = filter().new_tree(&mut runner).unwrap();
            let filter = proptest::strategy::ValueTree::current(&tree);
            let expected =
                documents.iter().enumerate().filter(|(_, fields)| naive(&filter, fields));
            let expected: Vec<String> = expected.map(|(number, _)| name(number)).collect();
            assert_eq!(matching(&collection, &filter), expected, "{filter:?} of {documents:?}");
        }
    }
}
