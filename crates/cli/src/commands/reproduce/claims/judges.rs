//! What decides about each statement.

use super::super::evidence::Evidence;
use super::Judged;

/// A system that finds the right row this often is taken to have won.
const WON: f64 = 0.9;
/// A share this small is taken to be nothing.
const NOTHING: f64 = 0.05;
/// nDCG@10 that counts as a loss even where the interval reaches zero.
const LOSS: f64 = 0.005;

fn judged(holds: bool, found: String) -> Option<Judged> {
    Some(Judged { holds, found })
}

/// Pairs that least squares needs for R@1 of 0.9, by number of cells, fewest cells first.
fn budgets(evidence: &Evidence) -> Vec<(f64, f64)> {
    let figures = evidence.figures("alignment", "first_pairs", &["attack=ols"]);
    let mut budgets: Vec<(f64, f64)> =
        figures.filter_map(|(figure, pairs)| Some((figure.number("cells")?, pairs))).collect();
    budgets.sort_by(|a, b| a.0.total_cmp(&b.0));
    budgets
}

/// More cells ask for more pairs in all.
pub fn cells_compartmentalise(evidence: &Evidence) -> Option<Judged> {
    let budgets = budgets(evidence);
    let ((few, least), (many, most)) = (*budgets.first()?, *budgets.last()?);
    if few == many {
        return None;
    }
    let rises = budgets.windows(2).all(|pair| pair[0].1 <= pair[1].1);
    let found = format!("R@1 of 0.9 by OLS takes {least} pairs at C={few} and {most} at C={many}");
    judged(rises && most > least, found)
}

/// Rows are matched only once the pairs of a cell determine its key.
pub fn threshold(evidence: &Evidence) -> Option<Judged> {
    let coverage = budgets(evidence).into_iter().filter_map(|(cells, pairs)| {
        let (cells, pairs) = (format!("cells={cells}"), format!("pairs={pairs}"));
        let setting = ["disclosure=diffuse", "attack=ols", &cells, &pairs];
        evidence.most("alignment", "full_rank_coverage", &setting)
    });
    let most = coverage.max_by(f64::total_cmp)?;
    let found = format!("where R@1 first reaches 0.9, {most:.2} of keys are determined at most");
    judged(most > 0.5, found)
}

/// Both halves of the first hypothesis.
pub fn shift_without_threshold(evidence: &Evidence) -> Option<Judged> {
    let (shift, hard) = (cells_compartmentalise(evidence)?, threshold(evidence)?);
    judged(shift.holds && !hard.holds, format!("{}; {}", shift.found, hard.found))
}

/// The worst loss of nDCG@10 of a system against raw search, and whether one is beyond noise.
fn worst_loss(evidence: &Evidence, system: &str) -> Option<(f64, bool)> {
    let setting = [system];
    let figures: Vec<_> = evidence.figures("utility", "delta_ndcg_at_10", &setting).collect();
    let worst = figures.iter().map(|(_, delta)| *delta).min_by(f64::total_cmp)?;
    let clear = figures
        .iter()
        .any(|(figure, delta)| *delta < -LOSS && figure.ci95.is_none_or(|[_, high]| high < 0.0));
    Some((worst, clear))
}

/// Split scores of all coordinates lose nothing against raw search.
pub fn ranking_is_kept(evidence: &Evidence) -> Option<Judged> {
    let (worst, clear) = worst_loss(evidence, "system=shard")?;
    judged(!clear, format!("worst difference of nDCG@10 from raw {worst:+.4}"))
}

/// Half of the coordinates lose on some collection.
pub fn half_loses(evidence: &Evidence) -> Option<Judged> {
    let (worst, clear) = worst_loss(evidence, "system=corrected-half")?;
    judged(clear, format!("worst difference of nDCG@10 with half of the coordinates {worst:+.4}"))
}

/// Half of the coordinates lose nowhere.
pub fn half_never_loses(evidence: &Evidence) -> Option<Judged> {
    half_loses(evidence).map(|Judged { holds, found }| Judged { holds: !holds, found })
}

/// Both halves of the second hypothesis.
pub fn kept_whole_lost_by_half(evidence: &Evidence) -> Option<Judged> {
    let (whole, half) = (ranking_is_kept(evidence)?, half_loses(evidence)?);
    judged(whole.holds && half.holds, format!("{}; {}", whole.found, half.found))
}

/// Truncation alone loses at least two points wherever centring the query does.
pub fn half_alone_loses_two_points(evidence: &Evidence) -> Option<Judged> {
    let (half, _) = worst_loss(evidence, "system=corrected-half")?;
    let (centred, _) = worst_loss(evidence, "system=centred-full")?;
    let least = evidence.most("utility", "delta_ndcg_at_10", &["system=corrected-half"])?;
    let found = format!(
        "half of the coordinates {half:+.4} to {least:+.4}; centring the query alone {centred:+.4}"
    );
    judged(least <= -0.02 && centred > -LOSS, found)
}

/// The short prefix shows fewer neighbours than public codes.
pub fn prefix_shows_less_than_codes(evidence: &Evidence) -> Option<Judged> {
    let prefix = evidence.most(
        "prefix",
        "nn_overlap_at_10",
        &["encoder=minilm", "width=d/4", "rank-by=distance"],
    )?;
    let codes =
        evidence.most("pq", "nn_overlap_at_10", &["encoder=minilm", "subspaces=48", "bits=8"])?;
    let found = format!("NN-overlap@10 {prefix:.3} by the prefix of d/4, {codes:.3} by codes");
    judged(prefix < codes, found)
}

