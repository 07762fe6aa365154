//! Words, the vocabulary an attacker learns, and how much of a text a set of words gives back.
//!
//! With `E` the set of emitted words and `T` the set of the text's words:
//! `precision = |E n T| / |E|`, `recall = |E n T| / |T|`, `F1 = 2 |E n T| / (|E| + |T|)`.
//! `T` has every word of the text, also those the attacker's vocabulary lacks.

use std::collections::{HashMap, HashSet};

/// A text as its words, in order.
pub type Words = Vec<String>;

/// Runs of letters and digits, lower-cased, at most the first `limit`.
pub fn words(text: &str, limit: usize) -> Words {
    let runs = text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty());
    runs.take(limit).map(str::to_lowercase).collect()
}

/// Which words of a corpus make a vocabulary.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct VocabularyLimits {
    /// Fewest texts a word must be in.
    pub floor: usize,
    /// Largest share of the texts a word may be in; one keeps even the most common words.
    pub cap: f64,
    /// Most words, the most frequent first.
    pub size: usize,
}

impl Default for VocabularyLimits {
    /// Words of three texts or more, however common: the paper's token-F1 counts every word.
    fn default() -> Self {
        Self { floor: 3, cap: 1.0, size: 8000 }
    }
}

/// Words that a decoder can emit, the most frequent first.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    words: Vec<String>,
    numbers: HashMap<String, u32>,
    shares: Vec<f64>,
}

impl Vocabulary {
    /// The vocabulary of a corpus; words in as many texts are in alphabetical order.
    pub fn learn(texts: &[Words], limits: VocabularyLimits) -> Self {
        let mut frequencies: HashMap<&str, usize> = HashMap::new();
        for text in texts {
            distinct(text).into_iter().for_each(|word| *frequencies.entry(word).or_default() += 1);
        }
        let most = limits.cap * texts.len() as f64;
        let mut kept: Vec<(&str, usize)> = frequencies
            .into_iter()
            .filter(|&(_, count)| count >= limits.floor && count as f64 <= most)
            .collect();
        kept.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        kept.truncate(limits.size);
        let words: Vec<String> = kept.iter().map(|&(word, _)| word.to_owned()).collect();
        let numbers = words.iter().cloned().zip(0..).collect();
        let shares = kept.iter().map(|&(_, count)| count as f64 / texts.len() as f64).collect();
        Self { words, numbers, shares }
    }

    /// How many words it has.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// A word by its number.
    ///
    /// # Panics
    /// When there is no such word.
    pub fn word(&self, number: u32) -> &str {
        &self.words[number as usize]
    }

    /// The number of a word, if it is in the vocabulary.
    pub fn number(&self, word: &str) -> Option<u32> {
        self.numbers.get(word).copied()
    }

    /// The share of the corpus' texts that have each word.
    pub fn shares(&self) -> &[f64] {
        &self.shares
    }

    /// Distinct numbers of a text's words, rising; words it does not know are left out.
    pub fn indicators(&self, text: &Words) -> Vec<u32> {
        let mut numbers: Vec<u32> = text.iter().filter_map(|word| self.number(word)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}

/// How much of a text a set of words gives back.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Overlap {
    /// The share of emitted words that are in the text.
    pub precision: f64,
    /// The share of the text's words that were emitted.
    pub recall: f64,
    /// Their harmonic mean.
    pub f1: f64,
}

impl Overlap {
    /// From `|E n T|`, `|E|` and `|T|`.
    pub fn of_counts(shared: usize, emitted: usize, text: usize) -> Self {
        let share = |of: usize| if of == 0 { 0.0 } else { shared as f64 / of as f64 };
        let (precision, recall) = (share(emitted), share(text));
        let f1 = if shared == 0 { 0.0 } else { 2.0 * shared as f64 / (emitted + text) as f64 };
        Self { precision, recall, f1 }
    }

    /// Of emitted words with a text.
    pub fn of_words(emitted: &[&str], text: &Words) -> Self {
        let text = distinct(text);
        let emitted: HashSet<&str> = emitted.iter().copied().collect();
        Self::of_counts(emitted.intersection(&text).count(), emitted.len(), text.len())
    }
}

/// The distinct words of a text.
pub fn distinct(text: &Words) -> HashSet<&str> {
    text.iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corpus(texts: &[&str]) -> Vec<Words> {
        texts.iter().map(|text| words(text, 100)).collect()
    }

    #[test]
    fn words_are_lower_cased_runs_of_letters_and_digits() {
        assert_eq!(
            words("The p53-Protein, (Éclair) x2.", 9),
            ["the", "p53", "protein", "éclair", "x2"]
        );
        assert_eq!(words("one two three", 2), ["one", "two"]);
        assert!(words(" .,- ", 9).is_empty());
    }

    #[test]
    fn a_vocabulary_keeps_words_between_floor_and_cap() {
        let texts = corpus(&["the cat cat", "the dog", "the cat", "the bird dog"]);
        let all = Vocabulary::learn(&texts, VocabularyLimits { floor: 2, cap: 1.0, size: 9 });
        assert_eq!((all.len(), all.word(0), all.word(1), all.word(2)), (3, "the", "cat", "dog"));
        assert_eq!(all.shares(), [1.0, 0.5, 0.5]);
        assert_eq!(all.indicators(&texts[3]), [0, 2]);
        let rare = Vocabulary::learn(&texts, VocabularyLimits { floor: 1, cap: 0.5, size: 2 });
        assert_eq!((rare.len(), rare.number("the"), rare.number("cat")), (2, None, Some(0)));
    }

    #[test]
    fn overlap_is_of_sets_and_counts_unknown_words() {
        let text = words("to be or not to be", 9);
        let overlap = Overlap::of_words(&["to", "be", "happy"], &text);
        assert_eq!((overlap.precision, overlap.recall, overlap.f1), (2.0 / 3.0, 0.5, 4.0 / 7.0));
        assert_eq!(Overlap::of_words(&[], &text), Overlap::default());
        assert_eq!(Overlap::of_words(&["x"], &Words::new()), Overlap::default());
    }
}
