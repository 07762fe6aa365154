//! A filter from JSON, in the form that vector stores have in common: `{"year": {"$gte": 2020}}`.

use serde_json::Value;

use super::{Comparison, DEEPEST, Filter, FilterError, Scalar};

const OPERATORS: &str = "$eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $exists and $not, and beside fields $and, $or and $not";

impl Filter {
    /// Reads a filter in JSON: an object of fields, each with a value or with operators, all of which
    /// must hold.
    ///
    /// ```
    /// use shard_client::Filter;
    /// let json = serde_json::json!({"$or": [{"year": {"$gte": 2020}}, {"lang": "de"}]});
    /// assert_eq!(Filter::from_json(&json)?, "year >= 2020 or lang = de".parse()?);
    /// # Ok::<(), shard_client::FilterError>(())
    /// ```
    ///
    /// # Errors
    /// When it is anything else.
    pub fn from_json(json: &Value) -> Result<Self, FilterError> {
        filter(json, 0)
    }
}

fn wrong(words: String) -> FilterError {
    FilterError::Json(words)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn filter(json: &Value, depth: usize) -> Result<Filter, FilterError> {
    if depth > DEEPEST {
        return Err(FilterError::TooDeep);
    }
    let Value::Object(fields) = json else {
        return Err(wrong(format!("expected an object, found {}", kind(json))));
    };
    let part = |(name, value): (&String, &Value)| match name.as_str() {
        "$and" => Ok(Filter::all(several(name, value, depth)?)),
        "$or" => Ok(Filter::Any(several(name, value, depth)?)),
        "$not" => Ok(filter(value, depth + 1)?.not()),
        _ if name.starts_with('$') => Err(unknown(name)),
        _ => conditions(name, value, depth),
    };
    Ok(Filter::all(fields.iter().map(part).collect::<Result<Vec<_>, _>>()?))
}

fn unknown(operator: &str) -> FilterError {
    wrong(format!("the operator {operator:?} is not known: there are {OPERATORS}"))
}

fn several(name: &str, value: &Value, depth: usize) -> Result<Vec<Filter>, FilterError> {
    match value.as_array() {
        Some(parts) if !parts.is_empty() => {
            parts.iter().map(|part| filter(part, depth + 1)).collect()
        }
        _ => Err(wrong(format!("{name} takes a list of filters, with one at least"))),
    }
}

/// What is asked of one field.
fn conditions(field: &str, asked: &Value, depth: usize) -> Result<Filter, FilterError> {
    if depth > DEEPEST {
        return Err(FilterError::TooDeep);
    }
    let Value::Object(operators) = asked else {
        return compare(field, "$eq", Comparison::Equal, asked);
    };
    if operators.is_empty() {
        return Err(wrong(format!("the field {field:?} is asked nothing: {{}} has no operator")));
    }
    let part = |(operator, value): (&String, &Value)| condition(field, operator, value, depth);
    Ok(Filter::all(operators.iter().map(part).collect::<Result<Vec<_>, _>>()?))
}

fn condition(
    field: &str,
    operator: &str,
    value: &Value,
    depth: usize,
) -> Result<Filter, FilterError> {
    let compared = |comparison| compare(field, operator, comparison, value);
    match operator {
        "$eq" => compared(Comparison::Equal),
        "$ne" => Ok(compared(Comparison::Equal)?.not()),
        "$gt" => compared(Comparison::Greater),
        "$gte" => compared(Comparison::GreaterOrEqual),
        "$lt" => compared(Comparison::Less),
        "$lte" => compared(Comparison::LessOrEqual),
        "$in" => one_of(field, operator, value),
        "$nin" => Ok(one_of(field, operator, value)?.not()),
        "$exists" => match value {
            Value::Bool(true) => Ok(Filter::Exists { field: field.to_owned() }),
            Value::Bool(false) => Ok(Filter::Exists { field: field.to_owned() }.not()),
            _ => Err(wrong(format!("$exists takes true or false, found {}", kind(value)))),
        },
        "$not" => Ok(conditions(field, value, depth + 1)?.not()),
        _ if operator.starts_with('$') => Err(unknown(operator)),
        _ => Err(wrong(format!(
            "the field {field:?} is compared with an object: a field inside it is called \
             \"{field}.{operator}\""
        ))),
    }
}

fn compare(
    field: &str,
    operator: &str,
    comparison: Comparison,
    value: &Value,
) -> Result<Filter, FilterError> {
    let scalar = Scalar::of(value).ok_or_else(|| {
        let instead = if value.is_array() { ": $in takes a list" } else { "" };
        wrong(format!(
            "{operator} of {field:?} takes a single value, found {}{instead}",
            kind(value)
        ))
    })?;
    Ok(Filter::Compare { field: field.to_owned(), comparison, value: scalar })
}

fn one_of(field: &str, operator: &str, value: &Value) -> Result<Filter, FilterError> {
    let single = |value: &Value| {
        let found =
            || wrong(format!("{operator} of {field:?} takes single values, found {}", kind(value)));
        Scalar::of(value).ok_or_else(found)
    };
    let Value::Array(values) = value else {
        return Err(wrong(format!("{operator} of {field:?} takes a list, found {}", kind(value))));
    };
    let values = values.iter().map(single).collect::<Result<Vec<_>, _>>()?;
    Ok(Filter::OneOf { field: field.to_owned(), values })
}
