//! Rows as they are stored.

use half::f16;
use proptest::prelude::*;

use super::super::chunk::{
    RoutingRows, RowRecord, decode_vectors, encode_vectors, is_half, rows_per_chunk,
};
use super::*;
use crate::payload::{PayloadError, Writer};

const PREFIX: usize = 5;

/// A coordinate of any magnitude between 1e-38 and 1e38, or zero.
fn coordinate() -> impl Strategy<Value = f32> {
    prop_oneof![
        1 => Just(0.0_f32),
        8 => (-38.0_f64..38.0, any::<bool>(), 1.0_f64..10.0).prop_map(|(power, minus, digits)| {
            let size = (digits * 10_f64.powf(power)).min(1e38) as f32;
            if minus { -size } else { size }
        }),
        2 => (-126_i32..126).prop_map(|power| 2_f32.powi(power)),
        2 => (-126_i32..126).prop_map(|power| 2_f32.powi(power).next_down()),
    ]
}

/// A row of coordinates of like magnitudes, or of unlike ones.
fn prefix() -> impl Strategy<Value = Vec<f32>> {
    prop_oneof![
        prop::collection::vec(coordinate(), PREFIX),
        (coordinate(), prop::collection::vec(-1.0_f32..1.0, PREFIX))
            .prop_map(|(size, parts)| parts.into_iter().map(|part| part * size).collect()),
        Just(vec![0.0; PREFIX]),
    ]
}

fn rows_of(prefixes: &[Vec<f32>], has_cells: bool) -> RoutingRows {
    let mut rows = RoutingRows::empty(PREFIX, has_cells);
    for (at, prefix) in prefixes.iter().enumerate() {
        rows.push(&RowRecord {
            id: &format!("{at}: naïve ☂"),
            handle: RowHandle(at as u64 * 0x0123_4567_89ab),
            cell: has_cells.then_some(at as u32 % 3),
            residual_norm: at as f32 / 7.0,
            length: at as f32,
            is_late: at % 2 == 0,
            prefix,
        });
    }
    rows
}

proptest! {
    #[test]
    fn rows_come_back_with_prefixes_within_the_stated_error(
        prefixes in prop::collection::vec(prefix(), 1..20),
        has_cells: bool,
    ) {
        let rows = rows_of(&prefixes, has_cells);
        let back = RoutingRows::decode(&rows.encode(), PREFIX, has_cells).unwrap();
        for (at, prefix) in prefixes.iter().enumerate() {
            let (row, expected) = (back.row(at), rows.row(at));
            prop_assert_eq!(row.id, expected.id);
            prop_assert_eq!((row.handle, row.cell), (expected.handle, expected.cell));
            prop_assert_eq!(
                (row.residual_norm, row.length, row.is_late),
                (expected.residual_norm, expected.length, expected.is_late)
            );
            let apart = row.prefix.iter().zip(prefix);
            let square = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).powi(2);
            let off = apart.map(square).sum::<f64>().sqrt();
            prop_assert!(off <= back.prefix_error(at), "{off} above {}", back.prefix_error(at));
            prop_assert!(back.prefix_error(at) <= rows.prefix_error(at));
            // No row pays for a larger one beside it.
            let largest = prefix.iter().fold(0.0_f64, |most, u| most.max(f64::from(*u).abs()));
            prop_assert!(off <= largest * 2_f64.powi(-21), "{off} of {largest}");
        }
        // What was stored is stored again as it is.
        let again = RoutingRows::decode(&back.encode(), PREFIX, has_cells).unwrap();
        prop_assert_eq!(again, back);
    }

    #[test]
    fn the_decoder_of_rows_takes_any_bytes(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        has_cells: bool,
    ) {
        let _ = RoutingRows::decode(&bytes, PREFIX, has_cells);
        // Past the version, and past the number of rows.
        let _ = RoutingRows::decode(&[&[1, 0], &bytes[..]].concat(), PREFIX, has_cells);
        let _ = decode_vectors(&bytes, PREFIX);
        let _ = decode_vectors(&[&[1, 0], &bytes[..]].concat(), PREFIX);
    }

    #[test]
    fn rows_with_a_byte_altered_are_refused_or_are_rows(
        at: prop::sample::Index,
        value: u8,
        has_cells: bool,
    ) {
        let mut bytes = rows_of(&vec![vec![0.5; PREFIX]; 7], has_cells).encode();
        let at = at.index(bytes.len());
        bytes[at] = value;
        if let Ok(rows) = RoutingRows::decode(&bytes, PREFIX, has_cells) {
            // Whatever decodes can be used.
            prop_assert_eq!(rows.rows(), 7);
            (0..7).for_each(|at| drop(rows.row(at).id.to_owned()));
            prop_assert!(rows.prefixes.iter().all(|u| u.is_finite()));
            rows.encode();
        }
    }

    #[test]
    fn vectors_come_back_to_the_bit(
        bits in prop::collection::vec(any::<u32>(), 1..12),
        halves in prop::collection::vec(any::<u16>(), 1..12),
    ) {
        let finite = |values: Vec<f32>| -> Vec<f32> {
            values.into_iter().map(|v| if v.is_finite() { v } else { -0.0 }).collect()
        };
        let to_bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        let single = finite(bits.into_iter().map(f32::from_bits).collect());
        let half = finite(halves.into_iter().map(|v| f16::from_bits(v).to_f32()).collect());
        prop_assert!(is_half(&half));
        for (values, is_half) in [(&single, is_half(&single)), (&half, true)] {
            let bytes = encode_vectors(values, values.len());
            let size = if is_half { 2 } else { 4 };
            prop_assert_eq!(bytes.len(), 2 + 8 + 1 + size * values.len());
            let back = decode_vectors(&bytes, values.len()).unwrap();
            prop_assert_eq!(to_bits(&back), to_bits(values));
        }
    }
}

