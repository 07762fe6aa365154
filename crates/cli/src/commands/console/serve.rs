//! The page and what it asks for, over HTTP on the loopback address.
//!
//! Other users of the machine and pages of other sites can reach that address too. So everything but the
//! bare page takes a random token that is in the printed address only, sent as a header, which a page
//! of another site cannot set; and a request must name this machine as its host, so that no site can
//! pass as it (DNS rebinding).

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;

use super::{answer, audit};
use crate::desk::Desk;
use crate::hints::hint;
use crate::output::causes;

const PAGE: &str = include_str!("page.html");

/// Header that carries the token.
const TOKEN: &str = "x-shard-token";

/// Bytes of a request at most.
const MOST_BYTES: usize = 64 << 10;

/// What the page is served from.
pub struct Page {
    desk: Desk,
    vault: String,
    audit: PathBuf,
    token: String,
}

type Shared = State<Arc<Page>>;

impl Page {
    /// The page over a vault, with a fresh token.
    pub fn new(desk: Desk, vault: String, audit: PathBuf) -> Result<Self> {
        Ok(Self { desk, vault, audit, token: random_word()? })
    }

    /// What a request has to bring.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Answers until Ctrl-C.
    pub async fn serve(self, listener: TcpListener) -> Result<()> {
        let app = self.app(listener.local_addr()?.port());
        let ended = async {
            // Without a way to hear of it, Ctrl-C ends the program as ever.
            let _ = tokio::signal::ctrl_c().await;
        };
        tokio::select! {
            served = axum::serve(listener, app) => Ok(served?),
            () = ended => Ok(()),
        }
    }

    /// What answers, on a port of this machine.
    fn app(self, port: u16) -> Router {
        Router::new()
            .route("/", get(page))
            .route("/api/state", get(state))
            .route("/api/search", post(search))
            .route("/audit", get(report))
            .layer(DefaultBodyLimit::max(MOST_BYTES))
            .layer(middleware::from_fn(move |request, next| guard(port, request, next)))
            .with_state(Arc::new(self))
    }

    fn admits(&self, token: Option<&[u8]>) -> Result<(), Refused> {
        if is_token(&self.token, token) {
            return Ok(());
        }
        Err(Refused {
            status: StatusCode::FORBIDDEN,
            message: "open the address that `shard console` printed".into(),
            causes: Vec::new(),
            hint: None,
        })
    }
}

/// Whether what was given is the token.
fn is_token(token: &str, given: Option<&[u8]>) -> bool {
    given.is_some_and(|given| given.ct_eq(token.as_bytes()).into())
}

