//! A dump of the database and a copy of the directory of objects are the whole.

use shard_protocol::{
    Advance, Candidates, CellHandle, CollectionState, CommitName, Epoch, Leak, Revision, RowHandle,
    RowMac, declassify,
};

use super::*;
use crate::postgres::objects::INLINE_BYTES;
use crate::{Fetched, Objects, SharedToken, SharedTokens};

/// Everything that an engine reads.
#[derive(PartialEq, Debug)]
struct Whole {
    collections: Vec<CollectionState>,
    blobs: Vec<Vec<(BlobName, Vec<u8>)>>,
    macs: Vec<(RowHandle, RowMac)>,
    rows: Fetched,
    tokens: Vec<SharedToken>,
}

/// The rows are those of [`crate::conformance::rows_come_back_cell_by_cell`].
fn whole(rows: &PostgresRows) -> Whole {
    let (main, epoch) = (main_collection(), Epoch(3));
    let names = rows.collections().unwrap();
    let blobs = |collection: &CollectionName| {
        let listed = rows.blobs(collection, None, 100).unwrap().into_iter();
        listed.map(|(blob, _)| (blob.clone(), rows.blob(collection, &blob).unwrap())).collect()
    };
    let cells = declassify(vec![CellHandle(10), CellHandle(11)], Leak::ActiveCells);
    let handles = vec![vec![RowHandle(1), RowHandle(2)], vec![RowHandle(3)]];
    let handles = declassify(handles, Leak::CandidateHandles);
    let candidates = Candidates::new(cells, handles).unwrap();
    Whole {
        collections: names.iter().map(|name| rows.describe(name).unwrap()).collect(),
        blobs: names.iter().map(blobs).collect(),
        macs: rows.macs(&main, epoch, None, 100).unwrap(),
        rows: rows.fetch(&main, epoch, &candidates).unwrap(),
        tokens: rows.tokens().unwrap(),
    }
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    let copied = std::process::Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status();
    assert!(copied.unwrap().success());
}

#[test]
fn a_dump_and_a_copy_of_the_objects_read_the_same_after_the_originals_are_gone() {
    let Some(cluster) = cluster() else { return };
    let text = cluster.database();
    let open = |text: &str, directory: &tempfile::TempDir| {
        let objects = Objects::open(&format!("file://{}", directory.path().display())).unwrap();
        let objects = Some(objects);
        let options = PostgresOptions { connections: 4, objects, ..PostgresOptions::default() };
        PostgresRows::open(&address(text), options).unwrap()
    };
    let directory = tempfile::tempdir().unwrap();
    let rows = open(&text, &directory);
    // Rows in one collection, blocks and blobs of all lengths in another, and tokens.
    crate::conformance::rows_come_back_cell_by_cell(&rows);
    let blind: CollectionName = "blind".parse().unwrap();
    let advance = Advance { from: None, to: CommitName([9; 16]), revision: Revision(4), turn: 1 };
    rows.begin(&blind, &advance).unwrap();
    let blobs = [("block.0", 5), ("empty", 0), ("long", INLINE_BYTES + 1), ("short", 20)];
    let blobs = blobs.map(|(text, length)| (name(text), vec![length as u8; length]));
    rows.put_blobs(&blind, &blobs).unwrap();
    rows.activate_blocks(&blind, &advance, Epoch(6), 384, 1).unwrap();
    for (id, byte) in [("kept", 1), ("revoked", 2)] {
        rows.add_token(&tokens::reader(id, byte)).unwrap();
    }
    let before = whole(&rows);
    assert_eq!(before.collections.len(), 2);
    assert_eq!(before.blobs, [blobs.to_vec(), Vec::new()]);

    // The database first, then the objects; meanwhile servers go on.
    let restored = cluster.restored(database_of(&text));
    rows.put_blob(&blind, &name("later"), &vec![8; 2 * INLINE_BYTES]).unwrap();
    assert!(rows.remove_token("revoked").unwrap());
    let copied = tempfile::tempdir().unwrap();
    copy(directory.path(), copied.path());
    rows.drop_collection(&blind).unwrap();
    drop((rows, directory));

    let rows = open(&restored, &copied);
    assert_eq!(whole(&rows), before, "also the token that was revoked since");
    // And it goes on from there.
    rows.put_blob(&"new".parse().unwrap(), &name("a"), b"sealed").unwrap();
    assert!(rows.remove_token("revoked").unwrap());
    let next = Advance {
        from: Some(advance.to),
        to: CommitName([10; 16]),
        revision: Revision(5),
        turn: 2,
    };
    rows.begin(&blind, &next).unwrap();
    rows.activate_blocks(&blind, &next, Epoch(6), 384, 2).unwrap();
}
