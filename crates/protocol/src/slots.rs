//! The messages of the slot layout: the paper's way, for comparison.

use shard_rlwe::slots::{SlotsLayout, SlotsParameters};

use crate::leak::{Disclosed, Leak, declassify};
use crate::names::Epoch;
use crate::rerank::Candidates;
use crate::session::SessionId;
use crate::wire::{DecodeError, Limits, MessageKind, Reader, Writer, within};

/// Most primes of a chain.
const MAX_CHAIN: usize = 8;

/// Gives a server the public and Galois keys of a client, without its secret key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenSlotsSession {
    id: Disclosed<SessionId>,
    layout: Disclosed<SlotsLayout>,
    context: Vec<u8>,
}

impl OpenSlotsSession {
    /// A server context, encoded, under a session's name.
    ///
    /// # Panics
    /// When the context has another length than the layout says.
    pub fn new(id: Disclosed<SessionId>, layout: Disclosed<SlotsLayout>, context: Vec<u8>) -> Self {
        let expected = layout.parameters().server_context_bytes(layout.span());
        assert_eq!(context.len(), expected, "the context of the layout");
        Self {
            id: id.accounted_under(Leak::SessionLinkage),
            layout: layout.accounted_under(Leak::RequestShape),
            context,
        }
    }

    /// The session.
    pub fn id(&self) -> SessionId {
        *self.id
    }

    /// How vectors lie in slots.
    pub fn layout(&self) -> &SlotsLayout {
        &self.layout
    }

    /// The encoded server context.
    pub fn context(&self) -> &[u8] {
        &self.context
    }

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::OpenSlotsSession);
        writer.raw(&self.id.0);
        let parameters = self.layout.parameters();
        writer.u8(parameters.degree().log2() as u8);
        writer.u8(parameters.scale_bits() as u8);
        writer.count(parameters.chain().len());
        parameters.chain().iter().for_each(|&bits| writer.u8(bits as u8));
        writer.count(self.layout.width());
        writer.count(self.layout.blocks());
        writer.raw(&self.context);
        writer.bytes
    }

    /// Reads the wire form. The parameters must be within the security ceiling.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::OpenSlotsSession, limits)?;
        let id = SessionId(reader.array()?);
        let degree = reader.degree()?;
        within("ring degree", degree.coefficients(), limits.degree)?;
        let scale_bits = reader.u8()?.into();
        let count = reader.count("primes", MAX_CHAIN)?;
        let chain: Vec<u32> = reader.take(count)?.iter().map(|&bits| bits.into()).collect();
        let parameters = SlotsParameters::with_scale(degree, &chain, scale_bits)?;
        let width = reader.count("row width", limits.width)?;
        let blocks = reader.count("blocks", degree.coefficients())?;
        let layout = SlotsLayout::new(parameters, width, blocks)?;
        let length = layout.parameters().server_context_bytes(layout.span());
        let context = reader.take(length)?.to_vec();
        reader.finish()?;
        let id = declassify(id, Leak::SessionLinkage);
        Ok(Self::new(id, declassify(layout, Leak::RequestShape), context))
    }
}

/// An encrypted query in slots. The prefix part of each score travels in the clear, as in the
/// paper, to be added under encryption.
#[derive(Clone, PartialEq, Debug)]
pub struct SlotsRequest {
    epoch: Disclosed<Epoch>,
    session: Disclosed<SessionId>,
    candidates: Candidates,
    prefix_scores: Disclosed<Vec<f64>>,
    ciphertexts: Vec<Vec<u8>>,
}

impl SlotsRequest {
    /// A request; prefix scores are in the order of the candidates.
    ///
    /// # Panics
    /// When there is not one prefix score for every candidate, or no ciphertext.
    pub fn new(
        epoch: Disclosed<Epoch>,
        session: Disclosed<SessionId>,
        candidates: Candidates,
        prefix_scores: Disclosed<Vec<f64>>,
        ciphertexts: Vec<Vec<u8>>,
    ) -> Self {
        assert_eq!(prefix_scores.len(), candidates.rows(), "a prefix score for every candidate");
        assert!(!ciphertexts.is_empty(), "at least one ciphertext");
        Self {
            epoch: epoch.accounted_under(Leak::CollectionShape),
            session: session.accounted_under(Leak::SessionLinkage),
            candidates,
            prefix_scores: prefix_scores.accounted_under(Leak::PrefixScores),
            ciphertexts,
        }
    }

