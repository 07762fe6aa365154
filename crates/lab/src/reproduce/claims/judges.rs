//! What decides about each statement.

use super::super::evidence::Evidence;
use super::Judged;

/// An attack that finds the right row this often is taken to have won.
const WON: f64 = 0.9;
/// A share this small is taken to be nothing.
const NOTHING: f64 = 0.05;
/// A difference of nDCG@10 up to this is taken to be none, whatever its interval: within it the
/// paper counts two systems as equal in utility.
pub(super) const LOSS: f64 = 0.01;
/// The least of the losses of nDCG@10 that were reported before the paper's correction.
const REPORTED_LOSS: f64 = 0.02;
/// A leak of which less than this share is left counts as suppressed.
const SUPPRESSED: f64 = 0.5;
/// A key counts as determined where this share of targets has pairs of full rank.
const DETERMINED: f64 = 0.5;

pub(super) fn judged(holds: bool, found: String, rule: impl Into<String>) -> Option<Judged> {
    Some(Judged { holds, found, rule: rule.into() })
}

/// Both statements hold.
fn both(first: Judged, second: Judged) -> Option<Judged> {
    let found = format!("{}; {}", first.found, second.found);
    judged(first.holds && second.holds, found, format!("{}, and {}", first.rule, second.rule))
}

/// The opposite of a statement.
fn not(Judged { holds, found, rule }: Judged) -> Judged {
    Judged { holds: !holds, found, rule: format!("not: {rule}") }
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
    let found =
        format!("R@1 of {WON} by OLS takes {least} pairs at C={few} and {most} at C={many}");
    judged(rises && most > least, found, "the number never falls with C, and rises over all")
}

/// Rows are matched only once the pairs of a cell determine its key.
pub fn threshold(evidence: &Evidence) -> Option<Judged> {
    let most = evidence.most("alignment", "first_full_rank_coverage", &["attack=ols"])?;
    let found =
        format!("where R@1 first reaches {WON}, pairs of full rank for {most:.2} of targets");
    judged(most > DETERMINED, found, format!("full rank for more than {DETERMINED} of targets"))
}

/// Both halves of the first hypothesis.
pub fn shift_without_threshold(evidence: &Evidence) -> Option<Judged> {
    both(cells_compartmentalise(evidence)?, not(threshold(evidence)?))
}

/// The worst loss of nDCG@10 of a system against raw search, and whether one is beyond noise.
pub(super) fn worst_loss(evidence: &Evidence, system: &str) -> Option<(f64, bool)> {
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
    let found = format!(
        "worst difference of nDCG@10 from raw {worst:+.4}, what the shortlist of 200 misses included"
    );
    judged(!clear, found, format!("nowhere a loss above {LOSS} whose interval excludes zero"))
}

/// Half of the coordinates lose on some collection.
pub fn half_loses(evidence: &Evidence) -> Option<Judged> {
    let (worst, clear) = worst_loss(evidence, "system=corrected-half")?;
    let found = format!("worst difference of nDCG@10 with half of the coordinates {worst:+.4}");
    judged(clear, found, format!("somewhere a loss above {LOSS} whose interval excludes zero"))
}

/// Half of the coordinates lose nowhere.
pub fn half_never_loses(evidence: &Evidence) -> Option<Judged> {
    half_loses(evidence).map(not)
}

/// Both halves of the second hypothesis.
pub fn kept_whole_lost_by_half(evidence: &Evidence) -> Option<Judged> {
    both(ranking_is_kept(evidence)?, half_loses(evidence)?)
}

/// Truncation loses the reported points on every collection, and centring the query none.
pub fn half_alone_loses_two_points(evidence: &Evidence) -> Option<Judged> {
    let (half, _) = worst_loss(evidence, "system=corrected-half")?;
    let (centred, _) = worst_loss(evidence, "system=centred-full")?;
    let least = evidence.most("utility", "delta_ndcg_at_10", &["system=corrected-half"])?;
    let found = format!(
        "nDCG@10 with half of the coordinates {half:+.4} to {least:+.4}, with a centred query down \
         to {centred:+.4}"
    );
    let rule = format!("half loses {REPORTED_LOSS} everywhere, centring nowhere {LOSS}");
    judged(least <= -REPORTED_LOSS && centred > -LOSS, found, rule)
}

