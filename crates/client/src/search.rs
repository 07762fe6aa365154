//! A query's journey: route, turn, plan, encrypt, ask, open, rank.

use std::time::{Duration, Instant};

use rayon::prelude::*;
use shard_geometry::{FlatRouter, InvertedRouter, Ranked, check_vector, top_k};
use shard_protocol::{
    Candidates, CellTag, Limits, RerankRequest, RerankResponse, RowBatch, RowHandle,
};
use shard_rlwe::{Ciphertext, Entropy, Layout, Parameters, RequestKey, Response, ScoreScale};

use crate::collection::Collection;
use crate::error::ClientError;
use crate::keys::KeyOwner;
use crate::transport::{Transport, exchange};

/// How to search.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// Documents to return.
    pub top: usize,
    /// Length of the shortlist; the model's own when `None`.
    pub candidates: Option<usize>,
    /// Cells whose rows are looked at; all when `None`.
    pub probe: Option<usize>,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self { top: 10, candidates: None, probe: None }
    }
}

/// Wall time of each phase.
#[derive(Clone, Copy, Default, Debug)]
pub struct Timings {
    /// Finding the shortlist.
    pub route: Duration,
    /// Turning the query by the key of every active cell.
    pub turn: Duration,
    /// Scaling, encrypting and encoding.
    pub encrypt: Duration,
    /// From handing the request over to holding the answer.
    pub server: Duration,
    /// Decoding, opening and ranking.
    pub open: Duration,
}

impl Timings {
    /// The whole search.
    pub fn total(&self) -> Duration {
        self.route + self.turn + self.encrypt + self.server + self.open
    }
}

/// What a search cost and what the server saw of it.
#[derive(Clone, Debug)]
pub struct Cost {
    /// Bytes sent.
    pub bytes_up: usize,
    /// Bytes received.
    pub bytes_down: usize,
    /// Rows scored.
    pub candidates: usize,
    /// Cells they lie in.
    pub active_cells: usize,
    /// Ciphertexts sent.
    pub query_ciphertexts: usize,
    /// Ciphertexts received.
    pub response_ciphertexts: usize,
    /// Wall time by phase.
    pub timings: Timings,
}

/// The answer to a query.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Best documents first: the inner product of the query with the original vector, rounded
    /// to [`precision`](Self::precision); ties in order of ingestion.
    pub hits: Vec<Ranked>,
    /// The grid scores are rounded to. Finer digits would be noise that depends on the key.
    pub precision: f64,
    /// Bound on the error of a score before rounding (six deviations of the noise model).
    pub error_bound: f64,
    /// Costs.
    pub cost: Cost,
}

/// A query that has been routed and turned, before anything is encrypted.
struct Turned {
    /// Active cells in tag order, their candidates in handle order.
    cells: Vec<ActiveCell>,
    /// The turned query of each cell, one after the other.
    queries: Vec<f64>,
    /// `V_pub^T q`.
    prefix: Vec<f64>,
    /// `q . mu`, which turns a centred score back into an inner product.
    offset: f64,
    route: Duration,
    turn: Duration,
}

struct ActiveCell {
    tag: CellTag,
    owner: KeyOwner,
    members: Vec<(RowHandle, u32)>,
}

impl Turned {
    /// Rows in the order in which they are scored.
    fn rows(&self) -> impl Iterator<Item = u32> {
        self.cells.iter().flat_map(|cell| cell.members.iter().map(|(_, row)| *row))
    }
}

