use std::io::Cursor;

use half::f16;

use super::halves::exact_half;
use super::*;

/// A version 1 array file with the given header fields and data.
fn file(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    raw(&format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"), data)
}

fn raw(header: &str, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat()
}

fn singles(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn table(bytes: Vec<u8>) -> Result<Documents, InputError> {
    read(Cursor::new(bytes), Dimensions::Two).map(Array::with_row_numbers)
}

fn problem(bytes: Vec<u8>) -> String {
    table(bytes).expect_err("the file is wrong on purpose").to_string()
}

/// The name of a type, and a value's bytes in it.
type Form = (&'static str, fn(f64) -> Vec<u8>);

/// Three widths, each in both byte orders.
const FORMS: [Form; 6] = [
    ("'<f2'", |value| f16::from_f64(value).to_le_bytes().into()),
    ("'<f4'", |value| (value as f32).to_le_bytes().into()),
    ("'<f8'", |value| value.to_le_bytes().into()),
    ("'>f2'", |value| f16::from_f64(value).to_be_bytes().into()),
    ("'>f4'", |value| (value as f32).to_be_bytes().into()),
    ("'>f8'", |value| value.to_be_bytes().into()),
];

/// Two rows of three as they follow each other in either order.
const ORDERS: [(&str, [usize; 6]); 2] =
    [("False", [0, 1, 2, 3, 4, 5]), ("True", [0, 3, 1, 4, 2, 5])];

#[test]
fn all_widths_and_orders_read_alike() {
    let values = [0.5, -1.25, 2.0, 0.0, 7.0, -0.125];
    for (descr, encode) in FORMS {
        for (fortran, order) in ORDERS {
            let data: Vec<u8> = order.iter().flat_map(|&at| encode(values[at])).collect();
            let found = table(file(descr, fortran, "(2, 3)", &data)).unwrap();
            assert_eq!(found.ids, ["0", "1"]);
            assert_eq!(found.vectors.width(), 3);
            assert_eq!(
                found.vectors.values(),
                values.map(|value| value as f32),
                "{descr} {fortran}"
            );
        }
    }
}

#[test]
fn what_is_no_coordinate_or_cut_short_is_refused_in_all_widths_and_orders() {
    for (descr, encode) in FORMS {
        for (fortran, order) in ORDERS {
            // The value is in row 1, column 0, wherever that stands.
            let with = |value: f64| -> Vec<u8> {
                order.iter().flat_map(|&at| encode(if at == 3 { value } else { 1.0 })).collect()
            };
            let read = |data: &[u8]| problem(file(descr, fortran, "(2, 3)", data));
            assert_eq!(read(&with(f64::NAN)), "row 1, column 0: NaN is not a coordinate");
            let endless = read(&with(f64::NEG_INFINITY));
            assert_eq!(endless, "row 1, column 0: infinity is not a coordinate");
            let whole = with(1.0);
            let cut = read(&whole[..whole.len() - 1]);
            assert!(cut.starts_with("the file is cut short: 2 rows of 3 values"), "{cut}");
            let more = read(&[&whole[..], &[0]].concat());
            assert!(more.starts_with("the file has bytes after the data"), "{more}");
        }
    }
}

#[test]
fn a_single_vector_is_the_same_in_either_order() {
    for fortran in ["False", "True"] {
        let bytes = file("'>f4'", fortran, "(2,)", &[0x3f, 0x80, 0, 0, 0x40, 0, 0, 0]);
        let query = read(Cursor::new(bytes), Dimensions::OneOrTwo).unwrap().with_row_numbers();
        assert_eq!(query.vectors.values(), [1.0, 2.0]);
    }
}

#[test]
fn every_half_has_its_value() {
    for bits in 0..=u16::MAX {
        let (ours, theirs) = (half_precision(bits), f16::from_bits(bits).to_f64());
        assert!(ours == theirs || ours.is_nan() && theirs.is_nan(), "{bits:#06x}");
        let back = theirs.is_finite().then_some(bits);
        assert_eq!(exact_half(theirs as f32), back, "{bits:#06x}");
    }
}

#[test]
fn what_is_between_two_halves_or_beyond_them_is_none() {
    let next_to = [1.0_f32, 0.1, 65504.0, 6e-5, 6e-8, 2_f32.powi(-24)];
    for value in next_to.map(f16::from_f32).map(f16::to_f32) {
        assert!(exact_half(value).is_some(), "{value}");
        for other in [value.next_up(), value.next_down(), -value.next_up()] {
            assert_eq!(exact_half(other), None, "{other}");
        }
    }
    for value in [65520.0, 1e5, 2_f32.powi(-25), f32::MIN_POSITIVE, f32::from_bits(1)] {
        assert_eq!(exact_half(value), None, "{value}");
    }
}

#[test]
fn version_two_headers_are_read() {
    let mut bytes = file("'<f4'", "False", "(1, 1)", &singles(&[3.0]));
    bytes[6] = 2;
    bytes.splice(10..10, [0, 0]);
    assert_eq!(table(bytes).unwrap().vectors.values(), [3.0]);
}

#[test]
fn one_dimension_is_a_query_and_not_a_table() {
    let bytes = file("'<f4'", "False", "(3,)", &singles(&[1.0, 2.0, 3.0]));
    assert_eq!(problem(bytes.clone()), "expected a two-dimensional array, found shape [3]");
    let query = read(Cursor::new(bytes), Dimensions::OneOrTwo).unwrap().with_row_numbers();
    assert_eq!((query.ids, query.vectors.width()), (vec!["0".to_owned()], 3));
    let cube =
        read(Cursor::new(file("'<f4'", "False", "(1, 1, 1)", &[0; 4])), Dimensions::OneOrTwo);
    assert_eq!(
        cube.unwrap_err().to_string(),
        "expected a one- or two-dimensional array, found shape [1, 1, 1]"
    );
}

#[test]
fn other_types_are_refused_by_name() {
    for descr in ["'<i4'", "'>i4'", "'<c8'", "'|O'", "'<f16'", "'f4'"] {
        assert_eq!(
            problem(file(descr, "False", "(1, 1)", &[0; 16])),
            format!(
                "expected floats of 16, 32 or 64 bits ('<f2', '<f4', '<f8', '>f2', '>f4' or \
                 '>f8'), found {descr}"
            )
        );
    }
    let record = problem(file("[('x', '<f4'), ('y', '<f4')]", "False", "(1, 1)", &[0; 8]));
    assert!(record.starts_with("expected floats of 16, 32 or 64 bits"), "{record}");
}

#[test]
fn nothing_is_not_a_table() {
    assert_eq!(
        problem(file("'<f4'", "False", "(0, 3)", &[])),
        "there are no vectors: the shape is [0, 3]"
    );
    assert_eq!(
        problem(file("'<f4'", "False", "(3, 0)", &[])),
        "there are no vectors: the shape is [3, 0]"
    );
}

#[test]
fn a_file_cut_short_is_refused_before_its_size_is_believed() {
    assert_eq!(
        problem(file("'<f4'", "False", "(2, 2)", &[0; 15])),
        "the file is cut short: 2 rows of 2 values are 16 bytes, found 15"
    );
    let huge = problem(file("'<f8'", "False", "(10000000, 100000000)", &[0; 15]));
    assert!(huge.contains("8000000000000000 bytes, found 15"), "{huge}");
}

#[test]
fn bytes_after_the_data_are_refused() {
    assert_eq!(
        problem(file("'<f4'", "False", "(1, 2)", &[0; 9])),
        "the file has bytes after the data: 1 rows of 2 values are 8 bytes, found 9"
    );
}

#[test]
fn values_that_are_no_coordinates_are_named_by_row_and_column() {
    let with = |value| problem(file("'<f4'", "False", "(2, 2)", &singles(&[0.0, 1.0, 2.0, value])));
    assert_eq!(with(f32::NAN), "row 1, column 1: NaN is not a coordinate");
    assert_eq!(with(f32::NEG_INFINITY), "row 1, column 1: infinity is not a coordinate");
    assert_eq!(
        problem(file("'<f8'", "False", "(1, 1)", &1e39f64.to_le_bytes())),
        "row 0, column 0: the value does not fit a 32-bit float"
    );
}

#[test]
fn headers_that_would_hurt_the_parser_are_refused() {
    assert_eq!(problem(vec![]), "not a NumPy array: the file is too short");
    assert_eq!(
        problem(b"PK\x03\x04 zipped".to_vec()),
        "not a NumPy array: the first bytes are not its signature"
    );
    assert_eq!(
        problem(b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec()),
        "not a plain NumPy array: expected a header of at most 10000 bytes, found 4294967295"
    );
    assert_eq!(
        problem(b"\x93NUMPY\x01\x00\x40\x00{".to_vec()),
        "not a NumPy array: the header is cut short"
    );
    let complex =
        "not a plain NumPy array: the type or the shape is too long for a table of floats";
    assert_eq!(problem(raw(&"(".repeat(9000), &[])), complex);
    assert_eq!(problem(file("'<f4'", "False", "(99999999999999999999, 2)", &[])), complex);
    let garbage = problem(raw("{'shape': }", &[]));
    assert!(garbage.starts_with("not a NumPy array: "), "{garbage}");
    assert!(!garbage.contains('\n'), "{garbage:?}");
}

#[test]
fn every_flip_of_a_header_bit_is_an_error_or_a_table() {
    let good = file("'<f2'", "False", "(2, 3)", &[0; 12]);
    for bit in 0..(good.len() - 12) * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Ok(found) = table(bytes) {
            assert_eq!(found.vectors.values().len(), found.ids.len() * found.vectors.width());
        }
    }
}

#[test]
fn what_is_written_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vectors.npy");
    let vectors = VectorSet::new(3, vec![0.5, -1.25, 2.0, 0.0, 7.0, -0.125]).unwrap();
    write_npy(&path, &vectors).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 128 + 24);
    assert_eq!(bytes[127], b'\n');
    assert_eq!(table(bytes).unwrap().vectors, vectors);
}

#[test]
fn sixteen_bits_are_taken_where_they_lose_nothing() {
    let written = |values: Vec<f32>| {
        let (mut bytes, vectors) = (Vec::new(), VectorSet::new(2, values).unwrap());
        let width = npy_to(&mut bytes, &vectors).unwrap();
        let read = table(bytes.clone()).unwrap().vectors;
        let same =
            read.values().iter().zip(vectors.values()).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same, "{read:?} in place of {vectors:?}");
        (width, bytes.len())
    };
    assert_eq!(written(vec![0.5, -0.0, 6e4, 2_f32.powi(-24)]), (FloatBits::Sixteen, 128 + 8));
    assert_eq!(written(vec![0.5, -0.0, 6e4, 0.1]), (FloatBits::ThirtyTwo, 128 + 16));
}
