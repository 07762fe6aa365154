//! The subject of an audit, from somebody else's vectors.

use shard_audit::subject::{Given, KeyFamily, Subject, coordinates};
use shard_audit::tools::matrix::Matrix;
use shard_audit::tools::statistics::{generator, sample};
use shard_audit::view::{Release, ServerView};
use shard_geometry::{Pca, VectorSet};

use super::vault::renumbered;
use super::{Attacked, AuditOptions, Audited, select};
use shard_client::ClientError;

use crate::Error;
use crate::input::InputProblem;

/// The stream of the generator that samples documents.
const PURPOSE: u64 = 0x0f_f1ce;

impl Audited {
    /// Somebody else's transformed vectors: row `i` of `release` was made from row `i` of
    /// `originals`, and so was row `i` of `earlier`, another release of the same documents. `name`
    /// is for people. Of the options, seed, sample and labels of cells count.
    ///
    /// # Errors
    /// When a release does not have one row per original, or labels are not as many.
    pub fn from_vectors(
        name: impl Into<String>,
        originals: &VectorSet,
        release: &VectorSet,
        earlier: Option<&VectorSet>,
        options: &AuditOptions<'_>,
    ) -> Result<Self, Error> {
        let documents = originals.rows();
        let cells = options.cells.map(|labels| labelled(labels, documents)).transpose()?;
        let kept = match &cells {
            Some(cells) => super::sampled(cells, options),
            None => {
                let mut rng = generator(options.seed, PURPOSE);
                let mut kept = sample(documents, options.sample, &mut rng);
                kept.sort_unstable();
                kept
            }
        };
        let mut releases = Vec::new();
        // Oldest first: the newest is the one under attack.
        for rows in earlier.into_iter().chain([release]) {
            if rows.rows() != documents {
                let (originals, found) = (documents, rows.rows());
                return Err(InputProblem::ReleaseRows { originals, found }.into());
            }
            let rows = Matrix::from_vectors(&select(rows, &kept));
            let cells = match &cells {
                Some(cells) => renumbered(kept.iter().map(|&row| cells[row])),
                None => vec![0; kept.len()],
            };
            releases.push(Release { cells, rows, prefixes: None });
        }

        let mut notes = vec![format!(
            "These vectors were not made by Shard: {}, and channels about Shard's own parts were left out.",
            if cells.is_some() {
                "rows share a key as their labels say"
            } else {
                "all rows are taken to be under one key"
            }
        )];
        if kept.len() < documents {
            notes.push(format!(
                "The attacks were run on a sample of {} of {documents} documents.",
                kept.len()
            ));
        }
        notes.extend(note_on_width(originals.width(), release.width()));
        let axes = Pca::fit(originals).map_err(ClientError::from)?;
        let labelled = cells.is_some();
        let subject = subject(&select(originals, &kept), &axes, releases, labelled, options.seed);
        Ok(Self {
            subject: Attacked::Rows(Box::new(subject)),
            name: name.into(),
            documents,
            ids: kept.iter().map(usize::to_string).collect(),
            // Labels are of the rows attacked, and without them there is nothing to count.
            whole: None,
            notes,
        })
    }
}

/// Labels as numbers, if there is one for each row.
fn labelled(labels: &[String], rows: usize) -> Result<Vec<u32>, Error> {
    if labels.len() != rows {
        return Err(InputProblem::ReleaseLabels { rows, found: labels.len() }.into());
    }
    Ok(renumbered(labels.iter()))
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

/// A subject whose rows, the newest release's last, are in the order of the documents. It has no prefix;
/// its coordinates are as many as the newest release's.
///
/// Rows stand as an attacker would put them who is granted the owner's axes: centred, which makes
/// an affine map of the originals a linear one of their coordinates, and rotated by `V^T` where they
/// are as wide as the originals, so that vectors that nothing protects are their own coordinates. As
/// they were given they are kept beside.
///
/// # Panics
/// When there is no release.
pub(super) fn subject(
    originals: &VectorSet,
    axes: &Pca,
    releases: Vec<Release>,
    labelled: bool,
    seed: u64,
) -> Subject {
    let newest = releases.last().expect("a release to audit");
    let (rows, cells, stored) = (newest.rows.clone(), newest.cells.clone(), newest.rows.width());
    let basis = Matrix::new(axes.width(), axes.basis().to_vec());
    let framed = |release: Release| {
        let mean = release.rows.column_means();
        let centred = release.rows.minus(&mean);
        let native = centred.width() == axes.width();
        let rows = if native { centred.times_transposed(&basis) } else { centred };
        Release { rows, ..release }
    };
    let releases = releases.into_iter().map(framed).collect();
    let all = coordinates(axes, originals);
    let mut first = Matrix::zeros(originals.rows(), stored);
    let shared = stored.min(all.width());
    for (out, row) in first.values_mut().chunks_exact_mut(stored).zip(all.iter()) {
        out[..shared].copy_from_slice(&row[..shared]);
    }
    Subject {
        vectors: Matrix::from_vectors(originals),
        coordinates: first,
        given: Some(Given { rows, coordinates: all, labelled }),
        axes: None,
        other_lengths: Vec::new(),
        prefix_width: 0,
        cells,
        keys: KeyFamily::Orthogonal,
        texts: None,
        queries: None,
        documents: (0..originals.rows()).collect(),
        canaries: Vec::new(),
        view: ServerView { releases, requests: Vec::new() },
        seed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn originals() -> VectorSet {
        let value = |at: usize| ((at * 37 % 101) as f32).sin();
        VectorSet::new(6, (0..120).map(value).collect()).unwrap()
    }

    fn one_cell(rows: Matrix) -> Release {
        Release { cells: vec![0; rows.rows()], rows, prefixes: None }
    }

    fn of(release: Release) -> Subject {
        subject(&originals(), &Pca::fit(&originals()).unwrap(), vec![release], false, 1)
    }

    #[test]
    fn coordinates_are_as_many_as_the_rows_have() {
        for stored in [4, 6, 9] {
            let release = one_cell(Matrix::zeros(20, stored));
            let subject = of(release);
            assert_eq!(subject.residual().len(), stored);
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
        let subject = of(release);
        let pairs = subject.release().rows.values().iter().zip(subject.coordinates.values());
        assert!(pairs.fold(0.0, |worst: f64, (z, y)| worst.max((z - y).abs())) < 1e-6);
    }
}
