//! `shard-lab bench rerank`: searches through the real path, phase by phase.
//!
//! The client is [`Searcher`], the server the embedded one behind a transport that looks at the
//! clocks whenever a request comes in and an answer goes out. A first pass over the queries, which
//! derives the keys of all cells they touch, is not counted; nor is a request that had to open a
//! session: it is made again.

use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use serde_json::Value;
use shard_client::{Answer, LayoutChoice, Searcher, Transport};
use shard_geometry::VectorSet;
use shard_protocol::{MessageKind, message_kind};

use super::arguments::Rerank;
use super::clock::{Moment, Phases, memory_bytes, on_threads};
use super::corpus::Corpus;
use super::fidelity::Fidelity;
use super::owner::Owner;
use super::report::{self, Run, Shape, Trial};
use shard::Embedded;
use shard_cli::output::{Output, progress};

pub fn run(arguments: &Rerank, output: &Output<'_>) -> Result<()> {
    let corpus = Corpus::of(&arguments.corpus)?;
    if let Some(directory) = &arguments.dump {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        corpus.write(directory)?;
    }
    let owner = Owner::of(&arguments.corpus, arguments.options()?, corpus)?;
    let measured = on_threads(arguments.threads, || searches(&owner, arguments.trials))?;
    if let Some(directory) = &arguments.dump {
        measured.write_candidates(&owner, directory)?;
    }
    let report = measured.report(arguments, &owner);
    output.line(report::text(&report))?;
    output.result(&report)
}

/// Runs several sets of flags, which differ in the seed, on one corpus, and reports on all their
/// searches together, and with each.
pub fn pooled(
    runs: &[Rerank],
    documents: &VectorSet,
    queries: &VectorSet,
) -> Result<(Value, Vec<Trial>)> {
    let mut all = Run { trials: Vec::new(), once: Vec::new() };
    let mut last = None;
    for arguments in runs {
        let corpus = Corpus { documents: documents.clone(), queries: queries.clone() };
        let owner = Owner::of(&arguments.corpus, arguments.options()?, corpus)?;
        let run = on_threads(arguments.threads, || searches(&owner, arguments.trials))?;
        all.trials.extend(run.trials);
        all.once.extend(run.once);
        last = Some((arguments, owner));
    }
    let (arguments, owner) = last.context("no searches to report on")?;
    Ok((all.report(arguments, &owner), all.trials))
}

/// When scoring began and ended, and the memory held before or after it, whichever is more.
#[derive(Clone, Copy)]
struct Scored {
    begun: Moment,
    ended: Moment,
    memory: Option<u64>,
}

/// The embedded server, and what was seen when it last scored.
struct Metered {
    server: Embedded,
    scored: Mutex<Option<Scored>>,
}

impl Metered {
    fn scored(&self) -> Option<Scored> {
        *self.scored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transport for Metered {
    type Error = Infallible;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, Infallible> {
        let kind = message_kind(&message);
        let scores = matches!(kind, Ok(MessageKind::RerankRequest | MessageKind::SlotsRequest));
        let before = memory_bytes();
        let begun = Moment::now();
        let answer = self.server.exchange(message)?;
        let ended = Moment::now();
        if scores {
            let memory = before.max(memory_bytes());
            let seen = Scored { begun, ended, memory };
            *self.scored.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
        }
        Ok(answer)
    }
}

fn searches(owner: &Owner, trials: usize) -> Result<Run> {
    let server =
        Metered { server: Embedded::serving(owner.rows.clone()), scored: Mutex::default() };
    let searcher = Searcher::new(server);
    let mut once = Vec::new();
    for number in 0..trials.min(owner.queries.rows()) {
        let (answer, ..) = search(owner, &searcher, number)?;
        once.extend((answer.cost.bytes_once > 0).then_some(answer.cost.bytes_once));
    }
    let bar = progress("searching", trials);
    let mut measured = Vec::with_capacity(trials);
    for number in 0..trials {
        let mut one = search(owner, &searcher, number)?;
        if one.0.cost.bytes_once > 0 {
            once.push(one.0.cost.bytes_once);
            one = search(owner, &searcher, number)?;
        }
        measured.push(trial(owner, number, &one)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Run { trials: measured, once })
}

/// A search, its phases and the growth of memory.
type Measured = (Answer, Phases, Option<u64>);

fn search(owner: &Owner, searcher: &Searcher<Metered>, trial: usize) -> Result<Measured> {
    let held = memory_bytes();
    let start = Moment::now();
    let answer = searcher.search(&owner.collection, owner.query(trial), &owner.options)?;
    let end = Moment::now();
    let Scored { begun, ended, memory } =
        searcher.transport().scored().expect("an answer was scored");
    let growth = memory.max(memory_bytes()).zip(held).map(|(most, held)| most.saturating_sub(held));
    let before = begun.since(start);
    // Routing is the first thing a search does; the client has its wall time.
    let route = before.part(answer.cost.timings.route);
    let phases = Phases {
        route,
        client_out: before - route,
        server: ended.since(begun),
        client_in: end.since(ended),
    };
    Ok((answer, phases, growth))
}

fn trial(owner: &Owner, number: usize, (answer, phases, growth): &Measured) -> Result<Trial> {
    let plain = owner.in_the_clear(owner.query(number))?;
    let cost = &answer.cost;
    Ok(Trial {
        query: number % owner.queries.rows(),
        phases: *phases,
        bytes_up: cost.bytes_up,
        bytes_down: cost.bytes_down,
        active_cells: cost.active_cells,
        query_ciphertexts: cost.query_ciphertexts,
        response_ciphertexts: cost.response_ciphertexts,
        fidelity: Fidelity::of(&answer.hits, &plain),
        memory_growth: *growth,
        shape: match (&cost.plan, &owner.options.layout) {
            (Some(plan), _) => Shape::planned(plan),
            (None, LayoutChoice::Slots { parameters, cells }) => Shape::slots(parameters, *cells),
            (None, LayoutChoice::Coefficients) => unreachable!("coefficients are always planned"),
        },
        candidates: plain.iter().map(|hit| hit.row).collect(),
    })
}
