//! What an operator asks, in JSON.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use shard_protocol::{BlobList, BlobName, CollectionName, CollectionState};
use shard_store::StoreError;
use tokio::sync::OwnedMutexGuard;

use super::exchange::announce;
use super::refused::Refused;
use super::tokens::{Grant, Scope};
use super::{Shared, body};
use crate::{Server, ServerError};

/// Bytes of a request of an operator.
const BODY_BYTES: usize = 4096;

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let told = Json(json!({ "error": self.refusal.text }));
        let mut response = (self.status(), told).into_response();
        announce(&self, response.headers_mut());
        response
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        ServerError::from(error).into()
    }
}

/// The answer to an operator, or why there is none.
type Told = Result<Json<Value>, Refused>;

/// Counts and logs what an operator was told.
fn noted(shared: &Shared, operation: &'static str, token: Option<&str>, told: Told) -> Told {
    let status = told.as_ref().map_or_else(Refused::status, |_| StatusCode::OK);
    if let Err(refused) = &told {
        shared.metrics.refused(refused);
    }
    tracing::info!(target: "shard::request", operation, status = status.as_u16(), token);
    told
}

/// Away from the threads that serve sockets.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    let failed = |error| {
        tracing::warn!(%error, "the work on a request panicked");
        Refused::internal("the server failed at this request")
    };
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}

