//! Searches in the slot layout, as the paper's Experiment 26 makes them.
//!
//! The same shortlist and the same keys of cells as the default layout; both sides run in this
//! process and exchange bytes. The server adds the public part of a score, so that the client
//! decrypts whole scores. There are no canaries.

use std::collections::HashMap;

use anyhow::Result;
use shard_client::{KeyOwner, KeySchedule};
use shard_geometry::{FlatRouter, Ranked, top_k};
use shard_rlwe::Entropy;
use shard_rlwe::slots::{Candidate, SlotsClient, SlotsLayout, SlotsServer};

use super::arguments::Rerank;
use super::clock::{Phases, timed};
use super::fidelity::Fidelity;
use super::owner::Owner;
use super::report::{Run, Shape, Trial};
use crate::output::progress;

/// What is sent in the clear for every candidate: its name, its cell's place, its public score.
const PLAIN_BYTES: usize = 4 + 4 + 8;

/// Both sides and what they hold.
struct Sides<'a> {
    owner: &'a Owner,
    keys: KeySchedule,
    /// Prefixes of all rows, one after the other.
    prefixes: Vec<f32>,
    /// The server's rows, by row of the index.
    rows: Vec<Vec<f64>>,
    client: SlotsClient,
    server: SlotsServer,
}

