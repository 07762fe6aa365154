//! `shard-lab bench blind`: a blind collection in memory, phase by phase, beside a scan of the bare
//! vectors.
//!
//! Rows are encrypted, queries are encrypted, scored, checked, opened and refined, as a client and a
//! server do it but without vault, storage and network between them. All CPU time is of one core. What
//! comes out is compared with exact inner products in double precision, for every row and query.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use rayon::prelude::*;
use serde_json::json;
use shard::exact_scores;
use shard::input::{read_queries, read_vectors};
use shard_cli::output::{Output, percentile, progress, table};
use shard_cli::positive;
use shard_geometry::VectorSet;
use shard_geometry::gaussian::Normals;
use shard_rlwe::blind::{
    Answer, Block, BlockName, BlockSecrets, CheckSums, CheckTag, Checker, Choice, EpochKey, Grid,
    Keys, Link, Opening, Precision, PreparedQuery, QueryEntropy, QueryRank, SCORE_BITS, Server,
    Shape, Tag, choose_tile, tolerance,
};

use super::clock::{on_threads, timed};

/// Queries for which everything is opened from nothing, as a new client does it.
const COLD: usize = 20;

/// Sets of checks that are published: one that is used, and a spare for after an alarm. An answer has the blocks
/// of both.
const SETS: usize = 2;

/// Random combinations that an answer is forged with, besides the four ways of the contract.
const COMBINATIONS: usize = 20;

/// Synthetic queries, unless more are asked.
const QUERIES: usize = 64;

/// Blocks that are opened together.
const TOGETHER: usize = 32;

/// Rows whose scores are returned, and compared with more care.
const RETURNED: usize = 100;

#[derive(Args)]
pub struct Blind {
    /// Document vectors [default: synthetic ones]
    #[arg(long, value_name = "FILE", requires = "queries", conflicts_with_all = ["rows", "dim"])]
    pub docs: Option<PathBuf>,
    /// Query vectors
    #[arg(long, value_name = "FILE", requires = "docs")]
    pub queries: Option<PathBuf>,
    /// Number of synthetic documents
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive)]
    pub rows: usize,
    /// Width of synthetic documents
    #[arg(long, value_name = "D", default_value_t = 384, value_parser = positive)]
    pub dim: usize,
    /// Width of a tile [default: chosen for rows and width]
    #[arg(long, value_name = "W", value_parser = positive)]
    pub tile: Option<usize>,
    /// Queries that share a pass over the blocks
    #[arg(long, value_name = "B", default_value_t = 1, value_parser = positive)]
    pub batch: usize,
    /// Queries that are asked [default: all of a file, 64 synthetic ones]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub trials: Option<usize>,
    /// Forged answers that are tried, as far as the queries go
    #[arg(long, value_name = "N", default_value_t = 240)]
    pub forgeries: usize,
    /// Seed of synthetic documents and of forgeries
    #[arg(long, default_value_t = 2026)]
    pub seed: u64,
}

/// A collection with both sides of it.
struct Collection {
    keys: Keys,
    server: Server,
    grid: Grid,
    longest: f64,
    rows: usize,
    tags: Vec<Tag>,
    hints: Vec<Vec<u8>>,
    blocks: Vec<Block>,
    /// Set by set.
    checks: Vec<(CheckTag, Block)>,
    publish_us_per_row: f64,
}

pub fn run(arguments: &Blind, output: &Output<'_>) -> Result<()> {
    let (documents, queries) = vectors(arguments)?;
    let asked = arguments.trials.unwrap_or(queries.rows()).min(queries.rows());
    ensure!(asked > 0, "no query to ask");
    let choices =
        choose_tile(documents.rows(), documents.width(), QueryRank::One, Link::default())?;
    let shape = match arguments.tile {
        Some(tile) => Shape::new(documents.width(), tile, QueryRank::One)?,
        None => choices[0].shape,
    };
    output.line(Choice::of(shape, documents.rows(), Link::default()).explanation())?;
    let collection = Collection::encrypt(shape, &documents);
    let measured = on_threads(1, || collection.ask_all(&documents, &queries, asked, arguments))?;
    measured.report(&collection, output)
}

