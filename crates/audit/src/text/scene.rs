//! The roles in the audit: which documents the attacker has, which are attacked, and what the
//! server has of those.

use super::views::{Attack, CellView, MOST_PAIRS, mean_norm, targets_of};
use crate::alignment::affine::Affine;
use crate::subject::Subject;
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{generator, sample};

/// Fewest documents to divide between owner and attacker.
const FEWEST_DOCUMENTS: usize = 100;
/// Fewest rows of one cell for which pairs of that cell make sense.
const FEWEST_IN_CELL: usize = 16;
/// Most targets where there is no cell to choose them from.
const MOST_TARGETS: usize = 128;
/// Most documents of the attacker.
const ATTACKERS: usize = 6000;

/// What a public prefix would tell, of a store whose server holds none.
pub(super) const PREFIX_IF_PUBLIC: &str = "prefix-if-public";

/// The control's name.
pub(super) const RAW: &str = "raw";

/// What known pairs tell of the others in their cell with the key left alone.
pub(super) const CELL_MEAN: &str = "cell-mean";

/// An estimate of the targets.
pub(super) struct Estimate {
    pub(super) name: &'static str,
    pub(super) pairs: usize,
    /// Whether it is made from nothing but what the server has and what the observer is granted.
    pub(super) attainable: bool,
    pub(super) coordinates: Matrix,
}

/// The roles of the documents.
pub(super) struct Scene {
    /// Documents the attacker has.
    pub(super) corpus: Vec<usize>,
    /// Documents under attack.
    pub(super) targets: Vec<usize>,
    view: CellView,
    pub(super) notes: Vec<String>,
}

impl Scene {
    /// Divides the documents, or says in a sentence what is missing.
    pub(super) fn set(subject: &Subject) -> Result<Self, String> {
        let (documents, width) = (subject.coordinates.rows(), subject.coordinates.width());
        if documents < FEWEST_DOCUMENTS {
            return Err(format!(
                "Not measured: it needs {FEWEST_DOCUMENTS} documents or more, there are {documents}."
            ));
        }
        if subject.prefix_width >= width {
            return Err("Not measured: there is no residual, the prefix is all.".into());
        }
        let mut rng = generator(subject.seed, TEXT);
        let mut corpus = sample(documents, documents / 2, &mut rng);
        let mut owned = vec![true; documents];
        corpus.iter().for_each(|&document| owned[document] = false);
        corpus.truncate(ATTACKERS);

        // Rows of the release that are of documents the attacker does not have.
        let release = subject.release();
        let owned_row = |row: &usize| owned[subject.documents[*row]];
        let members = release.members().into_iter();
        let members: Vec<Vec<usize>> =
            members.map(|rows| rows.into_iter().filter(owned_row).collect()).collect();
        let fullest = members.iter().max_by_key(|rows| rows.len()).cloned().unwrap_or_default();
        let mut notes = Vec::new();
        let (rows, pairs) = if fullest.len() >= FEWEST_IN_CELL {
            (fullest, MOST_PAIRS)
        } else {
            notes.push(format!(
                "No cell has {FEWEST_IN_CELL} documents to choose pairs and targets from (with a \
                 key for each document there are never two): attacks with known pairs of one cell \
                 do not apply, and targets are from all cells."
            ));
            (members.concat(), 0)
        };
        if rows.is_empty() {
            return Err("Not measured: no row of the release is known to be a document's.".into());
        }
        let most = if pairs > 0 { targets_of(rows.len()) } else { rows.len().min(MOST_TARGETS) };
        let order = sample(rows.len(), rows.len(), &mut rng);
        let order: Vec<usize> = order.into_iter().map(|at| rows[at]).collect();
        let (targets, rest) = order.split_at(most);
        let known = &rest[..rest.len().min(pairs)];

        let documents_of = |rows: &[usize]| -> Vec<usize> {
            rows.iter().map(|&row| subject.documents[row]).collect()
        };
        let known_pairs =
            (release.rows.select(known), subject.coordinates.select(&documents_of(known)));
        let view = CellView {
            stored: release.rows.select(targets),
            prefixes: release.prefixes.as_ref().map(|prefixes| prefixes.select(targets)),
            known: (!known.is_empty()).then_some(known_pairs),
            prefix_width: subject.prefix_width,
            width,
            residual_norm: mean_norm(&subject.residuals(&corpus)),
        };
        Ok(Self { corpus, targets: documents_of(targets), view, notes })
    }

    /// The observer's way back to vectors: the basis and the mean that it is granted.
    pub(super) fn frame(&self, subject: &Subject) -> anyhow::Result<Affine> {
        Affine::between(&subject.coordinates, &subject.vectors, subject.seed)
    }

    /// Estimates of the targets in every view, the raw one first.
    pub(super) fn estimates(&self, truth: &Matrix) -> Vec<Estimate> {
        let control =
            |name, coordinates| Estimate { name, pairs: 0, attainable: false, coordinates };
        let mut out = vec![control(RAW, truth.clone())];
        if self.view.prefixes.is_none() && self.view.prefix_width > 0 {
            let public = CellView {
                prefixes: Some(truth.columns(0..self.view.prefix_width)),
                ..self.view.clone()
            };
            let prefix = public.estimate(Attack::PrefixOnly);
            out.extend(prefix.map(|coordinates| control(PREFIX_IF_PUBLIC, coordinates)));
        }
        out.extend(self.view.cell_mean().map(|coordinates| {
            let pairs = self.view.known.as_ref().map_or(0, |(stored, _)| stored.rows());
            Estimate { name: CELL_MEAN, pairs, attainable: true, coordinates }
        }));
        out.extend(Attack::grid().into_iter().filter_map(|attack| {
            let coordinates = self.view.estimate(attack)?;
            let (name, pairs) = (attack.name(), attack.pairs());
            Some(Estimate { name, pairs, attainable: true, coordinates })
        }));
        out
    }
}

/// The purpose of the division's randomness.
const TEXT: u64 = 0x7465_7874_0001;
