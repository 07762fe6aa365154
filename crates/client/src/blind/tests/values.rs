//! The encodings of head and places, and values that contradict each other.

use proptest::prelude::*;
use shard_rlwe::blind::{QueryRank, Tag};

use super::*;

/// Rows of these ids, the likeness of each being the length of its id.
fn rows<'a>(ids: &[Option<&'a str>]) -> impl Iterator<Item = Option<(&'a str, u32)>> {
    ids.iter().map(|id| id.map(|id| (id, id.len() as u32)))
}

fn block(ids: &[Option<&str>]) -> BlockPlaces {
    BlockPlaces::new(9, Tag::from_bytes([5; 32]), rows(ids))
}

fn head() -> BlindHead {
    let shape = Shape::new(384, 32, QueryRank::Two).unwrap();
    BlindHead { blocks: 3, rows: 150, ..BlindHead::for_length(shape, 1.25) }
}

proptest! {
    #[test]
    fn places_come_back_from_their_bytes(
        ids in prop::collection::vec(prop::option::of("[a-zäß€𝄞]{1,6}"), 16),
    ) {
        let ids: Vec<Option<&str>> = ids.iter().map(Option::as_deref).collect();
        let bytes = block(&ids).encode();
        let again = BlockPlaces::decode(&bytes, 16).unwrap();
        prop_assert_eq!((again.revision, again.tag.expose()), (9, &[5; 32]));
        prop_assert_eq!(again.rows(), ids.iter().flatten().count());
        prop_assert!(again.ids().eq(ids.iter().copied()));
        let lengths = ids.iter().map(|id| id.map_or(0, |id| id.len() as u32));
        prop_assert!((0..ids.len()).map(|at| again.likeness(at)).eq(lengths));
        prop_assert_eq!(again.encode(), bytes);
    }

    /// There is one encoding of everything: whatever decodes is what would have been written.
    #[test]
    fn altered_bytes_are_refused_or_encode_to_themselves(
        at in 0_usize..1 << 16,
        byte in any::<u8>(),
        ids in prop::collection::vec(prop::option::of("[ab]{1,3}"), 8),
    ) {
        let ids: Vec<Option<&str>> = ids.iter().map(Option::as_deref).collect();
        let mut bytes = block(&ids).encode().to_vec();
        let length = bytes.len();
        bytes[at % length] = byte;
        if let Ok(places) = BlockPlaces::decode(&bytes, 8) {
            prop_assert_eq!(&places.encode()[..], &bytes[..]);
        }
        let mut bytes = head().encode();
        let length = bytes.len();
        bytes[at % length] = byte;
        if let Ok(head) = BlindHead::decode(&bytes) {
            prop_assert_eq!(head.encode(), bytes);
        }
    }
}

#[test]
fn places_that_are_cut_or_whose_parts_do_not_go_together_are_refused() {
    let ids = [Some("a"), None, Some("ä"), None, None, Some("ccc"), None, None];
    let bytes = block(&ids).encode().to_vec();
    assert_eq!(bytes.len(), 2 + 8 + 32 + 1 + 3 * (2 + 4) + 6);
    assert!((0..bytes.len()).all(|length| BlockPlaces::decode(&bytes[..length], 8).is_err()));
    assert!(BlockPlaces::decode(&[&bytes[..], b"d"].concat(), 8).is_err());
    assert!(BlockPlaces::decode(&bytes, 16).is_err());
    let altered = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        BlockPlaces::decode(&bytes, 8)
    };
    // Another version; a place more; an id that is empty, or ends within a letter; no UTF-8.
    for (at, byte) in [(0, 4), (0, 3), (42, 0b10_0111), (43, 0), (43, 2), (62, 0xff)] {
        assert!(altered(at, byte).is_err(), "byte {at}");
    }
    assert!(altered(61, b'b').is_ok());
    // In a cell there are four bytes more.
    let bytes = block(&ids).in_cell(Some(300)).encode();
    assert_eq!(bytes.len(), 2 + 8 + 32 + 4 + 1 + 3 * (2 + 4) + 6);
    assert_eq!(BlockPlaces::decode(&bytes, 8).unwrap().cell, Some(300));
    assert!((0..bytes.len()).all(|length| BlockPlaces::decode(&bytes[..length], 8).is_err()));
}

