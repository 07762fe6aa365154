//! What a client keeps of a block: its tag, whose row is in each of its places, and which rows are alike.

use hkdf::HkdfExtract;
use sha2::Sha256;
use shard_rlwe::blind::{Shape, Tag};
use zeroize::Zeroizing;

use crate::collection::{decode_vectors, unusable};
use crate::error::ClientError;
use crate::payload::{PayloadError, Reader, Writer};

const VERSION: u16 = 2;

/// The version of a block that is in a cell.
const IN_A_CELL: u16 = 3;

/// A block as a client knows it.
#[derive(Clone, Debug)]
pub struct BlockPlaces {
    /// The revision that wrote the block.
    pub revision: u64,
    /// Its tag.
    pub tag: Tag,
    /// The cell whose rows it has, where blocks are grouped by cell.
    pub cell: Option<u32>,
    /// The ids of its rows, one after the other.
    text: String,
    /// Where the id of each place ends in the text. No id is empty, so a place is free if it ends
    /// where the one before it does.
    ends: Vec<u32>,
    /// Of each place, [`Keys::likeness`](shard_rlwe::blind::Keys::likeness) of its row; 0 where it is free.
    likenesses: Vec<u32>,
}

impl BlockPlaces {
    /// A block whose places have these ids and likenesses, unless they are free.
    pub(super) fn new<'a>(
        revision: u64,
        tag: Tag,
        rows: impl Iterator<Item = Option<(&'a str, u32)>>,
    ) -> Self {
        let (mut text, mut ends, mut likenesses) = (String::new(), Vec::new(), Vec::new());
        for row in rows {
            let (id, likeness) = row.unwrap_or_default();
            text.push_str(id);
            ends.push(text.len() as u32);
            likenesses.push(likeness);
        }
        Self { revision, tag, cell: None, text, ends, likenesses }
    }

    /// The same in a cell, or in none.
    pub(super) fn in_cell(self, cell: Option<u32>) -> Self {
        Self { cell, ..self }
    }

    /// The id of the row in a place, unless the place is free.
    pub fn id(&self, at: usize) -> Option<&str> {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        let id = &self.text[start as usize..self.ends[at] as usize];
        (!id.is_empty()).then_some(id)
    }

    /// The id of every place, where it has one.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = Option<&str>> {
        (0..self.ends.len()).map(|at| self.id(at))
    }

    /// The likeness of the row in a place.
    pub(super) fn likeness(&self, at: usize) -> u32 {
        self.likenesses[at]
    }

    /// Places that have a row.
    pub fn rows(&self) -> usize {
        self.ids().flatten().count()
    }

    /// Its name on a server, [`block_file_name`].
    pub fn file_name(&self) -> [u8; 16] {
        block_file_name(&self.tag)
    }

    /// The value of the block.
    pub(super) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut writer = Writer::new(if self.cell.is_some() { IN_A_CELL } else { VERSION });
        // All at once: what is moved to make room would leave the tag behind.
        writer.bytes.reserve_exact(12 + Tag::BYTES + 7 * self.ends.len() + self.text.len());
        writer.u64(self.revision);
        writer.bytes.extend_from_slice(self.tag.expose());
        writer.bytes.extend(self.cell.iter().flat_map(|cell| cell.to_le_bytes()));
        let ids: Vec<Option<&str>> = self.ids().collect();
        let bits = ids.chunks(8).map(|ids| {
            ids.iter().enumerate().fold(0, |bits, (at, id)| bits | u8::from(id.is_some()) << at)
        });
        writer.bytes.extend(bits);
        for id in ids.iter().flatten() {
            let length = u16::try_from(id.len()).expect("ids are at most 65535 bytes long");
            writer.bytes.extend_from_slice(&length.to_le_bytes());
        }
        for (likeness, _) in self.likenesses.iter().zip(&ids).filter(|(_, id)| id.is_some()) {
            writer.bytes.extend_from_slice(&likeness.to_le_bytes());
        }
        writer.bytes.extend_from_slice(self.text.as_bytes());
        Zeroizing::new(writer.bytes)
    }

    /// Reads the value of a block of so many places, a multiple of eight.
    pub(super) fn decode(bytes: &[u8], places: usize) -> Result<Self, PayloadError> {
        let contradiction = || PayloadError::Invalid("its parts do not go together".into());
        let (mut reader, version) = Reader::of_either(bytes, [IN_A_CELL, VERSION])?;
        let revision = reader.u64()?;
        let tag = Tag::from_bytes(*Zeroizing::new(reader.array()?));
        let cell = match version {
            IN_A_CELL => Some(u32::from_le_bytes(reader.array()?)),
            _ => None,
        };
        let bits = reader.take(places / 8)?;
        let used = bits.iter().map(|bits| bits.count_ones() as usize).sum::<usize>();
        let mut lengths = reader.take(2 * used)?.as_chunks().0.iter();
        let mut stored = reader.take(4 * used)?.as_chunks().0.iter();
        let text = std::str::from_utf8(reader.rest()).map_err(|_| contradiction())?.to_owned();
        let mut ends = Vec::with_capacity(places);
        let mut likenesses = vec![0; places];
        let mut end = 0;
        for (at, likeness) in likenesses.iter_mut().enumerate() {
            if bits[at / 8] >> (at % 8) & 1 == 1 {
                let length = lengths.next().copied().map_or(0, u16::from_le_bytes);
                end += u32::from(length);
                *likeness = stored.next().copied().map_or(0, u32::from_le_bytes);
                if length == 0 || !text.is_char_boundary(end as usize) {
                    return Err(contradiction());
                }
            }
            ends.push(end);
        }
        if end as usize != text.len() {
            return Err(contradiction());
        }
        Ok(Self { revision, tag, cell, text, ends, likenesses })
    }

    /// The vectors of the block from their value, place after place, with zeros where one is free.
    pub(super) fn spread(
        &self,
        bytes: &[u8],
        shape: &Shape,
    ) -> Result<Zeroizing<Vec<f32>>, ClientError> {
        let width = shape.dimension();
        let stored =
            decode_vectors(bytes, width).map(Zeroizing::new).map_err(unusable("vectors"))?;
        if stored.len() != self.rows() * width {
            let problem = "its rows are not those of the places".to_owned();
            return Err(unusable("vectors")(PayloadError::Invalid(problem)));
        }
        let mut vectors = Zeroizing::new(vec![0.0; self.ends.len() * width]);
        let used = vectors.chunks_exact_mut(width).zip(self.ids()).filter(|(_, id)| id.is_some());
        for ((place, _), vector) in used.zip(stored.chunks_exact(width)) {
            place.copy_from_slice(vector);
        }
        Ok(vectors)
    }
}

/// The name of a block on a server: pseudorandom, the same for the same block, another for every other.
///
/// ```text
/// name = HMAC-SHA-256(tag, "name"), cut to 16 bytes
/// ```
pub fn block_file_name(tag: &Tag) -> [u8; 16] {
    stored_name(tag.expose())
}

/// The name that a stored block has on a server, by the bytes of its tag.
pub(super) fn stored_name(tag: &[u8; 32]) -> [u8; 16] {
    // HKDF-Extract is HMAC with the salt as its key.
    let mut hmac = HkdfExtract::<Sha256>::new(Some(&tag[..]));
    hmac.input_ikm(b"name");
    let (whole, _) = hmac.finalize();
    std::array::from_fn(|at| whole[at])
}
