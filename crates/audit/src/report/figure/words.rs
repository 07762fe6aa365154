//! Words for what findings and notes write as keys: settings, and names of attacks, views and metrics.

use super::{capitalised, metric};

/// Parts of settings that read best as a phrase of their own.
const PARTS: &[(&str, &str)] = &[
    ("subject=release", "your release"),
    ("subject=anew", "protected anew"),
    ("axes=owner", "your own axes"),
    ("axes=reference", "axes of a reference corpus"),
    ("axes=auxiliary", "axes of other documents"),
    ("disclosure=targeted", "pairs in the row's cell"),
    ("disclosure=diffuse", "pairs spread over all cells"),
    ("disclosure=none", "nothing disclosed"),
    ("pairs=0", "no known pair"),
    ("pairs=1", "1 known pair"),
    ("cells=micro", "one key per row"),
    ("cells=1", "1 cell"),
    ("rounds=1", "1 round"),
    ("keys=one", "one key for all rows"),
    ("keys=cells", "one key per cell"),
    ("keys=cell", "one key per cell"),
    ("keys=micro", "one key per row"),
    ("keys=haar", "Haar keys"),
    ("keys=structured", "structured keys"),
    ("key=none", "no key"),
    ("key=haar", "a Haar key"),
    ("protected=release", "as in your release"),
    ("protected=anew", "protected anew"),
    ("granted=nothing", "nothing granted"),
    ("granted=cells", "which cells correspond is granted"),
    ("seen-by=server", "seen by the server"),
    ("seen-by=nobody", "not on this server"),
    ("order=sent", "in the order sent"),
    ("order=distance", "in the order of distance"),
    ("vectors=known", "vectors known"),
    ("vectors=stored", "stored rows only"),
    ("log=recorded", "recorded requests"),
    ("log=simulated", "simulated requests"),
    ("prefix=public", "public prefix"),
    ("prefix=none", "no prefix on the server"),
    ("space=half", "half of the coordinates"),
    ("space=prefix", "the prefix alone"),
    ("rows=given", "rows as given"),
    ("rows=centred", "rows centred"),
    ("rows=unit-length", "rows at unit length"),
    ("coordinates=all", "all coordinates"),
    ("reading=coefficients", "read as coefficients"),
    ("reading=words", "read as stored words"),
    ("reading=answers", "read through answers"),
    ("known=same-block", "every other row of the block known"),
    ("known=anywhere", "up to 2,000 known pairs from anywhere"),
    ("among=all-rows", "among all rows"),
    ("among=rows-of-a-block", "among rows of a block"),
    ("planted=correlation", "planted correlation"),
    ("planted=words-without-a-pad", "planted share of words without a pad"),
];

/// Keys of the other parts, with what stands before and after the value.
const KEYS: &[(&str, &str, &str)] = &[
    ("attack", "by ", ""),
    ("linker", "by ", ""),
    ("trick", "by ", ""),
    ("single", "by ", " alone"),
    ("estimator", "by ", ""),
    ("defence", "by ", ""),
    ("rank-by", "ranked by ", ""),
    ("coordinates", "coordinates: ", ""),
    ("view", "", ""),
    ("system", "", ""),
    ("of", "", ""),
    ("test", "test of ", ""),
    ("pairs", "", " known pairs"),
    ("overlap", "", " % of documents in both"),
    ("cells", "", " cells"),
    ("rounds", "", " rounds"),
    ("width", "width ", ""),
    ("d_pub", "prefix of width ", ""),
    ("kept", "", " coordinates kept"),
    ("reference", "reference of ", " texts"),
    ("jitter", "jitter ", ""),
    ("subspaces", "", " subspaces"),
    ("bits", "", " bits each"),
    ("epsilon", "epsilon ", ""),
    ("gaussian", "Gaussian noise, epsilon ", ""),
    ("releases", "", " releases"),
    ("anchors", "", " anchors"),
    ("candidates", "", " candidates"),
    ("n", "", " rows"),
    ("format", "stored as ", ""),
    ("dataset", "", ""),
    ("data", "", ""),
    ("corpus", "", ""),
    ("encoder", "vectors of ", ""),
];