fn vectors(arguments: &Blind) -> Result<(VectorSet, VectorSet)> {
    if let (Some(docs), Some(queries)) = (&arguments.docs, &arguments.queries) {
        let (_, documents) = read_vectors(docs, None)?.into_parts();
        let (_, queries) = read_queries(queries, None)?.into_parts();
        let (wide, narrow) = (documents.width(), queries.width());
        ensure!(wide == narrow, "documents have {wide} coordinates and queries {narrow}");
        return Ok((documents, queries));
    }
    let unit = |rows: usize, seed: u64| {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut row = vec![0.0; arguments.dim];
        let mut values = Vec::with_capacity(rows * arguments.dim);
        for _ in 0..rows {
            Normals::new(&mut rng).fill(&mut row);
            let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            values.extend(row.iter().map(|x| (x / norm) as f32));
        }
        VectorSet::new(arguments.dim, values)
    };
    let queries = arguments.trials.unwrap_or(QUERIES);
    Ok((unit(arguments.rows, arguments.seed)?, unit(queries, arguments.seed + 1)?))
}

impl Collection {
    /// Encrypts all rows, on all cores.
    fn encrypt(shape: Shape, documents: &VectorSet) -> Self {
        let mut secret = [0; 32];
        StdRng::seed_from_u64(1).fill_bytes(&mut secret);
        let keys = Keys::expand(&EpochKey::new(secret), shape);
        let longest = (0..documents.rows())
            .map(|row| length(documents.row(row)))
            .fold(f64::MIN_POSITIVE, f64::max);
        let grid = Grid::for_length(&shape, longest);
        let places = shape.rows_per_block();
        let encrypt = |number: usize| {
            let last = documents.rows().min((number + 1) * places);
            let rows = (number * places..last).flat_map(|row| grid.encode(documents.row(row)));
            let mut rows: Vec<i32> = rows.collect();
            rows.resize(places * shape.dimension(), 0);
            let name = BlockName { context: b"bench", block: number as u32, revision: 1, grid };
            let (tag, block) = keys.encrypt_block(&name, &rows);
            let hint = keys.hint(&block);
            (tag, hint, block)
        };
        let bar = progress("encrypting", shape.blocks(documents.rows()));
        let (made, spent) = timed(|| {
            let numbers = (0..shape.blocks(documents.rows())).into_par_iter();
            let made: Vec<_> = numbers.map(|number| (encrypt(number), bar.inc(1)).0).collect();
            let seal = |set: usize| {
                let mut sums = CheckSums::empty(&keys, set as u64);
                for (number, (_, _, block)) in made.iter().enumerate() {
                    sums.add(&keys, number as u32, block);
                }
                sums.seal(&keys, b"bench", 1)
            };
            let checks: Vec<_> = (0..SETS).flat_map(seal).collect();
            (made, checks)
        });
        bar.finish_and_clear();
        let (made, checks) = made;
        let (mut tags, mut hints, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
        for (tag, hint, block) in made {
            tags.push(tag);
            hints.push(hint);
            blocks.push(block);
        }
        let rows = documents.rows();
        let publish_us_per_row = spent.cpu.as_secs_f64() * 1e6 / rows as f64;
        let server = Server::new(shape);
        Self { keys, server, grid, longest, rows, tags, hints, blocks, checks, publish_us_per_row }
    }

    fn stored(&self) -> Vec<&Block> {
        self.blocks.iter().chain(self.checks.iter().map(|(_, block)| block)).collect()
    }

    fn secrets(&self, number: usize) -> Result<BlockSecrets> {
        Ok(self.keys.block_secrets(&self.tags[number], &self.hints[number])?)
    }

    /// Of the set that is used.
    fn checker(&self) -> Checker {
        let used = &self.checks[..self.keys.shape().checks()];
        let tags: Vec<CheckTag> = used.iter().map(|(tag, _)| tag.clone()).collect();
        Checker::new(&self.keys, 0, &tags, self.blocks.len())
    }

    /// Bytes that a client fetches once to check the answers of a commit: the sealed checks of docs/FORMAT.md.
    fn sealed_checks_bytes(&self) -> usize {
        let (seal, version, number, tag) = (24 + 16, 2, 8, 32);
        let sets = SETS * 2 * number + self.checks.len() * tag;
        // Revision, number of sets, the sets, number of blocks, and revision and tag of each.
        seal + version + 3 * number + sets + self.blocks.len() * (number + tag)
    }

    fn answer(&self, bytes: &[u8]) -> Result<Answer> {
        Ok(Answer::from_bytes(self.keys.shape(), self.stored().len(), bytes)?)
    }

    /// Scores of all places, or that the answer is forged. Block secrets are those given, or made for a
    /// few blocks at a time.
    fn open(
        &self,
        opening: &Opening,
        answer: &Answer,
        kept: Option<&[BlockSecrets]>,
    ) -> Result<Vec<f64>> {
        let mut scores = Vec::with_capacity(self.blocks.len() * self.keys.shape().rows_per_block());
        let numbers: Vec<usize> = (0..self.blocks.len()).collect();
        for numbers in numbers.chunks(TOGETHER) {
            let (first, last) = (numbers[0], numbers[0] + numbers.len());
            let made: Vec<BlockSecrets>;
            let some: Vec<&BlockSecrets> = match kept {
                Some(kept) => kept[first..last].iter().collect(),
                None => {
                    made = numbers.iter().map(|&at| self.secrets(at)).collect::<Result<_>>()?;
                    made.iter().collect()
                }
            };
            let mut opened = Ok(());
            self.keys.secret_products(opening, &some, |at, products| {
                opened = opened.and(opening.open(answer, first + at, products, &mut scores));
            });
            opened?;
        }
        Ok(scores)
    }

    fn ask_all(
        &self,
        documents: &VectorSet,
        queries: &VectorSet,
        asked: usize,
        arguments: &Blind,
    ) -> Result<Measured> {
        let stored = self.stored();
        let checker = self.checker();
        let secrets =
            (0..self.blocks.len()).map(|at| self.secrets(at)).collect::<Result<Vec<_>>>()?;
        let mut measured = Measured { batch: arguments.batch, ..Measured::default() };
        let mut rng = StdRng::seed_from_u64(arguments.seed);
        let bar = progress("searching", asked);
        let numbers: Vec<usize> = (0..asked).collect();
        for numbers in numbers.chunks(arguments.batch) {
            let mut openings = Vec::new();
            let mut prepared: Vec<PreparedQuery> = Vec::new();
            for &number in numbers {
                let entropy = QueryEntropy::from_os()?;
                let query = queries.row(number);
                let ((sent, opening), spent) = timed(|| {
                    let (sent, opening) =
                        self.keys.encrypt_query(entropy, query, self.grid, self.longest);
                    (sent.to_bytes(), opening)
                });
                measured.encrypt.push(spent.cpu.as_secs_f64() * 1e3);
                measured.up = sent.len();
                let (query, spent) = timed(|| self.server.prepare(&sent));
                prepared.push(query?);
                measured.prepare.push(spent.cpu.as_secs_f64() * 1e3);
                openings.push(opening);
            }
            let together: Vec<&PreparedQuery> = prepared.iter().collect();
            let (answers, spent) = timed(|| self.server.answer(&stored, &together));
            if numbers.len() == arguments.batch {
                measured.server.push(spent.cpu.as_secs_f64() * 1e3 / numbers.len() as f64);
            }
            for ((&number, opening), bytes) in numbers.iter().zip(&openings).zip(&answers) {
                measured.down = bytes.len();
                let answer = self.answer(bytes)?;
                let (checked, spent) =
                    timed(|| checker.check(&self.keys, opening, &answer, self.blocks.len()));
                checked?;
                measured.check.push(spent.cpu.as_secs_f64() * 1e3);
                if number < COLD {
                    let (opened, spent) = timed(|| self.open(opening, &answer, None));
                    opened?;
                    measured.open.push(spent.cpu.as_secs_f64() * 1e3);
                }
                let (scores, spent) = timed(|| self.open(opening, &answer, Some(&secrets)));
                let scores = scores?;
                measured.open_warm.push(spent.cpu.as_secs_f64() * 1e3);
                let (plain, spent) = timed(|| plain_scan(documents, queries.row(number)));
                measured.plain.push(spent.cpu.as_secs_f64() * 1e3);
                std::hint::black_box(plain);
                self.compare(documents, queries.row(number), opening, &scores, &mut measured)?;
                if measured.forgeries < arguments.forgeries {
                    self.forge(opening, bytes, &checker, &secrets, &mut rng, &mut measured)?;
                }
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(measured)
    }

    /// Compares scores with exact ones, and the best ten as a client returns them.
    fn compare(
        &self,
        documents: &VectorSet,
        query: &[f32],
        opening: &Opening,
        scores: &[f64],
        measured: &mut Measured,
    ) -> Result<()> {
        let exact = exact_scores(documents, query)?;
        for (score, exact) in scores.iter().zip(&exact) {
            let off = (score - exact).abs();
            measured.max_error = measured.max_error.max(off);
            measured.square_error += off * off;
        }
        measured.scores += self.rows;
        let places = self.keys.shape().rows_per_block();
        let mut best: Vec<usize> = (0..self.rows).collect();
        let kept = self.rows.min(RETURNED * 10);
        best.select_nth_unstable_by(kept - 1, |&a, &b| scores[b].total_cmp(&scores[a]));
        let refine = |&row: &usize| {
            let tag = &self.tags[row / places];
            (row, self.keys.refine(opening, tag, row % places, scores[row]))
        };
        let (mut refined, spent) = timed(|| best[..kept].iter().map(refine).collect::<Vec<_>>());
        measured.refine.push(spent.cpu.as_secs_f64() * 1e3);
        refined.sort_by(|a, b| b.1.total_cmp(&a.1));
        for &(row, score) in refined.iter().take(RETURNED) {
            measured.max_error_returned =
                measured.max_error_returned.max((score - exact[row]).abs());
        }
        // The same ten, ties within twice the error aside.
        let mut truth: Vec<usize> = (0..self.rows).collect();
        truth.sort_by(|&a, &b| exact[b].total_cmp(&exact[a]));
        let same = refined.iter().zip(&truth).take(10).all(|((row, _), &true_row)| {
            *row == true_row
                || (exact[*row] - exact[true_row]).abs() <= 2.0 * measured.max_error_returned
        });
        measured.identical += usize::from(same);
        measured.asked += 1;
        Ok(())
    }

    /// Forges an answer in every way of the contract, and counts what is found.
    fn forge(
        &self,
        opening: &Opening,
        honest: &[u8],
        checker: &Checker,
        secrets: &[BlockSecrets],
        rng: &mut StdRng,
        measured: &mut Measured,
    ) -> Result<()> {
        let (blocks, places) = (self.blocks.len(), self.keys.shape().rows_per_block());
        let step = 2_f64.powi(SCORE_BITS as i32) / 4.2;
        let least = (2.0 * tolerance(blocks) * step).ceil() as u32;
        let (whole, half) = (1_u32 << SCORE_BITS, 1_u32 << (SCORE_BITS - 1));
        let mut attempt = |forge: &mut dyn FnMut(usize) -> u32| -> Result<()> {
            let mut forged = honest.to_vec();
            for (at, bytes) in forged.as_chunks_mut::<3>().0.iter_mut().enumerate() {
                let value = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
                let value = value.wrapping_add(forge(at)) % whole;
                bytes.copy_from_slice(&value.to_le_bytes()[..3]);
            }
            let answer = self.answer(&forged)?;
            let caught = checker.check(&self.keys, opening, &answer, blocks).is_err()
                || self.open(opening, &answer, Some(secrets)).is_err();
            measured.forgeries += 1;
            measured.caught += usize::from(caught);
            Ok(())
        };
        attempt(&mut |at| if at == 3 { least } else { 0 })?;
        attempt(&mut |at| if at / places < 2.min(blocks) { half } else { 0 })?;
        attempt(&mut |at| if at / places + 1 < blocks.max(2) { half } else { 0 })?;
        attempt(&mut |_| least)?;
        for _ in 0..COMBINATIONS {
            let share = rng.random_range(1..=64_u32);
            let mut any = false;
            let mut words = StdRng::seed_from_u64(rng.random());
            attempt(&mut |at| {
                let word: u64 = words.random();
                let touched = (word as u32) % 64 < share && at < blocks * places;
                any |= touched;
                // At least one place is moved, whatever the draws.
                if !touched && (any || at > 0) {
                    return 0;
                }
                any = true;
                least + (word >> 32) as u32 % (whole - 2 * least)
            })?;
        }
        Ok(())
    }
}

fn length(row: &[f32]) -> f64 {
    row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt()
}

/// What an owner gives up nothing but privacy for: all inner products in single precision.
fn plain_scan(documents: &VectorSet, query: &[f32]) -> Vec<f32> {
    let dot = |row: &[f32]| {
        let mut sums = [0_f32; 16];
        let (rows, tail) = row.as_chunks::<16>();
        let (queries, query_tail) = query.as_chunks::<16>();
        for (row, query) in rows.iter().zip(queries) {
            for lane in 0..16 {
                sums[lane] += row[lane] * query[lane];
            }
        }
        let tail: f32 = tail.iter().zip(query_tail).map(|(a, b)| a * b).sum();
        sums.iter().sum::<f32>() + tail
    };
    documents.values().chunks_exact(documents.width()).map(dot).collect()
}

/// Figures of all searches.
#[derive(Default)]
struct Measured {
    batch: usize,
    encrypt: Vec<f64>,
    prepare: Vec<f64>,
    server: Vec<f64>,
    open: Vec<f64>,
    open_warm: Vec<f64>,
    refine: Vec<f64>,
    check: Vec<f64>,
    plain: Vec<f64>,
    up: usize,
    down: usize,
    max_error: f64,
    square_error: f64,
    scores: usize,
    max_error_returned: f64,
    identical: usize,
    asked: usize,
    forgeries: usize,
    caught: usize,
}

impl Measured {
    fn report(&self, collection: &Collection, output: &Output<'_>) -> Result<()> {
        let shape = collection.keys.shape();
        let (blocks, checks) = (collection.blocks.len(), collection.checks.len());
        let median = |samples: &[f64]| percentile(samples, 0.5);
        let (server, plain) = (median(&self.server) + median(&self.prepare), median(&self.plain));
        let secrets = collection.secrets(0).context("a block opens")?.bytes();
        let memory = (blocks + checks) * shape.block_bytes();
        let held = blocks * secrets;
        let hint: usize = collection.hints.iter().map(Vec::len).sum();
        let of_checks = self.down - shape.answer_bytes(blocks);
        let checks_once = collection.sealed_checks_bytes();
        let rms = (self.square_error / self.scores as f64).sqrt();
        let expected = Precision::of(shape, collection.grid, collection.longest);
        let milliseconds = |name: &str, value: f64| vec![name.to_owned(), format!("{value:.2} ms")];
        let rows = vec![
            milliseconds("client: encrypt", median(&self.encrypt)),
            milliseconds("server", server),
            milliseconds("client: check", median(&self.check)),
            milliseconds("client: open, from nothing", median(&self.open)),
            milliseconds("client: open, block secrets kept", median(&self.open_warm)),
            milliseconds("client: refine", median(&self.refine)),
            milliseconds("a scan of the bare vectors", plain),
        ];
        output.line(table(&["CPU of one core", "median"], &rows))?;
        output.line(format!(
            "  {} bytes up, {} down, {} of them for the checks; hints {:.1} MB and checks {:.1} KB once; server memory {:.0} MB",
            self.up,
            self.down,
            of_checks,
            hint as f64 / 1e6,
            checks_once as f64 / 1e3,
            memory as f64 / 1e6
        ))?;
        output.line(format!(
            "  error {:.2e} at most, {rms:.2e} rms, {:.2e} at most of the returned {RETURNED}; the same ten for {} of {}",
            self.max_error, self.max_error_returned, self.identical, self.asked
        ))?;
        output.line(format!("  {} of {} forgeries caught", self.caught, self.forgeries))?;
        output.result(&json!({
            "rows": collection.rows,
            "dimension": shape.dimension(),
            "tile": shape.tile(),
            "tiles": shape.tiles(),
            "blocks": blocks,
            "batch": self.batch,
            "queries": self.asked,
            "cpu_ms": {
                "server": server,
                "client_encrypt": median(&self.encrypt),
                "client_open": median(&self.open),
                "client_open_warm": median(&self.open_warm),
                "client_refine": median(&self.refine),
                "check": median(&self.check),
            },
            "open_us_per_block": median(&self.open) * 1e3 / blocks as f64,
            "open_warm_us_per_block": median(&self.open_warm) * 1e3 / blocks as f64,
            // Of what comes down with a query, `of_checks` are the blocks of checks; `checks` is what it takes beside
            // the answer.
            "bytes": {
                "up": self.up,
                "down": self.down,
                "of_checks": of_checks,
                "hint": hint,
                "checks": self.down - shape.answer_bytes(blocks + checks),
                "checks_once": checks_once,
            },
            "server_memory_bytes": memory,
            "client_memory_bytes": held,
            "publish_us_per_row": collection.publish_us_per_row,
            "max_abs_error": self.max_error,
            "rms_error": rms,
            "max_abs_error_top100": self.max_error_returned,
            // Deviations by the formula, of queries of length one.
            "expected_error": expected.opened * collection.longest,
            "expected_error_top100": expected.refined * collection.longest,
            "tolerance": tolerance(blocks),
            "top10_identical": self.identical as f64 / self.asked as f64,
            "plain_scan_ms": plain,
            "forgeries_tried": self.forgeries,
            "forgeries_caught": self.caught,
        }))
    }
}
