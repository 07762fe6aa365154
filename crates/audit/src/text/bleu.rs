//! BLEU-4 of one sentence, and an order for words that come as a set.
//!
//! `BLEU = b * (p_1 p_2 p_3 p_4)^(1/4)`, with `b = min(1, exp(1 - |reference| / |candidate|))` and
//! `p_n` the clipped n-gram precision: matches over n-grams of the candidate, to which one is added
//! above and below for n > 1 (Lin and Och, 2004). No shared word is zero.
//!
//! A decoder that emits a set has no order to be judged by. [`Bigrams::order`] gives it the one a
//! language model of two words would: it starts with the word that most often opens a text of the
//! attacker's corpus, and goes on with the word not used yet that most often followed the last.
//! Where nothing was ever seen to follow, the word of the highest score comes next.

use std::collections::HashMap;
use std::hash::Hash;

use super::tokens::{Vocabulary, Words};

/// The longest n-gram.
const LONGEST: usize = 4;

/// BLEU-4 of a candidate against one reference, both in order.
pub fn bleu<T: Eq + Hash>(candidate: &[T], reference: &[T]) -> f64 {
    if candidate.is_empty() {
        return 0.0;
    }
    let mut logarithms = 0.0;
    for n in 1..=LONGEST {
        let (found, there) = (counts(candidate, n), counts(reference, n));
        let matches: usize = found
            .iter()
            .map(|(gram, &count)| count.min(there.get(gram).copied().unwrap_or(0)))
            .sum();
        let total = (candidate.len() + 1).saturating_sub(n);
        let (matches, total) = match n {
            1 => (matches as f64, total as f64),
            _ => (matches as f64 + 1.0, total as f64 + 1.0),
        };
        if matches == 0.0 {
            return 0.0;
        }
        logarithms += (matches / total).ln();
    }
    let shortness = 1.0 - reference.len() as f64 / candidate.len() as f64;
    (logarithms / LONGEST as f64 + shortness.min(0.0)).exp()
}

fn counts<T: Eq + Hash>(words: &[T], n: usize) -> HashMap<&[T], usize> {
    let mut counts = HashMap::new();
    words.windows(n).for_each(|gram| *counts.entry(gram).or_default() += 1);
    counts
}

/// Which word follows which in a corpus, and which open its texts.
#[derive(Clone, Default, Debug)]
pub struct Bigrams {
    openings: HashMap<u32, u32>,
    follows: HashMap<(u32, u32), u32>,
}

impl Bigrams {
    /// Counts of neighbouring words that are both in the vocabulary.
    pub fn learn(texts: &[Words], vocabulary: &Vocabulary) -> Self {
        let mut bigrams = Self::default();
        for text in texts {
            let numbers: Vec<Option<u32>> = text.iter().map(|w| vocabulary.number(w)).collect();
            if let Some(&Some(first)) = numbers.first() {
                *bigrams.openings.entry(first).or_default() += 1;
            }
            for pair in numbers.windows(2) {
                if let [Some(first), Some(second)] = *pair {
                    *bigrams.follows.entry((first, second)).or_default() += 1;
                }
            }
        }
        bigrams
    }

    /// The words, given by falling score, in the order of a greedy walk.
    pub fn order(&self, words: &[u32]) -> Vec<u32> {
        let mut left = words.to_vec();
        let mut walk: Vec<u32> = Vec::with_capacity(words.len());
        while !left.is_empty() {
            let count = |&word: &u32| match walk.last() {
                None => self.openings.get(&word).copied().unwrap_or(0),
                Some(&last) => self.follows.get(&(last, word)).copied().unwrap_or(0),
            };
            // The first of the largest: the one with the higher score.
            let mut best = (0, 0);
            for (at, word) in left.iter().enumerate() {
                let count = count(word);
                if count > best.1 {
                    best = (at, count);
                }
            }
            walk.push(left.remove(best.0));
        }
        walk
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokens::{VocabularyLimits, words};
    use super::*;

    fn score(candidate: &str, reference: &str) -> f64 {
        bleu(&words(candidate, 99), &words(reference, 99))
    }

    #[test]
    fn bleu_is_the_geometric_mean_of_smoothed_precisions() {
        assert_eq!(score("a b c d e", "a b c d e"), 1.0);
        assert_eq!(score("x y", "a b"), 0.0);
        assert_eq!(score("", "a b"), 0.0);
        // Three of four words, one of three pairs, none of two triples and one quadruple.
        let expected = (0.75_f64 * (2.0 / 4.0) * (1.0 / 3.0) * (1.0 / 2.0)).powf(0.25);
        assert!((score("a b x c", "a b c d") - expected).abs() < 1e-12);
        // Two words of four: all that is there is right, the rest is missing.
        assert!((score("a b", "a b c d") - (-1.0_f64).exp()).abs() < 1e-12);
    }

    #[test]
    fn a_repeated_word_counts_as_often_as_the_reference_has_it() {
        let once = (0.25_f64 * (1.0 / 4.0) * (1.0 / 3.0) * (1.0 / 2.0)).powf(0.25);
        assert!((score("the the the the", "the cat sat down") - once).abs() < 1e-12);
    }

    #[test]
    fn a_walk_follows_the_corpus_and_then_the_scores() {
        let texts: Vec<Words> =
            ["the cat sat", "the cat ran", "a dog sat"].iter().map(|t| words(t, 9)).collect();
        let all = VocabularyLimits { floor: 1, cap: 1.0, size: 99 };
        let vocabulary = Vocabulary::learn(&texts, all);
        let bigrams = Bigrams::learn(&texts, &vocabulary);
        let numbers = |text: &str| vocabulary_numbers(&vocabulary, text);
        assert_eq!(bigrams.order(&numbers("sat cat the")), numbers("the cat sat"));
        assert_eq!(bigrams.order(&numbers("ran dog the")), numbers("the ran dog"));
        assert!(bigrams.order(&[]).is_empty());
    }

    fn vocabulary_numbers(vocabulary: &Vocabulary, text: &str) -> Vec<u32> {
        words(text, 9).iter().map(|word| vocabulary.number(word).expect("a known word")).collect()
    }
}
