//! What a server says that it holds.

use crate::names::{CommitName, Epoch, Revision};
use crate::wire::{DecodeError, Limits, MessageKind, Reader, Writer, within, word};

/// One epoch as a server holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochState {
    /// Its number.
    pub epoch: Epoch,
    /// Coordinates of a row.
    pub width: usize,
    /// Rows held.
    pub rows: u64,
    /// Blocks of the current commit, checks included; 0 where the epoch is one of rows.
    pub blocks: u64,
}

/// What a server holds of a collection: the answer to a bare [`MessageKind::Describe`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CollectionState {
    /// The revision that was published last.
    pub revision: Revision,
    /// Publishes that have begun.
    pub turn: u64,
    /// The commit that was published last.
    pub commit: Option<CommitName>,
    /// The commit of a publish that has begun and not ended.
    pub unfinished: Option<CommitName>,
    /// The epoch that is searched, once one was activated.
    pub current: Option<Epoch>,
    /// Every epoch with rows or blocks, ascending.
    pub epochs: Vec<EpochState>,
    /// What is damaged, in words, as far as the server has noticed.
    pub damage: Option<String>,
}

/// Epochs of a collection that a server lists.
const MAX_EPOCHS: usize = 1024;

/// Longest words about damage.
const MAX_DAMAGE: usize = 1024;

impl CollectionState {
    /// The wire form; control characters and what is too long are cut from the
    /// words about damage.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::CollectionState);
        writer.u64(self.revision.0);
        writer.u64(self.turn);
        writer.commit(self.commit);
        writer.commit(self.unfinished);
        writer.u8(u8::from(self.current.is_some()));
        writer.u64(self.current.map_or(0, |epoch| epoch.0));
        writer.count(self.epochs.len());
        for held in &self.epochs {
            writer.u64(held.epoch.0);
            writer.u64(held.width as u64);
            writer.u64(held.rows);
            writer.u64(held.blocks);
        }
        let damage = self.damage.as_deref().unwrap_or_default();
        let damage: String = damage.chars().filter(|c| !c.is_control()).collect();
        let damage = &damage[..damage.floor_char_boundary(MAX_DAMAGE)];
        writer.count(damage.len());
        writer.raw(damage.as_bytes());
        writer.bytes
    }

    /// Reads the wire form. Words with control characters are refused: they come from a server that
    /// is not trusted and may end on a terminal.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::CollectionState, limits)?;
        let (revision, turn) = (Revision(reader.u64()?), reader.u64()?);
        let (commit, unfinished) = (reader.commit()?, reader.commit()?);
        let current = match (reader.u8()?, reader.u64()?) {
            (0, 0) => None,
            (1, epoch) => Some(Epoch(epoch)),
            _ => return Err(DecodeError::Invalid("a current epoch that is none")),
        };
        let count = reader.count("epochs", MAX_EPOCHS)?;
        let mut epochs = Vec::with_capacity(count);
        for field in reader.fields(count, 32)? {
            let width = usize::try_from(word(&field[8..16])).unwrap_or(usize::MAX);
            within("row width", width, limits.width)?;
            let (epoch, rows) = (Epoch(word(&field[..8])), word(&field[16..24]));
            epochs.push(EpochState { epoch, width, rows, blocks: word(&field[24..]) });
        }
        let length = reader.count("words about damage", MAX_DAMAGE)?;
        let words = std::str::from_utf8(reader.take(length)?)
            .map_err(|_| DecodeError::Invalid("words about damage are not UTF-8"))?;
        if words.contains(char::is_control) {
            return Err(DecodeError::Invalid("control characters in words about damage"));
        }
        reader.finish()?;
        if !epochs.is_sorted_by(|a, b| a.epoch < b.epoch) {
            return Err(DecodeError::Order("epochs"));
        }
        let damage = (!words.is_empty()).then(|| words.to_owned());
        Ok(Self { revision, turn, commit, unfinished, current, epochs, damage })
    }
}