/// The value of two rows, field by field, with one of them changed.
fn written(change: &str) -> Vec<u8> {
    let is = |what: &str| change == what;
    let mut writer = Writer::new(if is("version") { 2 } else { 1 });
    writer.u64(if is("rows") { 3 } else { 2 });
    writer.u64(if is("width") { 4 } else { PREFIX as u64 });
    let ends: &[u64] = match change {
        "ids" => &[1],
        "order" => &[5, 1],
        "short" => &[1, 4],
        "character" => &[2, 5],
        _ => &[1, 5],
    };
    writer.u64s(ends.iter().copied());
    // The second byte begins a character of two.
    writer.string(if is("character") { "aéfg" } else { "abcde" });
    writer.u64s([7, 8][..if is("handles") { 1 } else { 2 }].iter().copied());
    writer.u32s(&[0, 1][..if is("cells") { 0 } else { 2 }]);
    writer.f32s(&[0.5, if is("norm") { f32::NAN } else { 0.5 }]);
    writer.f32s(&[1.0, if is("length") { -1.0 } else { 1.0 }]);
    writer.bytes.extend([0, 1]);
    let exponent = match change {
        "large" => 130_i16,
        "small" => -201,
        "infinite" => 129,
        _ => 3,
    };
    writer.bytes.extend([3_i16.to_le_bytes(), exponent.to_le_bytes()].concat());
    writer.bytes.extend([0xff, 0xff, 0x7f].repeat(2 * PREFIX));
    writer.bytes.extend(vec![0; usize::from(is("end"))]);
    writer.bytes
}

#[test]
fn rows_that_contradict_themselves_are_refused() {
    let rows = RoutingRows::decode(&written("nothing"), PREFIX, true).unwrap();
    assert_eq!((rows.row(0).id, rows.row(1).id), ("a", "bcde"));
    for change in [
        "version",
        "rows",
        "width",
        "ids",
        "order",
        "short",
        "character",
        "handles",
        "cells",
        "norm",
        "length",
        "large",
        "small",
        "infinite",
        "end",
    ] {
        assert!(RoutingRows::decode(&written(change), PREFIX, true).is_err(), "{change}");
    }
    assert!(RoutingRows::decode(&written("nothing"), PREFIX, false).is_err(), "unwanted cells");
    assert!(RoutingRows::decode(&written("nothing"), PREFIX + 1, true).is_err());
    let whole = written("nothing");
    for length in 0..whole.len() {
        assert!(RoutingRows::decode(&whole[..length], PREFIX, true).is_err(), "{length}");
    }
    let mut huge = Writer::new(1);
    huge.u64(u64::MAX);
    huge.u64(PREFIX as u64);
    huge.u64(u64::MAX);
    assert_eq!(
        RoutingRows::decode(&huge.bytes, PREFIX, true).unwrap_err(),
        PayloadError::Truncated
    );
}

#[test]
fn vectors_that_are_none_are_refused() {
    let sound = encode_vectors(&[1.0, 2.0, 0.1, 4.0], 2);
    assert_eq!(decode_vectors(&sound, 2).unwrap(), [1.0, 2.0, 0.1, 4.0]);
    assert!(decode_vectors(&sound, 4).is_err(), "of another width");
    assert!(decode_vectors(&sound[..sound.len() - 1], 2).is_err());
    assert!(decode_vectors(&sound[..sound.len() - 4], 2).is_err(), "half a vector");
    for (at, value) in [(0, 2), (10, 3), (10, 0)] {
        let mut other = sound.clone();
        other[at] = value;
        assert!(decode_vectors(&other, 2).is_err(), "byte {at}");
    }
    let unlimited = encode_vectors(&[1.0, f32::INFINITY], 2);
    assert!(decode_vectors(&unlimited, 2).is_err());
}

#[test]
fn a_chunk_has_about_a_hundred_kilobytes_of_vectors_and_a_sane_number_of_rows() {
    let single = [0.1_f32];
    let half = [0.5_f32];
    for (values, width, rows) in [
        (&single, 16, 128),
        (&single, 384, 64),
        (&half, 384, 128),
        (&half, 768, 64),
        (&single, 768, 32),
        (&single, 4096, 32),
        (&half, 4096, 32),
    ] {
        assert_eq!(rows_per_chunk(values, width), rows, "{width}");
    }
}
