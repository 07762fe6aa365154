//! Passages encoded and taken into a vault.

use std::collections::HashMap;

use shard_client::{
    ClientError, EncoderNote, Ingested, Intake, Others, Progress, Protection, UNWATCHED, Watch,
};
use shard_encode::{EncodeError, Encoder, Location, Purpose};
use shard_geometry::VectorSet;

use super::cut::{ChunkOptions, Cut, cut};
use crate::input::TextDocument;
use crate::{Error, Vault};

/// How texts are taken.
#[derive(Clone, Copy)]
pub struct TextOptions<'a> {
    /// How documents are cut; `None` encodes each whole, as far as the encoder reads.
    pub chunks: Option<ChunkOptions>,
    /// What becomes of documents that are in the vault and not among those given.
    pub others: Others,
    /// Where the encoder was found, for the vault to look there next time; `None` leaves what it knows.
    pub location: Option<&'a Location>,
    /// Follows the encoding, in passages, and may end it: then nothing has changed.
    pub encoding: &'a Watch<'a>,
    /// Follows the writing, and may end it: then nothing has changed.
    pub writing: &'a Watch<'a>,
}

impl Default for TextOptions<'_> {
    fn default() -> Self {
        Self {
            chunks: None,
            others: Others::Keep,
            location: None,
            encoding: UNWATCHED,
            writing: UNWATCHED,
        }
    }
}

impl Vault {
    /// Encodes texts and adds them as passages, each with a record of its text, its title and its
    /// fields; documents whose id is known are replaced, whole or in chunks as they are. The first texts fix
    /// the encoder of the vault. All of it is one change.
    ///
    /// Passages that the vault has as they are keep their vectors and are not encoded again.
    ///
    /// # Errors
    /// When the vault's texts went through another encoder, an id occurs twice, a document is too long
    /// for a record, the encoder fails, another writer is at work, or this is a rotated or a query vault.
    pub fn add_texts(
        &mut self,
        texts: &[TextDocument],
        encoder: &Encoder,
        options: &TextOptions<'_>,
    ) -> Result<Ingested, Error> {
        self.require_owner("take documents")?;
        if self.settings()?.protection == Protection::Rotated {
            return Err(ClientError::OtherProtection {
                protection: Protection::Rotated,
                reason: "texts are kept of blind collections only",
            }
            .into());
        }
        let note = self.checked_note(encoder, options.location)?;
        if let Some(width) = self.collection()?.map(|held| held.dimension())
            && width != encoder.dimension()
        {
            return Err(Error::EncoderWidth { encoder: encoder.dimension(), documents: width });
        }
        let passages = cut(texts, options.chunks, encoder)?;
        let known = self.known_vectors(&passages)?;
        let values = encode(&passages, &known, encoder, options.encoding)?;
        let vectors = VectorSet::new(encoder.dimension(), values)?;
        let records: Vec<_> = passages.into_iter().map(|passage| passage.record).collect();
        let ids: Vec<String> = records.iter().map(|record| record.id.clone()).collect();
        let wholes: Vec<String> = texts.iter().map(|document| document.id.clone()).collect();
        let documents =
            shard_client::Documents { ids: &ids, vectors: &vectors, sample_queries: None };
        let intake = Intake {
            records,
            wholes: &wholes,
            others: options.others,
            encoder: Some(note),
            ..Intake::of(documents)
        };
        self.take_in(intake, options.writing)
    }

    /// What the vault is to note of an encoder.
    fn checked_note(
        &self,
        encoder: &Encoder,
        location: Option<&Location>,
    ) -> Result<EncoderNote, Error> {
        self.check_encoder(encoder)?;
        let location = match (location, self.encoder()?) {
            (Some(location), _) => shown(location),
            (None, Some(held)) => held.location,
            (None, None) => String::new(),
        };
        Ok(EncoderNote { identity: encoder.identity().to_owned(), location })
    }

    /// The vectors of passages that are in the vault with this very record, by id.
    fn known_vectors(&self, passages: &[Cut]) -> Result<HashMap<String, Vec<f32>>, Error> {
        let mut known = HashMap::new();
        let held = self.collection()?;
        if self.encoder()?.is_none()
            || held.and_then(|held| held.blind()?.records().map(drop)).is_none()
        {
            return Ok(known);
        }
        let records: HashMap<String, Vec<u8>> =
            self.records()?.into_iter().map(|record| (record.id, record.bytes)).collect();
        let is_same =
            |passage: &&Cut| records.get(&passage.record.id) == Some(&passage.record.bytes);
        let same: Vec<&str> =
            passages.iter().filter(is_same).map(|passage| passage.record.id.as_str()).collect();
        if same.is_empty() {
            return Ok(known);
        }
        let documents = self.documents()?;
        let rows: HashMap<&str, usize> =
            documents.ids().iter().enumerate().map(|(row, id)| (id.as_str(), row)).collect();
        for id in same {
            if let Some(&row) = rows.get(id) {
                known.insert(id.to_owned(), documents.vectors().row(row).to_vec());
            }
        }
        Ok(known)
    }
}

/// A location as it is noted: that of a folder from the root on, since the next search may begin elsewhere.
fn shown(location: &Location) -> String {
    match location {
        Location::Folder(path) => {
            let whole = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            whole.display().to_string()
        }
        endpoint => endpoint.to_string(),
    }
}

/// The vectors of passages, in their order.
fn encode(
    passages: &[Cut],
    known: &HashMap<String, Vec<f32>>,
    encoder: &Encoder,
    watch: &Watch<'_>,
) -> Result<Vec<f32>, Error> {
    let is_known = |passage: &&Cut| known.contains_key(&passage.record.id);
    let texts: Vec<&str> = passages
        .iter()
        .filter(|passage| !is_known(passage))
        .map(|passage| passage.text.as_str())
        .collect();
    let told =
        |done: usize, total: usize| watch(Progress { done: done as u64, total: total as u64 });
    let encoded = match encoder.encode(&texts, Purpose::Passage, &told) {
        Err(EncodeError::Ended) => return Err(ClientError::Cancelled.into()),
        outcome => outcome?,
    };
    let mut fresh = encoded.chunks_exact(encoder.dimension());
    let vector = |passage: &Cut| match known.get(&passage.record.id) {
        Some(vector) => vector.clone(),
        None => fresh.next().unwrap_or_default().to_vec(),
    };
    Ok(passages.iter().flat_map(vector).collect())
}
