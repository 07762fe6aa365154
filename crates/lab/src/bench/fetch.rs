//! `shard-lab bench fetch`: private fetches of records, on both sides, held against what was stored.
//!
//! Slots are filled as sealed ones look, with random bytes, and fetched as a client and a server do it but
//! without vault, storage and network between them. All CPU time of measured fetches is of one core. Every
//! byte that comes out is compared.

use anyhow::{Result, ensure};
use clap::Args;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use serde_json::{Value, json};
use shard_cli::output::{Output, bytes, grouped, percentile, progress, table};
use shard_cli::positive;
use shard_client::{SLOT_BYTES, SLOT_PAYLOAD};
use shard_protocol::BlindQuery;
use shard_rlwe::blind::{
    DEGREE, EpochKey, FetchOpening, PAGE_SLOTS, PreparedFetch, QueryEntropy, QueryRank, RecordKeys,
    RecordServer, RecordShape, Segment,
};

use super::clock::{Spent, on_threads, timed};

#[derive(Args)]
pub struct Fetch {
    /// Number of records
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = positive)]
    pub records: usize,
    /// Bytes of a record: one above 1,024 takes several slots, and as many queries
    #[arg(long, value_name = "B", default_value_t = 1024, value_parser = positive)]
    pub bytes: usize,
    /// Records that are fetched at once, besides single ones
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = positive)]
    pub at_once: usize,
    /// Fetches of one record, and of several, each
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = positive)]
    pub trials: usize,
    /// Further fetches that are not timed: on all cores, every byte compared
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub checked: usize,
    /// Seed of records and of what is fetched
    #[arg(long, default_value_t = 2026)]
    pub seed: u64,
}

/// Records with both sides of them.
struct World {
    keys: RecordKeys,
    server: RecordServer,
    slots: Vec<u8>,
    segments: Vec<Segment>,
    hints: Vec<Vec<u8>>,
    slots_each: usize,
}

/// What fetches of so many records at once took.
struct Measured {
    at_once: usize,
    server_ms: Vec<f64>,
    client_ms: Vec<f64>,
    up: usize,
    down: usize,
    fetches: usize,
    wrong_bytes: usize,
}

pub fn run(arguments: &Fetch, output: &Output<'_>) -> Result<()> {
    let slots_each = arguments.bytes.div_ceil(SLOT_PAYLOAD);
    let pages = (arguments.records * slots_each).div_ceil(PAGE_SLOTS);
    let shape = RecordShape::new(pages, SLOT_BYTES, QueryRank::One)?;
    let (world, made) = timed(|| World::fill(shape, slots_each, arguments.seed));
    output.line(format!(
        "{} records of {} bytes: {} segments of {} polynomials, {} in the memory of the server, {} of \
         hints; expanded and hinted in {:.1} s of CPU",
        grouped(arguments.records),
        grouped(arguments.bytes),
        shape.segments(),
        shape.tiles(),
        bytes(shape.memory_bytes() as f64),
        bytes((shape.segments() * shape.hint_bytes()) as f64),
        made.cpu.as_secs_f64(),
    ))?;
    let mut rng = StdRng::seed_from_u64(arguments.seed + 1);
    let mut measured = Vec::new();
    for at_once in [1, arguments.at_once] {
        let records: Vec<Vec<usize>> = (0..arguments.trials)
            .map(|_| (0..at_once).map(|_| rng.random_range(0..arguments.records)).collect())
            .collect();
        measured.push(on_threads(1, || world.measure(at_once, &records))?);
    }
    let checked = world.check(arguments, &mut rng);
    report(arguments, &world, &measured, checked, output)
}

impl World {
    fn fill(shape: RecordShape, slots_each: usize, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut secret = [0; 32];
        rng.fill_bytes(&mut secret);
        let mut slots = vec![0; shape.slots() * shape.slot_bytes()];
        rng.fill_bytes(&mut slots);
        let keys = RecordKeys::expand(&EpochKey::new(secret), shape);
        let (mut segments, mut hints) = (Vec::new(), Vec::new());
        for number in 0..shape.segments() {
            let pages = shape.pages_of(number);
            let own = &slots[pages.start * shape.page_bytes()..pages.end * shape.page_bytes()];
            let mut segment = Segment::zero(&shape, number);
            let tiles = own.chunks(DEGREE * shape.slot_bytes());
            tiles.enumerate().for_each(|(tile, slots)| segment.put(tile, slots));
            segments.push(segment);
            hints.push(keys.hint(own));
        }
        Self { keys, server: RecordServer::new(shape), slots, segments, hints, slots_each }
    }

    /// The answer to the queries of one message, as a server gives it.
    fn answer(&self, queries: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        let prepared = queries.iter().map(|query| self.server.prepare(query));
        let prepared: Vec<PreparedFetch> = prepared.collect::<Result<_, _>>()?;
        let prepared: Vec<&PreparedFetch> = prepared.iter().collect();
        let mut answers = vec![Vec::new(); queries.len()];
        for (number, segment) in self.segments.iter().enumerate() {
            let parts = self.server.answer_part(number, segment, 0..segment.rows(), &prepared);
            answers.iter_mut().zip(parts).for_each(|(answer, part)| answer.extend(part));
        }
        Ok(answers)
    }