/// Names of attacks, linkers, views, systems and tests.
const NAMES: &[(&str, &str)] = &[
    ("ols", "least squares"),
    ("procrustes", "Procrustes"),
    ("procrustes-dropped", "Procrustes within the span of the pairs"),
    ("procrustes-span", "Procrustes within the span of the pairs"),
    ("ridge-0", "least squares in ridge form"),
    ("ridge-cv", "validated ridge"),
    ("polar", "the polar factor"),
    ("span", "matching within the span of the pairs"),
    ("gram", "matching inner products"),
    ("norm", "length alone"),
    ("norm-rank", "rank of length"),
    ("direct", "direct comparison"),
    ("share", "how often rows are asked for"),
    ("instability", "rows that come and go between alike requests"),
    ("company", "what requests for a row have in common"),
    ("twin", "rows that are asked for together"),
    ("equal-length", "nearly equal lengths"),
    ("length", "length"),
    ("nearest", "the nearest row of the cell"),
    ("mean", "the mean likeness to the cell"),
    ("one-per-cell", "the oddest row of each cell"),
    ("older-release", "lengths in an older release"),
    ("together", "all tricks together"),
    ("best", "the best trick"),
    ("model", "a linear map with noise"),
    ("marginals", "distributions of columns"),
    ("anchored", "a rotation fitted to likely matches"),
    ("known-pairs", "a map fitted to known pairs"),
    ("moments", "moments of the cloud"),
    ("refined", "moments of the cloud, refined"),
    ("as-stored", "rows as they are stored"),
    ("as-read", "rows as they are read"),
    ("structure", "structure of the keys"),
    ("difference", "size of the difference"),
    ("same-query", "telling one query from two"),
    ("which-query", "naming the query"),
    ("cross-key-cosine", "cosine across keys"),
    ("combined", "matching lengths and inner products"),
    ("prefix", "the prefix"),
    ("keyed-prefix", "the keyed prefix"),
    ("prefix-mutual-nearest", "mutually nearest prefixes"),
    ("centroid", "the mean of candidates"),
    ("log-rank", "the mean weighted by rank"),
    ("ridge-rank", "ridge on ranks"),
    ("aligned", "rows with all keys known"),
    ("raw", "raw vectors"),
    ("prefix-only", "the prefix alone"),
    ("prefix-if-public", "the prefix, if it were public"),
    ("prefix-adapted", "the prefix, by a decoder of its own"),
    ("prefix-adapted-if-public", "the prefix, if it were public, by a decoder of its own"),
    ("unknown-key", "rows without their key"),
    ("cell-mean", "the mean prefix of the pairs"),
    ("shard", "Shard"),
    ("global", "one rotation for all"),
    ("pq-only", "product-quantisation codes"),
    ("gaussian", "Gaussian noise"),
    ("gaussian-projection", "Gaussian projection"),
    ("orthogonal-projection", "orthogonal projection"),
    ("noise-1-percent", "numbers with 1 % noise"),
    ("clean", "exact numbers"),
    ("one-query-repeated", "one query, repeated"),
    ("same-cell", "the cell that both are in"),
];

/// A setting in words: `overlap=25,granted=nothing` is "25 % of documents in both, nothing granted".
pub fn setting(text: &str) -> String {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(part).collect::<Vec<_>>().join(", ")
}

fn part(part: &str) -> String {
    if let Some(words) = known_part(part) {
        return words;
    }
    let (key, value) = part.split_once('=').unwrap_or(("", part));
    format!("{} {}", plain(key), name(value)).trim().to_owned()
}

/// The words for a part whose key is in the lists above.
fn known_part(part: &str) -> Option<String> {
    if let Some((_, words)) = PARTS.iter().find(|(known, _)| *known == part) {
        return Some((*words).to_owned());
    }
    let (key, value) = part.split_once('=')?;
    let (_, before, after) = KEYS.iter().find(|(known, ..)| *known == key)?;
    Some(format!("{before}{}{after}", name(value)))
}

/// The name of an attack, a view or a system in words: `ols` is "least squares".
pub fn name(name: &str) -> String {
    match NAMES.iter().find(|(known, _)| *known == name) {
        Some((_, words)) => (*words).to_owned(),
        None => plain(name),
    }
}

