//! Which documents a search may return, by their fields: evaluated on the client, so that a server
//! learns nothing of it.
//!
//! A filter is written in words ([`Filter::from_str`](std::str::FromStr), `year >= 2020 and lang in (en, de)`) or as JSON in
//! the form that vector stores have in common ([`Filter::from_json`], `{"year": {"$gte": 2020}}`).
//!
//! * A field of an object inside a document is named with a dot, `author.name`.
//! * Of a list, one element that fits is enough.
//! * Numbers compare with numbers and texts with texts, by code points, so that dates as texts have
//!   their order; of values of two kinds neither is less, and they are not equal.
//! * A field that a document does not have fits no comparison; so `!=` and `not in` hold of it.
//!
//! | module | content |
//! |---|---|
//! | `words` | a filter from words |
//! | `json` | a filter from JSON |

mod json;
#[cfg(test)]
mod tests;
mod words;

use std::cmp::Ordering;

/// Conditions inside each other at most.
const DEEPEST: usize = 32;

/// Bytes of a filter in words at most.
const LONGEST: usize = 64 << 10;

/// Which documents a search may return.
#[derive(Clone, PartialEq, Debug)]
pub enum Filter {
    /// A field compared with a value.
    Compare {
        /// The field's name.
        field: String,
        /// How.
        comparison: Comparison,
        /// The value.
        value: Scalar,
    },
    /// A field that is one of some values.
    OneOf {
        /// The field's name.
        field: String,
        /// The values.
        values: Vec<Scalar>,
    },
    /// A field that is there, whatever it is.
    Exists {
        /// The field's name.
        field: String,
    },
    /// All of these; without any, everything.
    All(Vec<Filter>),
    /// At least one of these.
    Any(Vec<Filter>),
    /// What this does not hold of.
    Not(Box<Filter>),
}

/// How a field is compared with a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// The same.
    Equal,
    /// Less.
    Less,
    /// Less or the same.
    LessOrEqual,
    /// Greater.
    Greater,
    /// Greater or the same.
    GreaterOrEqual,
}

/// A single value.
#[derive(Clone, PartialEq, Debug)]
pub enum Scalar {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer.
    Integer(i128),
    /// Any other number.
    Real(f64),
    /// A text.
    Text(String),
}

/// Why a filter cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// Words that make no filter.
    #[error("filter, column {column}: {problem}")]
    Words {
        /// Where, counted from 1 in characters.
        column: usize,
        /// What was expected, and what was found.
        problem: String,
    },
    /// JSON that makes no filter.
    #[error("filter: {0}")]
    Json(String),
    /// Too many conditions inside each other.
    #[error("filter: conditions lie more than {DEEPEST} deep inside each other")]
    TooDeep,
    /// Too many words.
    #[error("filter: it is {0} bytes long, and at most {LONGEST} are read")]
    TooLong(usize),
    /// A field of which a document has more than is kept to filter by.
    #[error(
        "cannot filter by the field {0:?}: of some document it takes more than 1 KiB, and only \
         shorter ones are kept to filter by"
    )]
    LongField(String),
}

impl Filter {
    /// What all of the filters hold of.
    pub fn all(filters: impl IntoIterator<Item = Self>) -> Self {
        let mut filters: Vec<Self> = filters.into_iter().collect();
        if filters.len() == 1 { filters.remove(0) } else { Self::All(filters) }
    }

    /// The fields that it names, in its order; one may come twice.
    pub fn fields(&self) -> Vec<&str> {
        match self {
            Self::Compare { field, .. } | Self::OneOf { field, .. } | Self::Exists { field } => {
                vec![field]
            }
            Self::All(parts) | Self::Any(parts) => parts.iter().flat_map(Self::fields).collect(),
            Self::Not(inner) => inner.fields(),
        }
    }

    fn not(self) -> Self {
        Self::Not(Box::new(self))
    }
}

impl Comparison {
    /// Whether it holds of a value in this order to the one it is compared with.
    pub(crate) fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

impl Scalar {
    /// A single value of JSON; `None` for a list or an object.
    pub(crate) fn of(value: &serde_json::Value) -> Option<Self> {
        use serde_json::Value;
        Some(match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::of_number(number),
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(_) | Value::Object(_) => return None,
        })
    }

    fn of_number(number: &serde_json::Number) -> Self {
        let integer = number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
        integer.map_or_else(|| Self::Real(number.as_f64().unwrap_or(f64::NAN)), Self::Integer)
    }

    /// The order of two values of one kind; `None` of two kinds. An integer and another number are
    /// compared in double precision.
    pub(crate) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Null, Self::Null) => Some(Ordering::Equal),
            (Self::Bool(one), Self::Bool(other)) => Some(one.cmp(other)),
            (Self::Text(one), Self::Text(other)) => Some(one.cmp(other)),
            (Self::Integer(one), Self::Integer(other)) => Some(one.cmp(other)),
            _ => self.real()?.partial_cmp(&other.real()?),
        }
    }

    fn real(&self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(*value as f64),
            Self::Real(value) => Some(*value),
            _ => None,
        }
    }
}
