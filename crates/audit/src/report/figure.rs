//! Figures as people read them.

use super::channels::{Scope, scope};
use crate::blind::limit::DETECTED_FROM;
use crate::finding::{Finding, Section, Verdict};

/// A number with as many digits as its precision warrants.
pub fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "-".to_owned(),
        0.0 => "0".to_owned(),
        size if size < 1e-4 => format!("{value:.1e}"),
        size if size < 1e-2 => format!("{value:.4}"),
        size if size < 10.0 => format!("{value:.3}"),
        size if size < 1000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The value of a figure. A count, which neither chance nor an interval stands beside, is whole.
pub fn value(finding: &Finding) -> String {
    let is_count =
        finding.chance.is_none() && finding.ci95.is_none() && finding.value.fract() == 0.0;
    if is_count { format!("{:.0}", finding.value) } else { number(finding.value) }
}

/// An interval.
pub fn interval(ends: [f64; 2]) -> String {
    format!("[{}, {}]", number(ends[0]), number(ends[1]))
}

/// A metric's name for people: `recall_at_1` is "Recall@1".
pub fn metric(name: &str) -> String {
    const KNOWN: [(&str, &str); 6] = [
        ("auc", "AUC"),
        ("ndcg", "nDCG"),
        ("mrr", "MRR"),
        ("bleu", "BLEU"),
        ("nn", "NN"),
        ("tpr", "TPR"),
    ];
    let mut text = String::new();
    let mut words = name.split('_').peekable();
    while let Some(word) = words.next() {
        if word == "at" && words.peek().is_some_and(|next| next.starts_with(char::is_numeric)) {
            text.push('@');
            continue;
        }
        if !text.is_empty() && !text.ends_with('@') {
            text.push(' ');
        }
        match KNOWN.iter().find(|(known, _)| *known == word) {
            Some((_, written)) => text.push_str(written),
            None if text.is_empty() => text.push_str(&capitalised(word)),
            None => text.push_str(word),
        }
    }
    text
}

/// A setting in words: `overlap=25,granted=nothing` is "25 % of documents in both, nothing granted".
pub fn setting(text: &str) -> String {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(part_in_words).collect::<Vec<_>>().join(", ")
}

fn part_in_words(part: &str) -> String {
    const KNOWN: [(&str, &str); 32] = [
        ("subject=release", "your release"),
        ("subject=anew", "protected anew"),
        ("axes=owner", "your own axes"),
        ("axes=reference", "axes of a reference corpus"),
        ("axes=auxiliary", "axes of other documents"),
        ("disclosure=targeted", "pairs in the row's cell"),
        ("disclosure=diffuse", "pairs spread over all cells"),
        ("disclosure=none", "no disclosure"),
        ("pairs=0", "no known pair"),
        ("pairs=1", "1 known pair"),
        ("keys=one", "one key for all rows"),
        ("keys=cells", "one key per cell"),
        ("keys=micro", "one key per row"),
        ("granted=nothing", "nothing granted"),
        ("granted=cells", "matching of cells granted"),
        ("seen-by=server", "seen by the server"),
        ("seen-by=nobody", "not on this server"),
        ("order=sent", "in the order sent"),
        ("order=distance", "in the order of distance"),
        ("vectors=known", "vectors known"),
        ("vectors=stored", "stored rows only"),
        ("log=recorded", "recorded requests"),
        ("log=simulated", "simulated requests"),
        ("prefix=public", "public prefix"),
        ("prefix=none", "no prefix"),
        ("reading=coefficients", "read as coefficients"),
        ("reading=words", "read as stored words"),
        ("reading=answers", "read through answers"),
        ("known=same-block", "every other row of the block known"),
        ("known=anywhere", "2,000 known pairs from anywhere"),
        ("planted=correlation", "planted correlation"),
        ("planted=words-without-a-pad", "planted share of words without a pad"),
    ];
    if let Some((_, words)) = KNOWN.iter().find(|(known, _)| *known == part) {
        return (*words).to_owned();
    }
    match part.split_once('=') {
        Some(("pairs", pairs)) => format!("{pairs} known pairs"),
        Some(("overlap", percent)) => format!("{percent} % of documents in both"),
        Some((key, value)) => format!("{} {value}", key.replace('-', " ")),
        None => part.to_owned(),
    }
}

