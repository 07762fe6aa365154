//! Values of any column as JSON.

use ::parquet::record::{Field, Row};
use serde_json::{Map, Number, Value};

/// A row as JSON; cells that are null are none.
pub(super) fn object(columns: Vec<(String, Field)>) -> Result<Map<String, Value>, String> {
    let mut fields = Map::new();
    for (name, field) in columns {
        if field != Field::Null {
            let value = value(field).map_err(|problem| format!("column {name:?} {problem}"))?;
            fields.insert(name, value);
        }
    }
    Ok(fields)
}

fn value(field: Field) -> Result<Value, String> {
    Ok(match field {
        Field::Null => Value::Null,
        Field::Bool(value) => value.into(),
        Field::Byte(value) => value.into(),
        Field::Short(value) => value.into(),
        Field::Int(value) => value.into(),
        Field::Long(value) => value.into(),
        Field::UByte(value) => value.into(),
        Field::UShort(value) => value.into(),
        Field::UInt(value) => value.into(),
        Field::ULong(value) => value.into(),
        Field::Float16(value) => real(value.to_f64()),
        // As people write it: 0.1 and not what it is in double precision.
        Field::Float(value) => value.to_string().parse().map_or(Value::Null, real),
        Field::Double(value) => real(value),
        Field::Str(text) => text.into(),
        Field::Bytes(bytes) => bytes.as_utf8().map_err(|_| "is not UTF-8")?.into(),
        // Dates, times and decimals, as they are shown.
        other @ (Field::Decimal(_)
        | Field::Date(_)
        | Field::TimeMillis(_)
        | Field::TimeMicros(_)
        | Field::TimestampMillis(_)
        | Field::TimestampMicros(_)) => other.to_string().into(),
        Field::Group(group) => group_value(group)?,
        Field::ListInternal(list) => {
            let values = list.elements().iter().cloned().map(value);
            Value::Array(values.collect::<Result<_, _>>()?)
        }
        Field::MapInternal(map) => {
            let mut fields = Map::new();
            for (key, inner) in map.entries() {
                let key = match value(key.clone())? {
                    Value::String(key) => key,
                    other => other.to_string(),
                };
                fields.insert(key, value(inner.clone())?);
            }
            Value::Object(fields)
        }
    })
}

fn group_value(group: Row) -> Result<Value, String> {
    let fields = group.into_columns().into_iter().map(|(name, field)| Ok((name, value(field)?)));
    Ok(Value::Object(fields.collect::<Result<_, String>>()?))
}

/// A number; null where JSON has none.
fn real(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}
