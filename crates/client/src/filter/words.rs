//! A filter from words.
//!
//! ```text
//! any       = all { "or" all }
//! all       = part { "and" part }
//! part      = "not" part | "(" any ")" | condition
//! condition = field comparison value | field ["not"] "in" "(" value { "," value } ")"
//!           | field ["not"] "exists"
//! ```
//!
//! A field or a text stands in quotes where it has spaces, signs or the name of a word of the language. A
//! value without quotes is a number, `true`, `false` or `null` if it can be one, and a text otherwise.

use std::iter::Peekable;
use std::str::{CharIndices, FromStr};
use std::vec::IntoIter;

use super::{Comparison, DEEPEST, Filter, FilterError, LONGEST, Scalar};

impl FromStr for Filter {
    type Err = FilterError;

    /// Reads a filter in words.
    ///
    /// ```
    /// use shard_client::Filter;
    /// let filter: Filter = "year >= 2020 and not (lang in (en, de) or topic = \"heart disease\")".parse()?;
    /// assert_eq!(filter.fields(), ["year", "lang", "topic"]);
    /// # Ok::<(), shard_client::FilterError>(())
    /// ```
    fn from_str(text: &str) -> Result<Self, FilterError> {
        if text.len() > LONGEST {
            return Err(FilterError::TooLong(text.len()));
        }
        let mut parser = Parser { tokens: tokens(text)?.into_iter().peekable(), depth: 0 };
        let filter = parser.any()?;
        let (column, token) = parser.next();
        match token {
            Token::End => Ok(filter),
            found => Err(wrong(column, "`and`, `or` or the end", &found)),
        }
    }
}

/// A part of the text.
#[derive(Clone, PartialEq, Debug)]
enum Token {
    Word(String),
    Quoted(String),
    /// A comparison; `!=` is not one of its own.
    Sign(Comparison),
    Unequal,
    Open,
    Close,
    Comma,
    End,
}

impl Token {
    /// Whether it is this word of the language.
    fn is(&self, keyword: &str) -> bool {
        matches!(self, Self::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    fn is_keyword(&self) -> bool {
        ["and", "or", "not", "in", "exists"].iter().any(|keyword| self.is(keyword))
    }

    fn shown(&self) -> String {
        match self {
            Self::Word(word) => format!("`{}`", word.escape_debug()),
            Self::Quoted(text) => format!("{text:?}"),
            Self::Sign(_) | Self::Unequal => "a comparison".to_owned(),
            Self::Open => "`(`".to_owned(),
            Self::Close => "`)`".to_owned(),
            Self::Comma => "`,`".to_owned(),
            Self::End => "the end".to_owned(),
        }
    }
}

fn wrong(column: usize, expected: &str, found: &Token) -> FilterError {
    let mut problem = format!("expected {expected}, found {}", found.shown());
    if matches!(found, Token::Word(_)) {
        problem.push_str(" (a name or a text of several words stands in quotes)");
    }
    FilterError::Words { column, problem }
}

struct Parser {
    tokens: Peekable<IntoIter<(usize, Token)>>,
    depth: usize,
}

impl Parser {
    fn next(&mut self) -> (usize, Token) {
        self.tokens.next().unwrap_or((0, Token::End))
    }

    fn takes(&mut self, keyword: &str) -> bool {
        self.tokens.next_if(|(_, token)| token.is(keyword)).is_some()
    }

    fn any(&mut self) -> Result<Filter, FilterError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(FilterError::TooDeep);
        }
        let mut parts = vec![self.all()?];
        while self.takes("or") {
            parts.push(self.all()?);
        }
        self.depth -= 1;
        Ok(if parts.len() == 1 { parts.remove(0) } else { Filter::Any(parts) })
    }

    fn all(&mut self) -> Result<Filter, FilterError> {
        let mut parts = vec![self.part()?];
        while self.takes("and") {
            parts.push(self.part()?);
        }
        Ok(Filter::all(parts))
    }

    fn part(&mut self) -> Result<Filter, FilterError> {
        let mut is_not = false;
        while self.takes("not") {
            is_not = !is_not;
        }
        let part = if self.tokens.next_if(|(_, token)| *token == Token::Open).is_some() {
            let inner = self.any()?;
            self.expect(&Token::Close)?;
            inner
        } else {
            self.condition()?
        };
        Ok(if is_not { part.not() } else { part })
    }

    fn expect(&mut self, expected: &Token) -> Result<(), FilterError> {
        let (column, found) = self.next();
        if found == *expected { Ok(()) } else { Err(wrong(column, &expected.shown(), &found)) }
    }

