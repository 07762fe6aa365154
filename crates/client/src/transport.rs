//! A server as the rest of this crate sees it: any transport, with the client's own errors.

use shard_protocol::Transport;

use crate::error::ClientError;

/// Sends one message and receives its answer.
pub(crate) trait Channel: Send + Sync {
    fn send(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError>;
}

impl<T: Transport<Error: Into<ClientError>>> Channel for T {
    fn send(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        self.exchange(message).map_err(Into::into)
    }
}
