//! Searches of a blind collection: encrypted queries up, one number per place of every block down.
//!
//! A query says nothing but which commit it is for: every block is scored, whatever is asked. Of a
//! collection whose blocks are grouped by cell it may also name the cells whose blocks are to be scored. A
//! fetch of records is the same with their words in place of blocks.

use crate::leak::{Disclosed, Leak, declassify};
use crate::names::{CommitName, Epoch};
use crate::wire::{DecodeError, Limits, MessageKind, Reader, Writer, ascending, message_kind};

/// What queries are multiplied with. It is the kind of their message that says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// The blocks of rows: a search.
    Rows,
    /// The words of records: a fetch.
    Records,
}

impl Table {
    fn kind(self) -> MessageKind {
        match self {
            Self::Rows => MessageKind::BlindQuery,
            Self::Records => MessageKind::RecordQuery,
        }
    }
}

/// Asks for the scores of all blocks of a commit, or of those of some cells, or the words of all segments
/// of its records, for a few encrypted queries that share one pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlindQuery {
    table: Table,
    epoch: Disclosed<Epoch>,
    commit: Disclosed<CommitName>,
    queries: Vec<Vec<u8>>,
    cells: Option<Disclosed<Vec<u32>>>,
}

impl BlindQuery {
    /// Queries in one message at most.
    pub const MOST: usize = 8;

    /// Queries for a table of a commit, each the bytes of an
    /// [`EncryptedQuery`](shard_rlwe::blind::EncryptedQuery).
    ///
    /// # Panics
    /// When there are none or more than [`MOST`](Self::MOST), when they are not equally long, or
    /// something was declassified as another leak than it is.
    pub fn new(
        table: Table,
        epoch: Disclosed<Epoch>,
        commit: Disclosed<CommitName>,
        queries: Vec<Vec<u8>>,
    ) -> Self {
        assert!((1..=Self::MOST).contains(&queries.len()), "1 to {} queries", Self::MOST);
        Self {
            table,
            epoch: epoch.accounted_under(Leak::CollectionShape),
            commit: commit.accounted_under(Leak::CollectionShape),
            queries: equally_long(queries),
            cells: None,
        }
    }

    /// The same for the blocks of some cells only.
    ///
    /// # Panics
    /// When no cell is named or they are not in ascending order, when records are asked for, or the cells
    /// were declassified as another leak than they are.
    #[must_use]
    pub fn of_cells(self, cells: Disclosed<Vec<u32>>) -> Self {
        assert!(self.table == Table::Rows, "records have no cells");
        assert!(!cells.is_empty() && cells.is_sorted_by(|a, b| a < b), "cells in ascending order");
        Self { cells: Some(cells.accounted_under(Leak::ActiveCells)), ..self }
    }

    /// What is asked.
    pub fn table(&self) -> Table {
        self.table
    }

    /// The epoch that is searched.
    pub fn epoch(&self) -> Epoch {
        *self.epoch
    }

    /// The commit whose table it is.
    pub fn commit(&self) -> CommitName {
        *self.commit
    }

    /// The encrypted queries.
    pub fn queries(&self) -> &[Vec<u8>] {
        &self.queries
    }