pub(super) async fn collections(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Told {
    let mut token = None;
    let told = async {
        let grant = shared.tokens.admit(&headers, Scope::Admin, None)?;
        token = grant.id().map(ToOwned::to_owned);
        let server = shared.server.clone();
        let list = move || {
            let names = server.rows().collections()?;
            let visible = names.iter().filter(|name| grant.is_for(name));
            let states = visible.map(|name| described(&server, name));
            Ok(json!({ "collections": states.collect::<Result<Vec<Value>, Refused>>()? }))
        };
        Ok(Json(blocking(list).await?))
    };
    let told = told.await;
    noted(&shared, "collections", token.as_deref(), told)
}

pub(super) async fn collection(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Told {
    let mut token = None;
    let told = async {
        let (name, grant) = named(&shared, &name, &headers)?;
        token = grant.id().map(ToOwned::to_owned);
        let server = shared.server.clone();
        let describe = move || {
            if !server.rows().collections()?.contains(&name) {
                return Err(StoreError::UnknownCollection(name).into());
            }
            described(&server, &name)
        };
        Ok(Json(blocking(describe).await?))
    };
    let told = told.await;
    noted(&shared, "collection", token.as_deref(), told)
}

pub(super) async fn drop_collection(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Told {
    let mut token = None;
    let told = async {
        let (name, grant) = named(&shared, &name, &headers)?;
        token = grant.id().map(ToOwned::to_owned);
        let server = shared.server.clone();
        let gone = move || {
            if server.drop_collection(&name)? {
                Ok(json!({ "dropped": name.as_str() }))
            } else {
                Err(StoreError::UnknownCollection(name).into())
            }
        };
        Ok(Json(blocking(gone).await?))
    };
    let told = told.await;
    noted(&shared, "drop", token.as_deref(), told)
}

pub(super) async fn compact(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Told {
    let mut token = None;
    let told = async {
        let grant = for_all(&shared, &headers)?;
        token = grant.id().map(ToOwned::to_owned);
        json_only(&headers)?;
        let maintenance = shared.maintenance.clone();
        let alone = alone(&shared)?;
        let compact = move || {
            let _alone = alone;
            Ok(maintenance.compact()?)
        };
        blocking(compact).await?;
        Ok(Json(json!({ "compacted": true })))
    };
    let told = told.await;
    noted(&shared, "compact", token.as_deref(), told)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SnapshotRequest {
    /// Its directory's name.
    name: String,
}

pub(super) async fn snapshot(State(shared): State<Arc<Shared>>, request: Request) -> Told {
    let (parts, mut body) = request.into_parts();
    let mut token = None;
    let told = async {
        let grant = for_all(&shared, &parts.headers)?;
        token = grant.id().map(ToOwned::to_owned);
        json_only(&parts.headers)?;
        let asked = asked(&shared, &parts.headers, &mut body).await?;
        // The same rule as for collections: no separators, no dot in front.
        let name: CollectionName =
            asked.name.parse().map_err(|error| Refused::malformed(format!("snapshot {error}")))?;
        let to = shared.snapshots.join(name.as_str());
        let (maintenance, parent) = (shared.maintenance.clone(), shared.snapshots.clone());
        let alone = alone(&shared)?;
        blocking(move || {
            let _alone = alone;
            if to.exists() {
                return Err(Refused::malformed(format!("there is a snapshot {name} already")));
            }
            std::fs::create_dir_all(parent).map_err(|error| StoreError::Engine {
                doing: "make the directory of snapshots",
                reason: error.to_string(),
            })?;
            maintenance.snapshot(&to)?;
            Ok(Json(json!({ "snapshot": name.as_str() })))
        })
        .await
    };
    let told = told.await;
    noted(&shared, "snapshot", token.as_deref(), told)
}

async fn asked(
    shared: &Shared,
    headers: &HeaderMap,
    body: &mut Body,
) -> Result<SnapshotRequest, Refused> {
    let options = super::HttpOptions { body_bytes: BODY_BYTES, ..shared.options.clone() };
    let held = body::read(headers, body, &shared.budget, &options, &mut 0).await?;
    serde_json::from_slice(&held.bytes)
        .map_err(|error| Refused::malformed(format!("expected {{\"name\": ...}}: {error}")))
}

/// The right to compact or to take a snapshot. It belongs to the work and not to the request: the
/// work goes on when the one who asked for it has gone.
fn alone(shared: &Shared) -> Result<OwnedMutexGuard<()>, Refused> {
    let busy = |_| Refused::busy("compactions or snapshots at a time", None);
    shared.maintenance_lock.clone().try_lock_owned().map_err(busy)
}

/// A token for one collection must not reach what concerns them all.
fn for_all(shared: &Shared, headers: &HeaderMap) -> Result<Grant, Refused> {
    let grant = shared.tokens.admit(headers, Scope::Admin, None)?;
    if grant.is_for_all() {
        Ok(grant)
    } else {
        Err(Refused::forbidden("this token is for some collections only"))
    }
}

/// A page in the operator's browser cannot send this type without being asked about it first.
fn json_only(headers: &HeaderMap) -> Result<(), Refused> {
    let json = headers.get(CONTENT_TYPE).is_some_and(|value| value == "application/json");
    json.then_some(()).ok_or_else(|| Refused::malformed("the body must be application/json"))
}

fn named(
    shared: &Shared,
    name: &str,
    headers: &HeaderMap,
) -> Result<(CollectionName, Grant), Refused> {
    let name: CollectionName =
        name.parse().map_err(|error| Refused::malformed(format!("collection {error}")))?;
    let grant = shared.tokens.admit(headers, Scope::Admin, Some(&name))?;
    Ok((name, grant))
}

fn described(server: &Server, name: &CollectionName) -> Result<Value, Refused> {
    let CollectionState { revision, turn: _, commit, unfinished, current, epochs, damage } =
        server.rows().describe(name)?;
    let epochs: Vec<Value> = epochs
        .iter()
        .map(|state| {
            let (width, rows, blocks) = (state.width, state.rows, state.blocks);
            json!({ "epoch": state.epoch.0, "width": width, "rows": rows, "blocks": blocks })
        })
        .collect();
    let current = current.map(|epoch| epoch.0);
    let (blobs, blob_bytes) = match blob_totals(server, name) {
        Ok((count, bytes)) => (Some(count), Some(bytes)),
        // The others are to be listed all the same.
        Err(StoreError::Damaged { .. }) => (None, None),
        Err(error) => return Err(error.into()),
    };
    Ok(json!({
        "name": name.as_str(),
        "revision": revision.0,
        "commit": commit.map(|commit| commit.to_string()),
        "unfinished": unfinished.map(|commit| commit.to_string()),
        "current_epoch": current,
        "epochs": epochs,
        "blobs": blobs,
        "blob_bytes": blob_bytes,
        "damage": damage,
    }))
}

/// How many blobs there are and their bytes, a page at a time.
fn blob_totals(server: &Server, name: &CollectionName) -> Result<(usize, u64), StoreError> {
    let (mut count, mut bytes, mut last) = (0, 0, None::<BlobName>);
    loop {
        let page = server.rows().blobs(name, last.as_ref(), BlobList::PAGE)?;
        count += page.len();
        bytes += page.iter().map(|(_, length)| length).sum::<u64>();
        match page.into_iter().next_back() {
            Some((name, _)) if count % BlobList::PAGE == 0 => last = Some(name),
            _ => return Ok((count, bytes)),
        }
    }
}
