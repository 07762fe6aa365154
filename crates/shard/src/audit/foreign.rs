//! The subject of an audit, from somebody else's vectors.

use shard_audit::subject::{KeyFamily, Subject, coordinates};
use shard_audit::tools::matrix::Matrix;
use shard_audit::tools::statistics::{generator, sample};
use shard_audit::view::{Release, ServerView};
use shard_geometry::{Pca, VectorSet};

use super::{Attacked, AuditOptions, Audited, select};
use shard_client::ClientError;

use crate::Error;
use crate::input::InputProblem;

/// The stream of the generator that samples documents.
const PURPOSE: u64 = 0x0f_f1ce;

impl Audited {
    /// Somebody else's transformed vectors: row `i` of `release` was made from row `i` of
    /// `originals`, and so was row `i` of `earlier`, another release of the same documents. `name`
    /// is for people. Of the options, seed and sample count.
    ///
    /// # Errors
    /// When a release does not have one row per original.
    pub fn from_vectors(
        name: impl Into<String>,
        originals: &VectorSet,
        release: &VectorSet,
        earlier: Option<&VectorSet>,
        options: &AuditOptions<'_>,
    ) -> Result<Self, Error> {
        let documents = originals.rows();
        let mut rng = generator(options.seed, PURPOSE);
        let mut kept = sample(documents, options.sample, &mut rng);
        kept.sort_unstable();
        let mut releases = Vec::new();
        // Oldest first: the newest is the one under attack.
        for rows in earlier.into_iter().chain([release]) {
            if rows.rows() != documents {
                let (originals, found) = (documents, rows.rows());
                return Err(InputProblem::ReleaseRows { originals, found }.into());
            }
            releases.push(one_cell(Matrix::from_vectors(rows).select(&kept)));
        }

        let mut notes = vec![
            "These vectors were not made by Shard: all rows are taken to be under one key, and \
             channels about Shard's own parts were left out."
                .to_owned(),
        ];
        if kept.len() < documents {
            notes.push(format!(
                "The attacks were run on a sample of {} of {documents} documents.",
                kept.len()
            ));
        }
        notes.extend(note_on_width(originals.width(), release.width()));
        Ok(Self {
            subject: Attacked::Rows(subject(&select(originals, &kept), releases, options.seed)?),
            name: name.into(),
            documents,
            ids: kept.iter().map(usize::to_string).collect(),
            // All rows are under one key, in a sample as in the whole.
            whole: None,
            notes,
        })
    }
}

/// What a reader must know of rows that are not as wide as the originals.
pub(super) fn note_on_width(wide: usize, stored: usize) -> Option<String> {
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
/// an affine map of the originals a linear one of their coordinates, and rotated by `V^T` where they
/// are as wide as the originals, so that vectors that nothing protects are their own coordinates.
pub(super) fn subject(
    originals: &VectorSet,
    releases: Vec<Release>,
    seed: u64,
) -> Result<Subject, Error> {
    let stored = releases.last().map_or(originals.width(), |release| release.rows.width());
    let axes = Pca::fit(originals).map_err(ClientError::from)?;
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
        axes: None,
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