/// NN-overlap@10 by a prefix, in the ranking that shows more.
fn by_prefix(evidence: &Evidence, width: &str) -> Option<f64> {
    evidence.most("prefix", "nn_overlap_at_10", &["encoder=minilm", width])
}

/// The short prefix shows fewer neighbours than public codes.
pub fn prefix_shows_less_than_codes(evidence: &Evidence) -> Option<Judged> {
    let prefix = by_prefix(evidence, "width=d/4")?;
    let codes =
        evidence.most("pq", "nn_overlap_at_10", &["encoder=minilm", "subspaces=48", "bits=8"])?;
    let found = format!(
        "NN-overlap@10 {prefix:.3} with the whole space by the prefix of d/4, {codes:.3} with the \
         half space by its codes"
    );
    judged(prefix < codes, found, "less by the prefix")
}

/// The short prefix shows fewer neighbours than the half space that the baseline exposes.
pub fn prefix_shows_less_than_half(evidence: &Evidence) -> Option<Judged> {
    let (prefix, half) = (by_prefix(evidence, "width=d/4")?, by_prefix(evidence, "width=d/2")?);
    let found =
        format!("NN-overlap@10 {prefix:.3} by the prefix of d/4, {half:.3} by the exposed half");
    judged(prefix < half, found, "less by the prefix")
}

/// Codes show next to no neighbours.
pub fn codes_are_harmless(evidence: &Evidence) -> Option<Judged> {
    let overlap = evidence.most("pq", "nn_overlap_at_10", &[])?;
    let found = format!("NN-overlap@10 by codes up to {overlap:.3}");
    judged(overlap < NOTHING, found, format!("below {NOTHING}"))
}

/// Cross-key cosine is at chance while another invariant links.
pub fn cosine_misses_what_others_link(evidence: &Evidence) -> Option<Judged> {
    let linker = |name: &str| evidence.most("linkage", "recall_at_1", &["format=clean", name]);
    let cosine = linker("linker=cross-key-cosine")?;
    let others = ["linker=norm-rank", "linker=gram", "linker=prefix"];
    let best = others.iter().filter_map(|name| linker(name)).max_by(f64::total_cmp)?;
    let found = format!("R@1 {cosine:.4} by cross-key cosine, up to {best:.4} by other invariants");
    let rule = format!("cosine below {NOTHING}, another above {WON}");
    judged(cosine < NOTHING && best > WON, found, rule)
}

/// Micro-keys leave no shared edge.
pub fn micro_keys_share_no_edge(evidence: &Evidence) -> Option<Judged> {
    let edges = evidence.most("prefix", "shared_residual_edges", &["cells=micro"])?;
    judged(edges == 0.0, format!("{edges:.3} of residual neighbours share a key"), "none does")
}

/// Nothing links releases under micro-keys through insertions and deletions.
pub fn micro_keys_unlinkable(evidence: &Evidence) -> Option<Judged> {
    let best = evidence.most("churn", "recall_at_1", &["keys=micro", "format=clean"])?;
    let found = format!("R@1 up to {best:.4} between releases under micro-keys");
    judged(best < NOTHING, found, format!("below {NOTHING}"))
}

/// Micro-keys share nothing and are unlinkable.
pub fn micro_keys_hide(evidence: &Evidence) -> Option<Judged> {
    both(micro_keys_share_no_edge(evidence)?, micro_keys_unlinkable(evidence)?)
}

/// Neighbours cannot be told from rows that share a cell.
pub fn neighbours_are_hidden(evidence: &Evidence) -> Option<Judged> {
    let edges = evidence.most("prefix", "shared_residual_edges", &[])?;
    let found = format!("up to {edges:.3} of residual neighbours share a key");
    judged(edges < NOTHING, found, format!("below {NOTHING}"))
}

/// One rotation withstands known pairs.
pub fn rotation_withstands_pairs(evidence: &Evidence) -> Option<Judged> {
    let best = evidence.most("procrustes", "recall_at_1", &["attack=procrustes"])?;
    judged(best < WON, format!("R@1 up to {best:.4} by Procrustes"), format!("below {WON}"))
}

