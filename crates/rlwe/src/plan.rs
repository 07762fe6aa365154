//! Choosing ring, tiling, packing and merging for a request.
//!
//! [`plan`] is a pure function. It lists every layout that makes sense for the workload, keeps
//! the bits that the requested precision needs, estimates what each would cost, and takes the
//! best by the objective. Estimates count operations and multiply them with measured times
//! (`shard-lab bench engine` prints them), so they are for the machine those were measured on; the
//! order of plans hardly depends on it.

use std::fmt;

use crate::ciphertext::Ciphertext;
use crate::layout::Layout;
use crate::merge::MergeSpan;
use crate::parameters::{MODULUS_BITS, Parameters, RingDegree};
use crate::response::Response;
use crate::scale::{OperandBound, OperandScale, ScoreScale};

/// What a plan is to be good at.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Objective {
    /// The least computing, whatever travels.
    Compute,
    /// The shortest time over a link of 100 Mbit/s.
    Balanced,
    /// The fewest bytes.
    Bytes,
    /// The shortest time over a link of this many bits a second.
    Link(f64),
}

impl Objective {
    /// Whether responses may be merged, which takes a secret that outlives the request.
    pub fn merges(self) -> bool {
        self != Self::Compute
    }

    /// Seconds that `seconds` of one core and a number of bytes are worth together.
    pub fn cost(self, seconds: f64, bytes: f64) -> f64 {
        seconds + self.seconds_per_byte() * bytes
    }

    /// Seconds that a byte is worth.
    pub fn seconds_per_byte(self) -> f64 {
        match self {
            Self::Compute => 8.0 / 10e9,
            Self::Balanced => 8.0 / 100e6,
            // A kilobyte outweighs a second of computing.
            Self::Bytes => 1e-3,
            Self::Link(bits_per_second) => 8.0 / bits_per_second,
        }
    }
}

/// What is to be scored.
#[derive(Clone, Debug)]
pub struct Workload<'a> {
    /// Coordinates of a vector.
    pub width: usize,
    /// Operands of each query.
    pub groups: &'a [usize],
    /// The fixed point of the operands.
    pub operands: OperandScale,
    /// The largest of them.
    pub bound: OperandBound,
    /// Error that a score of a query of norm one may have (six deviations).
    pub precision: f64,
    /// Merge keys that the server already holds.
    pub keys: Option<(RingDegree, MergeSpan)>,
    /// Whether merging may be considered at all; it takes a longer-lived secret.
    pub merging: bool,
    /// Requests that a session's keys serve, over which their upload is spread.
    pub session_requests: u32,
}

/// What a plan is expected to cost.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Estimate {
    /// Seconds of one core at the server.
    pub server: f64,
    /// Seconds of one core at the client, encryption and decryption.
    pub client: f64,
    /// Bytes of ciphertext up.
    pub bytes_up: usize,
    /// Bytes of ciphertext down.
    pub bytes_down: usize,
    /// Bytes of keys, once a session; zero when the server has them.
    pub bytes_once: usize,
    /// Six deviations of the error of a score of a query of norm one.
    pub error: f64,
}

impl Estimate {
    /// Bytes of a request, with its share of the keys.
    pub fn travelling(&self, session_requests: u32) -> f64 {
        (self.bytes_up + self.bytes_down) as f64
            + self.bytes_once as f64 / f64::from(session_requests.max(1))
    }
}

/// How a request is to be made.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Ring and bits.
    pub parameters: Parameters,
    /// How vectors lie in the ring.
    pub layout: Layout,
    /// Merges it needs keys for.
    pub span: Option<MergeSpan>,
    /// What it should cost.
    pub estimate: Estimate,
}

/// Most tiles that are tried beyond the fewest possible.
const EXTRA_TILES: usize = 8;

