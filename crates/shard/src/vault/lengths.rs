//! Whether one document of a blind vault is much longer than most, which costs the others precision.

use std::fmt;

use crate::planning::compare_ways_of;
use crate::{Documents, Error, Opened, Vault};

/// How many times as long as most the longest document of a blind vault may be without a word. Scores have
/// errors in units of the longest, near 1e-6 at one deviation: at sixteen those of ordinary documents are off by
/// more than 1e-5 of their own length, which is the most where all are equally long.
const MUCH_LONGER: f64 = 16.0;

/// What a document that is much longer than most does to the scores of the others. As text it is a sentence.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct UnevenLengths {
    /// How many times as long as most the longest document is.
    pub times: f64,
    /// Deviation of a score's error in units of the longest document; `times` as much in units of most.
    pub error: f64,
}

impl fmt::Display for UnevenLengths {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { times, error } = self;
        write!(
            out,
            "the longest document is {times:.0} times as long as most: scores have an error of {error:.0e} of the \
             longest (one deviation), {:.0e} in units of the others; where lengths mean nothing, give vectors of \
             length one",
            error * times
        )
    }
}

impl Vault {
    /// What a document of a blind vault that is much longer than most does to the scores of the others; `None`
    /// where there is none, or it cannot be told. `given` were ingested last, and `collection` came of it.
    pub fn uneven_lengths(&self, given: &Documents, collection: &Opened) -> Option<UnevenLengths> {
        // The ingest is done, whatever keeps this from being found out.
        self.measured_lengths(given, collection).ok().flatten()
    }

    fn measured_lengths(
        &self,
        given: &Documents,
        collection: &Opened,
    ) -> Result<Option<UnevenLengths>, Error> {
        let Some(blind) = collection.blind() else { return Ok(None) };
        // A document that is longer than all before by so much has every block written anew. Only then are those
        // that were there before read again.
        let anew = blind.blocks().iter().all(|block| block.revision == blind.revision().0);
        let others = given.ids().len() < blind.rows();
        let lengths = if anew && others && self.settings()?.keep_vectors {
            self.documents()?.vectors().norms()
        } else {
            given.vectors().norms()
        };
        let Some(most) = median(lengths) else { return Ok(None) };
        let times = blind.longest() / most;
        if times <= MUCH_LONGER {
            return Ok(None);
        }
        let error = compare_ways_of(collection, None)?.precision;
        Ok(Some(UnevenLengths { times, error }))
    }
}

/// The median of those lengths that are not zero.
fn median(mut lengths: Vec<f64>) -> Option<f64> {
    lengths.retain(|length| *length > 0.0);
    let middle = lengths.len() / 2;
    (!lengths.is_empty()).then(|| *lengths.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FitOptions, Settings, Unlock};

    fn documents(lengths: &[f32]) -> Documents {
        let document = |(row, &length): (usize, &f32)| {
            (format!("{row} {length}"), vec![length, 0.0, 0.0, 0.0])
        };
        Documents::new(lengths.iter().enumerate().map(document)).unwrap()
    }

    #[test]
    fn a_document_much_longer_than_most_is_told_of_and_what_cannot_be_told_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let unlock = Unlock::passphrase("a passphrase for tests");
        let mut vault =
            Vault::create(folder.path().join("vault"), &unlock, &Settings::blind()).unwrap();
        let ingest = |vault: &mut Vault, given: &Documents| {
            vault.ingest(given, FitOptions::default()).unwrap();
            vault.collection().unwrap().unwrap()
        };
        let even = documents(&[1.0, 2.0, 1.0, 15.0, 0.0]);
        let collection = ingest(&mut vault, &even);
        assert_eq!(vault.uneven_lengths(&even, &collection), None);
        let long = documents(&[100.0]);
        let collection = ingest(&mut vault, &long);
        let told = vault.uneven_lengths(&long, &collection).unwrap();
        assert_eq!(told.times, 50.0, "the median is of all documents");
        assert!(told.error > 0.0 && told.to_string().contains("50 times as long as most"));
        // A reader's vault has no vectors to measure.
        let reader = vault.export(folder.path().join("reader"), &unlock).unwrap();
        assert!(reader.measured_lengths(&long, &collection).is_err());
        assert_eq!(reader.uneven_lengths(&long, &collection), None);
    }
}