/// An overlapping reference does not give rows away after alignment.
pub fn reference_is_no_use_after_alignment(evidence: &Evidence) -> Option<Judged> {
    let best = evidence.most("reference", "recall_at_1", &["space=half"])?;
    let found = format!("exact R@1 up to {best:.4} in an overlapping reference");
    judged(best < NOTHING, found, format!("below {NOTHING}"))
}

/// A public prefix does not give rows away to an overlapping reference.
pub fn reference_is_no_use_by_prefix(evidence: &Evidence) -> Option<Judged> {
    let best = evidence.most("reference", "recall_at_1", &["space=prefix"])?;
    let found = format!("exact R@1 up to {best:.4} by the public prefix");
    judged(best < NOTHING, found, format!("below {NOTHING}"))
}

/// Without the key a decoder gains little over guessing, against what it gains on raw vectors.
pub fn unknown_key_suppresses_text(evidence: &Evidence) -> Option<Judged> {
    let unknown = evidence.figures("text", "token_f1", &["view=unknown-key"]);
    let kept = unknown.filter_map(|(figure, unknown)| {
        let same = figure.setting.replace("view=unknown-key", "view=raw");
        let parts: Vec<&str> = same.split(',').collect();
        let (raw, chance) = (evidence.most("text", "token_f1", &parts)?, figure.chance?);
        (raw > chance).then_some((unknown - chance) / (raw - chance))
    });
    let kept: Vec<f64> = kept.collect();
    let least = kept.iter().copied().min_by(f64::total_cmp)?;
    let most = kept.iter().copied().max_by(f64::total_cmp)?;
    let found = format!(
        "of the token-F1 that raw vectors give above guessing, {least:.2} to {most:.2} is left \
         without the key"
    );
    judged(most < SUPPRESSED, found, format!("nowhere {SUPPRESSED} of it or more"))
}

/// Known pairs give a decoder nothing.
pub fn pairs_give_no_text(evidence: &Evidence) -> Option<Judged> {
    let view = |name: &str| evidence.most("text", "token_f1", &[name]);
    let (unknown, pairs) = (view("view=unknown-key")?, view("view=ols")?);
    let found = format!("token-F1 up to {unknown:.3} without the key, {pairs:.3} with known pairs");
    judged(pairs <= unknown, found, "no more with pairs")
}

/// Encrypted reranking ranks as plaintext does.
pub fn encryption_keeps_the_order(evidence: &Evidence) -> Option<Judged> {
    let flips = evidence.most("ckks", "top1_flips", &[])?;
    let overlap = evidence.least("ckks", "top10_overlap", &[])?;
    let error = evidence.most("ckks", "max_abs_error", &[])?;
    let found = format!("{flips} flips at the top, top-10 overlap {overlap:.4}, error {error:.1e}");
    judged(flips == 0.0 && overlap == 1.0, found, "no flip, and overlap 1")
}

/// No known pair gives a row away.
pub fn keys_are_a_guarantee(evidence: &Evidence) -> Option<Judged> {
    let best = evidence.most("alignment", "recall_at_1", &[])?;
    let found = format!("R@1 up to {best:.4} with known pairs");
    judged(best < NOTHING, found, format!("below {NOTHING}"))
}

/// Rows are matched before the pairs of a cell determine its key.
pub fn no_threshold(evidence: &Evidence) -> Option<Judged> {
    threshold(evidence).map(not)
}

/// Truncation and noise of the same distortion leave as many neighbours.
pub fn distortion_measures_privacy(evidence: &Evidence) -> Option<Judged> {
    let truncated = evidence.figures("sigma-rec", "nn_overlap_at_10", &["defence=truncation"]);
    let differences = truncated.filter_map(|(figure, overlap)| {
        let noisy = figure.setting.replace("defence=truncation", "defence=noise");
        let parts: Vec<&str> = noisy.split(',').collect();
        let noise = evidence.most("sigma-rec", "nn_overlap_at_10", &parts)?;
        Some((overlap, noise))
    });
    let gap = |pair: &(f64, f64)| (pair.0 - pair.1).abs();
    let (truncation, noise) = differences.max_by(|a, b| gap(a).total_cmp(&gap(b)))?;
    let found = format!(
        "at one distortion NN-overlap@10 is {truncation:.3} after truncation and {noise:.3} after \
         noise"
    );
    let rule = format!("nowhere further apart than {NOTHING}");
    judged(gap(&(truncation, noise)) <= NOTHING, found, rule)
}
