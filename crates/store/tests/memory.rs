//! The engine in memory, under the tests of every engine.

use shard_protocol::CollectionName;
use shard_store::{MOST_COLLECTIONS, MemoryRows, RowStore, StoreError};

shard_store::conformance_suite!(MemoryRows::new());

#[test]
fn an_engine_has_so_many_collections_and_no_more() {
    let rows = MemoryRows::new();
    let put = |number: usize| {
        let collection: CollectionName = format!("c{number}").parse().unwrap();
        rows.put_blob(&collection, &"blob".parse().unwrap(), b"sealed")
    };
    (0..MOST_COLLECTIONS).for_each(|number| put(number).unwrap());
    let full = StoreError::TooMany { what: "collections", most: MOST_COLLECTIONS };
    assert_eq!(put(MOST_COLLECTIONS), Err(full));
    assert_eq!(put(0), Ok(()), "those that are there take blobs");
}
