//! The HTTP interface in words: one OpenAPI value, and a page made from it.

use std::fmt::Write;

use serde_json::{Map, Value, json};
use shard_protocol::Operation;
use shard_protocol::http::{self, MEDIA_TYPE};

use super::tokens::Scope;
use super::{NAME, rooted};

/// The OpenAPI description.
pub(super) fn description() -> Value {
    let mut paths = Map::new();
    for operation in Operation::ALL {
        paths.insert(
            rooted(http::operation(NAME, operation)),
            json!({ "post": message(operation) }),
        );
    }
    let admin =
        |summary: &str, answer: &str| told(summary, Some(Scope::Admin), answer, "application/json");
    paths.insert(
        rooted(http::COLLECTIONS),
        json!({ "get": admin("Every collection that the token is for", "Collections") }),
    );
    paths.insert(
        rooted(http::collection(NAME)),
        json!({
            "parameters": [name()],
            "get": admin("What is held of a collection", "The collection"),
            "delete": admin("Forget a collection with its epochs, blobs and sessions", "Done"),
        }),
    );
    let mut compact = admin("Rewrite what is live, so that deleted bytes are gone", "Done");
    compact["requestBody"] = body("application/json", &json!({ "type": "object" }));
    paths.insert(rooted(http::COMPACT), json!({ "post": compact }));
    let mut snapshot = admin("Write a consistent copy into the server's directory", "Done");
    let schema = json!({
        "type": "object",
        "required": ["name"],
        "properties": { "name": { "type": "string", "pattern": NAME_PATTERN } },
    });
    snapshot["requestBody"] = body("application/json", &schema);
    paths.insert(rooted(http::SNAPSHOT), json!({ "post": snapshot }));
    let text = "text/plain";
    for (path, operation) in [
        (http::HEALTH, told("Whether the process answers", None, "Alive", text)),
        (
            http::READINESS,
            told("Whether requests are welcome; 503 in a shutdown", None, "Ready", text),
        ),
        (
            http::METRICS,
            told(
                "Figures for Prometheus; a token for all collections",
                Some(Scope::Read),
                "Figures",
                text,
            ),
        ),
        ("openapi.json", told("This description", None, "OpenAPI", "application/json")),
        ("docs", told("This description as a page", None, "A page", "text/html")),
    ] {
        paths.insert(rooted(path), json!({ "get": operation }));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Shard",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Scores encrypted queries against rows that the server cannot read. \
                Bodies under a collection are Shard messages (docs/FORMAT.md), answers too; a \
                refusal is a message with a class and words. Every answer carries shard-version, \
                and every answer about a collection shard-revision, the latest revision that was \
                published.",
        },
        "components": {
            "securitySchemes": { "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "shard_ and 43 characters, made by the operator",
            } },
        },
        "paths": paths,
    })
}

/// The form of a collection's name.
const NAME_PATTERN: &str = "^[a-z0-9][a-z0-9._-]{0,63}$";

fn name() -> Value {
    json!({
        "name": "name",
        "in": "path",
        "required": true,
        "schema": { "type": "string", "pattern": NAME_PATTERN },
    })
}

fn body(content: &str, schema: &Value) -> Value {
    json!({ "required": true, "content": { content: { "schema": schema } } })
}

