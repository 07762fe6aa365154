//! Settings as Python names them.

use pyo3::PyResult;
use serde_json::{Map, Value, json};
use shard::Settings;

use crate::errors::{input, raised};

/// How many secrets hide a query.
const QUERY_SECRETS: &str = "query_secrets";

/// Settings of a protection, with those that were given in place of the defaults: a number, or a word
/// such as `auto`.
pub fn chosen(protection: &str, given: &str) -> PyResult<Settings> {
    let defaults = match protection {
        "blind" => Settings::blind(),
        "rotated" => Settings::rotated(),
        other => return Err(input(format!("protection is blind or rotated, not {other:?}"))),
    };
    let given: Map<String, Value> =
        serde_json::from_str(given).map_err(|error| input(format!("settings: {error}")))?;
    let unusable = |error: serde_json::Error| input(format!("settings: {error}"));
    let Value::Object(mut all) = serde_json::to_value(defaults).map_err(unusable)? else {
        return Err(input("settings are named values"));
    };
    // What it is stored as.
    all.remove("query_rank");
    if protection == "blind" {
        // It is there only where it is set.
        all.entry("probe").or_insert(Value::Null);
        all.insert(QUERY_SECRETS.to_owned(), Value::Null);
    }
    for (name, value) in given {
        if name == "protection" || !all.contains_key(&name) {
            let known: Vec<&str> =
                all.keys().map(String::as_str).filter(|name| *name != "protection").collect();
            return Err(input(format!(
                "there is no setting {name:?}: there are {}",
                known.join(", ")
            )));
        }
        let value = match (name.as_str(), value) {
            ("cells", Value::Number(count)) => json!({ "cells": count }),
            ("tile" | "d_pub" | "candidates", Value::Number(fixed)) => json!({ "fixed": fixed }),
            (_, value) => value,
        };
        all.insert(name, value);
    }
    let secrets = all.remove(QUERY_SECRETS).filter(|secrets| !secrets.is_null());
    let mut settings: Settings = serde_json::from_value(Value::Object(all)).map_err(unusable)?;
    if let Some(secrets) = secrets {
        let count = secrets
            .as_u64()
            .ok_or_else(|| input(format!("settings: {QUERY_SECRETS} is 1 or 2, not {secrets}")))?;
        settings = settings.with_query_secrets(count).map_err(|error| raised(error.into()))?;
    }
    settings.check().map_err(|error| raised(error.into()))?;
    Ok(settings)
}