/// The name of what is audited, which may end in a setting; directories in it stay as they are.
pub fn subject(text: &str) -> String {
    let word = |word: &str| known_part(word).unwrap_or_else(|| word.to_owned());
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// The name of a line of a plot: "ols, C = 64" is "least squares, 64 cells".
pub fn line(text: &str) -> String {
    let words = |part: &str| match part.strip_prefix("C = ") {
        Some("1") => "1 cell".to_owned(),
        Some(cells) => format!("{cells} cells"),
        None if part.contains(' ') => prose(part),
        None => name(part),
    };
    text.split(", ").map(words).collect::<Vec<_>>().join(", ")
}

/// A key without its marks.
fn plain(key: &str) -> String {
    let is_number = key.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    if is_number { key.to_owned() } else { key.replace(['-', '_', '='], " ") }
}

/// A sentence for people: names in backticks, settings and metrics become words.
pub fn prose(text: &str) -> String {
    let mut out = String::new();
    for (at, piece) in text.split('`').enumerate() {
        if at % 2 == 1 {
            let words = if is_key(piece) { key_in_words(piece) } else { spelled(piece) };
            push(&mut out, &words);
        } else {
            for token in piece.split_inclusive(char::is_whitespace) {
                let core = token.trim_matches(|c: char| !c.is_alphanumeric());
                match token.split_once(core).filter(|_| is_key(core)) {
                    Some((before, after)) => {
                        out.push_str(before);
                        push(&mut out, &key_in_words(core));
                        out.push_str(after);
                    }
                    None => out.push_str(token),
                }
            }
        }
    }
    out
}

/// Whether a word is a setting, a metric, or a name that is no word.
fn is_key(word: &str) -> bool {
    const NO_WORDS: [&str; 3] = ["gram", "ols", "procrustes"];
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    match word.split_once('=') {
        Some((key, value)) => !key.is_empty() && !value.is_empty() && key.chars().all(is_word),
        None if word.contains('_') => word.chars().all(is_word),
        None if word.contains('-') => NAMES.iter().any(|(known, _)| *known == word),
        None => NO_WORDS.contains(&word),
    }
}

fn key_in_words(key: &str) -> String {
    if key.contains('=') {
        return setting(key);
    }
    if !key.contains('_') {
        return name(key);
    }
    let words = metric(key);
    // A metric begins like a sentence; in the middle of one only what is always capital stays so.
    let is_plain = words.chars().skip(1).take_while(|c| !" @".contains(*c)).all(char::is_lowercase);
    if is_plain { words[..1].to_lowercase() + &words[1..] } else { words }
}

/// What stood in backticks and is no key: a flag stays, a name is spelled.
fn spelled(code: &str) -> String {
    if code.contains([' ', '/']) || code.starts_with('-') { code.to_owned() } else { name(code) }
}

/// Adds words, with a capital where a sentence begins.
fn push(out: &mut String, words: &str) {
    let before = out.trim_end();
    if before.is_empty() || before.ends_with(['.', '!', '?']) {
        out.push_str(&capitalised(words));
    } else {
        out.push_str(words);
    }
}

#[cfg(test)]
pub(in crate::report) fn unknown_parts(setting: &str) -> Vec<&str> {
    setting.split(',').filter(|part| !part.is_empty() && known_part(part).is_none()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_read_as_words() {
        let cases = [
            ("overlap=25,granted=nothing", "25 % of documents in both, nothing granted"),
            (
                "subject=release, axes=reference,pairs=1",
                "your release, axes of a reference corpus, 1 known pair",
            ),
            (
                "rank-by=cosine,system=gaussian,epsilon=512",
                "ranked by cosine, Gaussian noise, epsilon 512",
            ),
            (
                "reading=words,known=same-block",
                "read as stored words, every other row of the block known",
            ),
            ("attack=ols,pairs=64", "by least squares, 64 known pairs"),
            ("never-heard=of-it", "never heard of it"),
            ("level=-0.5", "level -0.5"),
            ("a=b=c", "a b c"),
            ("whole", "whole"),
            ("", ""),
        ];
        cases.iter().for_each(|(keys, words)| assert_eq!(setting(keys), *words));
    }

    #[test]
    fn sentences_lose_their_keys_and_keep_their_meaning() {
        let cases = [
            (
                "`ols` and `procrustes` are published; what it has (`in_cell_pairs`). `gram` is not.",
                "Least squares and Procrustes are published; what it has (in cell pairs). Matching \
                 inner products is not.",
            ),
            (
                "names 3.0 % by overlap=25,granted=nothing,linker=norm (chance 0.1 %).",
                "names 3.0 % by 25 % of documents in both, nothing granted, by length alone (chance \
                 0.1 %).",
            ),
            ("token-F1 0.3 (view=ols,pairs=8).", "token-F1 0.3 (least squares, 8 known pairs)."),
            ("auc_own_row_left_out is the control.", "AUC own row left out is the control."),
            (
                "The view norm, and as-stored, which. sigma_rec is a share.",
                "The view norm, and rows as they are stored, which. Sigma rec is a share.",
            ),
            ("the baseline `gaussian=512` of", "the baseline Gaussian noise, epsilon 512 of"),
            ("names 9 % (gram among 5)", "names 9 % (matching inner products among 5)"),
            ("what `release-churn` attacks", "what release churn attacks"),
            (
                "pass `--cells micro` for a well-known fact",
                "pass --cells micro for a well-known fact",
            ),
        ];
        for (text, words) in cases {
            assert_eq!(prose(text), words);
        }
    }

    #[test]
    fn directories_keep_their_names() {
        let vault = "the vault a_b/c-d=1 as gaussian=512";
        assert_eq!(subject(vault), "the vault a_b/c-d=1 as Gaussian noise, epsilon 512");
    }

    #[test]
    fn lines_of_plots_are_named_in_words() {
        assert_eq!(line("ols, C = 64"), "least squares, 64 cells");
        assert_eq!(line("gram, owner's axes"), "matching inner products, owner's axes");
        assert_eq!(line("length alone, among all rows"), "length alone, among all rows");
    }
}