/// A verdict as one word.
pub fn verdict(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Open) => "open",
        Some(Verdict::Reduced) => "reduced",
        Some(Verdict::Closed) => "closed",
        None => "not measured",
    }
}

/// The verdict of a section as one word. What is seen without an attack has none.
pub fn verdict_of(section: &Section) -> &'static str {
    if scope(&section.name) == Scope::Seen { "seen" } else { verdict(section.verdict) }
}

/// How weak a leak the attacks of a section find, where that was measured.
pub fn detection_limit(section: &Section) -> Option<String> {
    let limit = section.findings.iter().find(|finding| finding.metric == DETECTED_FROM)?;
    Some(number(limit.value))
}

/// A finding as one sentence without its full stop: metric, value, interval, chance, setting.
pub fn sentence(finding: &Finding) -> String {
    let mut text = format!("{} {}", metric(&finding.metric), value(finding));
    if let Some(ends) = finding.ci95 {
        text += &format!(" {}", interval(ends));
    }
    if let Some(chance) = finding.chance {
        text += &format!(", where chance gives {}", number(chance));
    }
    if !finding.setting.is_empty() {
        text += &format!(" ({})", setting(&finding.setting));
    }
    text
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_digits_for_their_size() {
        let cases =
            [(0.0, "0"), (0.98765, "0.988"), (2e-5, "2.0e-5"), (0.0012, "0.0012"), (12.34, "12.3")];
        cases.iter().for_each(|(value, text)| assert_eq!(number(*value), *text));
        assert_eq!((number(8192.0), number(f64::NAN)), ("8192".into(), "-".into()));
        assert_eq!(interval([0.1, 0.25]), "[0.100, 0.250]");
        let finding = |value| Finding::new("c", "", "blocks", value);
        assert_eq!((value(&finding(81.0)), value(&finding(0.5))), ("81".into(), "0.500".into()));
        assert_eq!(value(&finding(1.0).chance(0.1)), "1.000");
    }

    #[test]
    fn metrics_read_as_the_field_writes_them() {
        let cases = [
            ("recall_at_1", "Recall@1"),
            ("nn_overlap_at_10", "NN overlap@10"),
            ("ndcg_at_10", "nDCG@10"),
            ("auc", "AUC"),
            ("token_f1", "Token f1"),
            ("look_at_me", "Look at me"),
        ];
        cases.iter().for_each(|(name, text)| assert_eq!(metric(name), *text));
    }

    #[test]
    fn settings_read_as_words() {
        let cases = [
            ("overlap=25,granted=nothing", "25 % of documents in both, nothing granted"),
            (
                "subject=release, axes=reference,pairs=1",
                "your release, axes of a reference corpus, 1 known pair",
            ),
            ("rank-by=cosine,system=gaussian=512", "rank by cosine, system gaussian=512"),
            (
                "reading=words,known=same-block",
                "read as stored words, every other row of the block known",
            ),
            ("whole", "whole"),
            ("", ""),
        ];
        cases.iter().for_each(|(keys, words)| assert_eq!(setting(keys), *words));
    }

    #[test]
    fn a_sentence_holds_what_a_reader_needs() {
        let finding = Finding::new("partial", "attack=ols,pairs=8", "recall_at_1", 0.5)
            .ci95([0.4, 0.6])
            .chance(0.001);
        let expected =
            "Recall@1 0.500 [0.400, 0.600], where chance gives 0.0010 (attack ols, 8 known pairs)";
        assert_eq!(sentence(&finding), expected);
    }
}