    fn condition(&mut self) -> Result<Filter, FilterError> {
        let field = match self.next() {
            (_, Token::Quoted(field)) => field,
            (column, token) if token.is_keyword() => {
                return Err(wrong(column, "the name of a field", &token));
            }
            (_, Token::Word(field)) => field,
            (column, found) => return Err(wrong(column, "the name of a field", &found)),
        };
        let is_not = self.takes("not");
        let (column, token) = self.next();
        let condition = match token {
            token if token.is("in") => Filter::OneOf { field, values: self.list()? },
            token if token.is("exists") => Filter::Exists { field },
            Token::Sign(comparison) if !is_not => {
                Filter::Compare { field, comparison, value: self.value()? }
            }
            Token::Unequal if !is_not => {
                let comparison = Comparison::Equal;
                Filter::Compare { field, comparison, value: self.value()? }.not()
            }
            found => {
                let expected = "one of =, !=, <, <=, >, >=, `in` and `exists`";
                return Err(wrong(column, expected, &found));
            }
        };
        Ok(if is_not { condition.not() } else { condition })
    }

    fn list(&mut self) -> Result<Vec<Scalar>, FilterError> {
        self.expect(&Token::Open)?;
        let mut values = vec![self.value()?];
        loop {
            match self.next() {
                (_, Token::Comma) => values.push(self.value()?),
                (_, Token::Close) => return Ok(values),
                (column, found) => return Err(wrong(column, "`,` or `)`", &found)),
            }
        }
    }

    fn value(&mut self) -> Result<Scalar, FilterError> {
        match self.next() {
            (_, Token::Quoted(text)) => Ok(Scalar::Text(text)),
            (column, token) if token.is_keyword() => Err(wrong(column, "a value", &token)),
            (_, Token::Word(word)) => Ok(plain(word)),
            (column, found) => Err(wrong(column, "a value", &found)),
        }
    }
}

/// The value of a word without quotes.
fn plain(word: String) -> Scalar {
    match word.as_str() {
        "true" => return Scalar::Bool(true),
        "false" => return Scalar::Bool(false),
        "null" => return Scalar::Null,
        _ => {}
    }
    let number = serde_json::from_str::<serde_json::Number>(&word);
    number.map_or(Scalar::Text(word), |number| Scalar::of_number(&number))
}

/// The parts of a text, each with its column, and an end.
fn tokens(text: &str) -> Result<Vec<(usize, Token)>, FilterError> {
    let mut tokens = Vec::new();
    let mut rest = text.char_indices().peekable();
    let column = |at: usize| text[..at].chars().count() + 1;
    while let Some((at, sign)) = rest.next() {
        let has_equals =
            |rest: &mut Peekable<CharIndices<'_>>| rest.next_if(|(_, next)| *next == '=').is_some();
        let token = match sign {
            _ if sign.is_whitespace() => continue,
            '(' => Token::Open,
            ')' => Token::Close,
            ',' => Token::Comma,
            '=' => {
                has_equals(&mut rest);
                Token::Sign(Comparison::Equal)
            }
            '!' if has_equals(&mut rest) => Token::Unequal,
            '<' if rest.next_if(|(_, next)| *next == '>').is_some() => Token::Unequal,
            '<' if has_equals(&mut rest) => Token::Sign(Comparison::LessOrEqual),
            '<' => Token::Sign(Comparison::Less),
            '>' if has_equals(&mut rest) => Token::Sign(Comparison::GreaterOrEqual),
            '>' => Token::Sign(Comparison::Greater),
            '"' | '\'' => Token::Quoted(quoted(sign, &mut rest).ok_or_else(|| {
                let problem = format!("the quotation that begins with {sign} does not end");
                FilterError::Words { column: column(at), problem }
            })?),
            _ => {
                let mut end = at + sign.len_utf8();
                while let Some((at, next)) = rest.next_if(|(_, next)| is_of_word(*next)) {
                    end = at + next.len_utf8();
                }
                Token::Word(text[at..end].to_owned())
            }
        };
        tokens.push((column(at), token));
    }
    tokens.push((column(text.len()), Token::End));
    Ok(tokens)
}

fn is_of_word(sign: char) -> bool {
    !sign.is_whitespace() && !matches!(sign, '(' | ')' | ',' | '=' | '<' | '>' | '!' | '"' | '\'')
}

/// What is in quotes, after the first of them. A backslash stands before a quote or a backslash.
fn quoted(quote: char, rest: &mut Peekable<CharIndices<'_>>) -> Option<String> {
    let mut text = String::new();
    loop {
        match rest.next()?.1 {
            sign if sign == quote => return Some(text),
            '\\' => match rest.next()?.1 {
                sign if sign == quote || sign == '\\' => text.push(sign),
                sign => text.extend(['\\', sign]),
            },
            sign => text.push(sign),
        }
    }
}
