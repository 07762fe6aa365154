//! Vectors of half precision to fill a vault with: made, or read.
//!
//! Made ones are around `CENTRES` centres, with a spectrum that falls as a power:
//!
//! ```text
//! lambda_j = j^-0.45 ,   y_i = o + lambda g_k(i) + 0.55 lambda g_i ,   x_i = y_i / |y_i| ,
//! ```
//!
//! every `g` a vector of standard normals, `o` with `|o| = 1.6 |lambda|`. Blocks of rows have random
//! numbers of their own, so they are made on all cores and come out the same on any machine.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use half::f16;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rayon::prelude::*;
use shard::input::{npy_to, read_vectors, write_npy};
use shard_geometry::VectorSet;
use shard_geometry::gaussian::Normals;

use crate::bench::arguments::VaultStorage;

const CENTRES: usize = 1000;
const DECAY: f64 = 0.45;
const WITHIN: f64 = 0.55;
const MEAN_NORM: f64 = 1.6;
/// Rows that share random numbers.
const BLOCK: usize = 4096;

/// Vectors on disk, and a few more that are not among them.
pub struct Drawn {
    /// `.npy` of 16-bit floats.
    pub file: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    pub rows: usize,
    pub width: usize,
    /// `.npy` with one query.
    pub query: PathBuf,
    /// Vectors to add.
    pub new: Vec<Vec<f32>>,
}

impl Drawn {
    /// Writes what the flags ask for into a directory. Keeps so many vectors to add.
    pub fn write(arguments: &VaultStorage, directory: &Path, new: usize) -> Result<Self> {
        let vectors = match &arguments.documents {
            Some(file) => {
                let (_, vectors) = read_vectors(file, None)?.into_parts();
                let (width, mut values) = (vectors.width(), vectors.into_values());
                values.par_iter_mut().for_each(|value| *value = rounded(*value));
                VectorSet::new(width, values).context("a value is too large for 16 bits")?
            }
            None => synthetic(arguments.rows, arguments.width, arguments.seed)?,
        };
        let (rows, width) = (vectors.rows(), vectors.width());
        ensure!(rows > new, "{rows} documents are too few: give more than {new}");
        let file = directory.join("docs.npy");
        let mut writer = BufWriter::new(File::create(&file).context("cannot write docs.npy")?);
        npy_to(&mut writer, &vectors).context("cannot write docs.npy")?;
        let written = writer.into_inner().map_err(|error| error.into_error());
        written.and_then(|mut file| file.flush().and_then(|()| file.sync_all()))?;
        let bytes = fs::metadata(&file)?.len();
        let query = directory.join("one.npy");
        write_npy(&query, &VectorSet::new(width, between(&vectors, 0, rows / 2))?)?;
        let new = (0..new).map(|at| between(&vectors, at * rows / new, at * rows / new + 1));
        Ok(Self { file, bytes, rows, width, query, new: new.collect() })
    }
}

/// The middle of two rows: no longer than the longer of them.
fn between(vectors: &VectorSet, first: usize, second: usize) -> Vec<f32> {
    let pairs = vectors.row(first).iter().zip(vectors.row(second));
    pairs.map(|(a, b)| rounded((a + b) / 2.0)).collect()
}

fn rounded(value: f32) -> f32 {
    f16::from_f32(value).to_f32()
}

fn synthetic(rows: usize, width: usize, seed: u64) -> Result<VectorSet> {
    let lambda: Vec<f64> = (1..=width).map(|j| (j as f64).powf(-DECAY)).collect();
    let length = norm(&lambda);
    let mut random = StdRng::seed_from_u64(seed);
    let mut offset = vec![0.0; width];
    Normals::new(&mut random).fill(&mut offset);
    let scale = MEAN_NORM * length / norm(&offset);
    let mut centre = |_| -> Vec<f64> {
        let mut normals = Normals::new(&mut random);
        lambda.iter().zip(&offset).map(|(l, o)| o * scale + l * normals.draw()).collect()
    };
    let centres: Vec<Vec<f64>> = (0..CENTRES).map(&mut centre).collect();
    let mut values = vec![0.0_f32; rows * width];
    values.par_chunks_mut(BLOCK * width).enumerate().for_each(|(number, block)| {
        let mut random = StdRng::seed_from_u64(seed ^ (number as u64 + 1).rotate_left(32));
        for row in block.chunks_exact_mut(width) {
            let centre = &centres[random.random_range(0..CENTRES)];
            let mut normals = Normals::new(&mut random);
            let drawn = centre.iter().zip(&lambda).map(|(c, l)| c + WITHIN * l * normals.draw());
            let drawn: Vec<f64> = drawn.collect();
            let length = norm(&drawn);
            row.iter_mut().zip(&drawn).for_each(|(x, y)| *x = rounded((y / length) as f32));
        }
    });
    Ok(VectorSet::new(width, values)?)
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|x| x * x).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_halves_of_unit_length_that_the_seed_alone_decides() {
        let made = synthetic(BLOCK + 3, 24, 5).unwrap();
        assert!(made.norms().iter().all(|norm| (norm - 1.0).abs() < 2e-3));
        assert!(made.values().iter().all(|&value| rounded(value).to_bits() == value.to_bits()));
        assert_eq!(made.values(), synthetic(BLOCK + 3, 24, 5).unwrap().values());
        assert_ne!(made.values(), synthetic(BLOCK + 3, 24, 6).unwrap().values());
        // Blocks do not repeat each other.
        assert_ne!(made.row(0), made.row(BLOCK));
    }
}