pub fn run(owner: &Owner, arguments: &Rerank) -> Result<Run> {
    let split = owner.collection.model().split();
    let layout =
        SlotsLayout::new(arguments.chain.parameters()?, split.private(), arguments.width)?;
    let (client, context) = SlotsClient::generate(layout.clone(), Entropy::from_os()?)?;
    let context = context.to_bytes();
    let server = SlotsServer::from_bytes(layout, &context)?;
    let index = owner.collection.index();
    let row_numbers = || 0..index.rows() as u32;
    let sides = Sides {
        owner,
        keys: KeySchedule::new(owner.vault.master()),
        prefixes: row_numbers().flat_map(|row| index.prefix(row)).copied().collect(),
        rows: server_rows(owner),
        client,
        server,
    };
    // Keys of all cells that the queries touch, and one request to warm everything else.
    for number in 0..arguments.trials.min(owner.queries.rows()) {
        for hit in owner.in_the_clear(owner.query(number))? {
            sides.key(owner.key_of(hit.row));
        }
    }
    sides.trial(0)?;
    let bar = progress("searching", arguments.trials);
    let mut trials = Vec::with_capacity(arguments.trials);
    for number in 0..arguments.trials {
        trials.push(sides.trial(number)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Run { trials, once: vec![context.len()] })
}

/// Stored rows as real numbers.
fn server_rows(owner: &Owner) -> Vec<Vec<f64>> {
    let unit = 2_f64.powi(-owner.collection.model().operand_scale().exponent());
    let stored: HashMap<_, _> =
        owner.rows.rows().iter().map(|row| (row.handle, &row.coordinates)).collect();
    let index = owner.collection.index();
    let real = |row| stored[&index.handle(row)].iter().map(|&z| f64::from(z) * unit).collect();
    (0..index.rows() as u32).map(real).collect()
}

impl Sides<'_> {
    fn key(&self, owner: KeyOwner) -> std::sync::Arc<shard_geometry::Transform> {
        let model = self.owner.collection.model();
        let kind = model.settings().transform;
        self.keys.transform(kind, model.split().private(), model.epoch(), owner)
    }

    fn trial(&self, number: usize) -> Result<Trial> {
        let query = self.owner.query(number);
        let plain = self.owner.in_the_clear(query)?;
        let (model, index) = (self.owner.collection.model(), self.owner.collection.index());
        let split = model.split();

        let (routed, route) = timed(|| -> Result<_> {
            let coordinates = model.pca().uncentred(query);
            let centred: Vec<f32> = model.pca().centred(query)[..split.public()]
                .iter()
                .map(|&coordinate| coordinate as f32)
                .collect();
            let router = FlatRouter::new(split.public(), &self.prefixes)?;
            Ok((coordinates, router.shortlist(&centred, plain.len())?.swap_remove(0)))
        });
        let (coordinates, shortlist) = routed?;

        let (sent, client_out) = timed(|| self.ask(&coordinates, &shortlist));
        let Sent { ciphertexts, asked } = sent?;
        let (responses, server) = timed(|| {
            let candidate = |&(row, cell, prefix_score): &Asked| Candidate {
                cell,
                row: &self.rows[row as usize],
                prefix_score,
            };
            let candidates: Vec<Candidate<'_>> = asked.iter().map(candidate).collect();
            self.server.score(&ciphertexts, &candidates)
        });
        let responses = responses?;
        let (ranked, client_in) = timed(|| self.open(query, &responses, &asked));

        let layout = self.client.layout();
        let active_cells = asked.iter().map(|(_, cell, _)| cell + 1).max().unwrap_or(0);
        Ok(Trial {
            query: number % self.owner.queries.rows(),
            phases: Phases { route, client_out, server, client_in },
            bytes_up: ciphertexts.iter().map(Vec::len).sum::<usize>() + PLAIN_BYTES * asked.len(),
            bytes_down: responses.iter().map(Vec::len).sum(),
            active_cells,
            query_ciphertexts: ciphertexts.len(),
            response_ciphertexts: responses.len(),
            fidelity: Fidelity::of(&ranked?, &plain),
            shape: Shape {
                layout: "slots",
                ring_degree: layout.parameters().degree().coefficients(),
                log2_q: layout.parameters().log2_modulus(),
                cells_per_ciphertext: layout.blocks(),
                tiles: 1,
                merge: false,
                text: format!(
                    "chain {:?}, scale 2^{}, {} slots a cell, a response for every candidate",
                    layout.parameters().chain(),
                    layout.parameters().scale_bits(),
                    layout.span(),
                ),
            },
            candidates: plain.iter().map(|hit| hit.row).collect(),
        })
    }

    /// Turns the query by the key of every active cell and encrypts.
    fn ask(&self, coordinates: &[f64], shortlist: &[u32]) -> Result<Sent> {
        let index = self.owner.collection.index();
        let (prefix, residual) = self.owner.collection.model().split().halves(coordinates);
        let mut places: HashMap<KeyOwner, usize> = HashMap::new();
        let mut turned = Vec::new();
        let mut asked = Vec::with_capacity(shortlist.len());
        for &row in shortlist {
            let owner = self.owner.key_of(row);
            let cell = *places.entry(owner).or_insert_with(|| {
                let mut query = residual.to_vec();
                self.key(owner).apply(&mut query);
                turned.push(query);
                turned.len() - 1
            });
            let score = prefix.iter().zip(index.prefix(row)).map(|(q, u)| q * f64::from(*u)).sum();
            asked.push((row, cell, score));
        }
        let ciphertexts = self.client.encrypt_queries(&turned, Entropy::from_os()?)?;
        Ok(Sent { ciphertexts, asked })
    }

    fn open(&self, query: &[f32], responses: &[Vec<u8>], asked: &[Asked]) -> Result<Vec<Ranked>> {
        let mean = self.owner.collection.model().pca().mean();
        let offset: f64 = query.iter().zip(mean).map(|(q, mu)| f64::from(*q) * mu).sum();
        let mut scored = Vec::with_capacity(asked.len());
        for (response, &(row, cell, _)) in responses.iter().zip(asked) {
            scored.push((row, self.client.open(response, cell)? + offset));
        }
        Ok(top_k(scored.into_iter(), asked.len()))
    }
}

/// A row, the place of its cell in the query, and the public part of its score.
type Asked = (u32, usize, f64);

/// What the client sends.
struct Sent {
    ciphertexts: Vec<Vec<u8>>,
    asked: Vec<Asked>,
}