    /// The epoch whose names the request uses.
    pub fn epoch(&self) -> Epoch {
        *self.epoch
    }

    /// Whose keys score it.
    pub fn session(&self) -> SessionId {
        *self.session
    }

    /// Cells and rows.
    pub fn candidates(&self) -> &Candidates {
        &self.candidates
    }

    /// What is added to each candidate's inner product.
    pub fn prefix_scores(&self) -> &[f64] {
        &self.prefix_scores
    }

    /// Encoded query ciphertexts.
    pub fn ciphertexts(&self) -> &[Vec<u8>] {
        &self.ciphertexts
    }

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::SlotsRequest);
        writer.u64(self.epoch.0);
        writer.raw(&self.session.0);
        self.candidates.write(&mut writer);
        self.prefix_scores.iter().for_each(|score| writer.u64(score.to_bits()));
        write_ciphertexts(&mut writer, &self.ciphertexts);
        writer.bytes
    }

    /// Reads the wire form. Ciphertexts are checked against the session's parameters when they
    /// are used.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::SlotsRequest, limits)?;
        let epoch = declassify(Epoch(reader.u64()?), Leak::CollectionShape);
        let session = declassify(SessionId(reader.array()?), Leak::SessionLinkage);
        let candidates = Candidates::read(&mut reader, limits)?;
        let mut scores = Vec::with_capacity(candidates.rows());
        for _ in 0..candidates.rows() {
            let score = f64::from_bits(reader.u64()?);
            if !score.is_finite() {
                return Err(DecodeError::Invalid("a prefix score that is not finite"));
            }
            scores.push(score);
        }
        let ciphertexts = read_ciphertexts(&mut reader, limits.cells)?;
        reader.finish()?;
        if ciphertexts.is_empty() {
            return Err(DecodeError::Invalid("a request without ciphertexts"));
        }
        let scores = declassify(scores, Leak::PrefixScores);
        Ok(Self::new(epoch, session, candidates, scores, ciphertexts))
    }
}

/// One encrypted score per candidate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotsResponse {
    responses: Vec<Vec<u8>>,
}

impl SlotsResponse {
    /// Encoded responses in the order of the candidates.
    pub fn new(responses: Vec<Vec<u8>>) -> Self {
        Self { responses }
    }

    /// Encoded responses in the order of the candidates.
    pub fn responses(&self) -> &[Vec<u8>] {
        &self.responses
    }

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::SlotsResponse);
        write_ciphertexts(&mut writer, &self.responses);
        writer.bytes
    }

    /// Reads the answer to a request with this many candidates.
    pub fn decode(bytes: &[u8], candidates: usize, limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::SlotsResponse, limits)?;
        let responses = read_ciphertexts(&mut reader, limits.candidates)?;
        reader.finish()?;
        if responses.len() != candidates {
            return Err(DecodeError::Invalid("another number of responses than candidates"));
        }
        Ok(Self { responses })
    }
}

/// Count, common length, bodies.
fn write_ciphertexts(writer: &mut Writer, ciphertexts: &[Vec<u8>]) {
    let length = ciphertexts.first().map_or(0, Vec::len);
    writer.bytes.reserve(8 + ciphertexts.len() * length);
    writer.count(ciphertexts.len());
    writer.count(length);
    for ciphertext in ciphertexts {
        assert_eq!(ciphertext.len(), length, "ciphertexts of one length");
        writer.raw(ciphertext);
    }
}

fn read_ciphertexts(reader: &mut Reader<'_>, limit: usize) -> Result<Vec<Vec<u8>>, DecodeError> {
    let count = reader.count("ciphertexts", limit)?;
    let length = reader.count("ciphertext bytes", u32::MAX as usize)?;
    if count > 0 && length == 0 {
        return Err(DecodeError::Invalid("empty ciphertexts"));
    }
    if count == 0 {
        return if length == 0 {
            Ok(Vec::new())
        } else {
            Err(DecodeError::Invalid("no ciphertexts"))
        };
    }
    Ok(reader.fields(count, length)?.map(<[u8]>::to_vec).collect())
}
