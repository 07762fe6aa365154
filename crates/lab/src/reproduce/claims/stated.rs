//! What decides about the numbers of the paper's abstract: each on the setting it is about, by the
//! interval of our figure.

use super::super::evidence::{Evidence, Figure};
use super::Judged;
use super::judges::{LOSS, judged, worst_loss};

/// The paper's largest error of a score.
const ERROR: f64 = 2.29e-6;
/// Its cut of the upload, at eight cells in a ciphertext and 128 candidates.
const UPLOAD_CUT: f64 = 0.867;
/// How far from that ours may be.
const NEAR: f64 = 0.01;
/// Its recall at 1 of prefixes and lengths between releases.
const LINKED: f64 = 0.9996;
/// Its nDCG@10 of a Gaussian release at a budget of one.
const NOISY_QUALITY: f64 = 0.011;
/// The budget of its strict matches, and the least recall at 1 of links there.
const MATCHED_AT: f64 = 32_768.0;
const MATCHED_LINK: f64 = 0.995;
/// Its largest difference of Recall@100 between systems that match.
const RECALL_MATCH: f64 = 0.02;

/// A figure with its interval, or the figure alone.
fn written(figure: &Figure, value: f64) -> String {
    match figure.ci95 {
        Some([low, high]) => format!("{value:.4} [{low:.4}, {high:.4}]"),
        None => format!("{value:.4}"),
    }
}

/// The ends of a figure: of its interval, or both the figure.
fn ends(figure: &Figure, value: f64) -> [f64; 2] {
    figure.ci95.unwrap_or([value, value])
}

/// The one figure with this metric and settings; nothing where there are several or none.
fn only<'a>(
    evidence: &'a Evidence,
    table: &str,
    metric: &'a str,
    settings: &'a [&'a str],
) -> Option<(&'a Figure, f64)> {
    let mut figures = evidence.figures(table, metric, settings);
    let found = figures.next()?;
    figures.next().is_none().then_some(found)
}

/// Shard has the nDCG@10 and the Recall@100 of raw search.
pub fn quality_is_reproduced(evidence: &Evidence) -> Option<Judged> {
    let (worst, clear) = worst_loss(evidence, "system=shard")?;
    let settings = ["system=shard"];
    let recalls = evidence.figures("utility", "recall_at_100", &settings);
    let differences = recalls.filter_map(|(figure, recall)| {
        let raw = figure.setting.replace("system=shard", "system=raw");
        let parts: Vec<&str> = raw.split(',').collect();
        Some((recall - evidence.most("utility", "recall_at_100", &parts)?).abs())
    });
    let recall = differences.max_by(f64::total_cmp)?;
    let found = format!(
        "worst difference of nDCG@10 {worst:+.4}, largest difference of Recall@100 {recall:.4}"
    );
    let rule = format!(
        "nowhere a loss of nDCG@10 above {LOSS} whose interval excludes zero, and Recall@100 within \
         {RECALL_MATCH}"
    );
    judged(!clear && recall <= RECALL_MATCH, found, rule)
}

/// Centring the query costs quality.
pub fn centring_costs(evidence: &Evidence) -> Option<Judged> {
    let settings = ["system=centred-full"];
    let figures = evidence.figures("utility", "delta_ndcg_at_10", &settings);
    let (figure, worst) = figures.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let found = format!("worst difference of nDCG@10 {}", written(figure, worst));
    let holds = worst < -LOSS && ends(figure, worst)[1] < 0.0;
    judged(holds, found, format!("a loss above {LOSS} whose interval excludes zero"))
}

/// Encrypted scores are as near as the paper's, and the first document stays the first.
pub fn encrypted_scores_are_near(evidence: &Evidence) -> Option<Judged> {
    let grid = ["layout=slots", "grid=all"];
    let (_, error) = only(evidence, "ckks", "max_abs_error", &grid)?;
    let (figure, flips) = only(evidence, "ckks", "top1_flip_rate", &grid)?;
    let found = format!(
        "largest error {error:.2e}, the rounding of scores by our client included, share of flips {}",
        written(figure, flips)
    );
    judged(error <= ERROR && flips == 0.0, found, format!("error at most {ERROR:.2e}, no flip"))
}

/// The row that the paper's figures of packing are about.
const PACKED: [&str; 3] = ["layout=slots", "width=8", "candidates=128"];

/// Packing cells saves upload.
pub fn packing_cuts_upload(evidence: &Evidence) -> Option<Judged> {
    let (figure, cut) = only(evidence, "ckks", "upload_cut", &PACKED)?;
    let [low, high] = ends(figure, cut);
    let found = format!("upload cut by {} with eight cells in a ciphertext", written(figure, cut));
    let holds = low - NEAR <= UPLOAD_CUT && UPLOAD_CUT <= high + NEAR;
    judged(holds, found, format!("the interval comes within {NEAR} of {UPLOAD_CUT}"))
}

