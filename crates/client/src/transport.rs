//! A server as the rest of this crate sees it: any transport, with the client's own errors.

use shard_protocol::{
    BlobName, Blobs, DecodeError, FetchBlobs, FetchSharedMany, Leak, Limits, MessageKind, Refusal,
    RefusalCode, Transport, declassify, message_kind,
};

use crate::error::ClientError;

/// Sends one message and receives its answer.
pub(crate) trait Channel: Send + Sync {
    fn send(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError>;

    /// The collection that messages reach.
    #[cfg(feature = "remote")]
    fn collection_name(&self) -> shard_protocol::CollectionName;
}

impl<T: Transport<Error: Into<ClientError>>> Channel for T {
    fn send(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        self.exchange(message).map_err(Into::into)
    }

    #[cfg(feature = "remote")]
    fn collection_name(&self) -> shard_protocol::CollectionName {
        self.collection()
    }
}

/// Sends a message; a refusal comes back as an error.
pub(crate) fn exchange(
    transport: &dyn Channel,
    message: Vec<u8>,
    limits: &Limits,
) -> Result<Vec<u8>, ClientError> {
    let answer = transport.send(message)?;
    match message_kind(&answer)? {
        MessageKind::Refusal => Err(refused(Refusal::decode(&answer, limits)?)),
        _ => Ok(answer),
    }
}

/// Sends a message that is answered by an acknowledgement.
pub(crate) fn accepted(
    transport: &dyn Channel,
    message: Vec<u8>,
    limits: &Limits,
) -> Result<(), ClientError> {
    if exchange(transport, message, limits)? == MessageKind::Accepted.bare() {
        Ok(())
    } else {
        Err(DecodeError::Invalid("another answer than an acknowledgement").into())
    }
}

/// Which blobs are asked for.
#[derive(Clone, Copy)]
pub(crate) enum Asking {
    /// Any, by the owner.
    Owner,
    /// Those that whoever may search may have.
    Anybody,
}

/// The blobs of the first of some names, at least of one; `None` where there is no such blob. Whoever
/// asked asks again for the others.
pub(crate) fn fetch_blobs(
    transport: &dyn Channel,
    asking: Asking,
    names: &[BlobName],
) -> Result<Vec<Option<Vec<u8>>>, ClientError> {
    let names = &names[..names.len().min(FetchBlobs::MOST)];
    let disclosed = declassify(names.to_vec(), Leak::SealedBlobs);
    let message = match asking {
        Asking::Owner => FetchBlobs::new(disclosed).encode(),
        Asking::Anybody => FetchSharedMany::new(disclosed).encode(),
    };
    Ok(exchange_blobs(transport, message, names.len())?.0.blobs)
}

/// Sends a message that asks for a number of blobs: those of the first of them, at least one, and the bytes
/// of the answer.
pub(crate) fn exchange_blobs(
    transport: &dyn Channel,
    message: Vec<u8>,
    asked: usize,
) -> Result<(Blobs, usize), ClientError> {
    let limits = Limits::default();
    let answer = exchange(transport, message, &limits)?;
    let came = Blobs::decode(&answer, &limits)?;
    if !(1..=asked).contains(&came.blobs.len()) {
        return Err(DecodeError::Invalid("another number of blobs than asked for").into());
    }
    Ok((came, answer.len()))
}

/// Refusals that the owner can do something about say what.
fn refused(refusal: Refusal) -> ClientError {
    match refusal.code {
        RefusalCode::Stale => ClientError::Outdated { reason: refusal.text },
        RefusalCode::Forked => ClientError::Overtaken { reason: refusal.text },
        RefusalCode::Damaged => ClientError::DamagedRows { what: refusal.text },
        RefusalCode::UnknownCollection | RefusalCode::UnknownEpoch => {
            ClientError::Unpublished { reason: refusal.text }
        }
        _ => ClientError::Refused(refusal),
    }
}