/// Codes show next to no neighbours.
pub fn codes_are_harmless(evidence: &Evidence) -> Option<Judged> {
    let overlap = evidence.most("pq", "nn_overlap_at_10", &[])?;
    judged(overlap < NOTHING, format!("NN-overlap@10 by codes up to {overlap:.3}"))
}

/// Cross-key cosine is at chance while another invariant links.
pub fn cosine_misses_what_others_link(evidence: &Evidence) -> Option<Judged> {
    let linker = |name: &str| evidence.most("linkage", "recall_at_1", &["format=clean", name]);
    let cosine = linker("linker=cross-key-cosine")?;
    let others = ["linker=norm-rank", "linker=gram", "linker=prefix"];
    let best = others.iter().filter_map(|name| linker(name)).max_by(f64::total_cmp)?;
    let found = format!("R@1 {cosine:.4} by cross-key cosine, up to {best:.4} by other invariants");
    judged(cosine < NOTHING && best > WON, found)
}

/// Micro-keys leave no shared edge.
pub fn micro_keys_share_no_edge(evidence: &Evidence) -> Option<Judged> {
    let edges = evidence.most("prefix", "shared_residual_edges", &["cells=micro"])?;
    judged(edges == 0.0, format!("{edges:.3} of residual neighbours share a key"))
}

/// Nothing links releases under micro-keys through insertions and deletions.
pub fn micro_keys_unlinkable(evidence: &Evidence) -> Option<Judged> {
    let best = evidence.most("churn", "recall_at_1", &["keys=micro", "format=clean"])?;
    judged(best < NOTHING, format!("R@1 up to {best:.4} between releases under micro-keys"))
}

/// Micro-keys share nothing and are unlinkable.
pub fn micro_keys_hide(evidence: &Evidence) -> Option<Judged> {
    let (edges, unlinkable) =
        (micro_keys_share_no_edge(evidence)?, micro_keys_unlinkable(evidence)?);
    judged(edges.holds && unlinkable.holds, format!("{}; {}", edges.found, unlinkable.found))
}

/// Neighbours cannot be told from rows that share a cell.
pub fn neighbours_are_hidden(evidence: &Evidence) -> Option<Judged> {
    let edges = evidence.most("prefix", "shared_residual_edges", &[])?;
    judged(edges < NOTHING, format!("up to {edges:.3} of residual neighbours share a key"))
}

/// One rotation withstands known pairs.
pub fn rotation_withstands_pairs(evidence: &Evidence) -> Option<Judged> {
    let best = evidence.most("procrustes", "recall_at_1", &["attack=procrustes"])?;
    judged(best < WON, format!("R@1 up to {best:.4} by Procrustes"))
}

/// An overlapping reference does not give rows away after alignment.
pub fn reference_is_no_use_after_alignment(evidence: &Evidence) -> Option<Judged> {
    let best = evidence.most("reference", "recall_at_1", &["space=half"])?;
    judged(best < NOTHING, format!("exact R@1 up to {best:.4} in an overlapping reference"))
}

/// A public prefix does not give rows away to an overlapping reference.
pub fn reference_is_no_use_by_prefix(evidence: &Evidence) -> Option<Judged> {
    let best = evidence.most("reference", "recall_at_1", &["space=prefix"])?;
    judged(best < NOTHING, format!("exact R@1 up to {best:.4} by the public prefix"))
}

/// A decoder reads fewer words without the key than with it.
pub fn unknown_key_suppresses_text(evidence: &Evidence) -> Option<Judged> {
    let view = |name: &str| evidence.most("text", "token_f1", &[name]);
    let (raw, unknown) = (view("view=raw")?, view("view=unknown-key")?);
    let found = format!("token-F1 up to {raw:.3} on raw vectors, {unknown:.3} without the key");
    judged(unknown < raw, found)
}

/// Known pairs give a decoder nothing.
pub fn pairs_give_no_text(evidence: &Evidence) -> Option<Judged> {
    let view = |name: &str| evidence.most("text", "token_f1", &[name]);
    let (unknown, pairs) = (view("view=unknown-key")?, view("view=ols")?);
    let found = format!("token-F1 up to {unknown:.3} without the key, {pairs:.3} with known pairs");
    judged(pairs <= unknown, found)
}

/// Encrypted reranking ranks as plaintext does.
pub fn encryption_keeps_the_order(evidence: &Evidence) -> Option<Judged> {
    let flips = evidence.most("ckks", "top1_flips", &[])?;
    let overlap = evidence.least("ckks", "top10_overlap", &[])?;
    let error = evidence.most("ckks", "max_abs_error", &[])?;
    let found = format!("{flips} flips at the top, top-10 overlap {overlap:.4}, error {error:.1e}");
    judged(flips == 0.0 && overlap == 1.0, found)
}

/// Known pairs break a cell before its key is determined, so keys are no guarantee.
pub fn keys_are_a_guarantee(evidence: &Evidence) -> Option<Judged> {
    let best = evidence.most("alignment", "recall_at_1", &[])?;
    judged(best < NOTHING, format!("R@1 up to {best:.4} with known pairs"))
}