    /// The cells whose blocks are asked for, in ascending order; all blocks where it names none.
    pub fn cells(&self) -> Option<&[u32]> {
        self.cells.as_ref().map(|cells| &cells[..])
    }

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(self.table.kind());
        writer.bytes.reserve(32 + self.queries.len() * self.queries[0].len());
        writer.u64(self.epoch.0);
        writer.raw(&self.commit.0);
        write_pieces(&mut writer, &self.queries);
        if let Some(cells) = self.cells() {
            writer.count(cells.len());
            cells.iter().for_each(|cell| writer.raw(&cell.to_le_bytes()));
        }
        writer.bytes
    }

    /// Reads the wire form. Whether a query is as long as the collection's is for the server to say.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let table = match message_kind(bytes) {
            Ok(MessageKind::RecordQuery) => Table::Records,
            _ => Table::Rows,
        };
        let mut reader = Reader::open(bytes, table.kind(), limits)?;
        let epoch = reader.epoch()?;
        let commit = declassify(CommitName(reader.array()?), Leak::CollectionShape);
        let count = reader.count("queries", Self::MOST)?;
        if count == 0 {
            return Err(DecodeError::Invalid("a search without a query"));
        }
        let length = reader.count("bytes of a query", limits.bytes)?;
        let queries = read_pieces(&mut reader, count, length)?;
        let query = Self::new(table, epoch, commit, queries);
        if table == Table::Records || !reader.holds(4) {
            reader.finish()?;
            return Ok(query);
        }
        let count = reader.count("cells of a search", limits.cells)?;
        if count == 0 {
            return Err(DecodeError::Invalid("a search of no cell"));
        }
        let cells: Vec<u32> = cell_numbers(reader.fields(count, 4)?).collect();
        reader.finish()?;
        ascending("cells of a search", &cells)?;
        Ok(query.of_cells(declassify(cells, Leak::ActiveCells)))
    }
}

/// The answers to a [`BlindQuery`], in the order of its queries: of each, the places of all blocks that are
/// asked for in the order of the [`BlockList`](crate::BlockList), or the words of all segments of records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlindAnswer {
    answers: Vec<Vec<u8>>,
}

impl BlindAnswer {
    /// One answer for every query.
    ///
    /// # Panics
    /// When there are none or more than [`BlindQuery::MOST`], or they are not equally long.
    pub fn new(answers: Vec<Vec<u8>>) -> Self {
        assert!((1..=BlindQuery::MOST).contains(&answers.len()), "an answer for every query");
        Self { answers: equally_long(answers) }
    }

    /// The answers.
    pub fn answers(&self) -> &[Vec<u8>] {
        &self.answers
    }

    /// Takes the answers out.
    pub fn into_answers(self) -> Vec<Vec<u8>> {
        self.answers
    }

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::BlindAnswer);
        writer.bytes.reserve(8 + self.answers.len() * self.answers[0].len());
        write_pieces(&mut writer, &self.answers);
        writer.bytes
    }

    /// Reads the answer to so many queries, each of so many bytes: the query and the shape of the
    /// collection fix both.
    pub fn decode(
        bytes: &[u8],
        queries: usize,
        length: usize,
        limits: &Limits,
    ) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::BlindAnswer, limits)?;
        let count = reader.count("answers", BlindQuery::MOST)?;
        let actual = reader.count("bytes of an answer", limits.bytes)?;
        if count == 0 || count != queries {
            return Err(DecodeError::Invalid("another number of answers than of queries"));
        }
        if actual != length {
            return Err(DecodeError::Invalid("answers of another length than the collection's"));
        }
        let answers = read_pieces(&mut reader, count, length)?;
        reader.finish()?;
        Ok(Self { answers })
    }
}

/// Numbers of cells from fields of four bytes.
pub(crate) fn cell_numbers(fields: std::slice::ChunksExact<'_, u8>) -> impl Iterator<Item = u32> {
    fields.map(|field| u32::from_le_bytes(field.try_into().expect("four bytes")))
}

fn equally_long(pieces: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let length = pieces[0].len();
    assert!(length > 0 && pieces.iter().all(|one| one.len() == length), "of one length");
    pieces
}

/// Their number, the length of each, and all of them.
fn write_pieces(writer: &mut Writer, pieces: &[Vec<u8>]) {
    writer.count(pieces.len());
    writer.count(pieces[0].len());
    pieces.iter().for_each(|piece| writer.raw(piece));
}

fn read_pieces(
    reader: &mut Reader<'_>,
    count: usize,
    length: usize,
) -> Result<Vec<Vec<u8>>, DecodeError> {
    if length == 0 {
        return Err(DecodeError::Invalid("a query or an answer of no bytes"));
    }
    Ok(reader.fields(count, length)?.map(<[u8]>::to_vec).collect())
}