fn message(operation: Operation) -> Value {
    let bytes = json!({ "type": "string", "format": "binary" });
    let content = json!({ MEDIA_TYPE: { "schema": bytes } });
    let kinds = |kinds: &[_]| format!("{kinds:?}").replace(['[', ']'], "").replace(", ", " or ");
    let scope = Scope::from(operation.access());
    let summary = match operation {
        Operation::Rerank => "Score candidates under encryption",
        Operation::Search => {
            "Score all blocks of a blind collection, or those of some cells, or multiply all its records, for a \
             few encrypted queries"
        }
        Operation::Sessions => "Leave the keys of a session",
        Operation::Begin => "Begin a publish",
        Operation::Rows => "Add or replace rows of an epoch",
        Operation::Macs => "List the MACs of an epoch, a page at a time",
        Operation::Delete => "Remove rows",
        Operation::Activate => "Make an epoch the current one and erase the others",
        Operation::Reset => "Forget everything but sealed bytes",
        Operation::Describe => "Say what is held",
        Operation::PutBlob => "Store sealed bytes under a name, or many under theirs",
        Operation::FetchBlob => "Fetch sealed bytes",
        Operation::FetchShared => "Fetch sealed bytes that readers may have",
        Operation::DeleteBlob => "Remove sealed bytes",
        Operation::ListBlobs => "List the names of sealed bytes, a page at a time",
    };
    let mut responses = json!({
        "200": { "description": kinds(operation.answer()), "content": content },
    });
    for (status, reason) in [
        ("400", "Malformed, or another version of messages"),
        ("401", "No token, or none that is known"),
        ("403", "The token does not allow it"),
        ("404", "No such collection, epoch, row, blob or session"),
        ("409", "Another width, or a vault older than what was published or apart from it"),
        ("413", "Too long"),
        ("429", "Too much at once; Retry-After says when to come back"),
        ("500", "The server failed"),
        ("507", "The disk refused; nothing was changed"),
    ] {
        responses[status] = json!({ "description": reason, "content": content });
    }
    json!({
        "summary": summary,
        "description": format!("Takes {}. Scope {scope}.", kinds(operation.kinds())),
        "parameters": [name()],
        "security": [{ "token": [] }],
        "requestBody": body(MEDIA_TYPE, &bytes),
        "responses": responses,
    })
}

fn told(summary: &str, scope: Option<Scope>, answer: &str, content: &str) -> Value {
    let mut operation = json!({
        "summary": summary,
        "responses": { "200": { "description": answer, "content": { content: {} } } },
    });
    if let Some(scope) = scope {
        operation["description"] = format!("Scope {scope}.").into();
        operation["security"] = json!([{ "token": [] }]);
        for (status, reason) in
            [("401", "No token, or none that is known"), ("403", "The token does not allow it")]
        {
            operation["responses"][status] = json!({ "description": reason });
        }
    }
    operation
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;\
    padding:0 1rem;color:#1a1a1a;background:#fff}code{font-family:ui-monospace,monospace}\
    section{border-top:1px solid #ccc;padding:.5rem 0}h2{font-size:1.05rem;margin:.5rem 0}\
    td{padding:0 1.5rem 0 0;vertical-align:top}\
    @media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}section{border-color:#444}}";

/// A page of a description: no script, nothing from elsewhere.
pub(super) fn page(description: &Value) -> String {
    let info = &description["info"];
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style>\
         <h1>{title} {version}</h1><p>{text}</p>\
         <p>For programs: <a href=\"/openapi.json\">openapi.json</a>.</p>",
        title = text(&info["title"]),
        version = text(&info["version"]),
        text = text(&info["description"]),
    );
    for (path, methods) in description["paths"].as_object().into_iter().flatten() {
        let methods = methods.as_object().into_iter().flatten();
        for (method, operation) in methods.filter(|(_, operation)| operation.is_object()) {
            section(&mut page, method, path, operation).expect("a string takes anything");
        }
    }
    page + "</html>\n"
}

fn section(page: &mut String, method: &str, path: &str, operation: &Value) -> std::fmt::Result {
    let (method, path) = (method.to_uppercase(), escaped(path));
    write!(page, "<section><h2><code>{method} {path}</code></h2>")?;
    write!(page, "<p>{}. ", text(&operation["summary"]))?;
    write!(page, "{}</p><table>", text(&operation["description"]))?;
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let reason = text(&response["description"]);
        write!(page, "<tr><td><code>{}</code><td>{reason}", escaped(status))?;
    }
    write!(page, "</table></section>")
}

fn text(value: &Value) -> String {
    escaped(value.as_str().unwrap_or_default())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
