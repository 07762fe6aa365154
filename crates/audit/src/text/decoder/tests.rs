use super::super::encoder::{encode, pieces};
use super::super::records::notes;
use super::*;

const WIDTH: usize = 96;

fn corpus(count: usize) -> Vec<Words> {
    notes(count, 11).iter().map(|note| pieces(note)).collect()
}

/// The mean token-F1 of what is emitted, and of the most frequent words.
fn scores(decoder: &Decoder, vectors: &Matrix, texts: &[Words]) -> (f64, f64) {
    let f1 = |emitted: &[u32], text: &Words| Overlap::of_words(&decoder.sentence(emitted), text).f1;
    let readings = decoder.read(vectors);
    let read: Vec<f64> = readings.iter().zip(texts).map(|(words, text)| f1(words, text)).collect();
    let blind: Vec<f64> = texts.iter().map(|text| f1(decoder.blind(), text)).collect();
    (mean(&read), mean(&blind))
}

#[test]
fn words_are_read_out_of_vectors_that_have_them() {
    let texts = corpus(500);
    let vectors = encode(&texts, WIDTH, 1);
    let (train, test): (Vec<usize>, Vec<usize>) = ((0..400).collect(), (400..500).collect());
    let limits = VocabularyLimits::default();
    let decoder =
        Decoder::train(&vectors.select(&train), &texts[..400], limits, 5).expect("a decoder");
    let (read, blind) = scores(&decoder, &vectors.select(&test), &texts[400..]);
    assert!(read > 0.85 && blind < 0.5, "{read} against {blind}");
}

#[test]
fn noise_reads_as_the_most_frequent_words() {
    let texts = corpus(500);
    let noise = Matrix::normal(500, WIDTH, &mut generator(2, 0));
    let (train, test): (Vec<usize>, Vec<usize>) = ((0..400).collect(), (400..500).collect());
    let limits = VocabularyLimits::default();
    let decoder =
        Decoder::train(&noise.select(&train), &texts[..400], limits, 5).expect("a decoder");
    let (read, blind) = scores(&decoder, &noise.select(&test), &texts[400..]);
    assert!((read - blind).abs() < 0.05, "{read} against {blind}");
}

#[test]
fn weights_solve_the_normal_equations() {
    let texts = corpus(60);
    let vectors = encode(&texts, 8, 1);
    let vocabulary = Vocabulary::learn(&texts, VocabularyLimits::default());
    let fit = Fit::new(&vectors, &texts, &vocabulary).expect("a fit");
    let penalty = 0.1;
    let alpha = penalty * mean(&fit.eigenvalues);
    let weights = fit.ridge(penalty);
    let x = vectors.clone().minus(&fit.mean);
    for word in 0..vocabulary.len() {
        let has = |row: usize| texts[row].iter().any(|w| w == vocabulary.word(word as u32));
        // (X^T X + a I) w = X^T (y - p), one coordinate at a time.
        for i in 0..8 {
            let mut left = alpha * weights.row(word)[i];
            let mut right = 0.0;
            for row in 0..60 {
                let score: f64 = x.row(row).iter().zip(weights.row(word)).map(|(a, b)| a * b).sum();
                left += x.row(row)[i] * score;
                right +=
                    x.row(row)[i] * (f64::from(u8::from(has(row))) - vocabulary.shares()[word]);
            }
            assert!((left - right).abs() < 1e-9, "{left} {right}");
        }
    }
}

#[test]
fn the_link_is_the_log_odds_of_two_normal_laws() {
    let texts = corpus(80);
    let vectors = encode(&texts, 8, 1);
    let vocabulary = Vocabulary::learn(&texts, VocabularyLimits::default());
    let fit = Fit::new(&vectors, &texts, &vocabulary).expect("a fit");
    let (penalty, half_count, word) = (0.1, 5.0, 4_u32);
    let link = fit.link(&vocabulary, penalty, half_count);
    let scores =
        link.log_odds(vectors.clone().minus(&fit.mean).times_transposed(&fit.ridge(penalty)));

    // The means of either kind drawn together, S, and the two squared distances by brute force.
    let x = vectors.clone().minus(&fit.mean);
    let has: Vec<bool> =
        texts.iter().map(|text| text.iter().any(|w| w == vocabulary.word(word))).collect();
    let of = |kind: bool| (0..80).filter(|&row| has[row] == kind).collect::<Vec<usize>>();
    let column_mean = |rows: &[usize], i: usize| {
        mean(&rows.iter().map(|&row| x.row(row)[i]).collect::<Vec<f64>>())
    };
    let count = of(true).len() as f64;
    let trust = count / (count + half_count);
    let centre = |kind, i| trust * column_mean(&of(kind), i);
    let mut covariance = x.as_faer().transpose() * x.as_faer();
    (0..8).for_each(|i| covariance[(i, i)] += penalty * mean(&fit.eigenvalues));
    let inverse =
        (covariance / 80.0).self_adjoint_eigen(faer::Side::Lower).expect("it is symmetric");
    let distance = |row: usize, kind| -> f64 {
        let along = |at: usize| -> f64 {
            (0..8).map(|i| (x.row(row)[i] - centre(kind, i)) * inverse.U()[(i, at)]).sum()
        };
        (0..8).map(|at| along(at).powi(2) / inverse.S().column_vector()[at]).sum()
    };
    let prior = (count / (80.0 - count)).ln();
    for row in 0..80 {
        let expected = prior + (distance(row, false) - distance(row, true)) / 2.0;
        let found = scores.row(row)[word as usize];
        assert!((found - expected).abs() < 1e-8, "{found} {expected}");
    }
}

#[test]
fn the_best_threshold_is_that_of_a_search() {
    let texts = corpus(40);
    let vocabulary = Vocabulary::learn(&texts, VocabularyLimits::default());
    let scores = Matrix::normal(40, vocabulary.len(), &mut generator(4, 0));
    let (threshold, best) = best_threshold(&scores, &texts, &vocabulary);
    let mean_f1 = |threshold: f64| {
        let f1 = scores.iter().zip(&texts).map(|(scores, text)| {
            let emitted = emitted(scores, threshold);
            let words: Vec<&str> = emitted.iter().map(|&word| vocabulary.word(word)).collect();
            Overlap::of_words(&words, text).f1
        });
        mean(&f1.collect::<Vec<f64>>())
    };
    assert!((mean_f1(threshold) - best).abs() < 1e-12);
    assert!(THRESHOLDS.iter().all(|&t| mean_f1(log_odds(t)) <= best + 1e-12));
}

#[test]
fn a_corpus_that_teaches_nothing_is_refused() {
    let limits = VocabularyLimits::default();
    let train = |rows: usize, texts: &[Words]| {
        Decoder::train(&encode(&corpus(rows), 8, 1), texts, limits, 1).err().map(|e| e.to_string())
    };
    assert!(train(30, &corpus(29)).is_some_and(|e| e.contains("a text for each")));
    assert!(train(5, &corpus(5)).is_some_and(|e| e.contains("20 texts")));
    let strangers: Vec<Words> = (0..30).map(|at| vec![format!("word{at}")]).collect();
    assert!(train(30, &strangers).is_some_and(|e| e.contains("no word")));
}