impl Collection {
    /// Searches through a server that sees neither the query nor the scores.
    pub fn search(
        &self,
        transport: &dyn Transport,
        query: &[f32],
        options: &SearchOptions,
    ) -> Result<Answer, ClientError> {
        let turned = self.turn(query, options)?;
        let candidates = turned.rows().count();

        let start = Instant::now();
        let parameters = Parameters::default();
        let width = self.model().split().private();
        let layout = cheapest_layout(&parameters, width, turned.cells.len(), candidates)?;
        let scale = ScoreScale::for_query(
            &parameters,
            &layout,
            // Every cell turns the same residual, so all have the norm of the first.
            &turned.queries[..width],
            self.model().operand_scale(),
            self.index().bound(),
        );
        let key = RequestKey::fresh(&parameters, Entropy::from_os()?);
        let (key, seed, ciphertexts) =
            key.encrypt(&layout.encode_queries(&turned.queries, scale.query()));
        let query_ciphertexts = ciphertexts.len();
        let named = Candidates::new(
            turned
                .cells
                .iter()
                .map(|cell| (cell.tag, cell.members.iter().map(|(handle, _)| *handle).collect()))
                .collect(),
        )?;
        let message = RerankRequest::new(
            self.model().epoch(),
            parameters.clone(),
            layout.clone(),
            named,
            seed,
            ciphertexts,
        )
        .encode();
        let (bytes_up, encrypt) = (message.len(), start.elapsed());

        let start = Instant::now();
        let limits = Limits::default();
        let bytes = exchange(transport, message, &limits)?;
        let (bytes_down, server) = (bytes.len(), start.elapsed());

        let start = Instant::now();
        let response = RerankResponse::decode(&bytes, &parameters, &layout, candidates, &limits)?;
        let residual_scores: Vec<f64> = response
            .responses()
            .par_iter()
            .flat_map_iter(|response| key.open(response))
            .map(|coefficient| scale.to_score(coefficient))
            .collect();
        let error_bound = scale.error_bound() + self.prefix_rounding(&turned.prefix);
        let precision = grid(error_bound);
        let hits = self.rank(&turned, &residual_scores, precision, options.top);
        let open = start.elapsed();

        let timings = Timings { route: turned.route, turn: turned.turn, encrypt, server, open };
        Ok(Answer {
            hits,
            precision,
            error_bound,
            cost: Cost {
                bytes_up,
                bytes_down,
                candidates,
                active_cells: turned.cells.len(),
                query_ciphertexts,
                response_ciphertexts: response.responses().len(),
                timings,
            },
        })
    }

    /// The same search without encryption, on the rows the server would hold: what the
    /// encrypted one is compared with.
    pub fn search_in_the_clear(
        &self,
        release: &RowBatch,
        query: &[f32],
        options: &SearchOptions,
    ) -> Result<Vec<Ranked>, ClientError> {
        let turned = self.turn(query, options)?;
        let width = self.model().split().private();
        let unit = 2_f64.powi(-self.model().operand_scale().exponent());
        let mut scores = Vec::new();
        for (cell, query) in turned.cells.iter().zip(turned.queries.chunks_exact(width)) {
            for (handle, row) in &cell.members {
                let at = release
                    .rows()
                    .binary_search_by_key(handle, |row| row.handle)
                    .map_err(|_| ClientError::MissingRow(self.index().id(*row).to_owned()))?;
                let stored = &release.rows()[at].coordinates;
                let product: f64 = query.iter().zip(stored).map(|(t, z)| t * f64::from(*z)).sum();
                scores.push(product * unit);
            }
        }
        Ok(self.rank(&turned, &scores, 0.0, options.top))
    }

    /// Routes the query and turns it by the key of every active cell.
    fn turn(&self, query: &[f32], options: &SearchOptions) -> Result<Turned, ClientError> {
        let model = self.model();
        let split = model.split();
        check_vector(split.width(), query)?;

        let start = Instant::now();
        let centred: Vec<f32> =
            model.pca().centred(query)[..split.public()].iter().map(|&u| u as f32).collect();
        let count = options.candidates.unwrap_or(model.candidates()).max(1);
        let shortlist = self.shortlist(&centred, count, options.probe)?;
        let route = start.elapsed();

        let start = Instant::now();
        let coordinates = model.pca().uncentred(query);
        let (prefix, residual) = split.halves(&coordinates);
        let cells = self.by_cell(&shortlist);
        let queries: Vec<f64> = cells
            .par_iter()
            .flat_map_iter(|cell| {
                let mut turned = residual.to_vec();
                model.key(self.keys(), cell.owner).apply(&mut turned);
                turned
            })
            .collect();
        let offset = query.iter().zip(model.pca().mean()).map(|(q, mu)| f64::from(*q) * mu).sum();
        let turn = start.elapsed();
        Ok(Turned { cells, queries, prefix: prefix.to_vec(), offset, route, turn })
    }

