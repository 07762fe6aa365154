//! What a query sends and what comes back.

use shard_rlwe::{Ciphertext, Layout, Parameters, Response, Seed};

use crate::leak::{Disclosed, Leak, declassify};
use crate::names::{CellHandle, Epoch, RowHandle};
use crate::session::SessionId;
use crate::wire::{DecodeError, Limits, MessageKind, Reader, Writer, ascending, within, word};

/// Why a set of candidates is not well formed.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone, Copy)]
pub enum CandidateError {
    /// No cell at all.
    #[error("no candidates")]
    Empty,
    /// Another number of row lists than of cells.
    #[error("{lists} lists of rows for {cells} cells")]
    Unpaired {
        /// Cells.
        cells: usize,
        /// Lists of rows.
        lists: usize,
    },
    /// A cell without rows would be a ciphertext for nothing.
    #[error("cell {0} has no candidates")]
    EmptyCell(CellHandle),
    /// A cell or row named twice.
    #[error("a cell or row is named twice")]
    Repeated,
}

/// The rows a query asks to be scored, by cell. Cells and rows are in the order of their
/// handles, so neither the rank of a candidate nor the order of the owner's cells shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidates {
    cells: Disclosed<Vec<CellHandle>>,
    rows: Disclosed<Vec<Vec<RowHandle>>>,
}

impl Candidates {
    /// Sorts cells and rows; refuses empty cells and repeated names.
    ///
    /// # Panics
    /// When cells or rows were declassified as another leak than they are.
    pub fn new(
        cells: Disclosed<Vec<CellHandle>>,
        rows: Disclosed<Vec<Vec<RowHandle>>>,
    ) -> Result<Self, CandidateError> {
        if cells.len() != rows.len() {
            return Err(CandidateError::Unpaired { cells: cells.len(), lists: rows.len() });
        }
        let cells = cells.accounted_under(Leak::ActiveCells).into_inner();
        let rows = rows.accounted_under(Leak::CandidateHandles).into_inner();
        let mut cells: Vec<(CellHandle, Vec<RowHandle>)> = cells.into_iter().zip(rows).collect();
        cells.sort_unstable_by_key(|(cell, _)| *cell);
        for (cell, rows) in &mut cells {
            if rows.is_empty() {
                return Err(CandidateError::EmptyCell(*cell));
            }
            rows.sort_unstable();
            if !rows.is_sorted_by(|a, b| a < b) {
                return Err(CandidateError::Repeated);
            }
        }
        if cells.is_empty() {
            return Err(CandidateError::Empty);
        }
        if !cells.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(CandidateError::Repeated);
        }
        let (cells, rows) = cells.into_iter().unzip();
        Ok(Self {
            cells: declassify(cells, Leak::ActiveCells),
            rows: declassify(rows, Leak::CandidateHandles),
        })
    }

    /// Cells with their rows, in the order in which they are scored.
    pub fn iter(&self) -> impl Iterator<Item = (CellHandle, &[RowHandle])> {
        self.cells.iter().zip(self.rows.iter()).map(|(cell, rows)| (*cell, rows.as_slice()))
    }

    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows.iter().map(Vec::len).sum()
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.count(self.cells());
        writer.count(self.rows());
        for (cell, rows) in self.iter() {
            writer.u64(cell.0);
            writer.count(rows.len());
        }
        for (_, rows) in self.iter() {
            rows.iter().for_each(|handle| writer.u64(handle.0));
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>, limits: &Limits) -> Result<Self, DecodeError> {
        let cells = reader.count("cells", limits.cells)?;
        let total = reader.count("candidates", limits.candidates)?;
        let mut sizes = Vec::new();
        for field in reader.fields(cells, 12)? {
            let size = u32::from_le_bytes(field[8..].try_into().expect("four bytes")) as usize;
            if size == 0 {
                return Err(DecodeError::Invalid("a cell without candidates"));
            }
            sizes.push((CellHandle(word(&field[..8])), size));
        }
        if sizes.iter().map(|(_, size)| size).sum::<usize>() != total {
            return Err(DecodeError::Invalid("candidates of the cells do not add up"));
        }
        let named: Vec<CellHandle> = sizes.iter().map(|(cell, _)| *cell).collect();
        ascending("cell handles", &named)?;
        let mut handles = reader.fields(total, 8)?.map(|field| RowHandle(word(field)));
        let mut listed = Vec::with_capacity(cells);
        for (_, size) in &sizes {
            let rows: Vec<RowHandle> = handles.by_ref().take(*size).collect();
            ascending("row handles", &rows)?;
            listed.push(rows);
        }
        let cells = declassify(named, Leak::ActiveCells);
        Self::new(cells, declassify(listed, Leak::CandidateHandles))
            .map_err(|_| DecodeError::Invalid("a request without candidates"))
    }
}

/// An encrypted query: for each active cell the query under that cell's key, encrypted, and the
/// rows it is to be scored against.
#[derive(Clone, Debug)]
pub struct RerankRequest {
    epoch: Disclosed<Epoch>,
    shape: Disclosed<(Parameters, Layout)>,
    /// Whose merge keys fold the responses; present exactly when the layout merges.
    session: Option<Disclosed<SessionId>>,
    candidates: Candidates,
    seed: Seed,
    ciphertexts: Vec<Ciphertext>,
}

