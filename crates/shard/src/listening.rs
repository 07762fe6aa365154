//! The server of a vault that stays open, and whoever listens to what crosses to it.

use std::sync::Arc;
use std::time::Instant;

use shard_client::ClientError;
#[cfg(feature = "remote")]
use shard_client::remote::Remote;
use shard_protocol::{
    CollectionName, Limits, MessageKind, RerankRequest, RowHandle, Transport, message_kind,
};
use shard_rlwe::Objective;
use shard_server::Embedded;

/// One message to the server and its answer, as whoever runs the server sees them.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// When the message was handed over.
    pub began: Instant,
    /// When its answer was there.
    pub ended: Instant,
    /// Bytes of the message.
    pub bytes_up: usize,
    /// Bytes of the answer; none if there was none.
    pub bytes_down: usize,
    /// What it asks for.
    pub kind: Option<MessageKind>,
    /// Rows that it names, of a rotated collection.
    pub rows: Vec<RowHandle>,
}

/// Is told of every exchange.
pub type Listener = dyn Fn(Exchange) + Send + Sync;

/// The way to the server of a [`Retriever`](crate::Retriever).
pub struct Link {
    place: Place,
    listener: Option<Arc<Listener>>,
}

/// Where the server is.
pub(crate) enum Place {
    /// In this process.
    Embedded(Box<Embedded>),
    /// On a network.
    #[cfg(feature = "remote")]
    Remote(Arc<Remote>),
}

impl Place {
    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        match self {
            Self::Embedded(server) => {
                let Ok(answer) = server.exchange(message);
                Ok(answer)
            }
            #[cfg(feature = "remote")]
            Self::Remote(server) => Ok(server.exchange(message)?),
        }
    }
}

impl Link {
    pub(crate) fn new(place: Place, listener: Option<Arc<Listener>>) -> Self {
        Self { place, listener }
    }
}

impl Transport for Link {
    type Error = ClientError;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        let Some(listener) = &self.listener else { return self.place.exchange(message) };
        let (began, bytes_up) = (Instant::now(), message.len());
        let (kind, rows) = (message_kind(&message).ok(), named_rows(&message));
        let answer = self.place.exchange(message);
        let bytes_down = answer.as_ref().map_or(0, Vec::len);
        listener(Exchange { began, ended: Instant::now(), bytes_up, bytes_down, kind, rows });
        answer
    }

    fn collection(&self) -> CollectionName {
        match &self.place {
            Place::Embedded(server) => server.collection(),
            #[cfg(feature = "remote")]
            Place::Remote(server) => server.collection(),
        }
    }

    fn objective(&self) -> Objective {
        match &self.place {
            Place::Embedded(server) => server.objective(),
            #[cfg(feature = "remote")]
            Place::Remote(server) => server.objective(),
        }
    }
}

/// The rows that a message names, read the way the server reads it.
fn named_rows(message: &[u8]) -> Vec<RowHandle> {
    let request = RerankRequest::decode(message, &Limits::default());
    let candidates = request
        .map(|request| request.candidates().iter().flat_map(|(_, rows)| rows).copied().collect());
    candidates.unwrap_or_default()
}
