//! The uniform orthogonal map, as a product of reflections.

use rand_core::Rng;
use rayon::prelude::*;

use crate::gaussian::Normals;
use crate::kernel;

/// Rows that one task carries through all reflections, so that each reflection is read from memory once for all.
const BLOCK_ROWS: usize = 16;

/// Reflections that are applied together, and coordinates that are.
const PANEL: usize = kernel::LANES;

/// Coordinates of a vector, the last chunk full and the first filled up with zeros at the front.
type Chunk = [f64; PANEL];

/// One chunk of each reflection of a panel.
type Tile = [[f32; PANEL]; PANEL];

/// A small matrix, by rows.
type Factor = [[f64; PANEL]; PANEL];

/// A Haar-distributed orthogonal matrix `Q = H_1 H_2 .. H_(n-1) D`.
///
/// # Why this is Haar
/// Let `A` be `n x n` with independent standard normal entries and `A = Q R` with a positive diagonal in `R`. Then `Q`
/// is Haar: `U A` has the law of `A` for every orthogonal `U`, and the factorisation with that sign is unique
/// (Mezzadri, *How to generate random matrices from the classical compact groups*, 2007). Householder's method finds
/// `Q` so: a reflection `H_1` maps the first column `a` to `-sgn(a_1) |a| e_1`, then the same is done to what is left
/// of the matrix below and right of the corner. `H_1` depends on the first column only and is orthogonal, so what is
/// left is again a matrix of independent standard normals, independent of `H_1`. Hence the columns that define the
/// reflections are independent standard normal vectors of lengths `n, n-1, .., 1` and can be drawn directly, without a
/// matrix and without an `O(n^3)` factorisation (Stewart, *The efficient generation of random orthogonal matrices*,
/// 1980). The diagonal of `R` is `-sgn(a_1) |a|` for each, and a plain number for the last; `D` takes up its signs.
/// The law is that of Gaussian QR with the sign fix, exactly.
///
/// `n^2 / 2` numbers to draw and to keep, `2 n^2` operations to apply.
///
/// # How it is applied
/// Applied one by one, each reflection would wait for the sum of the one before. Eight at a time are one panel,
/// `H_1 .. H_8 = I - W T W^T` with the vectors as columns of `W` and an upper triangular `T` (Schreiber and Van Loan,
/// *A storage-efficient WY representation*, 1989): column `j` of `T` is `t_j = 2 / <w_j, w_j>` on the diagonal and
/// `-t_j T W^T w_j` above.
///
/// A query is rotated by some forty keys, read from memory, so the vectors are kept in single precision. The map
/// is as orthogonal as with double: `I - 2 w w^T / <w, w>` is a reflection whatever `w` is. Its direction is off the
/// one drawn by `2^-25`.
///
/// Dropping a key overwrites it with zeros. Without `unsafe` this is best effort: the compiler is discouraged from
/// removing it, not forbidden to, and copies that moves left on the stack are not reached (the numbers themselves are
/// on the heap and never move).
pub struct OrthogonalKey {
    width: usize,
    /// Panel by panel, from its first chunk to the last, the vectors `w`. Vector `k` is zero before coordinate `k`.
    tiles: Vec<Tile>,
    /// `T` of each panel, by rows.
    factors: Vec<Factor>,
    /// The diagonal of `D`.
    signs: Vec<f64>,
}

