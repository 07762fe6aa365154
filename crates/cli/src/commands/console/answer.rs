//! What the page is told: the vault's facts, and of a search what came of it, what it cost and what the
//! server saw.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use shard::{Answer, Exchange, FetchWay, Filter, Leak, MessageKind, UNWATCHED};

use super::audit;
use crate::commands::passages::report;
use crate::commands::search::saw;
use crate::desk::{Answered, Desk, Question};
use crate::output::bytes;

/// Bytes of a block that are shown.
const SHOWN: usize = 1024;

/// What the page asks.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    query: String,
    k: usize,
    #[serde(rename = "where")]
    filter: Option<String>,
    #[serde(default)]
    direct: bool,
}

/// A question, checked.
pub fn question(asked: Asked) -> Result<Question> {
    let filter = asked.filter.filter(|words| !words.trim().is_empty());
    let filter = filter.map(|words| words.parse::<Filter>()).transpose()?;
    let way = if asked.direct { FetchWay::Direct } else { FetchWay::Private };
    Question::checked(asked.query, asked.k, filter, way)
}

/// The vault's facts.
pub fn state(desk: &Desk, vault: &str, audit: &Path) -> Result<Value> {
    let retriever = desk.retriever();
    let Some(searcher) = retriever.opened(UNWATCHED)? else { bail!("the vault is empty") };
    let collection = searcher.collection();
    let block = match searcher.stored_block(0)? {
        Some(block) => json!({
            "number": 0,
            "count": collection.blind().map_or(0, |held| held.blocks().len()),
            "bytes": block.len(),
            "head": data_encoding::BASE64.encode(&block[..block.len().min(SHOWN)]),
        }),
        None => Value::Null,
    };
    Ok(json!({
        "vault": vault,
        "protection": if collection.blind().is_some() { "blind" } else { "rotated" },
        "documents": collection.documents(),
        "dimension": collection.dimension(),
        "epoch": collection.epoch().0,
        "encoder": desk.encoder().identity(),
        "server": retriever.server().map(|server| server.address().to_string()),
        "block": block,
        "audit": audit::verdicts(audit, collection),
    }))
}

/// Searches.
pub fn search(desk: &Desk, question: &Question) -> Result<Value> {
    let answered = desk.ask(question)?;
    let hits: Vec<Value> = answered.passages.iter().map(report).collect();
    let Some(answer) = &answered.answer else { bail!("the vault is empty") };
    let cost = &answer.cost;
    let [of_search, of_fetch] = &answered.crossed;
    let up = |crossed: &[Exchange]| crossed.iter().map(|one| one.bytes_up).sum::<usize>();
    let down = |crossed: &[Exchange]| crossed.iter().map(|one| one.bytes_down).sum::<usize>();
    let names: Vec<String> =
        of_search.iter().flat_map(|one| &one.rows).map(ToString::to_string).collect();
    Ok(json!({
        "hits": hits,
        "notes": answered.notes,
        "precision": answer.precision,
        "milliseconds": milliseconds(answer, &answered),
        "bytes": {
            "up": cost.bytes_up, "down": cost.bytes_down, "once": cost.bytes_once,
            "fetch_up": up(of_fetch), "fetch_down": down(of_fetch),
        },
        "events": events(&answered),
        "saw": seen(answer, question, of_fetch),
        "names": names,
        "cells": cost.active_cells,
        "scored": cost.candidates,
        "blocks": cost.blocks,
    }))
}

fn milliseconds(answer: &Answer, answered: &Answered) -> Value {
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let times = &answer.cost.timings;
    // A rotated collection has no passages, and is not asked for any.
    let [_, of_fetch] = &answered.crossed;
    let fetching = if of_fetch.is_empty() { Duration::ZERO } else { answered.fetching };
    json!({
        "encode": ms(answered.encoding),
        "route": ms(times.route),
        "rotate": ms(times.rotate),
        "encrypt": ms(times.encrypt),
        "server": ms(times.server),
        "open": ms(times.open),
        "fetch": ms(fetching),
    })
}

/// What crossed, when, in which direction.
fn events(answered: &Answered) -> Vec<Value> {
    let at = |moment: Instant| moment.duration_since(answered.asked).as_secs_f64() * 1e3;
    let words =
        [("the encrypted query", "encrypted scores"), ("requests for passages", "sealed passages")];
    let is_query = |kind: Option<MessageKind>| {
        matches!(kind, Some(MessageKind::BlindQuery | MessageKind::RerankRequest))
    };
    let mut events = Vec::new();
    for (crossed, (sent, received)) in answered.crossed.iter().zip(words) {
        for one in crossed {
            let event = |moment: Instant, direction: &str, bytes: usize, what: &str| {
                json!({ "at": at(moment), "until": at(moment), "direction": direction,
                        "bytes": bytes, "what": what })
            };
            let (sent, received) = if sent.contains("passages") || is_query(one.kind) {
                (sent, received)
            } else {
                ("a request for hints or keys", "hints or keys")
            };
            events.push(event(one.began, "up", one.bytes_up, sent));
            events.push(event(one.ended, "down", one.bytes_down, received));
        }
    }
    events
}

/// What the search, and the fetch of its passages, added to each leak.
fn seen(answer: &Answer, question: &Question, of_fetch: &[Exchange]) -> Vec<Value> {
    let mut seen: Vec<(Leak, String)> = saw(answer);
    if !of_fetch.is_empty() {
        let total: usize = of_fetch.iter().map(|one| one.bytes_up + one.bytes_down).sum();
        let total = bytes(total as f64);
        seen.push(match question.way {
            FetchWay::Private => {
                let words =
                    format!("{total} for passages: how many KB they have, and nothing of which");
                (Leak::RequestShape, words)
            }
            FetchWay::Direct => {
                (Leak::FetchedRecords, format!("{total} for passages: the pages that they are in"))
            }
        });
    }
    seen.iter().map(|(leak, words)| json!({ "leak": leak.name(), "words": words })).collect()
}
