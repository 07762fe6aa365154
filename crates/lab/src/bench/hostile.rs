//! `shard-lab bench hostile`: the worst that single requests can do to a server.
//!
//! A server of its own gets, one after the other, the largest and the dearest requests that its
//! limits let through, and some that they do not. Reported are, for each, how long the answer took
//! and how much memory the server held meanwhile, and whether it went on to answer an honest
//! search rightly. Ciphertexts are made of random bytes: any bytes are a ciphertext of something,
//! and cost the same. `--protection blind` sends what a blind collection can be sent ([`blind`]).

mod blind;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;
use shard_client::Transport;
use shard_client::remote::Remote;
use shard_protocol::{
    Candidates, CellHandle, DeleteRows, Epoch, FetchBlob, Leak, Limits, MessageKind, OpenSession,
    OpenSlotsSession, PutBlob, Refusal, RerankRequest, RowHandle, SessionId, SlotsRequest,
    declassify, message_kind,
};
use shard_rlwe::slots::{SlotsClient, SlotsLayout, SlotsParameters};
use shard_rlwe::{
    Ciphertext, Entropy, Layout, MergeSpan, Parameters, Response, RingDegree, Seed, SessionKey,
    server_seconds,
};

use super::arguments::Hostile;
use super::crash::{CELLS, FIRST, LATER, Versions, activate, misscored, publish, publish_rows};
use super::served::{Served, Site, shard};
use shard_cli::ProtectionName;
use shard_cli::output::{Output, bytes, progress, table};

const COLLECTION: &str = "hostile";
const EPOCH: Epoch = Epoch(1);
const SESSION: SessionId = SessionId([7; 16]);

/// How often the server's memory is looked at.
const GLANCE: Duration = Duration::from_millis(2);

/// What no single request may make of a server.
const MOST_SECONDS: f64 = 10.0;
const MOST_BYTES: u64 = 1 << 30;

/// Rows of one message while the server is filled.
const FILL: u64 = 4000;

/// What one request did.
#[derive(Serialize)]
struct Attempt {
    request: String,
    bytes: usize,
    /// What the server answered with.
    answer: String,
    seconds: f64,
    server_rss_bytes: u64,
}

#[derive(Serialize)]
struct Report {
    rows: usize,
    seconds_max: f64,
    server_rss_bytes_max: u64,
    panics: usize,
    misscored: usize,
    attempts: Vec<Attempt>,
}

pub fn run(arguments: &Hostile, output: &Output<'_>) -> Result<()> {
    let directory = tempfile::Builder::new().prefix("shard-hostile-").tempdir()?;
    let site = Site::new(directory.path())?;
    let server = site.start(shard()?, "127.0.0.1:0", &[])?;
    let remote = Remote::connect(server.options_once(COLLECTION)?)?;
    let (attempts, wrong) = match arguments.protection {
        ProtectionName::Rotated => rotated(arguments, &server, &remote)?,
        ProtectionName::Blind => blind::attempts(arguments, &server, &remote)?,
    };
    let panics = metric(&remote.metrics()?, "shard_refusals_total{class=\"internal\"}");

    let lines: Vec<Vec<String>> = attempts.iter().map(line).collect();
    output.line(table(&["request", "bytes", "seconds", "server memory", "answer"], &lines))?;
    let seconds_max = attempts.iter().map(|attempt| attempt.seconds).fold(0.0, f64::max);
    let server_rss_bytes_max =
        attempts.iter().map(|attempt| attempt.server_rss_bytes).max().unwrap_or(0);
    output.line(format!(
        "at most {seconds_max:.1} s and {}; {panics} panics; {wrong} honest scores wrong",
        bytes(server_rss_bytes_max as f64)
    ))?;
    output.result(&Report {
        rows: arguments.rows,
        seconds_max,
        server_rss_bytes_max,
        panics,
        misscored: wrong,
        attempts,
    })?;
    if panics + wrong > 0 || seconds_max > MOST_SECONDS || server_rss_bytes_max > MOST_BYTES {
        bail!("the server did not stay sound");
    }
    Ok(())
}

