//! The subject of an audit, from somebody else's vectors: row `i` of both files is one document.

use std::path::Path;

use anyhow::{Context, Result, bail};
use shard_audit::subject::{KeyFamily, Subject, coordinates};
use shard_audit::tools::matrix::Matrix;
use shard_audit::tools::statistics::{generator, sample};
use shard_audit::view::{Release, ServerView};
use shard_geometry::{Pca, VectorSet};

use super::Audited;
use super::arguments::Audit;
use crate::output::grouped;
use shard::input::read_vectors;
use shard::input::vectors;

/// The stream of the generator that samples documents.
const PURPOSE: u64 = 0x0f_f1ce;

/// Reads a release, what it was made from, and perhaps another release of the same.
pub fn audited(release: &Path, originals: &Path, arguments: &Audit) -> Result<Audited> {
    let originals = read(originals)?;
    let documents = originals.rows();
    let mut rng = generator(arguments.seed, PURPOSE);
    let mut kept = sample(documents, arguments.sample, &mut rng);
    kept.sort_unstable();
    let protected = |path: &Path| -> Result<Release> {
        let rows = read(path)?;
        if rows.rows() != documents {
            bail!(
                "{}: expected {documents} rows, one for each original, found {}",
                path.display(),
                rows.rows()
            );
        }
        Ok(one_cell(Matrix::from_vectors(&rows).select(&kept)))
    };
    // Releases are oldest first, and the newest is the one under attack.
    let mut releases = Vec::new();
    releases.extend(arguments.second.as_deref().map(protected).transpose()?);
    releases.push(protected(release)?);

    let mut notes = vec![
        "These vectors were not made by Shard: all rows are taken to be under one key, and channels \
         about Shard's own parts were left out."
            .to_owned(),
    ];
    if kept.len() < documents {
        notes.push(format!(
            "The attacks were run on a sample of {} of {} documents (--sample).",
            grouped(kept.len()),
            grouped(documents)
        ));
    }
    let newest = releases.last().expect("a release was read");
    notes.extend(note_on_width(originals.width(), newest.rows.width()));
    let values = kept.iter().flat_map(|&row| originals.row(row)).copied().collect();
    let originals = VectorSet::new(originals.width(), values)?;
    let subject = subject(&originals, releases, arguments.seed)?;
    let name = format!("the release {}", release.display());
    let ids = kept.iter().map(usize::to_string).collect();
    // All rows are under one key, in a sample as in the whole.
    Ok(Audited { subject, name, documents, ids, whole: None, notes })
}

/// What a reader must know of rows that are not as wide as the originals.
pub fn note_on_width(wide: usize, stored: usize) -> Option<String> {
    (wide != stored).then(|| {
        format!(
            "The release is {stored} wide and the originals are {wide}: where an attack compares them \
             number by number, the originals stand as their first {stored} principal coordinates{}.",
            if stored > wide { ", with zeros after the last" } else { "" }
        )
    })
}

/// A subject whose rows, in the order of the documents, are all under one key. It has no prefix;
/// its coordinates are as many as the newest release's.
///
/// Rows stand as an attacker would put them who is granted the owner's axes: centred, which makes
/// an affine map of the originals a linear one of their coordinates, and turned by `V^T` where they
/// are as wide as the originals, so that vectors that nothing protects are their own coordinates.
pub fn subject(originals: &VectorSet, releases: Vec<Release>, seed: u64) -> Result<Subject> {
    let stored = releases.last().map_or(originals.width(), |release| release.rows.width());
    let axes = Pca::fit(originals)?;
    let basis = Matrix::new(axes.width(), axes.basis().to_vec());
    let framed = |release: Release| {
        let mean = release.rows.column_means();
        let centred = release.rows.minus(&mean);
        let native = centred.width() == axes.width();
        let rows = if native { centred.times_transposed(&basis) } else { centred };
        Release { rows, ..release }
    };
    let releases = releases.into_iter().map(framed).collect();
    let all = coordinates(&axes, originals);
    let mut first = Matrix::zeros(originals.rows(), stored);
    let shared = stored.min(all.width());
    for (out, row) in first.values_mut().chunks_exact_mut(stored).zip(all.iter()) {
        out[..shared].copy_from_slice(&row[..shared]);
    }
    Ok(Subject {
        vectors: Matrix::from_vectors(originals),
        coordinates: first,
        prefix_width: 0,
        cells: vec![0; originals.rows()],
        keys: KeyFamily::Orthogonal,
        texts: None,
        queries: None,
        documents: (0..originals.rows()).map(Some).collect(),
        view: ServerView { releases, requests: Vec::new() },
        seed,
    })
}

fn one_cell(rows: Matrix) -> Release {
    Release { cells: vec![0; rows.rows()], rows, prefixes: None }
}

fn read(path: &Path) -> Result<VectorSet> {
    let (_, vectors) =
        vectors(read_vectors(path, None)?).with_context(|| path.display().to_string())?;
    Ok(vectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn originals() -> VectorSet {
        let value = |at: usize| ((at * 37 % 101) as f32).sin();
        VectorSet::new(6, (0..120).map(value).collect()).unwrap()
    }

    #[test]
    fn coordinates_are_as_many_as_the_rows_have() {
        for stored in [4, 6, 9] {
            let release = one_cell(Matrix::zeros(20, stored));
            let subject = subject(&originals(), vec![release], 1).unwrap();
            assert_eq!(subject.residuals().width(), stored);
            assert_eq!(subject.documents.len(), 20);
            let energy = |column: usize| -> f64 {
                subject.coordinates.iter().map(|row| row[column] * row[column]).sum()
            };
            assert!(energy(0) > energy(3), "by falling variance");
            if stored > 6 {
                assert_eq!(energy(8), 0.0);
            }
        }
    }

    #[test]
    fn unprotected_vectors_are_their_own_coordinates() {
        let release = one_cell(Matrix::from_vectors(&originals()));
        let subject = subject(&originals(), vec![release], 1).unwrap();
        let pairs = subject.release().rows.values().iter().zip(subject.coordinates.values());
        assert!(pairs.fold(0.0, |worst: f64, (z, y)| worst.max((z - y).abs())) < 1e-6);
    }
}