    fn shortlist(
        &self,
        centred: &[f32],
        count: usize,
        probe: Option<usize>,
    ) -> Result<Vec<u32>, ClientError> {
        let index = self.index();
        let mut lists = match (probe, self.model().cells(), index.lists()) {
            (Some(probe), Some(cells), Some(lists)) => {
                InvertedRouter::new(cells, lists, index.prefixes())?
                    .shortlist(centred, count, probe)?
            }
            _ => FlatRouter::new(self.model().split().public(), index.prefixes())?
                .shortlist(centred, count)?,
        };
        Ok(lists.swap_remove(0))
    }

    /// Candidates by cell: cells in tag order, candidates in handle order, as they are sent.
    fn by_cell(&self, shortlist: &[u32]) -> Vec<ActiveCell> {
        let index = self.index();
        let mut named: Vec<(KeyOwner, RowHandle, u32)> = shortlist
            .iter()
            .map(|&row| {
                let handle = index.handle(row);
                let owner = index.cell(row).map_or(KeyOwner::Row(handle), KeyOwner::Cell);
                (owner, handle, row)
            })
            .collect();
        named.sort_unstable();
        let mut cells: Vec<ActiveCell> = named
            .chunk_by(|a, b| a.0 == b.0)
            .map(|members| ActiveCell {
                tag: self.keys().cell_tag(self.model().epoch(), members[0].0),
                owner: members[0].0,
                members: members.iter().map(|(_, handle, row)| (*handle, *row)).collect(),
            })
            .collect();
        cells.sort_unstable_by_key(|cell| cell.tag);
        cells
    }

    /// `<u_q, u_i> + <r_q, r_i> + q . mu = q . x_i`, rounded to the grid, best first.
    fn rank(&self, turned: &Turned, residual_scores: &[f64], grid: f64, top: usize) -> Vec<Ranked> {
        let scored = turned.rows().zip(residual_scores).map(|(row, residual)| {
            let stored = self.index().prefix(row);
            let prefix: f64 =
                turned.prefix.iter().zip(stored).map(|(q, u)| q * f64::from(*u)).sum();
            let score = prefix + residual + turned.offset;
            (row, if grid > 0.0 { (score / grid).round() * grid } else { score })
        });
        top_k(scored, top)
    }

    /// Stored prefixes are single precision: half a unit in the last place of each coordinate.
    fn prefix_rounding(&self, prefix: &[f64]) -> f64 {
        let norm = prefix.iter().map(|u| u * u).sum::<f64>().sqrt();
        norm * self.index().longest_prefix() * f64::from(f32::EPSILON) / 2.0
    }
}

/// The smallest power of two that is at least the error.
fn grid(error: f64) -> f64 {
    if error > 0.0 { 2_f64.powi(error.log2().ceil() as i32) } else { 0.0 }
}

/// The tiling that moves the fewest bytes for this many cells and candidates.
fn cheapest_layout(
    parameters: &Parameters,
    width: usize,
    cells: usize,
    candidates: usize,
) -> Result<Layout, ClientError> {
    let fewest = Layout::fewest_tiles(parameters.degree(), width)?;
    let bytes = |layout: &Layout| {
        cells * layout.tiles() * Ciphertext::byte_len(parameters)
            + layout.responses(candidates) * Response::byte_len(parameters, layout.slots())
    };
    let tilings = fewest.tiles() + 1..=fewest.tiles() + 8;
    let others = tilings.filter_map(|tiles| Layout::new(parameters.degree(), width, tiles).ok());
    Ok(others.fold(fewest, |best, other| if bytes(&other) < bytes(&best) { other } else { best }))
}
