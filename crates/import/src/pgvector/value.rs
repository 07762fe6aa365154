//! A column's text as JSON.

use serde_json::{Number, Value};

/// What becomes of a column, by the type that PostgreSQL calls it by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    Truth,
    Number,
    Json,
    Text,
}

impl Class {
    pub(super) fn of(name: &str) -> Self {
        match name {
            "bool" => Self::Truth,
            "int2" | "int4" | "int8" | "float4" | "float8" | "numeric" => Self::Number,
            "json" | "jsonb" => Self::Json,
            _ => Self::Text,
        }
    }

    /// What the server wrote as text. What JSON's numbers do not hold exactly stays text.
    pub(super) fn value(self, text: String) -> Value {
        match self {
            Self::Truth if text == "true" => Value::Bool(true),
            Self::Truth if text == "false" => Value::Bool(false),
            Self::Number => number(&text).map_or(Value::String(text), Value::Number),
            Self::Json => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            Self::Truth | Self::Text => Value::String(text),
        }
    }
}

fn number(text: &str) -> Option<Number> {
    if let Ok(number) = text.parse::<i64>() {
        return Some(number.into());
    }
    let number: f64 = text.parse().ok()?;
    // Fifteen digits survive in a double; the shortest form of a real or a double has up to 17, and comes
    // back as it was.
    let digits = text.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    let exact = digits <= 15
        || format!("{number}") == text
        || format!("{number:e}") == text.replace("e+", "e");
    Number::from_f64(number).filter(|_| exact)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_keep_their_types_and_nothing_is_rounded() {
        let of = |name: &str, text: &str| Class::of(name).value(text.to_owned());
        assert_eq!(of("bool", "true"), json!(true));
        assert_eq!(of("int8", "9223372036854775807"), json!(9_223_372_036_854_775_807_i64));
        assert_eq!(of("float4", "0.1"), json!(0.1));
        assert_eq!(of("float8", "0.30000000000000004"), json!(0.300_000_000_000_000_04));
        assert_eq!(of("float8", "1e+100"), json!(1e100));
        assert_eq!(of("float8", "NaN"), json!("NaN"));
        assert_eq!(of("numeric", "12.50"), json!(12.5));
        assert_eq!(of("numeric", "12345678901234567890.5"), json!("12345678901234567890.5"));
        assert_eq!(of("jsonb", "{\"a\": [1, null]}"), json!({"a": [1, null]}));
        assert_eq!(of("timestamptz", "2024-01-01 00:00:00+00"), json!("2024-01-01 00:00:00+00"));
    }
}
