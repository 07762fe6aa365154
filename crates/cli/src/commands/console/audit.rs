//! The last audit, as it was left in a directory.

use std::path::Path;

use serde_json::{Value, json};
use shard::Opened;
use shard::audit::figure;

/// The audit's own page.
pub const PAGE: &str = "audit.html";

/// Bytes of a report at most.
const MOST_BYTES: u64 = 64 << 20;

/// The verdicts of a report; nothing where there is none that can be read, or it is of another collection: of
/// another protection, or of another number of documents.
pub fn verdicts(directory: &Path, collection: &Opened) -> Option<Value> {
    let path = directory.join("audit.json");
    if std::fs::metadata(&path).ok()?.len() > MOST_BYTES {
        return None;
    }
    let report: Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    let metadata = &report["metadata"];
    let is_blind = metadata["kind"] == "blind";
    if is_blind != collection.blind().is_some()
        || metadata["documents"].as_u64() != Some(collection.documents() as u64)
    {
        return None;
    }
    let attacks = report["sections"].as_array()?.iter();
    let attacks =
        attacks.filter(|section| section["comparison"] == false && section["seen"] == false);
    let verdict = |section: &Value| {
        let figures = report["findings"].as_array().into_iter().flatten();
        let mut figures = figures.filter(|finding| finding["channel"] == section["name"]);
        let headline = section["headline"].as_u64().and_then(|at| figures.nth(at as usize));
        json!({
            "channel": section["name"],
            "title": section["title"],
            "verdict": section["verdict"].as_str().unwrap_or("not measured"),
            "figure": headline.map(words),
        })
    };
    Some(json!({
        "date": metadata["date"],
        "verdicts": attacks.map(verdict).collect::<Vec<_>>(),
    }))
}

/// A figure with its interval.
fn words(finding: &Value) -> String {
    let number = |value: &Value| value.as_f64().map_or_else(String::new, figure::number);
    let metric = figure::metric(finding["metric"].as_str().unwrap_or_default());
    let interval = match &finding["ci95"] {
        Value::Array(ends) if ends.len() == 2 => {
            format!(" [{}, {}]", number(&ends[0]), number(&ends[1]))
        }
        _ => String::new(),
    };
    format!("{metric} {}{interval}", number(&finding["value"]))
}
