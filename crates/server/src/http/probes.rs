//! What monitoring asks: alive, ready, figures; and the description of the interface.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response};

use super::metrics::Levels;
use super::refused::Refused;
use super::tokens::Scope;
use super::workers::Workers;
use super::{Shared, openapi};

/// The process answers.
pub(super) async fn alive() -> &'static str {
    "alive\n"
}

/// Requests are welcome.
pub(super) async fn ready(State(shared): State<Arc<Shared>>) -> (StatusCode, &'static str) {
    if shared.stopping.load(Ordering::Relaxed) {
        (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n")
    } else if shared.loading.load(Ordering::Relaxed) {
        (StatusCode::SERVICE_UNAVAILABLE, "loading blocks\n")
    } else {
        (StatusCode::OK, "ready\n")
    }
}

/// Figures are about all collections, so a token for some of them is not enough.
pub(super) async fn metrics(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let allowed = shared.tokens.admit(&headers, Scope::Read, None).and_then(|grant| {
        let reason = "figures are about all collections, and this token is for some only";
        if grant.is_for_all() { Ok(()) } else { Err(Refused::forbidden(reason)) }
    });
    if let Err(refused) = allowed {
        return refused.into_response();
    }
    let levels = Levels {
        waiting: every_worker(&shared).map(Workers::waiting).sum(),
        computing: every_worker(&shared).map(Workers::computing).sum(),
        held_bytes: shared.budget.held(),
        open_connections: shared.doorkeeper.open(),
        sessions: shared.server.sessions(),
        blocks: shared.server.blocks(),
        cluster: shared.cluster.as_ref().map(|cluster| cluster.levels()),
        tokens_age: shared.tokens.age(),
        engine: shared.maintenance.figures(),
    };
    let text = shared.metrics.render(&levels);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

fn every_worker(shared: &Shared) -> impl Iterator<Item = &Workers> {
    let of_peers = shared.peer_workers.as_deref();
    [&shared.workers, &shared.writer].into_iter().chain(&shared.fetchers).chain(of_peers)
}

/// The description of the interface, for programs.
pub(super) async fn description() -> impl IntoResponse {
    Json(openapi::description())
}

/// The same for people.
pub(super) async fn page() -> impl IntoResponse {
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    ([(CONTENT_SECURITY_POLICY, policy)], Html(openapi::page(&openapi::description())))
}