/// The best plan for a workload.
///
/// # Panics
/// When the width is zero or above [`MAX_WIDTH`](crate::MAX_WIDTH).
pub fn plan(workload: &Workload<'_>, objective: Objective) -> Plan {
    let cost = |plan: &Plan| {
        let estimate = &plan.estimate;
        let bytes = estimate.travelling(workload.session_requests);
        objective.cost(estimate.server + estimate.client, bytes)
    };
    // Where no plan meets the precision, the nearest to it.
    let missing = |plan: &Plan| (plan.estimate.error - workload.precision).max(0.0);
    candidates(workload)
        .into_iter()
        .min_by(|a, b| missing(a).total_cmp(&missing(b)).then(cost(a).total_cmp(&cost(b))))
        .expect("the ring of degree 8192 takes every supported width in eight tiles")
}

/// Every plan that makes sense, each with the fewest bits that the precision allows. If there is
/// none that meets the precision, all of them with all bits.
pub fn candidates(workload: &Workload<'_>) -> Vec<Plan> {
    let mut plans = Vec::new();
    for degree in [RingDegree::N2048, RingDegree::N4096, RingDegree::N8192] {
        let n = degree.coefficients();
        let fewest = workload.width.div_ceil(n).max(1);
        for tiles in fewest..=fewest + EXTRA_TILES {
            let Ok(single) = Layout::new(degree, workload.width, tiles) else { continue };
            let width = single.stride();
            plans.push(single);
            // Without merging, a block more costs a whole response for every few scores; more
            // than a few never pay.
            let blocks = 2..=(n / width).min(4);
            let packed = |blocks| Layout::packed(degree, workload.width, tiles, blocks, false);
            plans.extend(blocks.filter_map(|blocks| packed(blocks).ok()));
            if workload.merging {
                let mut stride = width.next_power_of_two();
                while stride <= n {
                    let merged =
                        Layout::packed(degree, workload.width, tiles, stride / width, true);
                    plans.extend(merged.ok());
                    stride *= 2;
                }
            }
        }
    }
    // A merged layout with nothing to merge is the same thing under a longer-lived secret.
    let sensible = |plan: &Plan| plan.layout.is_merged() == plan.span.is_some();
    let plans = plans.into_iter().map(|layout| complete(workload, layout)).filter(sensible);
    let (met, missed): (Vec<Plan>, Vec<Plan>) =
        plans.partition(|plan| plan.estimate.error <= workload.precision);
    if met.is_empty() { missed } else { met }
}

/// Bits and costs for a layout.
fn complete(workload: &Workload<'_>, layout: Layout) -> Plan {
    let count: usize = workload.groups.iter().sum();
    let error = |parameters: &Parameters| {
        let scale =
            ScoreScale::new(parameters, &layout, 1.0, workload.operands, workload.bound, count);
        scale.error_bound()
    };
    let parameters = fewest_bits(layout.degree(), workload.precision, error);
    let span = MergeSpan::of(&layout, count);
    let estimate = estimate(workload, &parameters, &layout, span, error(&parameters));
    Plan { parameters, layout, span, estimate }
}

/// The response's bits matter most and are chosen first, with room for the upload's rounding;
/// then as many low bits of the upload are dropped as fit.
fn fewest_bits(
    degree: RingDegree,
    precision: f64,
    error: impl Fn(&Parameters) -> f64,
) -> Parameters {
    let set = |upload, response| {
        Parameters::new(degree, upload, response).expect("planned degrees and bits are valid")
    };
    let response = (18..=32).find(|&bits| error(&set(MODULUS_BITS, bits)) <= 0.9 * precision);
    let response = response.unwrap_or(32);
    let upload = (36..=MODULUS_BITS).find(|&bits| error(&set(bits, response)) <= precision);
    set(upload.unwrap_or(MODULUS_BITS), response)
}

