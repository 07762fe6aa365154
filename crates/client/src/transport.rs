//! How messages reach a server.

use shard_protocol::{Limits, MessageKind, Refusal, message_kind};

use crate::error::ClientError;

/// Carries one message to a server and brings its answer back. The embedded server and a
/// network connection look the same from here.
pub trait Transport: Send + Sync {
    /// One exchange.
    fn exchange(
        &self,
        message: Vec<u8>,
    ) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>>;
}

/// Sends a message; a refusal comes back as an error.
pub(crate) fn exchange(
    transport: &dyn Transport,
    message: Vec<u8>,
    limits: &Limits,
) -> Result<Vec<u8>, ClientError> {
    let answer = transport.exchange(message).map_err(ClientError::Transport)?;
    match message_kind(&answer)? {
        MessageKind::Refusal => Err(Refusal::decode(&answer, limits)?.into()),
        _ => Ok(answer),
    }
}
