//! The first act: a server that holds ciphertexts, scores all of them, and is caught when it lies.

use std::convert::Infallible;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use shard::evaluation::{EvaluateOptions, Evaluation};
use shard::input::TextDocument;
use shard::{
    Answer, ClientError, Embedded, Error, FitOptions, Leak, MessageKind, SearchOptions, Searcher,
    Settings, Timings, Transport, Unlock, Vault, message_kind,
};

use super::{mean, milliseconds, total_ms};
use crate::commands::eval::quality_table;
use crate::output::{Output, bytes, cut, follow, grouped, percentile, progress, table};
use crate::scifact::SciFact;
use crate::unlock;

/// Queries shown with their best documents.
const SAMPLES: [usize; 3] = [36, 35, 1];

/// Documents shown for each.
const SHOWN: usize = 3;

/// Bytes of a block that are shown.
const SHOWN_BYTES: usize = 24;

/// Where the first score of an answer begins: after header, count and length.
const FIRST_SCORE: usize = 16;

pub fn run(set: &SciFact, directory: &Path, output: &Output<'_>) -> Result<Value> {
    let unlock = Unlock::KeyFile(unlock::random_key()?);
    let mut vault = Vault::create(directory, &unlock, &Settings::blind())?;
    let start = Instant::now();
    vault.ingest(&set.documents, FitOptions::default())?;
    let searcher = vault.embedded()?;
    output.line(held(&searcher, set, start.elapsed())?)?;

    let bar = progress("searching", set.queries.ids().len());
    let watch = follow(&bar);
    let options = EvaluateOptions { watch: &watch, ..EvaluateOptions::default() };
    let outcome = vault.evaluate(&set.queries, &set.qrels, &options);
    bar.finish_and_clear();
    let outcome = outcome?;
    output.line(
        "2. Three of the searches. Every query went out encrypted; every document was scored.\n",
    )?;
    for sample in SAMPLES {
        output.line(sample_search(set, sample, &outcome.answers[sample]))?;
    }
    output.line("   * = judged relevant by people\n")?;
    let queries = outcome.answers.len();
    output.line(format!("3. All {queries} queries, against raw search of the plain vectors.\n"))?;
    output.line(quality_table(&outcome.quality))?;
    let same = (outcome.top10_identical * queries as f64).round() as usize;
    output.line(format!(
        "\n   The ten best documents are those of raw search in {same} of {queries} queries.\n   \
         Worst error of any score: {:.1e}.\n",
        outcome.max_abs_error
    ))?;
    let plain = plain_times(&vault, set)?;
    output.line(costs(&outcome, &plain))?;
    output.line(server_view(&searcher, &outcome)?)?;
    let caught = lie(&vault, &searcher, set)?;
    output.line(if caught {
        "6. A server that lies. One score of an answer was changed on its way.\n\n   \
         The client noticed before it used anything of it, said ALARM, and will not use that set\n   \
         of checks again.\n"
    } else {
        "6. A server that lies. One score of an answer was changed, and nobody noticed: this is a bug.\n"
    })?;
    let blind = outcome.quality.shard_blind.as_ref().context("a blind vault was evaluated")?;
    Ok(json!({
        "ndcg10": { "raw": outcome.quality.raw.mean.ndcg10, "blind": blind.mean.ndcg10 },
        "top10_identical": outcome.top10_identical,
        "max_abs_error": outcome.max_abs_error,
        "bytes": {
            "up": mean(&outcome, |a| a.cost.bytes_up).round(),
            "down": mean(&outcome, |a| a.cost.bytes_down).round(),
        },
        "ms": total_ms(&outcome),
        "plain_ms": percentile(&plain, 0.5),
        "lie_caught": caught,
    }))
}

/// What the server holds of a text.
fn held(searcher: &Searcher<Embedded>, set: &SciFact, took: Duration) -> Result<String> {
    let collection = searcher.collection().blind().context("the vault is blind")?;
    let block = searcher.stored_block(0)?.context("the server holds the first block")?;
    let shown: Vec<String> =
        block[..SHOWN_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!(
        "1. The owner encrypts the vectors and hands them to the server ({:.1} s).\n\n   \
         The first abstract:  {}\n   \
         What the server has: {} ...\n\n   \
         {} blocks, {}, of which every bit looks like noise: no lengths, no groups, no names.\n   \
         The keys stay with the owner; there is no model to fit and none to renew.\n",
        took.as_secs_f64(),
        cut(set.document_texts[0].title.as_deref().unwrap_or_default(), 62),
        shown.join(" "),
        grouped(collection.blocks().len()),
        bytes((collection.blocks().len() * block.len()) as f64),
    ))
}