/// Every request, and how many honest scores were wrong after one of them.
fn rotated(arguments: &Hostile, server: &Served, remote: &Remote) -> Result<(Vec<Attempt>, usize)> {
    let rows = fill(remote, arguments)?;
    let maker = Maker { width: arguments.dim, rows: arguments.rows, limits: Limits::default() };
    let mut attempts = Vec::new();
    let mut wrong = 0;
    let bar = progress("asking", Maker::REQUESTS.len());
    for (name, make) in Maker::REQUESTS {
        let message = make(&maker).with_context(|| (*name).to_owned())?;
        attempts.push(attempt(server, remote, name, message)?);
        wrong += misscored(remote, &sample(&rows), EPOCH, arguments.dim)
            .with_context(|| format!("after the request {name:?} the server does not score"))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok((attempts, wrong))
}

/// The value of a metric; 0 while there is none.
fn metric(text: &str, name: &str) -> usize {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
    value.unwrap_or(0.0) as usize
}

fn line(attempt: &Attempt) -> Vec<String> {
    vec![
        attempt.request.clone(),
        bytes(attempt.bytes as f64),
        format!("{:.2}", attempt.seconds),
        bytes(attempt.server_rss_bytes as f64),
        attempt.answer.clone(),
    ]
}

fn fill(remote: &Remote, arguments: &Hostile) -> Result<Versions> {
    let all: Versions = (0..arguments.rows as u64).map(|handle| (handle, 0)).collect();
    let bar = progress("filling", arguments.rows);
    for first in (0..arguments.rows as u64).step_by(FILL as usize) {
        let batch: Versions = all.range(first..first + FILL).map(|(h, v)| (*h, *v)).collect();
        publish_rows(remote, &batch, EPOCH, arguments.dim)?;
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    activate(remote, EPOCH, FIRST)?;
    Ok(all)
}

/// A few rows that no request of this file deletes.
fn sample(rows: &Versions) -> Versions {
    rows.iter().take(32).map(|(handle, version)| (*handle, *version)).collect()
}

/// Sends one request while the server's memory is watched.
fn attempt(server: &Served, remote: &Remote, name: &str, message: Vec<u8>) -> Result<Attempt> {
    let bytes = message.len();
    let over = AtomicBool::new(false);
    let (answer, seconds, peak) = thread::scope(|scope| -> Result<_> {
        let watch = scope.spawn(|| -> Result<u64> {
            let mut peak = server.resident_bytes()?;
            while !over.load(Ordering::Relaxed) {
                thread::sleep(GLANCE);
                peak = peak.max(server.resident_bytes()?);
            }
            Ok(peak)
        });
        let start = Instant::now();
        let answer = remote.exchange(message);
        let seconds = start.elapsed().as_secs_f64();
        over.store(true, Ordering::Relaxed);
        Ok((answer, seconds, watch.join().expect("the watch does not panic")?))
    })?;
    let answer = match answer {
        Err(error) => error.to_string(),
        Ok(bytes) => match message_kind(&bytes)? {
            MessageKind::Refusal => Refusal::decode(&bytes, &Limits::default())?.to_string(),
            kind => format!("{kind:?}"),
        },
    };
    Ok(Attempt { request: name.to_owned(), bytes, answer, seconds, server_rss_bytes: peak })
}

/// Makes requests against a server of known rows.
struct Maker {
    width: usize,
    rows: usize,
    limits: Limits,
}

type Make = fn(&Maker) -> Result<Vec<u8>>;

impl Maker {
    const REQUESTS: &[(&'static str, Make)] = &[
        ("a rerank before 64 MiB of noise", Self::noisy_rerank),
        ("a rerank of all rows, as dear as allowed", Self::dearest_rerank),
        ("a rerank of all rows, dearer than allowed", Self::too_dear_rerank),
        ("a rerank of as many cells as there are", Self::widest_rerank),
        ("merge keys of the largest ring", Self::merge_keys),
        ("a merged rerank, as dear as allowed", Self::dearest_merge),
        ("keys in slots", Self::slots_keys),
        ("as many rows in slots as an answer holds", Self::most_in_slots),
        ("64 MiB of rows", Self::most_rows),
        ("a million rows of one coordinate", Self::shortest_rows),
        ("64 MiB of names to delete", Self::most_deleted),
        ("a blob of 64 MiB", Self::largest_blob),
        ("that blob again", Self::fetch_blob),
    ];

    /// The first `count` rows of the server by cell.
    fn candidates(&self, count: usize) -> Result<(Candidates, Vec<usize>)> {
        let mut cells = vec![Vec::new(); CELLS as usize];
        for handle in 0..count.min(self.rows) as u64 {
            cells[(handle % CELLS) as usize].push(RowHandle(handle));
        }
        cells.retain(|rows| !rows.is_empty());
        let groups = cells.iter().map(Vec::len).collect();
        let named = (0..cells.len() as u64).map(CellHandle).collect();
        let cells = declassify(cells, Leak::CandidateHandles);
        Ok((Candidates::new(declassify(named, Leak::ActiveCells), cells)?, groups))
    }

    fn rerank(&self, layout: Layout, count: usize, merged: bool) -> Result<Vec<u8>> {
        let (candidates, _) = self.candidates(count)?;
        let parameters = self.parameters(&layout)?;
        let one = Ciphertext::byte_len(&parameters);
        let total = layout.ciphertexts(candidates.cells());
        let ciphertexts = noise(one * total)
            .chunks_exact(one)
            .map(|bytes| Ciphertext::from_bytes(&parameters, bytes))
            .collect::<Result<Vec<_>, _>>()?;
        let session = merged.then(|| declassify(SESSION, Leak::SessionLinkage));
        let shape = declassify((parameters, layout), Leak::RequestShape);
        let epoch = declassify(EPOCH, Leak::CollectionShape);
        Ok(RerankRequest::new(epoch, shape, session, candidates, Seed([3; 32]), ciphertexts)
            .encode())
    }

    fn parameters(&self, layout: &Layout) -> Result<Parameters> {
        Ok(Parameters::new(layout.degree(), 30, 30)?)
    }

    /// One row a product in a large ring: nothing costs the server more.
    fn wasteful(&self, degree: RingDegree, merged: bool) -> Result<Layout> {
        let blocks = degree.coefficients() / self.width.next_power_of_two();
        Ok(Layout::packed(degree, self.width, 1, blocks.max(1), merged)?)
    }

    /// As many rows as the limit on computing allows.
    fn dearest(&self, layout: &Layout) -> Result<usize> {
        let budget = shard_server::REQUEST_MILLISECONDS as f64 / 1e3;
        let mut count = self.rows.min(self.limits.candidates);
        let too_long = |count| {
            let response = Response::byte_len(&self.parameters(layout)?, layout.slots());
            Ok::<_, anyhow::Error>(layout.responses(count) * response > self.limits.bytes)
        };
        while count > 1
            && (too_long(count)? || server_seconds(layout, &self.candidates(count)?.1) > budget)
        {
            count = count * 9 / 10;
        }
        Ok(count)
    }

    fn noisy_rerank(&self) -> Result<Vec<u8>> {
        let mut message = self.rerank(self.wasteful(RingDegree::N2048, false)?, 64, false)?;
        message.resize(self.limits.bytes, 0xa5);
        Ok(message)
    }

    fn dearest_rerank(&self) -> Result<Vec<u8>> {
        let layout = self.wasteful(RingDegree::N2048, false)?;
        self.rerank(layout.clone(), self.dearest(&layout)?, false)
    }

    fn too_dear_rerank(&self) -> Result<Vec<u8>> {
        self.rerank(self.wasteful(RingDegree::N8192, true)?, self.rows, true)
    }

    fn widest_rerank(&self) -> Result<Vec<u8>> {
        let layout = Layout::fewest_tiles(RingDegree::N8192, self.width)?;
        self.rerank(layout, CELLS as usize, false)
    }

    fn merge_keys(&self) -> Result<Vec<u8>> {
        let degree = RingDegree::N8192;
        let layout = self.wasteful(degree, true)?;
        let span = MergeSpan::of(&layout, self.rows).context("rows that are merged")?;
        let (_, keys) = SessionKey::fresh(degree, span, 1, Entropy::from_os()?);
        Ok(OpenSession::new(declassify(SESSION, Leak::SessionLinkage), keys).encode())
    }

    fn dearest_merge(&self) -> Result<Vec<u8>> {
        let layout = self.wasteful(RingDegree::N8192, true)?;
        self.rerank(layout.clone(), self.dearest(&layout)?, true)
    }

    fn slots_layout(&self) -> Result<SlotsLayout> {
        Ok(SlotsLayout::new(SlotsParameters::paper(), self.width, 1)?)
    }

    fn slots_keys(&self) -> Result<Vec<u8>> {
        let layout = self.slots_layout()?;
        let (_, context) = SlotsClient::generate(layout.clone(), Entropy::from_os()?)?;
        let id = declassify(SESSION, Leak::SessionLinkage);
        let shape = declassify(layout, Leak::RequestShape);
        Ok(OpenSlotsSession::new(id, shape, context.to_bytes()).encode())
    }

    fn most_in_slots(&self) -> Result<Vec<u8>> {
        let layout = self.slots_layout()?;
        let parameters = layout.parameters();
        let (candidates, _) = self.candidates(self.limits.bytes / parameters.response_bytes())?;
        let scores = declassify(vec![0.0; candidates.rows()], Leak::PrefixScores);
        let (client, _) = SlotsClient::generate(layout.clone(), Entropy::from_os()?)?;
        let queries = vec![vec![0.25; self.width]; candidates.cells()];
        let ciphertexts = client.encrypt_queries(&queries, Entropy::from_os()?)?;
        let epoch = declassify(EPOCH, Leak::CollectionShape);
        let session = declassify(SESSION, Leak::SessionLinkage);
        Ok(SlotsRequest::new(epoch, session, candidates, scores, ciphertexts).encode())
    }

    /// Rows that were there before, so that the ones that are sampled stay as they are.
    fn most_rows(&self) -> Result<Vec<u8>> {
        let count = (self.limits.bytes - 128) / (32 + 4 * self.width);
        let rows = (0..count as u64).map(|handle| (handle, 0)).collect();
        Ok(publish(&rows, EPOCH, self.width, LATER))
    }

    fn shortest_rows(&self) -> Result<Vec<u8>> {
        let rows = (0..1_000_000).map(|handle| (handle, 0)).collect();
        Ok(publish(&rows, Epoch(2), 1, LATER))
    }

    fn most_deleted(&self) -> Result<Vec<u8>> {
        let count = (self.limits.bytes - 128) / 8;
        let absent = (0..count as u64).map(|at| RowHandle(u64::MAX - at)).collect();
        Ok(DeleteRows::new(
            declassify(LATER, Leak::CollectionShape),
            declassify(EPOCH, Leak::CollectionShape),
            declassify(absent, Leak::StoredRows),
        )
        .encode())
    }

    fn largest_blob(&self) -> Result<Vec<u8>> {
        let name = declassify("largest".parse()?, Leak::SealedBlobs);
        let sealed = declassify(noise(self.limits.bytes - 64), Leak::SealedBlobs);
        Ok(PutBlob::new(name, sealed).encode())
    }

    fn fetch_blob(&self) -> Result<Vec<u8>> {
        Ok(FetchBlob::new(declassify("largest".parse()?, Leak::SealedBlobs)).encode())
    }
}

fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    StdRng::seed_from_u64(length as u64).fill_bytes(&mut bytes);
    bytes
}