impl OrthogonalKey {
    /// Draws a key; width zero gives the map of the empty vector.
    pub fn sample(width: usize, rng: &mut impl Rng) -> Self {
        let mut normals = Normals::new(rng);
        let chunks = width.div_ceil(PANEL);
        let front = chunks * PANEL - width;
        let mut tiles = vec![Tile::default(); chunks * (chunks + 1) / 2];
        let mut factors = vec![Factor::default(); chunks];
        let mut signs = vec![1.0; width];
        let mut vector = vec![0.0; width];
        let mut rest = tiles.as_mut_slice();
        for (panel, factor) in factors.iter_mut().enumerate() {
            let (tiles, tail) = rest.split_at_mut(chunks - panel);
            rest = tail;
            for at in panel * PANEL..(panel + 1) * PANEL {
                let column = at % PANEL;
                // Places before the first coordinate and that of the last one hold no reflection.
                if (front..front + width.saturating_sub(1)).contains(&at) {
                    let vector = &mut vector[at - front..];
                    normals.fill(vector);
                    signs[at - front] = into_reflection(vector);
                    for (entry, place) in vector.iter().zip(column..) {
                        tiles[place / PANEL][column][place % PANEL] = *entry as f32;
                    }
                }
            }
            *factor = triangular_factor(tiles);
        }
        if let Some(last) = signs.last_mut() {
            *last = if normals.draw() < 0.0 { -1.0 } else { 1.0 };
        }
        vector.fill(0.0);
        std::hint::black_box(&vector);
        Self { width, tiles, factors, signs }
    }

    /// The width of the vectors it maps.
    pub fn width(&self) -> usize {
        self.width
    }

    /// `x <- Q x`.
    ///
    /// # Panics
    /// If `x` has another width than the key.
    pub fn apply(&self, x: &mut [f64]) {
        assert_eq!(x.len(), self.width, "a key maps vectors of its own width");
        self.map_block(x);
    }

    /// `x <- Q^T x`.
    ///
    /// # Panics
    /// If `x` has another width than the key.
    pub fn apply_inverse(&self, x: &mut [f64]) {
        assert_eq!(x.len(), self.width, "a key maps vectors of its own width");
        let mut chunks = self.chunked(x);
        kernel::dispatch(
            #[inline(always)]
            || {
                let (mut rest, count) = (self.tiles.as_slice(), self.factors.len());
                for (panel, factor) in self.factors.iter().enumerate() {
                    let (tiles, tail) = rest.split_at(count - panel);
                    rest = tail;
                    let factor = |row: usize, column: usize| factor[column][row];
                    apply_panel(tiles, factor, &mut chunks[panel..]);
                }
            },
        );
        self.unchunk(&chunks, x);
        flip(&self.signs, x);
    }

    /// [`apply`](Self::apply) to every row of a row-major matrix, in parallel and with the same bits.
    ///
    /// # Panics
    /// If `rows` is not whole rows of the key's width.
    pub fn apply_many(&self, rows: &mut [f64]) {
        if rows.is_empty() {
            return;
        }
        assert!(
            self.width > 0 && rows.len().is_multiple_of(self.width),
            "a key maps vectors of its own width"
        );
        rows.par_chunks_mut(BLOCK_ROWS * self.width).for_each(|block| self.map_block(block));
    }

    /// `Q` as a row-major matrix, for audits and tests.
    pub fn dense(&self) -> Vec<f64> {
        let n = self.width;
        // Row `j` of the scratch becomes `Q e_j`, the `j`-th column.
        let mut columns = vec![0.0; n * n];
        (0..n).for_each(|at| columns[at * n + at] = 1.0);
        self.apply_many(&mut columns);
        (0..n * n).map(|at| columns[at % n * n + at / n]).collect()
    }

    /// The heap memory the key holds.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.tiles) + size_of_val(&*self.factors) + size_of_val(&*self.signs)
    }

    /// `x <- Q x` for each of a few rows.
    fn map_block(&self, rows: &mut [f64]) {
        if self.width == 0 {
            return;
        }
        let count = self.factors.len();
        let mut block = Vec::with_capacity(rows.len().div_ceil(self.width) * count);
        for row in rows.chunks_exact_mut(self.width) {
            flip(&self.signs, row);
            block.extend(self.chunked(row));
        }
        kernel::dispatch(
            #[inline(always)]
            || {
                let mut rest = self.tiles.as_slice();
                for (panel, factor) in self.factors.iter().enumerate().rev() {
                    let (head, tiles) = rest.split_at(rest.len() - (count - panel));
                    rest = head;
                    for chunks in block.chunks_exact_mut(count) {
                        let factor = |row: usize, column: usize| factor[row][column];
                        apply_panel(tiles, factor, &mut chunks[panel..]);
                    }
                }
            },
        );
        for (row, chunks) in rows.chunks_exact_mut(self.width).zip(block.chunks_exact(count)) {
            self.unchunk(chunks, row);
        }
    }

    /// A vector in chunks, zeros before its first coordinate.
    fn chunked(&self, x: &[f64]) -> Vec<Chunk> {
        let mut chunks = vec![Chunk::default(); self.factors.len()];
        let flat = chunks.as_flattened_mut();
        let front = flat.len() - x.len();
        flat[front..].copy_from_slice(x);
        chunks
    }

    fn unchunk(&self, chunks: &[Chunk], x: &mut [f64]) {
        let flat = chunks.as_flattened();
        x.copy_from_slice(&flat[flat.len() - x.len()..]);
    }
}

