//! What goes in comes out.

use std::io::Read;

use proptest::prelude::*;

use super::*;
use crate::vault::seal::CHUNK_BYTES;

/// Bytes that differ from chunk to chunk.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index ^ (index >> 8) ^ (index >> 20)) as u8).collect()
}

#[test]
fn every_kind_comes_back_after_reopening() {
    let (_parent, vault) = vault_with_every_kind();
    let reopened = reopen(&vault).unwrap();
    assert_eq!(reopened.generation(), 1);
    assert_eq!(reopened.master().unwrap().expose(), vault.master().unwrap().expose());
    for kind in FileKind::ALL {
        assert!(reopened.contains(kind));
        assert_eq!(&reopened.read(kind).unwrap()[..], kind.name().as_bytes());
    }
}

#[test]
fn payloads_around_chunk_boundaries_survive_whole_and_streamed() {
    let (_parent, mut vault) = new_vault();
    for length in
        [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES, 2 * CHUNK_BYTES + 77]
    {
        let payload = pattern(length);
        for kind in [FileKind::Vectors, FileKind::PublishedRows] {
            commit(&mut vault, &[(kind, &payload)]);
            assert!(*vault.read(kind).unwrap() == payload, "{kind} {length}");

            // The same in pieces that do not divide a chunk.
            let mut rng = StdRng::seed_from_u64(1 << 32 | vault.generation());
            let mut transaction = vault.transaction().unwrap();
            let mut writer = transaction.writer(kind, &mut rng).unwrap();
            for piece in payload.chunks(300_007) {
                writer.write_all(piece).unwrap();
            }
            writer.finish().unwrap();
            transaction.commit(&mut rng).unwrap();

            let mut reader = reopen(&vault).unwrap().reader(kind).unwrap();
            assert_eq!(reader.length(), length as u64);
            let mut streamed = Vec::new();
            let mut piece = vec![0; 70_001];
            loop {
                let count = reader.read(&mut piece).unwrap();
                if count == 0 {
                    break;
                }
                streamed.extend_from_slice(&piece[..count]);
            }
            assert!(streamed == payload, "{kind} {length} streamed");
        }
    }
}

#[test]
fn unchanged_files_keep_their_generation() {
    let (_parent, mut vault) = vault_with_every_kind();
    let index = file_of(&vault, FileKind::Index);
    let old_model = file_of(&vault, FileKind::Model);
    commit(&mut vault, &[(FileKind::Model, b"second")]);
    assert_eq!(file_of(&vault, FileKind::Index), index);
    assert!(!old_model.exists(), "replaced files are removed");
    let reopened = reopen(&vault).unwrap();
    assert_eq!(reopened.generation(), 2);
    assert_eq!(&reopened.read(FileKind::Model).unwrap()[..], b"second");
    assert_eq!(&reopened.read(FileKind::Index).unwrap()[..], b"index");
}

#[test]
fn a_second_write_of_a_kind_replaces_the_first() {
    let (_parent, mut vault) = new_vault();
    commit(&mut vault, &[(FileKind::Model, b"first"), (FileKind::Model, b"second")]);
    assert_eq!(&vault.read(FileKind::Model).unwrap()[..], b"second");
    assert!(leftovers(&vault).is_empty());
}

#[test]
fn sealed_payloads_do_not_appear_on_disk_and_the_release_does() {
    let (_parent, mut vault) = new_vault();
    let needle = b"a phrase nobody else may read";
    commit(&mut vault, &FileKind::ALL.map(|kind| (kind, &needle[..])));
    for kind in FileKind::ALL {
        let bytes = fs::read(file_of(&vault, kind)).unwrap();
        let visible = bytes.windows(needle.len()).any(|window| window == needle);
        assert_eq!(visible, !kind.is_sealed(), "{kind}");
    }
}

/// One step against a vault and against a map in memory.
#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<(FileKind, Vec<u8>)>),
    Abandon(FileKind, Vec<u8>),
    Reopen,
}

fn steps() -> impl Strategy<Value = Step> {
    let kind = || prop::sample::select(FileKind::ALL.to_vec());
    let payload = || prop::collection::vec(any::<u8>(), 0..200);
    prop_oneof![
        4 => prop::collection::vec((kind(), payload()), 0..4).prop_map(Step::Commit),
        1 => (kind(), payload()).prop_map(|(kind, payload)| Step::Abandon(kind, payload)),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn a_vault_behaves_like_a_map(steps in prop::collection::vec(steps(), 1..10)) {
        let (_parent, mut vault) = new_vault();
        let mut model = BTreeMap::new();
        let mut rng = random();
        for step in steps {
            match step {
                Step::Commit(payloads) => {
                    let mut transaction = vault.transaction().unwrap();
                    for (kind, payload) in payloads {
                        transaction.write(kind, &payload, &mut rng).unwrap();
                        model.insert(kind, payload);
                    }
                    transaction.commit(&mut rng).unwrap();
                }
                Step::Abandon(kind, payload) => {
                    let mut transaction = vault.transaction().unwrap();
                    transaction.write(kind, &payload, &mut rng).unwrap();
                }
                Step::Reopen => vault = reopen(&vault).unwrap(),
            }
            prop_assert_eq!(&contents(&vault), &model);
            prop_assert_eq!(leftovers(&vault), Vec::<String>::new());
        }
        prop_assert_eq!(contents(&reopen(&vault).unwrap()), model);
    }
}
