//! Any sequence of operations, compactions and restarts does what the model in memory does.

use proptest::prelude::*;
use shard_protocol::{
    Advance, BlobName, Candidates, CellHandle, CollectionName, CommitName, Epoch, Leak, Revision,
    Row, RowBatch, RowHandle, RowMac, declassify,
};
use shard_store::{MemoryRows, RedbRows, RowStore, StoreOptions};

#[derive(Clone, Debug)]
enum Step {
    Begin {
        collection: u8,
        advance: Advance,
    },
    Upsert {
        collection: u8,
        advance: Advance,
        epoch: u64,
        width: usize,
        rows: Vec<(u64, u64, i32)>,
    },
    Delete {
        collection: u8,
        advance: Advance,
        epoch: u64,
        handles: Vec<u64>,
    },
    Activate {
        collection: u8,
        advance: Advance,
        epoch: u64,
    },
    Reset {
        collection: u8,
        from: Option<CommitName>,
    },
    Fetch {
        collection: u8,
        epoch: u64,
        rows: Vec<(u64, u64)>,
    },
    PutBlob {
        collection: u8,
        name: u8,
        bytes: Vec<u8>,
    },
    DeleteBlob {
        collection: u8,
        name: u8,
    },
    Drop {
        collection: u8,
    },
    Compact,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let (collection, epoch) = (0..2u8, 1..4u64);
    // Few commits, so that steps often meet what they come from.
    let commit = prop::option::of((1..3u8).prop_map(|byte| CommitName([byte; 16])));
    let advance =
        (commit.clone(), 1..3u8, 1..4u64, 0..4u64).prop_map(|(from, to, revision, turn)| Advance {
            from,
            to: CommitName([to; 16]),
            revision: Revision(revision),
            turn,
        });
    let place = (collection.clone(), advance.clone(), epoch.clone());
    let rows = prop::collection::vec((0..12u64, 0..3u64, any::<i32>()), 0..8);
    let asked = prop::collection::vec((0..12u64, 0..3u64), 1..6);
    prop_oneof![
        6 => (place.clone(), prop_oneof![9 => Just(3usize), 1 => Just(4)], rows).prop_map(
            |((collection, advance, epoch), width, rows)| {
                Step::Upsert { collection, advance, epoch, width, rows }
            }
        ),
        3 => (place.clone(), prop::collection::vec(0..12u64, 0..4)).prop_map(
            |((collection, advance, epoch), handles)| {
                Step::Delete { collection, advance, epoch, handles }
            }
        ),
        4 => place.prop_map(|(collection, advance, epoch)| {
            Step::Activate { collection, advance, epoch }
        }),
        4 => (collection.clone(), advance)
            .prop_map(|(collection, advance)| Step::Begin { collection, advance }),
        1 => (collection.clone(), commit)
            .prop_map(|(collection, from)| Step::Reset { collection, from }),
        6 => (collection.clone(), epoch, asked)
            .prop_map(|(collection, epoch, rows)| Step::Fetch { collection, epoch, rows }),
        1 => (collection.clone(), 0..3u8, prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(collection, name, bytes)| Step::PutBlob { collection, name, bytes }),
        1 => (collection.clone(), 0..3u8)
            .prop_map(|(collection, name)| Step::DeleteBlob { collection, name }),
        1 => collection.prop_map(|collection| Step::Drop { collection }),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
    ]
}

fn collection(number: u8) -> CollectionName {
    format!("c{number}").parse().unwrap()
}

/// Blobs, one of which an engine with an object store keeps there.
fn blob(number: u8) -> BlobName {
    ["block.0", "b1", "b2"][usize::from(number)].parse().unwrap()
}

fn batch(epoch: u64, width: usize, rows: &[(u64, u64, i32)]) -> (RowBatch, Vec<RowMac>) {
    // A handle once a batch, as the wire form has it.
    let rows: std::collections::BTreeMap<u64, (u64, i32)> =
        rows.iter().map(|&(handle, cell, value)| (handle, (cell, value))).collect();
    let row = |(&handle, &(cell, value)): (&u64, &(u64, i32))| Row {
        handle: RowHandle(handle),
        cell: declassify(CellHandle(cell), Leak::CellMembership),
        coordinates: vec![value; width],
    };
    let tags = rows.values().map(|(_, value)| RowMac([*value as u8; 16])).collect();
    let batch = RowBatch::new(
        declassify(Epoch(epoch), Leak::CollectionShape),
        declassify(width, Leak::CollectionShape),
        declassify(rows.iter().map(row).collect(), Leak::StoredRows),
    );
    (batch, tags)
}

fn candidates(rows: &[(u64, u64)]) -> Candidates {
    let mut cells = std::collections::BTreeMap::<u64, std::collections::BTreeSet<u64>>::new();
    for &(handle, cell) in rows {
        cells.entry(cell).or_default().insert(handle);
    }
    let tags = cells.keys().map(|&tag| CellHandle(tag)).collect();
    let rows = cells.into_values().map(|rows| rows.into_iter().map(RowHandle).collect()).collect();
    Candidates::new(declassify(tags, Leak::ActiveCells), declassify(rows, Leak::CandidateHandles))
        .unwrap()
}