/// `T` of the panel with these vectors.
fn triangular_factor(tiles: &[Tile]) -> Factor {
    let mut factor = Factor::default();
    for column in 0..PANEL {
        let mut products = Chunk::default();
        for (row, product) in products.iter_mut().enumerate().take(column + 1) {
            *product = tiles.iter().map(|tile| kernel::dot_f32(&tile[row], &tile[column])).sum();
        }
        // A vector of zeros reflects nothing, whatever its factor.
        let scale = if products[column] > 0.0 { 2.0 / products[column] } else { 0.0 };
        for row in &mut factor[..column] {
            let sum: f64 = row[..column].iter().zip(&products).map(|(t, p)| t * p).sum();
            row[column] = -scale * sum;
        }
        factor[column][column] = scale;
    }
    factor
}

/// `x <- x - W F W^T x` for an 8 x 8 matrix `F`.
#[inline(always)]
fn apply_panel(tiles: &[Tile], factor: impl Fn(usize, usize) -> f64, x: &mut [Chunk]) {
    let mut sums = Factor::default();
    for (tile, x) in tiles.iter().zip(&*x) {
        for (sums, chunk) in sums.iter_mut().zip(tile) {
            for lane in 0..PANEL {
                sums[lane] += f64::from(chunk[lane]) * x[lane];
            }
        }
    }
    let along = sums.map(kernel::sum_lanes);
    let mut weights = Chunk::default();
    for (row, weight) in weights.iter_mut().enumerate() {
        for (column, along) in along.iter().enumerate() {
            *weight += factor(row, column) * along;
        }
    }
    for (tile, x) in tiles.iter().zip(x) {
        for (weight, chunk) in weights.iter().zip(tile) {
            for lane in 0..PANEL {
                x[lane] -= weight * f64::from(chunk[lane]);
            }
        }
    }
}

/// Turns a vector `a` into `w` with `(I - w w^T) a = -sgn(a_1) |a| e_1`, and returns that sign:
/// `v = a + sgn(a_1) |a| e_1` and `w = v sqrt(2 / <v, v>)`, where `<v, v> = 2 |a| (|a| + |a_1|)`.
fn into_reflection(vector: &mut [f64]) -> f64 {
    let norm = kernel::dot(vector, vector).sqrt();
    let sign = if vector[0] < 0.0 { -1.0 } else { 1.0 };
    let scale = (norm * (norm + vector[0].abs())).sqrt();
    vector[0] += sign * norm;
    // A vector of zeros (which no real stream of words gives) stays zero and reflects nothing.
    if scale > 0.0 {
        vector.iter_mut().for_each(|entry| *entry /= scale);
    }
    -sign
}

fn flip(signs: &[f64], x: &mut [f64]) {
    for (x, sign) in x.iter_mut().zip(signs) {
        *x *= sign;
    }
}

impl Drop for OrthogonalKey {
    fn drop(&mut self) {
        self.tiles.fill(Tile::default());
        self.factors.fill(Factor::default());
        self.signs.fill(0.0);
        std::hint::black_box((&self.tiles, &self.factors, &self.signs));
    }
}

impl std::fmt::Debug for OrthogonalKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "OrthogonalKey(width {}, redacted)", self.width)
    }
}

#[cfg(test)]
mod tests;
