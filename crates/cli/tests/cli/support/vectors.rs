//! Small synthetic vectors and a writer of `.npy` files.

/// Documents or queries, one per row.
pub type Rows = [Vec<f32>];

/// A version 1 array file with these header fields.
pub fn npy(descr: &str, fortran_order: bool, shape: &[usize], data: &[u8]) -> Vec<u8> {
    let order = if fortran_order { "True" } else { "False" };
    let sizes: String = shape.iter().map(|size| format!("{size},")).collect();
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({sizes}), }}");
    // NumPy aligns the data to 64 bytes, ten of which come before the header.
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len()).expect("the header is short").to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat()
}

/// Rows as an array of little-endian 32-bit floats.
pub fn singles(rows: &Rows) -> Vec<u8> {
    npy("<f4", false, &[rows.len(), rows[0].len()], &bytes(rows, |x| x.to_le_bytes()))
}

/// The coordinates of all rows as bytes.
pub fn bytes<const N: usize>(rows: &Rows, encode: impl Fn(f32) -> [u8; N]) -> Vec<u8> {
    rows.iter().flatten().flat_map(|&x| encode(x)).collect()
}

/// Rows whose coordinates are sums of four uniform deviates, with falling variance as embeddings
/// have; the same for the same seed.
pub fn random_rows(count: usize, width: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut state = seed;
    // SplitMix64.
    let mut uniform = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let mut row = || -> Vec<f32> {
        (0..width)
            .map(|at| (0..4).map(|_| uniform()).sum::<f32>() / (1.0 + at as f32 / 8.0))
            .collect()
    };
    (0..count).map(|_| row()).collect()
}

/// The same rows, each with its own length, spread evenly in the logarithm from `shortest` to
/// `longest` in an order that has nothing to do with the rows'.
pub fn with_norms(rows: &Rows, shortest: f64, longest: f64) -> Vec<Vec<f32>> {
    let last = rows.len() as f64 - 1.0;
    let spread = |at: usize| (at * 7 % rows.len()) as f64 / last;
    let stretched = rows.iter().enumerate().map(|(at, row)| {
        let factor = shortest * (longest / shortest).powf(spread(at)) / norm(row);
        row.iter().map(|&x| (f64::from(x) * factor) as f32).collect()
    });
    stretched.collect()
}

/// `<a, b>` in double precision.
pub fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

/// Euclidean length.
pub fn norm(vector: &[f32]) -> f64 {
    dot(vector, vector).sqrt()
}