/// Seconds of one core for each operation at `N = 2048`, as `shard-lab bench engine` prints them.
struct Times {
    /// Making a secret.
    key: f64,
    /// Unpacking, expanding and transforming a ciphertext.
    prepare: f64,
    /// Writing and transforming an operand polynomial, two multiply-accumulates.
    product: f64,
    /// Two inverse transforms, modulus switch, packing.
    respond: f64,
    /// One merge.
    merge: f64,
    /// Encrypting and packing a ciphertext.
    encrypt: f64,
    /// Unpacking a response.
    open: f64,
    /// Reading one score.
    score: f64,
}

const TIMES: Times = Times {
    key: 11.5e-6,
    prepare: 12e-6,
    product: 5e-6,
    respond: 10e-6,
    merge: 29e-6,
    encrypt: 21.6e-6,
    open: 1.9e-6,
    score: 0.12e-6,
};

fn estimate(
    workload: &Workload<'_>,
    parameters: &Parameters,
    layout: &Layout,
    span: Option<MergeSpan>,
    error: f64,
) -> Estimate {
    let (linear, transform) = growth(layout.degree());
    let count: usize = workload.groups.iter().sum();
    let ciphertexts = layout.ciphertexts(workload.groups.len());
    let responses = layout.responses(count);
    let client = TIMES.key * linear
        + TIMES.encrypt * transform * ciphertexts as f64
        + TIMES.open * linear * responses as f64
        + TIMES.score * linear * count as f64;
    let down = |response| Response::byte_len(parameters, layout.used_slots(response, count));
    let bytes_once = match (span, workload.keys) {
        (Some(span), Some((degree, held))) if degree == layout.degree() && held.covers(span) => 0,
        (Some(span), _) => span.byte_len(layout.degree()),
        (None, _) => 0,
    };
    Estimate {
        server: server_seconds(layout, workload.groups),
        client,
        bytes_up: ciphertexts * Ciphertext::byte_len(parameters),
        bytes_down: (0..responses).map(down).sum(),
        bytes_once,
        error,
    }
}

/// How much longer than at `N = 2048` an operation takes that is linear in the degree, and one
/// that transforms.
fn growth(degree: RingDegree) -> (f64, f64) {
    let n = degree.coefficients() as f64;
    let linear = n / 2048.0;
    (linear, linear * n.log2() / 11.0)
}

/// Seconds of one core that scoring takes: `groups[i]` operands against query `i`.
pub fn server_seconds(layout: &Layout, groups: &[usize]) -> f64 {
    let (_, transform) = growth(layout.degree());
    let count: usize = groups.iter().sum();
    let responses = layout.responses(count);
    let merges = if layout.is_merged() { layout.leaves(count) - responses } else { 0 };
    let operations = TIMES.prepare * layout.ciphertexts(groups.len()) as f64
        + TIMES.product * products(layout, groups) as f64
        + TIMES.merge * merges as f64
        + TIMES.respond * responses as f64;
    operations * transform
}

/// Products of polynomials: for every response before merging, the blocks of queries it touches.
fn products(layout: &Layout, groups: &[usize]) -> usize {
    let (slots, blocks) = (layout.slots(), layout.blocks());
    let mut products = 0;
    let mut last = None;
    let mut index = 0;
    for (query, &size) in groups.iter().enumerate() {
        if size == 0 {
            continue;
        }
        for leaf in index / slots..=(index + size - 1) / slots {
            let product = Some((query / blocks, leaf));
            products += usize::from(product != last);
            last = product;
        }
        index += size;
    }
    products * layout.tiles()
}

