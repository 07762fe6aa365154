//! Figures as people read them.

mod words;

#[cfg(test)]
pub(super) use words::unknown_parts;
pub use words::{line, name, prose, setting, subject};

use super::channels::{Scope, scope};
use crate::finding::{DETECTED_FROM, Finding, Section, Verdict};
use crate::tools::evidence::ALARM;

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
    limit_of(section).map(|limit| number(limit.value))
}

/// The same as a sentence.
pub fn would_have_been_seen(section: &Section) -> Option<String> {
    let limit = limit_of(section)?;
    let leak = match limit.part("planted") {
        Some("correlation") => {
            format!("that gives each number a correlation of {} or more", limit.value)
        }
        Some("words-without-a-pad") => {
            format!("of one word in {} or more", count((1.0 / limit.value).round() as usize))
        }
        _ => {
            let metric = section.headline.and_then(|at| section.findings.get(at))?.metric.as_str();
            match metric {
                "auc" => format!("with an AUC of {} or more", number(limit.value)),
                "token_f1" => format!("with an F1 of {} or more", number(limit.value)),
                _ if limit.value <= 1.0 => format!("of {} or more", percent(limit.value)),
                _ => format!("of {} or more", number(limit.value)),
            }
        }
    };
    Some(format!("A leak {leak} would have been seen."))
}

fn limit_of(section: &Section) -> Option<&Finding> {
    section.findings.iter().find(|finding| finding.metric == DETECTED_FROM)
}

/// What a figure says of an attack, in one short phrase: "93 % of documents identified, 0.02 % by
/// guessing".
pub fn phrase(finding: &Finding) -> String {
    let share = percent(finding.value);
    let (found, guessed) = match finding.metric.as_str() {
        "recall_at_1" | "link_recall_at_1" => {
            let found = match finding.channel.as_str() {
                "release-linkage" | "release-churn" => "documents recognised",
                "request-leakage" => "queries named",
                _ => "documents identified",
            };
            (format!("{share} of {found}"), finding.chance.map(percent))
        }
        "nn_overlap_at_10" => {
            (format!("{share} of nearest neighbours shown"), finding.chance.map(percent))
        }
        "pairs_sharing_a_key" => (format!("{share} of pairs of rows can be compared"), None),
        "share_of_pairs_saved" => (format!("{share} of known pairs saved"), None),
        "auc" => (format!("right in {share} of comparisons"), finding.chance.map(percent)),
        "token_f1" => {
            (format!("words read with F1 {}", number(finding.value)), finding.chance.map(number))
        }
        "evidence_digits" => {
            let evidence = format!("{:.1} digits of evidence against noise", finding.value);
            (format!("{evidence}, the alarm is at {ALARM}"), None)
        }
        other => (format!("{}: {}", metric(other), value(finding)), finding.chance.map(number)),
    };
    let guessed = guessed.map_or(String::new(), |chance| format!(", {chance} by guessing"));
    let built = if finding.constructed { " (by construction)" } else { "" };
    format!("{found}{guessed}{built}")
}

/// A share of one as people write it. What is above zero is never written as zero, nor what is below
/// one as all.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        _ if !percent.is_finite() => "-".to_owned(),
        0.0 => "0 %".to_owned(),
        p if p > 0.0 && p < 0.01 => "below 0.01 %".to_owned(),
        p if p.abs() < 1.0 => format!("{p:.2} %"),
        p if p.abs() < 10.0 || (99.5..100.0).contains(&p) => {
            format!("{} %", (p * 10.0).floor() / 10.0)
        }
        p => format!("{p:.0} %"),
    }
}

/// A count with its thousands apart: 10,000.
pub fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
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

/// With a capital first letter.
pub(super) fn capitalised(word: &str) -> String {
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
    fn shares_are_neither_nothing_nor_all_unless_they_are() {
        let cases = [
            (0.0, "0 %"),
            (0.00001, "below 0.01 %"),
            (0.0002, "0.02 %"),
            (0.0345, "3.4 %"),
            (0.931, "93 %"),
            (0.9996, "99.9 %"),
            (1.0, "100 %"),
        ];
        cases.iter().for_each(|(share, text)| assert_eq!(percent(*share), *text));
        assert_eq!([count(7), count(5183), count(1_000_000)], ["7", "5,183", "1,000,000"]);
    }

    #[test]
    fn a_phrase_says_how_bad_it_is() {
        let recall = Finding::new("c", "", "recall_at_1", 0.93).chance(0.0002);
        assert_eq!(phrase(&recall), "93 % of documents identified, 0.02 % by guessing");
        let built = Finding::new("c", "", "code_bytes_per_row", 0.0).constructed();
        assert_eq!(phrase(&built), "Code bytes per row: 0 (by construction)");
    }

    #[test]
    fn limits_are_said_in_the_unit_that_was_planted() {
        let limit = |setting: &str, metric: &str, value: f64| {
            let mut section = Section::new("c", "C");
            section.findings = vec![
                Finding::new("c", "", metric, 0.5),
                Finding::new("c", setting, DETECTED_FROM, value),
            ];
            section.headline = Some(0);
            would_have_been_seen(&section).expect("a limit")
        };
        let cases = [
            (
                limit("planted=correlation", "auc", 0.1),
                "A leak that gives each number a correlation of 0.1 or more would have been seen.",
            ),
            (
                limit("planted=words-without-a-pad", "evidence_digits", 0.0001),
                "A leak of one word in 10,000 or more would have been seen.",
            ),
            (limit("", "recall_at_1", 0.012), "A leak of 1.2 % or more would have been seen."),
            (limit("", "auc", 0.53), "A leak with an AUC of 0.530 or more would have been seen."),
        ];
        cases.iter().for_each(|(said, expected)| assert_eq!(said, expected));
        assert_eq!(would_have_been_seen(&Section::new("c", "C")), None);
    }

    #[test]
    fn a_sentence_holds_what_a_reader_needs() {
        let finding = Finding::new("partial", "attack=ols,pairs=8", "recall_at_1", 0.5)
            .ci95([0.4, 0.6])
            .chance(0.001);
        let expected = "Recall@1 0.500 [0.400, 0.600], where chance gives 0.0010 (by least squares, 8 known pairs)";
        assert_eq!(sentence(&finding), expected);
    }
}
