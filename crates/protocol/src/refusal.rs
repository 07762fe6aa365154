//! What a server says when it cannot do what it was asked.

use crate::wire::{DecodeError, Limits, MessageKind, Reader, Writer};

/// The class of a refusal, for programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusalCode {
    /// The message could not be read.
    Malformed,
    /// The server holds no rows of that epoch.
    UnknownEpoch,
    /// A row or cell is not there.
    UnknownRow,
    /// Rows of another width than the collection's.
    WrongWidth,
    /// The server does not know the session, or its keys do not cover the request.
    UnknownSession,
    /// The server failed.
    Internal,
    /// The two sides speak different versions.
    Version,
    /// No such collection.
    UnknownCollection,
    /// No such blob.
    UnknownBlob,
    /// The vault is older than what was published last.
    Stale,
    /// No token, or not one the server knows.
    Unauthorised,
    /// The token does not allow this.
    Forbidden,
    /// Too much at once; later it may go.
    Busy,
    /// More than the server takes in one piece or in all.
    TooLarge,
    /// The disk refused; nothing was changed.
    Storage,
    /// The collection is at another commit than the one the change comes from, or another publish
    /// has begun.
    Forked,
    /// The rows of the collection are damaged.
    Damaged,
}

const CODES: [RefusalCode; 17] = [
    RefusalCode::Malformed,
    RefusalCode::UnknownEpoch,
    RefusalCode::UnknownRow,
    RefusalCode::WrongWidth,
    RefusalCode::Internal,
    RefusalCode::UnknownSession,
    RefusalCode::Version,
    RefusalCode::UnknownCollection,
    RefusalCode::UnknownBlob,
    RefusalCode::Stale,
    RefusalCode::Unauthorised,
    RefusalCode::Forbidden,
    RefusalCode::Busy,
    RefusalCode::TooLarge,
    RefusalCode::Storage,
    RefusalCode::Forked,
    RefusalCode::Damaged,
];

/// Longest text of a refusal that is accepted.
const MAX_TEXT: usize = 1024;

/// A refusal in words.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// The class.
    pub code: RefusalCode,
    /// The words.
    pub text: String,
}

impl Refusal {
    /// The wire form; over-long text is cut.
    pub fn encode(&self) -> Vec<u8> {
        let code =
            CODES.iter().position(|code| *code == self.code).expect("CODES lists every code");
        let cut = self.text.floor_char_boundary(MAX_TEXT);
        let mut writer = Writer::new(MessageKind::Refusal);
        writer.u8(code as u8);
        writer.count(cut);
        writer.raw(&self.text.as_bytes()[..cut]);
        writer.bytes
    }

    /// Reads the wire form. Control characters are dropped: the text comes from a server that is
    /// not trusted and may end on a terminal.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::Refusal, limits)?;
        let code = *CODES
            .get(usize::from(reader.u8()?))
            .ok_or(DecodeError::Invalid("a refusal of unknown class"))?;
        let length = reader.count("refusal text", MAX_TEXT)?;
        let text = reader.take(length)?;
        reader.finish()?;
        let text = std::str::from_utf8(text)
            .map_err(|_| DecodeError::Invalid("refusal text is not UTF-8"))?;
        Ok(Self { code, text: text.chars().filter(|c| !c.is_control()).collect() })
    }
}
