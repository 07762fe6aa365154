//! How a long text is cut into pieces.

use std::ops::Range;

use crate::EncodeError;

/// Ranges of at most `size` of these tokens, each of which but the first begins `overlap` tokens before the end of the
/// one before. A piece ends where its last token does and begins where its first does, moved outward to whole
/// characters; what lies between pieces is white space that no token covers.
pub(crate) fn pieces(
    text: &str,
    tokens: &[(usize, usize)],
    size: usize,
    overlap: usize,
) -> Result<Vec<Range<usize>>, EncodeError> {
    if size == 0 || overlap >= size {
        return Err(EncodeError::Pieces { size, overlap });
    }
    let mut pieces: Vec<Range<usize>> = Vec::new();
    let mut first = 0;
    while first < tokens.len() {
        let end = (first + size).min(tokens.len());
        let tokens_here = || tokens[first..end].iter();
        let begins = tokens_here().map(|token| token.0).min().unwrap_or(0);
        let ends = tokens_here().map(|token| token.1).max().unwrap_or(0);
        let range = text.floor_char_boundary(begins)..text.ceil_char_boundary(ends);
        // Tokens of normalisers that add characters have no width and make no piece.
        if !range.is_empty() && pieces.last() != Some(&range) {
            pieces.push(range);
        }
        if end == tokens.len() {
            break;
        }
        first = end - overlap;
    }
    Ok(pieces)
}

/// Words and punctuation marks of a text, for encoders whose tokenizer is not known: a run of letters and digits is one
/// token, every other visible character too.
pub(crate) fn words(text: &str) -> Vec<(usize, usize)> {
    let mut words: Vec<(usize, usize)> = Vec::new();
    let mut within = false;
    for (at, character) in text.char_indices() {
        let end = at + character.len_utf8();
        if character.is_alphanumeric() {
            match words.last_mut() {
                Some(word) if within => word.1 = end,
                _ => words.push((at, end)),
            }
            within = true;
        } else {
            within = false;
            if !character.is_whitespace() && !character.is_control() {
                words.push((at, end));
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_overlap_and_cover_every_word() {
        let text = "Zwölf Boxkämpfer, jagen (Viktor) quer über den großen Sylter Deich.";
        let tokens = words(text);
        assert_eq!(tokens.len(), 14);
        for size in 1..=tokens.len() + 1 {
            for overlap in 0..size {
                let pieces = pieces(text, &tokens, size, overlap).unwrap();
                let counts = pieces.iter().map(|piece| words(&text[piece.clone()]).len());
                assert!(counts.clone().all(|count| count <= size));
                assert_eq!(pieces[0].start, 0);
                assert_eq!(pieces.last().unwrap().end, text.len());
                for pair in pieces.windows(2) {
                    let shared =
                        text.get(pair[1].start..pair[0].end).map_or(0, |both| words(both).len());
                    assert_eq!(shared, overlap, "{size} {overlap}");
                    let between = text.get(pair[0].end..pair[1].start).unwrap_or("");
                    assert!(between.trim().is_empty(), "{between:?}");
                }
            }
        }
    }

    #[test]
    fn tokens_within_a_character_do_not_cut_it() {
        // Four bytes each; a tokenizer of bytes has four tokens for each.
        let text = "🦀🦀";
        let tokens: Vec<(usize, usize)> = (0..8).map(|at| (at, at + 1)).collect();
        let pieces = pieces(text, &tokens, 3, 1).unwrap();
        assert!(pieces.iter().all(|piece| text.get(piece.clone()).is_some()));
        assert_eq!(pieces.first().unwrap().start, 0);
        assert_eq!(pieces.last().unwrap().end, 8);
    }

    #[test]
    fn a_text_without_words_has_no_pieces() {
        assert!(pieces(" \n ", &words(" \n "), 8, 2).unwrap().is_empty());
    }

    #[test]
    fn pieces_that_do_not_advance_are_refused() {
        for (size, overlap) in [(0, 0), (1, 1), (4, 9)] {
            assert!(matches!(
                pieces("a b", &words("a b"), size, overlap),
                Err(EncodeError::Pieces { .. })
            ));
        }
    }
}