fn sample_search(set: &SciFact, sample: usize, answer: &Answer) -> String {
    let judged = set.qrels.judgements(&set.queries.ids()[sample]);
    let title = |id: &str| {
        let row = set.documents.ids().iter().position(|known| known == id);
        row.and_then(|row| set.document_texts[row].title.as_deref()).unwrap_or_default()
    };
    let TextDocument { text, .. } = &set.query_texts[sample];
    let mut lines = vec![format!("   \"{}\"", cut(text, 90))];
    for hit in answer.hits.iter().take(SHOWN) {
        let relevant = judged.and_then(|judged| judged.get(&hit.id)).is_some_and(|&r| r > 0);
        let mark = if relevant { '*' } else { ' ' };
        lines.push(format!("    {mark} {:.5}  {}", hit.score, cut(title(&hit.id), 80)));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Milliseconds of every query over the unprotected vectors, in this process.
fn plain_times(vault: &Vault, set: &SciFact) -> Result<Vec<f64>> {
    let local = vault.local()?;
    let time = |row: usize| {
        let start = Instant::now();
        local.search(set.queries.vectors().row(row), 10, None)?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    (0..set.queries.ids().len()).map(time).collect()
}

fn costs(outcome: &Evaluation, plain: &[f64]) -> String {
    type Phase = (&'static str, fn(&Timings) -> Duration);
    let phases: [Phase; 4] = [
        ("encrypt", |t| t.encrypt),
        ("server, and the client's products meanwhile", |t| t.server),
        ("check, open and rank", |t| t.open),
        ("whole search", Timings::total),
    ];
    let row = |name: &str, samples: &[f64]| {
        let figure = |fraction| format!("{:.2}", percentile(samples, fraction));
        vec![name.to_owned(), figure(0.5), figure(0.95)]
    };
    let mut rows: Vec<Vec<String>> =
        phases.iter().map(|(name, of)| row(name, &milliseconds(outcome, of))).collect();
    rows.push(row("searching the unprotected vectors", plain));
    format!(
        "4. What a search costs.\n\n{}\n\n   {} up and {} down per query.\n",
        table(&["milliseconds", "median", "95 %"], &rows),
        bytes(mean(outcome, |a| a.cost.bytes_up)),
        bytes(mean(outcome, |a| a.cost.bytes_down)),
    )
}

fn server_view(searcher: &Searcher<Embedded>, outcome: &Evaluation) -> Result<String> {
    let collection = searcher.collection().blind().context("the vault is blind")?;
    let total = mean(outcome, |a| a.cost.bytes_up + a.cost.bytes_down);
    let seen = [
        (Leak::CollectionShape, format!("{} blocks", grouped(collection.blocks().len()))),
        (Leak::BlockChanges, "all of them, once".to_owned()),
        (Leak::RequestShape, format!("{} per query", bytes(total))),
    ];
    let lines: Vec<String> = seen
        .into_iter()
        .map(|(leak, figure)| format!("   {:18} {figure:18} {}", leak.name(), leak.meaning()))
        .collect();
    Ok(format!(
        "5. What the server saw.\n\n{}\n\n   \
         No vector, no length, no query, no score, no rank, no id; every query looks like every other.\n",
        lines.join("\n")
    ))
}

/// Changes one score of every answer.
struct Liar<'a>(&'a Embedded);

impl Transport for Liar<'_> {
    type Error = Infallible;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, Infallible> {
        let mut answer = self.0.exchange(message)?;
        if matches!(message_kind(&answer), Ok(MessageKind::BlindAnswer)) {
            // The middle one of the three bytes of a score: a 256th of the range of scores at most.
            answer[FIRST_SCORE + 1] ^= 0x80;
        }
        Ok(answer)
    }
}

/// Whether a lie is caught.
fn lie(vault: &Vault, searcher: &Searcher<Embedded>, set: &SciFact) -> Result<bool> {
    let deceived = vault.searcher(Liar(searcher.server()))?;
    match deceived.search(set.queries.vectors().row(0), &SearchOptions::default()) {
        Err(Error::Client(ClientError::Forged)) => Ok(true),
        Err(other) => Err(other.into()),
        Ok(_) => Ok(false),
    }
}