    /// Fetches slots, in messages as a client sends them. Returns what server and client took, bytes up
    /// and down, and wrong bytes.
    fn fetch(&self, slots: &[usize]) -> Result<(Spent, Spent, usize, usize, usize)> {
        let (mut server, mut client) = (Spent::default(), Spent::default());
        let (mut up, mut down, mut wrong) = (0, 0, 0);
        for slots in slots.chunks(BlindQuery::MOST) {
            let (sent, spent) = timed(|| {
                let encrypt = |&slot: &usize| {
                    let (_, column) = self.keys.shape().column_of(slot);
                    let (query, opening) = self.keys.encrypt(QueryEntropy::from_os()?, column);
                    Ok((query.to_bytes(), opening))
                };
                slots.iter().map(encrypt).collect::<Result<Vec<(Vec<u8>, FetchOpening)>>>()
            });
            client = client + spent;
            let (queries, openings): (Vec<_>, Vec<_>) = sent?.into_iter().unzip();
            let (answers, spent) = timed(|| self.answer(&queries));
            server = server + spent;
            let answers = answers?;
            let (opened, spent) = timed(|| {
                let open = |(opening, answer): (&FetchOpening, &Vec<u8>)| {
                    self.keys.open(opening, answer, &self.hints)
                };
                openings.iter().zip(&answers).map(open).collect::<Result<Vec<_>, _>>()
            });
            client = client + spent;
            up += queries.iter().map(Vec::len).sum::<usize>();
            down += answers.iter().map(Vec::len).sum::<usize>();
            for (&slot, opened) in slots.iter().zip(opened?) {
                let (_, column) = self.keys.shape().column_of(slot);
                wrong += self
                    .wrong_bytes(column, &opened.iter().map(|one| &one[..]).collect::<Vec<_>>());
            }
        }
        Ok((server, client, up, down, wrong))
    }

    /// Bytes that are not those that were stored, over the slots of all segments in a column.
    fn wrong_bytes(&self, column: usize, opened: &[&[u8]]) -> usize {
        let shape = self.keys.shape();
        let nothing = vec![0; shape.slot_bytes()];
        let of_segment = |(segment, opened): (usize, &&[u8])| {
            let expected = match shape.slot_at(segment, column) {
                Some(slot) => &self.slots[slot * shape.slot_bytes()..][..shape.slot_bytes()],
                None => &nothing[..],
            };
            opened.iter().zip(expected).filter(|(found, expected)| found != expected).count()
        };
        opened.iter().enumerate().map(of_segment).sum()
    }

    fn slots_of(&self, records: &[usize]) -> Vec<usize> {
        let each = self.slots_each;
        records.iter().flat_map(|record| record * each..(record + 1) * each).collect()
    }

    fn measure(&self, at_once: usize, trials: &[Vec<usize>]) -> Result<Measured> {
        let mut measured = Measured {
            at_once,
            server_ms: Vec::new(),
            client_ms: Vec::new(),
            up: 0,
            down: 0,
            fetches: at_once * trials.len(),
            wrong_bytes: 0,
        };
        for records in trials {
            let (server, client, up, down, wrong) = self.fetch(&self.slots_of(records))?;
            measured.server_ms.push(server.cpu.as_secs_f64() * 1e3);
            measured.client_ms.push(client.cpu.as_secs_f64() * 1e3);
            (measured.up, measured.down) = (up, down);
            measured.wrong_bytes += wrong;
        }
        Ok(measured)
    }

    /// Fetches that are only compared. Returns how many, and wrong bytes.
    fn check(&self, arguments: &Fetch, rng: &mut StdRng) -> Result<(usize, usize)> {
        let bar = progress("fetching", arguments.checked);
        let (mut done, mut wrong) = (0, 0);
        while done < arguments.checked {
            let some = BlindQuery::MOST.min(arguments.checked - done);
            let slots: Vec<usize> =
                (0..some).map(|_| rng.random_range(0..self.keys.shape().slots())).collect();
            wrong += self.fetch(&slots)?.4;
            done += some;
            bar.inc(some as u64);
        }
        bar.finish_and_clear();
        Ok((done, wrong))
    }
}

fn report(
    arguments: &Fetch,
    world: &World,
    measured: &[Measured],
    checked: Result<(usize, usize)>,
    output: &Output<'_>,
) -> Result<()> {
    let (shape, (checked, wrong)) = (world.keys.shape(), checked?);
    let hint = shape.segments() * shape.hint_bytes();
    let row = |one: &Measured| {
        vec![
            one.at_once.to_string(),
            format!("{:.1}", percentile(&one.server_ms, 0.5)),
            format!("{:.1}", percentile(&one.client_ms, 0.5)),
            bytes(one.up as f64),
            bytes(one.down as f64),
            one.fetches.to_string(),
            one.wrong_bytes.to_string(),
        ]
    };
    let header = ["at once", "server ms", "client ms", "up", "down", "fetches", "wrong bytes"];
    output.line(table(&header, &measured.iter().map(row).collect::<Vec<_>>()))?;
    if checked > 0 {
        output.line(format!("{} further fetches: {wrong} wrong bytes", grouped(checked)))?;
    }
    let figures = |one: &Measured| -> Value {
        json!({
            "at_once": one.at_once,
            "cpu_ms": {
                "server": percentile(&one.server_ms, 0.5),
                "client": percentile(&one.client_ms, 0.5),
            },
            "bytes": { "up": one.up, "down": one.down, "hint": hint },
            "fetches": one.fetches,
            "wrong_bytes": one.wrong_bytes,
        })
    };
    let all = measured.iter().map(|one| one.wrong_bytes).sum::<usize>() + wrong;
    output.result(&json!({
        "records": arguments.records,
        "bytes": arguments.bytes,
        "segments": shape.segments(),
        "tiles": shape.tiles(),
        "server_memory_bytes": shape.memory_bytes(),
        "word_error": shape.word_error(),
        "one": figures(&measured[0]),
        "many": figures(&measured[1]),
        "checked": { "fetches": checked, "wrong_bytes": wrong },
    }))?;
    ensure!(all == 0, "{all} bytes are not those that were stored");
    Ok(())
}