/// 32 random bytes in hexadecimal.
fn random_word() -> Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).context("no randomness to be had")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Refuses what was not addressed to this machine, and keeps answers where they belong.
async fn guard(port: u16, request: Request, next: Next) -> Response {
    let hosts: Vec<&HeaderValue> = request.headers().get_all(HOST).iter().collect();
    let own = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}"));
    let is_own = |host: &HeaderValue| own.iter().any(|own| host.as_bytes() == own.as_bytes());
    if hosts.len() != 1 || !is_own(hosts[0]) {
        return (StatusCode::FORBIDDEN, "this page is served to this machine only").into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn page() -> Result<Response, Refused> {
    let nonce = random_word().map_err(Refused::by_us)?;
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let policy = HeaderValue::from_str(&policy).map_err(|error| Refused::by_us(error.into()))?;
    let page = Html(PAGE.replace("{{NONCE}}", &nonce));
    Ok(([(CONTENT_SECURITY_POLICY, policy)], page).into_response())
}

async fn state(State(page): Shared, headers: HeaderMap) -> Result<axum::Json<Value>, Refused> {
    page.admits(headers.get(TOKEN).map(HeaderValue::as_bytes))?;
    blocking(page, |page| answer::state(&page.desk, &page.vault, &page.audit)).await
}

async fn search(
    State(page): Shared,
    headers: HeaderMap,
    body: axum::body::Bytes,
) -> Result<axum::Json<Value>, Refused> {
    page.admits(headers.get(TOKEN).map(HeaderValue::as_bytes))?;
    let asked = serde_json::from_slice(&body).map_err(|error| Refused::by_you(error.into()))?;
    let question = answer::question(asked).map_err(Refused::by_you)?;
    blocking(page, move |page| answer::search(&page.desk, &question)).await
}

async fn report(State(page): Shared, headers: HeaderMap) -> Result<Response, Refused> {
    page.admits(headers.get(TOKEN).map(HeaderValue::as_bytes))?;
    let html = tokio::fs::read_to_string(page.audit.join(audit::PAGE)).await;
    let html = html.with_context(|| format!("cannot read {}", page.audit.display()));
    Ok(Html(html.map_err(Refused::by_us)?).into_response())
}

/// Does work that takes a while beside the threads that answer.
async fn blocking(
    page: Arc<Page>,
    work: impl FnOnce(&Page) -> Result<Value> + Send + 'static,
) -> Result<axum::Json<Value>, Refused> {
    let done = tokio::task::spawn_blocking(move || work(&page)).await;
    let done = done.map_err(|error| Refused::by_us(error.into()))?;
    done.map(axum::Json).map_err(Refused::by_us)
}

/// What could not be done, as the page shows it.
struct Refused {
    status: StatusCode,
    message: String,
    causes: Vec<String>,
    hint: Option<&'static str>,
}

impl Refused {
    fn by_us(error: anyhow::Error) -> Self {
        Self::of(StatusCode::INTERNAL_SERVER_ERROR, &error)
    }

    fn by_you(error: anyhow::Error) -> Self {
        Self::of(StatusCode::BAD_REQUEST, &error)
    }

    fn of(status: StatusCode, error: &anyhow::Error) -> Self {
        let mut said = causes(error);
        let message = if said.is_empty() { String::new() } else { said.remove(0) };
        Self { status, message, causes: said, hint: hint(error) }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self { status, message, causes, hint } = self;
        let error = json!({ "message": message, "causes": causes, "hint": hint });
        (status, axum::Json(json!({ "error": error }))).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(hosts: &[&str]) -> Request {
        let request = Request::builder().uri("/api/state");
        let request = hosts.iter().fold(request, |request, host| request.header(HOST, *host));
        request.body(axum::body::Body::empty()).unwrap()
    }

    #[tokio::test]
    async fn only_this_machine_by_its_own_names_is_answered() {
        let app = || {
            let guard = middleware::from_fn(move |request, next| guard(4711, request, next));
            Router::new().route("/api/state", get(|| async { "answered" })).layer(guard)
        };
        for (hosts, served) in [
            (&["127.0.0.1:4711"][..], true),
            (&["localhost:4711"], true),
            (&["[::1]:4711"], true),
            (&["127.0.0.1"], false),
            (&["127.0.0.1:4712"], false),
            (&["evil.example:4711"], false),
            (&["localhost:4711", "evil.example"], false),
            (&[], false),
        ] {
            let answer = tower::ServiceExt::oneshot(app(), headers(hosts)).await.unwrap();
            let status = if served { StatusCode::OK } else { StatusCode::FORBIDDEN };
            assert_eq!(answer.status(), status, "{hosts:?}");
            if served {
                assert_eq!(answer.headers()[CACHE_CONTROL], "no-store");
            }
        }
    }

    #[test]
    fn tokens_are_long_random_and_compared_whole() {
        let (one, other) = (random_word().unwrap(), random_word().unwrap());
        assert!(one.len() == 64 && one != other);
        for (given, expected) in
            [(Some(&*one), true), (Some(&one[..63]), false), (Some(&*other), false), (None, false)]
        {
            assert_eq!(is_token(&one, given.map(str::as_bytes)), expected);
        }
    }
}