/// What an operation answers, to be compared.
fn answer(rows: &dyn RowStore, step: &Step) -> String {
    match step {
        Step::Begin { collection: name, advance } => {
            format!("{:?}", rows.begin(&collection(*name), advance))
        }
        Step::Upsert { collection: name, advance, epoch, width, rows: new } => {
            let (batch, tags) = batch(*epoch, *width, new);
            format!("{:?}", rows.upsert(&collection(*name), advance, batch, &tags))
        }
        Step::Delete { collection: name, advance, epoch, handles } => {
            let handles: Vec<RowHandle> = handles.iter().map(|&h| RowHandle(h)).collect();
            format!("{:?}", rows.delete(&collection(*name), advance, Epoch(*epoch), &handles))
        }
        Step::Activate { collection: name, advance, epoch } => {
            format!("{:?}", rows.activate(&collection(*name), advance, Epoch(*epoch)))
        }
        Step::Reset { collection: name, from } => {
            format!("{:?}", rows.reset(&collection(*name), *from))
        }
        Step::Fetch { collection: name, epoch, rows: asked } => {
            format!("{:?}", rows.fetch(&collection(*name), Epoch(*epoch), &candidates(asked)))
        }
        Step::PutBlob { collection: name, name: number, bytes } => {
            format!("{:?}", rows.put_blob(&collection(*name), &blob(*number), bytes))
        }
        Step::DeleteBlob { collection: name, name: number } => {
            format!("{:?}", rows.delete_blob(&collection(*name), &blob(*number)))
        }
        Step::Drop { collection: name } => {
            format!("{:?}", rows.drop_collection(&collection(*name)))
        }
        Step::Compact | Step::Reopen => String::new(),
    }
}

/// Everything that can be asked.
fn everything(rows: &dyn RowStore) -> String {
    let mut text = format!("{:?}", rows.collections());
    for name in [collection(0), collection(1)] {
        text += &format!("{:?} {:?}", rows.describe(&name), rows.blobs(&name, None, 9));
        for number in 0..3 {
            text += &format!("{:?}", rows.blob(&name, &blob(number)));
        }
        for epoch in (1..4).map(Epoch) {
            text += &format!("{:?}", rows.statistics(&name, epoch));
            text += &format!("{:?}", rows.macs(&name, epoch, None, 5));
            text += &format!("{:?}", rows.macs(&name, epoch, Some(RowHandle(4)), 100));
            for (handle, cell) in (0..12).flat_map(|h| (0..3).map(move |c| (h, c))) {
                text += &format!("{:?}", rows.fetch(&name, epoch, &candidates(&[(handle, cell)])));
            }
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_engine_on_disk_answers_as_the_one_in_memory(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let directory = tempfile::tempdir().unwrap();
        // Little enough that rows come and go.
        let options = StoreOptions { cache_bytes: 3000, ..StoreOptions::default() };
        let open = || RedbRows::open(directory.path(), options.clone()).unwrap();
        let (model, mut rows) = (MemoryRows::new(), Some(open()));
        for step in &steps {
            let engine = rows.as_ref().unwrap();
            prop_assert_eq!(answer(engine, step), answer(&model, step), "{:?}", step);
            match step {
                Step::Compact => drop(engine.compact().unwrap()),
                Step::Reopen => {
                    drop(rows.take());
                    rows = Some(open());
                }
                _ => {}
            }
        }
        prop_assert_eq!(everything(rows.as_ref().unwrap()), everything(&model));
        drop(rows.take());
        let found = shard_store::verify(directory.path()).unwrap();
        prop_assert_eq!(found.problems, Vec::<String>::new());
        prop_assert_eq!(everything(&open()), everything(&model));
    }
}

#[cfg(feature = "objects")]
proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_engine_on_postgresql_answers_as_the_one_in_memory(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        use shard_store::{DatabaseAddress, Objects, PostgresOptions, PostgresRows};
        use shard_store::conformance::Cluster;
        use std::sync::OnceLock;
        use std::time::Duration;

        static CLUSTER: OnceLock<Option<Cluster>> = OnceLock::new();
        let Some(cluster) = CLUSTER.get_or_init(Cluster::start) else { return Ok(()) };
        let directory = tempfile::tempdir().unwrap();
        let address = DatabaseAddress::parse(&cluster.database(), None).unwrap();
        let open = || {
            let objects = Objects::open(&format!("file://{}", directory.path().display()));
            let options = PostgresOptions {
                connections: 2,
                objects: Some(objects.unwrap()),
                ..PostgresOptions::default()
            };
            PostgresRows::open(&address, options).unwrap()
        };
        let (model, mut rows) = (MemoryRows::new(), open());
        for step in &steps {
            prop_assert_eq!(answer(&rows, step), answer(&model, step), "{:?}", step);
            match step {
                Step::Compact => {
                    rows.sweep(Duration::ZERO).unwrap();
                }
                Step::Reopen => rows = open(),
                _ => {}
            }
        }
        prop_assert_eq!(everything(&rows), everything(&model));
    }
}
