//! Merge keys, registered once and used by the requests of a session.

use shard_rlwe::{MergeKeys, MergeSpan, RingDegree, Seed};

use crate::leak::{Disclosed, Leak, declassify};
use crate::wire::{DecodeError, Limits, MessageKind, Reader, Writer, within};

/// A session, by random bytes of the client's choice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SessionId(pub [u8; 16]);

/// Gives a server the merge keys of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenSession {
    id: Disclosed<SessionId>,
    keys: MergeKeys,
}

impl OpenSession {
    /// Keys under a session's name.
    pub fn new(id: Disclosed<SessionId>, keys: MergeKeys) -> Self {
        Self { id: id.accounted_under(Leak::SessionLinkage), keys }
    }

    /// The session.
    pub fn id(&self) -> SessionId {
        *self.id
    }

    /// Its keys.
    pub fn keys(&self) -> &MergeKeys {
        &self.keys
    }

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::OpenSession);
        writer.raw(&self.id.0);
        writer.u8(self.keys.degree().log2() as u8);
        writer.u8(self.keys.span().top as u8);
        writer.u8(self.keys.span().levels as u8);
        writer.raw(&self.keys.seed().0);
        writer.raw(self.keys.as_bytes());
        writer.bytes
    }

    /// Reads the wire form. The ring must be a secure one and the span one of its own.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::OpenSession, limits)?;
        let id = SessionId(reader.array()?);
        let degree = reader.degree()?;
        within("ring degree", degree.coefficients(), limits.degree)?;
        if !degree.is_secure() {
            return Err(DecodeError::Invalid("merge keys for an insecure ring"));
        }
        let span = MergeSpan { top: reader.u8()?.into(), levels: reader.u8()?.into() };
        if !span.fits(degree) {
            return Err(DecodeError::Invalid("merge keys for strides the ring does not have"));
        }
        let seed = Seed(reader.array()?);
        let body = reader.take(span.byte_len(degree))?;
        reader.finish()?;
        let id = declassify(id, Leak::SessionLinkage);
        Ok(Self::new(id, MergeKeys::from_bytes(degree, span, seed, body)?))
    }
}

impl Reader<'_> {
    /// A ring degree by its logarithm.
    pub(crate) fn degree(&mut self) -> Result<RingDegree, DecodeError> {
        let degree = 1_usize.checked_shl(u32::from(self.u8()?)).unwrap_or(0);
        Ok(RingDegree::new(degree)?)
    }
}