impl RerankRequest {
    /// A request; `ciphertexts` are those of the cells in the order of the candidates.
    ///
    /// # Panics
    /// When the number of ciphertexts is not what the layout says, or the layout merges and there
    /// is no session, or the other way round, or something was declassified as another leak than
    /// it is.
    pub fn new(
        epoch: Disclosed<Epoch>,
        shape: Disclosed<(Parameters, Layout)>,
        session: Option<Disclosed<SessionId>>,
        candidates: Candidates,
        seed: Seed,
        ciphertexts: Vec<Ciphertext>,
    ) -> Self {
        let expected = shape.1.ciphertexts(candidates.cells());
        assert_eq!(ciphertexts.len(), expected, "a query for every cell");
        assert_eq!(session.is_some(), shape.1.is_merged(), "a session where there is merging");
        Self {
            epoch: epoch.accounted_under(Leak::CollectionShape),
            shape: shape.accounted_under(Leak::RequestShape),
            session: session.map(|id| id.accounted_under(Leak::SessionLinkage)),
            candidates,
            seed,
            ciphertexts,
        }
    }

    /// The epoch whose names the request uses.
    pub fn epoch(&self) -> Epoch {
        *self.epoch
    }

    /// Ring parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.shape.0
    }

    /// How vectors lie in the ring.
    pub fn layout(&self) -> &Layout {
        &self.shape.1
    }

    /// Whose merge keys fold the responses.
    pub fn session(&self) -> Option<SessionId> {
        self.session.as_deref().copied()
    }

    /// Cells and rows.
    pub fn candidates(&self) -> &Candidates {
        &self.candidates
    }

    /// Seed of the uniform halves.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// Tiles of all cells.
    pub fn ciphertexts(&self) -> &[Ciphertext] {
        &self.ciphertexts
    }

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let (parameters, layout) = &*self.shape;
        let mut writer = Writer::new(MessageKind::RerankRequest);
        writer.bytes.reserve(
            80 + self.candidates.cells() * 12
                + self.candidates.rows() * 8
                + self.ciphertexts.len() * Ciphertext::byte_len(parameters),
        );
        writer.u64(self.epoch.0);
        writer.count(layout.width());
        writer.u8(parameters.degree().log2() as u8);
        writer.u8(parameters.upload_bits() as u8);
        writer.u8(parameters.response_bits() as u8);
        writer.count(layout.tiles());
        writer.count(layout.blocks());
        writer.u8(u8::from(layout.is_merged()));
        if let Some(session) = &self.session {
            writer.raw(&session.0);
        }
        writer.raw(&self.seed.0);
        self.candidates.write(&mut writer);
        self.ciphertexts.iter().for_each(|ciphertext| writer.raw(ciphertext.as_bytes()));
        writer.bytes
    }

    /// Reads the wire form. The parameters must be secure ones, every count within `limits`,
    /// and the message exactly as long as its counts say.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::RerankRequest, limits)?;
        let epoch = Epoch(reader.u64()?);
        let width = reader.count("row width", limits.width)?;
        let degree = reader.degree()?;
        within("ring degree", degree.coefficients(), limits.degree)?;
        let parameters = Parameters::new(degree, reader.u8()?.into(), reader.u8()?.into())?;
        let tiles = reader.count("tiles", limits.width)?;
        let blocks = reader.count("blocks", degree.coefficients())?;
        let session = match reader.u8()? {
            0 => None,
            1 => Some(SessionId(reader.array()?)),
            _ => return Err(DecodeError::Invalid("a merge flag that is neither 0 nor 1")),
        };
        let layout = Layout::packed(degree, width, tiles, blocks, session.is_some())?;
        let seed = Seed(reader.array()?);
        let candidates = Candidates::read(&mut reader, limits)?;
        let (cells, total) = (candidates.cells(), candidates.rows());
        let down = layout.responses(total).saturating_mul(Response::byte_len(&parameters, 0));
        within("bytes of the response", down, limits.bytes)?;
        let ciphertexts = reader
            .fields(layout.ciphertexts(cells), Ciphertext::byte_len(&parameters))?
            .map(|field| Ciphertext::from_bytes(&parameters, field))
            .collect::<Result<_, _>>()?;
        reader.finish()?;
        let epoch = declassify(epoch, Leak::CollectionShape);
        let shape = declassify((parameters, layout), Leak::RequestShape);
        let session = session.map(|id| declassify(id, Leak::SessionLinkage));
        Ok(Self::new(epoch, shape, session, candidates, seed, ciphertexts))
    }
}

/// The encrypted scores of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RerankResponse {
    responses: Vec<Response>,
}

impl RerankResponse {
    /// Responses in order.
    pub fn new(responses: Vec<Response>) -> Self {
        Self { responses }
    }

    /// Responses in order.
    pub fn responses(&self) -> &[Response] {
        &self.responses
    }

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::RerankResponse);
        writer.count(self.responses.len());
        self.responses.iter().for_each(|response| writer.raw(response.as_bytes()));
        writer.bytes
    }

    /// Reads the answer to a request of this shape: the request fixes how many responses there
    /// are and how long each of them is.
    pub fn decode(
        bytes: &[u8],
        parameters: &Parameters,
        layout: &Layout,
        candidates: usize,
        limits: &Limits,
    ) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::RerankResponse, limits)?;
        let count = reader.count("responses", limits.candidates)?;
        if count != layout.responses(candidates) {
            return Err(DecodeError::Invalid("another number of responses than the request needs"));
        }
        let mut responses = Vec::with_capacity(count);
        for index in 0..count {
            let used = layout.used_slots(index, candidates);
            let field = reader.take(Response::byte_len(parameters, used))?;
            responses.push(Response::from_bytes(parameters, layout, used, field)?);
        }
        reader.finish()?;
        Ok(Self { responses })
    }
}