impl fmt::Display for Plan {
    /// The plan in words and figures.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (layout, estimate) = (&self.layout, &self.estimate);
        write!(
            f,
            "ring of degree {}, {} bits up and {} down; {} {} per ciphertext, {} {}, {} scores per product",
            layout.degree(),
            self.parameters.upload_bits(),
            self.parameters.response_bits(),
            layout.blocks(),
            if layout.blocks() == 1 { "cell" } else { "cells" },
            layout.tiles(),
            if layout.tiles() == 1 { "tile" } else { "tiles" },
            layout.slots(),
        )?;
        if let Some(span) = self.span {
            write!(f, "; merged into one response over {} levels", span.levels)?;
        }
        write!(
            f,
            "; expected: server {:.2} ms, client {:.2} ms of one core, {:.0} KB up, {:.0} KB down",
            estimate.server * 1e3,
            estimate.client * 1e3,
            estimate.bytes_up as f64 / 1e3,
            estimate.bytes_down as f64 / 1e3,
        )?;
        if estimate.bytes_once > 0 {
            write!(f, ", {:.0} KB of keys once", estimate.bytes_once as f64 / 1e3)?;
        }
        write!(f, "; error below {:.1e}", estimate.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(width: usize, groups: &[usize], merging: bool) -> Workload<'_> {
        Workload {
            width,
            groups,
            operands: OperandScale::for_norm(0.8),
            bound: OperandBound::new(0.8 * 2_f64.powi(OperandScale::for_norm(0.8).exponent())),
            precision: 2e-6,
            keys: None,
            merging,
            session_requests: 64,
        }
    }

    /// 128 candidates over 39 cells, as a search of the demo has them.
    fn spread() -> Vec<usize> {
        (0..39).map(|cell| if cell < 11 { 4 } else { 3 }).collect()
    }

    #[test]
    fn objectives_pull_where_they_should() {
        let groups = spread();
        let workload = workload(288, &groups, true);
        let latency = plan(&workload, Objective::Compute).estimate;
        let balanced = plan(&workload, Objective::Balanced).estimate;
        let bytes = plan(&workload, Objective::Bytes).estimate;
        let total = |e: &Estimate| e.bytes_up + e.bytes_down;
        assert!(latency.server + latency.client <= balanced.server + balanced.client);
        assert!(total(&bytes) <= total(&balanced) && total(&balanced) <= total(&latency));
        assert!(total(&bytes) < 85_000, "{bytes:?}");
        assert_eq!(plan(&workload, Objective::Link(100e6)), plan(&workload, Objective::Balanced));
    }

    #[test]
    fn plans_meet_the_precision_and_waste_no_bits() {
        let groups = spread();
        for precision in [1e-4, 2e-6, 1e-6] {
            let workload = Workload { precision, ..workload(288, &groups, true) };
            for plan in candidates(&workload) {
                assert!(plan.estimate.error <= precision, "{plan}");
            }
        }
        let fewer =
            |p| plan(&Workload { precision: p, ..workload(288, &groups, false) }, Objective::Bytes);
        assert!(fewer(1e-4).parameters.response_bits() < fewer(2e-6).parameters.response_bits());
    }

    #[test]
    fn without_permission_nothing_is_merged() {
        let groups = spread();
        for objective in [Objective::Compute, Objective::Balanced, Objective::Bytes] {
            assert_eq!(plan(&workload(288, &groups, false), objective).span, None);
        }
    }

    #[test]
    fn every_supported_width_has_a_plan() {
        for width in [1, 2, 96, 2048, 2049, 8192, 65_536] {
            for merging in [false, true] {
                plan(&workload(width, &[3, 1], merging), Objective::Balanced);
            }
        }
    }

    #[test]
    fn products_are_counted_as_the_evaluator_makes_them() {
        let groups = [3, 0, 1, 5];
        let layout = Layout::packed(RingDegree::N2048, 500, 1, 1, false).unwrap(); // four slots
        // Responses hold operands of queries {0, 2}, {3}, {3}.
        assert_eq!(products(&layout, &groups), 4);
        let layout = Layout::packed(RingDegree::N2048, 500, 2, 2, false).unwrap(); // four slots
        // Blocks of queries {0}, {2, 3}: {0, 1}, {1}, {1}, two tiles each.
        assert_eq!(products(&layout, &groups), 8);
    }
}