#[test]
fn a_head_comes_back_from_its_bytes_and_an_impossible_one_is_refused() {
    let bytes = head().encode();
    assert_eq!(BlindHead::decode(&bytes).unwrap(), head());
    assert_eq!(bytes.len(), 2 + 7 * 8);
    assert!((0..bytes.len()).all(|length| BlindHead::decode(&bytes[..length]).is_err()));
    let refused = |field: usize, value: u64| {
        let mut bytes = bytes.clone();
        bytes[2 + 8 * field..][..8].copy_from_slice(&value.to_le_bytes());
        BlindHead::decode(&bytes).is_err()
    };
    let [nothing, minus, infinite] = [0.0, -1.0, f64::INFINITY].map(f64::to_bits);
    for (field, values) in [
        (0, vec![0, 1, 4097, u64::MAX]),
        (1, vec![0, 24, 512]),
        (2, vec![0, 3]),
        (3, vec![nothing, minus, infinite, f64::NAN.to_bits()]),
        (4, vec![nothing, minus, infinite, f64::NAN.to_bits()]),
        (5, vec![0, 2, u64::from(u32::MAX), u64::MAX]),
        (6, vec![0, 193]),
    ] {
        assert!(values.iter().all(|&value| refused(field, value)), "field {field}");
    }
    assert!(!refused(6, 192));
}

#[test]
fn a_grid_bears_rows_of_twice_the_length_that_it_was_made_for() {
    let mut head = head();
    let grid = head.grid;
    assert!(!head.admit(2.4) && head.grid == grid && head.longest == 2.4);
    assert!(!head.admit(0.5) && head.longest == 2.4);
    assert!(head.admit(2.6) && head.longest == 2.6);
    assert!(head.grid.scale() < grid.scale());
    assert!(!head.admit(5.1), "now it was made for 2.6");
}

#[test]
fn a_block_has_a_name_of_its_own_on_servers() {
    let name = |byte| block_file_name(&Tag::from_bytes([byte; 32]));
    // HMAC-SHA-256 of "name" under 32 bytes of 5.
    let expected = [
        0x58, 0xf9, 0x12, 0xaa, 0xd5, 0x70, 0x1b, 0x04, 0x7a, 0xd3, 0x4c, 0xd6, 0xe8, 0x4e, 0x48,
        0x11,
    ];
    assert_eq!(name(5), expected);
    assert_ne!(name(5), name(6));
}

/// Writes a value as its owner could, and says what a verification finds.
fn found(world: &mut World, slot: Slot, value: &[u8]) -> String {
    let mut altered = world.copy(3);
    let mut transaction = altered.vault.transaction(&mut world.rng).unwrap();
    transaction.put(slot, value, &mut world.rng).unwrap();
    transaction.commit(&mut world.rng).unwrap();
    verify_vault(&altered.vault, UNWATCHED).unwrap_err().to_string()
}

#[test]
fn values_that_contradict_each_other_are_found() {
    let mut world = World::with(16);
    let snapshot = world.vault.snapshot().unwrap();
    let collection = BlindCollection::read(&world.vault, &snapshot).unwrap();
    let vectors = snapshot.read(Slot::Vectors(1)).unwrap().to_vec();
    drop(snapshot);
    let (head, places) = (*collection.head(), &collection.blocks()[0]);
    let with = |revision, tag: [u8; 32], ids: &[Option<&str>]| {
        BlockPlaces::new(revision, Tag::from_bytes(tag), rows(ids)).encode().to_vec()
    };
    let ids: Vec<Option<&str>> = places.ids().collect();
    let mut twice = ids.clone();
    twice[0] = collection.id(9);
    let mut fewer = ids.clone();
    fewer[0] = None;
    let (revision, tag) = (places.revision, *places.tag.expose());
    let shorter = BlindHead { longest: 0.5, ..head };
    let cases = [
        (Slot::Places(0), with(revision, [1; 32], &ids), "a tag is not that of its rows"),
        (Slot::Places(0), with(revision, tag, &ids), "a likeness is not that of its row"),
        (Slot::Places(0), with(revision - 1, tag, &ids), "a tag is not that of its rows"),
        (Slot::Places(0), with(99, tag, &ids), "later revision"),
        (Slot::Places(0), with(revision, tag, &twice), "an id is there twice"),
        (Slot::Places(0), with(revision, tag, &fewer), "15 rows where 16 belong"),
        (Slot::Places(5), with(revision, tag, &ids), "not those of the head"),
        (Slot::Vectors(5), vectors.clone(), "not those of the places"),
        (Slot::Vectors(0), vectors, "a tag is not that of its rows"),
        (
            Slot::Vectors(0),
            crate::collection::encode_vectors(&[], WIDTH),
            "not those of the places",
        ),
        (Slot::Blind, shorter.encode(), "longer than the longest"),
        (Slot::Blind, BlindHead { rows: 15, ..head }.encode(), "16 rows where 15 belong"),
        (Slot::Model, b"model".to_vec(), "protected in another way"),
    ];
    for (slot, value, words) in cases {
        let error = found(&mut world, slot, &value);
        assert!(error.contains(words), "{slot}: {error}");
    }
    world.check();
}
