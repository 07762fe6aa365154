//! Figures as people read them.

use crate::finding::{Finding, Verdict};

/// A number with as many digits as an audit deserves.
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

/// A setting with spaces after its commas, so that lines can break.
pub fn setting(text: &str) -> String {
    text.replace(',', ", ")
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

/// A finding as one sentence without its full stop: metric, value, interval, chance, setting.
pub fn sentence(finding: &Finding) -> String {
    let mut text = format!("{} {}", metric(&finding.metric), number(finding.value));
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
    fn numbers_have_the_digits_they_deserve() {
        let cases =
            [(0.0, "0"), (0.98765, "0.988"), (2e-5, "2.0e-5"), (0.0012, "0.0012"), (12.34, "12.3")];
        cases.iter().for_each(|(value, text)| assert_eq!(number(*value), *text));
        assert_eq!((number(8192.0), number(f64::NAN)), ("8192".into(), "-".into()));
        assert_eq!(interval([0.1, 0.25]), "[0.100, 0.250]");
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
    fn a_sentence_holds_what_a_reader_needs() {
        let finding = Finding::new("partial", "attack=ols,pairs=8", "recall_at_1", 0.5)
            .ci95([0.4, 0.6])
            .chance(0.001);
        let expected =
            "Recall@1 0.500 [0.400, 0.600], where chance gives 0.0010 (attack=ols, pairs=8)";
        assert_eq!(sentence(&finding), expected);
    }
}