/// Packing cells costs time.
pub fn packing_takes_time(evidence: &Evidence) -> Option<Judged> {
    let (figure, rise) = only(evidence, "ckks", "latency_rise", &PACKED)?;
    let found = format!(
        "time changes by {} with eight cells in a ciphertext, on our own engine",
        written(figure, rise)
    );
    judged(ends(figure, rise)[0] > 0.0, found, "the interval lies above zero")
}

/// A prefix, and eight pairs, give a decoder more than the keyed residual does.
pub fn prefix_and_pairs_restore_text(evidence: &Evidence) -> Option<Judged> {
    let f1 = |settings: &[&str]| evidence.most("text", "token_f1", settings);
    let unknown = f1(&["view=unknown-key"])?;
    let (prefix, pairs) = (f1(&["view=prefix-only"])?, f1(&["view=ols", "pairs=8"])?);
    let found = format!(
        "token-F1 up to {unknown:.3} without the key, {prefix:.3} by the prefix, {pairs:.3} with \
         eight pairs"
    );
    judged(prefix > unknown && pairs > unknown, found, "both above what the keyed residual gives")
}

/// Rows that stay are linked by prefix and by length.
pub fn prefix_and_length_link(evidence: &Evidence) -> Option<Judged> {
    let figures = ["linker=prefix", "linker=norm"].into_iter().flat_map(|linker| {
        let overlaps = ["overlap=25", "overlap=50", "overlap=75", "overlap=90"];
        overlaps.into_iter().filter_map(move |overlap| {
            let settings = ["n=10000", "format=clean", linker, overlap];
            let figures = evidence.figures("churn", "recall_at_1", &settings);
            let least = figures.min_by(|a, b| a.1.total_cmp(&b.1));
            least.map(|(figure, value)| (written(figure, value), value, ends(figure, value)[1]))
        })
    });
    let (text, _, high) = figures.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let found = format!("R@1 at least {text} at 25 to 90 % overlap");
    judged(high >= LINKED, found, format!("the interval of the least reaches {LINKED}"))
}

/// Signatures of a cell link fewer rows where most documents change.
pub fn gram_degrades(evidence: &Evidence) -> Option<Judged> {
    let at = |overlap: &str| {
        let settings = ["n=10000", "keys=cell", "format=clean", "linker=gram", overlap];
        let figures = evidence.figures("churn", "recall_at_1", &settings);
        let most = figures.max_by(|a, b| a.1.total_cmp(&b.1));
        most.map(|(figure, value)| (written(figure, value), ends(figure, value)))
    };
    let ((few, [_, high]), (all, [low, _])) = (at("overlap=25")?, at("overlap=100")?);
    let found = format!("R@1 {few} at 25 % overlap, {all} at 100 %");
    judged(high < low, found, "the intervals are apart")
}

/// A release with a budget of one cannot be searched.
pub fn strong_noise_destroys_quality(evidence: &Evidence) -> Option<Judged> {
    let settings = ["epsilon=1"];
    let figures = evidence.figures("gaussian", "ndcg_at_10", &settings);
    let (figure, most) = figures.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let found = format!("nDCG@10 up to {} ({})", written(figure, most), figure.setting);
    let holds = ends(figure, most)[0] <= NOISY_QUALITY;
    judged(holds, found, format!("the interval of the largest reaches down to {NOISY_QUALITY}"))
}

/// Only the largest budget matches Shard's quality, and there rows are linked.
pub fn matches_are_linked(evidence: &Evidence) -> Option<Judged> {
    let matches = || {
        let all = evidence.figures("gaussian", "strict_matches", &[]);
        all.filter_map(|(figure, count)| Some((figure.number("epsilon")?, count)))
    };
    let below = matches().filter(|(epsilon, count)| *epsilon < MATCHED_AT && *count > 0.0);
    let below: Vec<String> =
        below.map(|(epsilon, count)| format!("{count} at {epsilon}")).collect();
    let (_, at) = matches().find(|(epsilon, _)| *epsilon == MATCHED_AT)?;
    let settings = ["epsilon=32768"];
    let links = evidence.figures("gaussian", "link_recall_at_1", &settings);
    let (figure, link) = links.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let cases = evidence.most("gaussian", "cases", &settings)?;
    let others = if below.is_empty() { "none".to_owned() } else { below.join(", ") };
    let found = format!(
        "{at} strict matches of {cases} cases at {MATCHED_AT}, below it {others}; links there at \
         least {}",
        written(figure, link)
    );
    let holds = at > 0.0 && below.is_empty() && ends(figure, link)[1] >= MATCHED_LINK;
    let rule = format!(
        "matches at {MATCHED_AT} and at no smaller budget, and the interval of the least link \
         reaches {MATCHED_LINK}"
    );
    judged(holds, found, rule)
}
