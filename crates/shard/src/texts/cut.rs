//! Documents cut into passages.

use serde_json::Value;
use shard_client::{MAX_RECORD_BYTES, Record};
use shard_encode::Encoder;

use crate::Error;
use crate::input::TextDocument;

/// The fields by which a chunk is known.
const CHUNK_FIELDS: [&str; 4] = ["document", "chunk", "start", "end"];

/// Bytes of the id of a document in chunks at most: chunks are found by it among the fields.
const LONGEST_ID: usize = 512;

/// Tokens of a chunk at least, however long the title is.
const SMALLEST_CHUNK: usize = 32;

/// How documents are cut into chunks, in tokens of the encoder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkOptions {
    /// Tokens of a chunk at most.
    pub size: usize,
    /// Tokens that a chunk shares with the one before; fewer than `size`.
    pub overlap: usize,
}

impl Default for ChunkOptions {
    fn default() -> Self {
        Self { size: 256, overlap: 32 }
    }
}

/// What is encoded by itself.
pub(super) struct Cut {
    /// The record that brings it back, with its id.
    pub(super) record: Record,
    /// What the encoder is given.
    pub(super) text: String,
}

/// Cuts documents into passages, in their order.
pub(super) fn cut(
    documents: &[TextDocument],
    chunks: Option<ChunkOptions>,
    encoder: &Encoder,
) -> Result<Vec<Cut>, Error> {
    let mut passages = Vec::with_capacity(documents.len());
    for document in documents {
        match chunks {
            Some(chunks) => cut_one(document, chunks, encoder, &mut passages)?,
            None => passages.push(passage(document)?),
        }
    }
    Ok(passages)
}

fn cut_one(
    document: &TextDocument,
    chunks: ChunkOptions,
    encoder: &Encoder,
    passages: &mut Vec<Cut>,
) -> Result<(), Error> {
    if let Some(field) = CHUNK_FIELDS.iter().find(|name| document.fields.contains_key(**name)) {
        return Err(Error::ChunkField { id: document.id.clone(), field: (*field).to_owned() });
    }
    if document.id.len() > LONGEST_ID {
        return Err(Error::LongId { bytes: document.id.len(), most: LONGEST_ID });
    }
    // A chunk is encoded with the title before it; what the model does not read would not be found.
    let room = encoder.room_behind(document.title.as_deref().unwrap_or_default())?;
    let size = chunks.size.min(room.max(SMALLEST_CHUNK));
    let overlap = chunks.overlap.min(if size < chunks.size { size / 4 } else { chunks.overlap });
    let mut pieces = encoder.pieces(&document.text, size, overlap)?;
    if pieces.is_empty() {
        pieces.push(0..document.text.len());
    }
    for (number, piece) in pieces.into_iter().enumerate() {
        let mut chunk = TextDocument {
            id: format!("{}#{number}", document.id),
            title: document.title.clone(),
            text: document.text[piece.clone()].to_owned(),
            fields: document.fields.clone(),
        };
        let values: [Value; 4] =
            [document.id.clone().into(), number.into(), piece.start.into(), piece.end.into()];
        let named = CHUNK_FIELDS.into_iter().map(str::to_owned).zip(values);
        chunk.fields.extend(named);
        passages.push(passage(&chunk)?);
    }
    Ok(())
}

fn passage(document: &TextDocument) -> Result<Cut, Error> {
    let record = document.record();
    if record.bytes.len() > MAX_RECORD_BYTES {
        return Err(Error::LongDocument { id: record.id, bytes: record.bytes.len() });
    }
    Ok(Cut { record, text: document.with_title() })
}
