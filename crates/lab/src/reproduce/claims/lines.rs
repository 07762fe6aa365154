//! The paper's statements, in its order: the abstract's, hypotheses, threats to the baseline, claims about the
//! baseline, claims about Shard. Threats are put as "it protects against ...".

use super::Test::{Figures, Untestable};
use super::{Line, Test, judges, stated};

const fn line(
    source: &'static str,
    statement: &'static str,
    paper: &'static str,
    test: Test,
) -> Line {
    Line { source, statement, paper, test }
}

const NO_CHECKPOINTS: Test =
    Untestable("pretrained Vec2Text checkpoints and their encoders cannot be had here");
const PRIOR_STUDY: Test = Untestable("needs the prior study's encoders and corpora");
const BY_DESIGN: Test = Untestable("a matter of definition or construction, not of measurement");

pub(super) const LINES: &[Line] = &[
    line(
        "abstract",
        "Corrected scoring reproduces raw nDCG@10 and recall.",
        "in all ten configurations",
        Figures("utility", stated::quality_is_reproduced),
    ),
    line(
        "abstract",
        "Centring both sides loses nDCG@10.",
        "up to 0.080",
        Figures("utility", stated::centring_costs),
    ),
    line(
        "abstract",
        "Least squares recovers a useful signal far below the rank of a full key.",
        "supported",
        Figures("alignment", judges::no_threshold),
    ),
    line(
        "abstract",
        "Encrypted scores are near exact ones, and the first document stays the first.",
        "error at most 2.29e-6, no flip",
        Figures("ckks", stated::encrypted_scores_are_near),
    ),
    line(
        "abstract",
        "Packing cells into a ciphertext cuts the upload.",
        "by 74 to 87 %, by 86.7 % for e5-small with eight cells",
        Figures("ckks", stated::packing_cuts_upload),
    ),
    line(
        "abstract",
        "Packing cells into a ciphertext raises the median latency.",
        "by 14 to 26 %, by 26.3 % for e5-small with eight cells",
        Figures("ckks", stated::packing_takes_time),
    ),
    line(
        "abstract",
        "An unknown key lowers the token-F1 of a decoder.",
        "from .665 to .242",
        Figures("text", judges::unknown_key_suppresses_text),
    ),
    line(
        "abstract",
        "A wide prefix and eight pairs restore much of it.",
        "supported",
        Figures("text", stated::prefix_and_pairs_restore_text),
    ),
    line(
        "abstract",
        "Prefix and clean residual norm link rows that stay, at 25 to 90 % overlap.",
        "R@1 at least 0.9996",
        Figures("churn", stated::prefix_and_length_link),
    ),
    line(
        "abstract",
        "Linkage by the Gram matrix of a cell degrades under heavy churn.",
        "supported",
        Figures("churn", stated::gram_degrades),
    ),
    line(
        "abstract",
        "A Gaussian release with a budget of one cannot be searched.",
        "nDCG@10 at most 0.011",
        Figures("gaussian", stated::strong_noise_destroys_quality),
    ),
    line(
        "abstract",
        "Strict matches of quality occur only at a budget of 32768, where rows are linked.",
        "three, with R@1 at least 0.995",
        Figures("gaussian", stated::matches_are_linked),
    ),
    line(
        "H1",
        "More cells lower the rank of pairs in a cell and shift recovery, without a hard threshold.",
        "hypothesis, supported",
        Figures("alignment", judges::shift_without_threshold),
    ),
    line(
        "H2",
        "The corrected split score keeps the raw ranking; half of the coordinates may lose quality.",
        "hypothesis, supported",
        Figures("utility", judges::kept_whole_lost_by_half),
    ),
    line(
        "H3",
        "The short prefix shows fewer exact neighbours than a public half-space PQ index.",
        "hypothesis, supported",
        Figures("prefix` and `shard-lab reproduce pq", judges::prefix_shows_less_than_codes),
    ),
    line(
        "H4",
        "Cross-key cosine is no test of unlinkability: prefix, norm and Gram link releases.",
        "hypothesis, supported",
        Figures("linkage", judges::cosine_misses_what_others_link),
    ),
    line(
        "threat",
        "The baseline protects against off-the-shelf Vec2Text on a snapshot without the rotation.",
        "partial",
        NO_CHECKPOINTS,
    ),
    line("threat", "It protects against interception and leakage of scores.", "yes", BY_DESIGN),
    line("threat", "It protects against an attacker who knows the rotation.", "no", BY_DESIGN),
    line(
        "threat",
        "It protects against known pairs of text and row.",
        "no",
        Figures("procrustes", judges::rotation_withstands_pairs),
    ),
    line(
        "threat",
        "It protects against an overlapping reference corpus after alignment.",
        "partial",
        Figures("reference", judges::reference_is_no_use_after_alignment),
    ),
    line(
        "threat",
        "It protects against unsupervised translation between spaces.",
        "no; not evaluated",
        Untestable("a channel of `shard audit` (unsupervised-alignment), not a table of the paper"),
    ),
    line(
        "threat",
        "It protects against a learned decoder with known pairs.",
        "partial",
        Figures("text", judges::pairs_give_no_text),
    ),
    line(
        "threat",
        "It protects against a server that deviates from the protocol.",
        "no",
        Untestable("`cargo test -p shard-client --test cheating` plays such a server"),
    ),
    line(
        "threat",
        "It protects against leakage of candidate identifiers.",
        "no",
        Untestable("a channel of `shard audit` (request-leakage), not a table of the paper"),
    ),
    line(
        "threat",
        "It protects against leakage from public PQ codes.",
        "partial",
        Figures("pq", judges::codes_are_harmless),
    ),
    line("baseline", "CKKS hides query values and scores from the server.", "true", BY_DESIGN),
    line(
        "baseline",
        "Products of ciphertext and plaintext are faster than of two ciphertexts.",
        "true",
        Untestable("Shard has no product of two ciphertexts to compare with"),
    ),
    line(
        "baseline",
        "A secret rotation helps against off-the-shelf Vec2Text.",
        "true for the tested attacker",
        NO_CHECKPOINTS,
    ),
    line(
        "baseline",
        "Aligned off-the-shelf Vec2Text recovers text after Procrustes.",
        "not observed",
        NO_CHECKPOINTS,
    ),
    line(
        "baseline",
        "A secret rotation is robust to known-plaintext alignment.",
        "false",
        Figures("procrustes", judges::rotation_withstands_pairs),
    ),
    line(
        "baseline",
        "Public PQ codes are harmless metadata.",
        "false",
        Figures("pq", judges::codes_are_harmless),
    ),
    line(
        "baseline",
        "The protective wrapper preserves ranking.",
        "true",
        Figures("ckks", judges::encryption_keeps_the_order),
    ),
    line("baseline", "SVD truncation improves Acc@1.", "not significant", PRIOR_STUDY),
    line(
        "baseline",
        "SVD truncation significantly improves Acc@10 for retrieval-trained encoders of 1024.",
        "true in the prior study",
        PRIOR_STUDY,
    ),
    line(
        "baseline",
        "The denoiser generalises to real retrieval.",
        "false",
        Figures("utility", judges::half_never_loses),
    ),
    line(
        "baseline",
        "Reconstruction error alone measures document privacy.",
        "not claimed",
        Figures("sigma-rec", judges::distortion_measures_privacy),
    ),
    line(
        "baseline",
        "A query takes less than a second at a million documents.",
        "true",
        Untestable(
            "no collection of a million documents is at hand; `shard-lab bench` measures others",
        ),
    ),
    line(
        "baseline",
        "The system is secure against an adaptive inversion attacker.",
        "not claimed",
        Figures("text", judges::pairs_give_no_text),
    ),
    line(
        "baseline",
        "The system is secure against reference-corpus lookup.",
        "false when the reference overlaps",
        Figures("reference", judges::reference_is_no_use_after_alignment),
    ),
    line(
        "baseline",
        "The system is secure against unsupervised transfer between spaces.",
        "not claimed",
        Untestable("a channel of `shard audit` (unsupervised-alignment), not a table of the paper"),
    ),
    line(
        "baseline",
        "The rotation is a cryptographic guarantee.",
        "not claimed",
        Figures("procrustes", judges::rotation_withstands_pairs),
    ),
    line("baseline", "Document privacy on the server is cryptographic.", "not claimed", BY_DESIGN),
    line(
        "baseline",
        "No information leaks from the public PQ codes.",
        "not claimed",
        Figures("pq", judges::codes_are_harmless),
    ),
    line(
        "shard",
        "Corrected full-dimensional scoring preserves raw ranking.",
        "supported",
        Figures("utility", judges::ranking_is_kept),
    ),
    line(
        "shard",
        "Half-PCA alone causes the formerly reported loss of 2 to 8 points.",
        "false",
        Figures("utility", judges::half_alone_loses_two_points),
    ),
    line(
        "shard",
        "Cell keys create a hard threshold of recovery.",
        "false",
        Figures("alignment", judges::threshold),
    ),
    line(
        "shard",
        "An unknown cell key suppresses reconstruction of text.",
        "supported in one strengthened case",
        Figures("text", judges::unknown_key_suppresses_text),
    ),
    line(
        "shard",
        "More cells compartmentalise diffuse known pairs.",
        "supported",
        Figures("alignment", judges::cells_compartmentalise),
    ),
    line(
        "shard",
        "The public prefix leaks less than the baseline's index.",
        "supported",
        Figures("prefix", judges::prefix_shows_less_than_half),
    ),
    line(
        "shard",
        "Micro-keys remove shared residual edges and are unlinkable.",
        "first half supported, second false",
        Figures("prefix` and `shard-lab reproduce churn", judges::micro_keys_hide),
    ),
    line(
        "shard",
        "The earlier Gaussian perturbation was a DP baseline.",
        "false: it had no adjacency, clipping or accounting",
        Untestable(
            "it is not ours to run; `shard-lab reproduce gaussian` has its calibrated successor",
        ),
    ),
    line(
        "shard",
        "Shard's in-process cryptographic path is measured, and keeps the order of the shortlist.",
        "supported for the local path",
        Figures("ckks", judges::encryption_keeps_the_order),
    ),
    line("shard", "Shard itself is differentially private.", "false", BY_DESIGN),
    line(
        "shard",
        "Shard hides the neighbour graph.",
        "not claimed",
        Figures("prefix", judges::neighbours_are_hidden),
    ),
    line(
        "shard",
        "Shard with a public prefix stops an overlapping reference lookup.",
        "false",
        Figures("reference", judges::reference_is_no_use_by_prefix),
    ),
    line(
        "shard",
        "Shard's keys are a cryptographic guarantee.",
        "not claimed",
        Figures("alignment", judges::keys_are_a_guarantee),
    ),
];
