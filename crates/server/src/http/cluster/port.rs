//! The port on which servers ask each other for parts of searches.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum_server::Handle;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use shard_protocol::CollectionName;
use tokio::task::JoinHandle;

use super::{Cluster, PART_TIMEOUT};
use crate::Server;
use crate::http::StartError;
use crate::http::refused::Refused;
use crate::http::workers::{NotDone, Workers};

/// Bytes of a message from another server, besides those of a client's.
const UNITS_BYTES: usize = 8 << 20;

/// What the port for the others runs on.
pub(in crate::http) struct PeerPort {
    handle: Handle<SocketAddr>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl PeerPort {
    pub(in crate::http) async fn shut_down(self, grace: Duration) {
        self.handle.graceful_shutdown(Some(grace));
        let _ = self.serving.await;
    }
}

impl Cluster {
    /// Serves the others.
    pub(in crate::http) fn serve(
        self: &Arc<Self>,
        listener: TcpListener,
        server: Arc<Server>,
        workers: Arc<Workers>,
    ) -> Result<PeerPort, StartError> {
        let tls = self.identity.for_server(self.known.clone()).map_err(StartError::Peers)?;
        let limit = server.limits().bytes.saturating_add(UNITS_BYTES);
        let state = Arc::new(PeerState { cluster: self.clone(), server, workers });
        let application = Router::new()
            .route("/part/{collection}", post(part))
            .layer(DefaultBodyLimit::max(limit))
            .with_state(state);
        let handle = Handle::new();
        let acceptor = RustlsAcceptor::new(RustlsConfig::from_config(tls));
        let http = axum_server::from_tcp(listener)?.handle(handle.clone()).acceptor(acceptor);
        let serving = tokio::spawn(http.serve(application.into_make_service()));
        Ok(PeerPort { handle, serving })
    }
}

struct PeerState {
    cluster: Arc<Cluster>,
    server: Arc<Server>,
    workers: Arc<Workers>,
}

/// A part of a search that another server was asked for.
async fn part(
    State(state): State<Arc<PeerState>>,
    Path(collection): Path<String>,
    message: Bytes,
) -> Response {
    let refused = |refused: Refused| {
        let mut response = refused.refusal.encode().into_response();
        *response.status_mut() = refused.status();
        response
    };
    let collection: CollectionName = match collection.parse() {
        Ok(collection) => collection,
        Err(error) => return refused(Refused::malformed(format!("collection {error}"))),
    };
    let _answering = state.cluster.answering();
    let (server, of) = (state.server.clone(), collection.clone());
    let work = move || server.answer_for_peer(&of, &message);
    match state.workers.run(&collection, PART_TIMEOUT, work).await {
        Ok((Ok(answer), _)) => answer.into_response(),
        Ok((Err(error), _)) => refused(error.into()),
        Err(NotDone::Full | NotDone::Late) => {
            refused(Refused::busy("parts of searches at a time", None))
        }
        Err(NotDone::Panicked) => {
            tracing::warn!("the work on a part of a search panicked");
            refused(Refused::internal("the server failed at this request"))
        }
    }
}
