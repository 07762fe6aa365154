//! Gathers documents, and checks each: the one place where something is refused.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::{ImportError, Imported, MAX_DIMENSION, Reason, Refused};

/// Documents as they come.
#[derive(Default)]
pub(crate) struct Collector {
    imported: Imported,
    known: HashSet<String>,
}

impl Collector {
    /// For vectors of a known dimension; without one, the first vector decides.
    pub(crate) fn new(dimension: Option<usize>) -> Self {
        let mut collector = Self::default();
        collector.imported.dimension = dimension.unwrap_or(0);
        collector
    }

    /// Takes a document, or notes why not.
    pub(crate) fn push(&mut self, id: String, vector: &[f32], fields: Map<String, Value>) {
        let imported = &mut self.imported;
        if imported.dimension == 0 && (1..=MAX_DIMENSION).contains(&vector.len()) {
            imported.dimension = vector.len();
        }
        let reason = if id.is_empty() {
            Some(Reason::NoId)
        } else if vector.is_empty() {
            Some(Reason::NoVector)
        } else if vector.len() != imported.dimension {
            Some(Reason::Dimension)
        } else if vector.iter().any(|value| !value.is_finite()) {
            Some(Reason::NotFinite)
        } else if vector.iter().all(|&value| value == 0.0) {
            Some(Reason::Zero)
        } else if self.known.contains(&id) {
            Some(Reason::Duplicate)
        } else {
            None
        };
        match reason {
            Some(reason) => self.refuse(id, reason),
            None => {
                self.known.insert(id.clone());
                imported.ids.push(id);
                imported.vectors.extend_from_slice(vector);
                imported.fields.push(fields);
            }
        }
    }

    /// Notes a document that cannot be taken.
    pub(crate) fn refuse(&mut self, id: String, reason: Reason) {
        self.imported.refused.push(Refused { id, reason });
    }

    /// Adds something to know.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.imported.notes.push(note.into());
    }

    /// How many documents have come, those that were refused included.
    pub(crate) fn seen(&self) -> usize {
        self.imported.ids.len() + self.imported.refused.len()
    }

    /// Compares what came with what the source said it has.
    pub(crate) fn finish(mut self, source: &str, claimed: usize) -> Result<Imported, ImportError> {
        let found = self.seen();
        if found != claimed {
            return Err(ImportError::Count { claimed, found });
        }
        if found == 0 {
            return Err(ImportError::Empty(source.to_owned()));
        }
        self.imported.claimed = claimed;
        Ok(self.imported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_document_is_taken_or_refused_with_its_reason() {
        let mut collector = Collector::new(None);
        let push = |collector: &mut Collector, id: &str, vector: &[f32]| {
            collector.push(id.to_owned(), vector, Map::new());
        };
        push(&mut collector, "a", &[1.0, 0.0]);
        push(&mut collector, "b", &[f32::NAN, 0.0]);
        push(&mut collector, "c", &[0.0, -0.0]);
        push(&mut collector, "a", &[0.5, 0.5]);
        push(&mut collector, "d", &[1.0]);
        push(&mut collector, "e", &[]);
        push(&mut collector, "", &[1.0, 1.0]);
        let imported = collector.finish("x", 7).unwrap();
        assert_eq!(imported.ids, ["a"]);
        let refused: Vec<(&str, Reason)> =
            imported.refused.iter().map(|refused| (&refused.id[..], refused.reason)).collect();
        assert_eq!(
            refused,
            [
                ("b", Reason::NotFinite),
                ("c", Reason::Zero),
                ("a", Reason::Duplicate),
                ("d", Reason::Dimension),
                ("e", Reason::NoVector),
                ("", Reason::NoId),
            ]
        );
    }

    #[test]
    fn a_count_that_differs_is_an_error() {
        let mut collector = Collector::new(None);
        collector.push("a".to_owned(), &[1.0], Map::new());
        let wrong = collector.finish("x", 2);
        assert!(matches!(wrong, Err(ImportError::Count { claimed: 2, found: 1 })));
        assert!(matches!(Collector::new(None).finish("x", 0), Err(ImportError::Empty(_))));
    }
}
