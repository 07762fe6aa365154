//! An id column and a list column, read row by row.

use std::fs::File;
use std::sync::Arc;

use ::parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::{Field, Row};
use ::parquet::schema::types::{Type, TypePtr};
use anyhow::{Result, anyhow, bail};

use crate::input::collect::{Collector, Place};
use crate::input::{Documents, first_line};

/// Reads a column of strings or integers and a column of lists of floats, and no other column.
pub(super) fn read(file: File, id_column: &str, vector_column: &str) -> Result<Documents> {
    let reader = SerializedFileReader::new(file)
        .map_err(|error| anyhow!("not a parquet file: {}", first_line(&error)))?;
    let root = reader.metadata().file_metadata().schema();
    let id = column(root, id_column)?;
    let vector = column(root, vector_column)?;
    check_id(&id)?;
    check_vector(&vector)?;

    let projection = Type::group_type_builder(root.name()).with_fields(vec![id, vector]).build()?;
    let mut collector = Collector::default();
    for (row, record) in reader.get_row_iter(Some(projection))?.enumerate() {
        let place = Place::Row(row);
        let record = record.map_err(|error| anyhow!("{place}: {}", first_line(&error)))?;
        let (id, vector) = fields(record).map_err(|problem| anyhow!("{place}: {problem}"))?;
        let id =
            id_text(id).map_err(|problem| anyhow!("{place}: column {id_column:?} {problem}"))?;
        let vector = floats(&vector)
            .map_err(|problem| anyhow!("{place}: column {vector_column:?} {problem}"))?;
        collector.push(place, id, vector.into_iter())?;
    }
    collector.finish()
}

fn column(root: &Type, name: &str) -> Result<TypePtr> {
    let found = root.get_fields().iter().find(|field| field.name() == name);
    found.map(Arc::clone).ok_or_else(|| {
        let names: Vec<&str> = root.get_fields().iter().map(|field| field.name()).collect();
        anyhow!("expected a column {name:?}, found {}", names.join(", "))
    })
}

fn check_id(id: &Type) -> Result<()> {
    let text_or_integer = id.is_primitive()
        && id.get_basic_info().repetition() != Repetition::REPEATED
        && match (id.get_physical_type(), id.get_basic_info().converted_type()) {
            (Physical::BYTE_ARRAY, kind) => {
                matches!(kind, ConvertedType::UTF8 | ConvertedType::NONE)
            }
            (Physical::INT32 | Physical::INT64, kind) => !matches!(
                kind,
                ConvertedType::DECIMAL
                    | ConvertedType::DATE
                    | ConvertedType::TIME_MILLIS
                    | ConvertedType::TIME_MICROS
                    | ConvertedType::TIMESTAMP_MILLIS
                    | ConvertedType::TIMESTAMP_MICROS
            ),
            _ => false,
        };
    if !text_or_integer {
        bail!("column {:?}: expected strings or integers, found {}", id.name(), kind(id));
    }
    Ok(())
}

/// Refuses all but `list<float>`, `list<double>` and `list<halffloat>`, in the standard form (a repeated group
/// around the element) or the old one (a repeated element). The row reader asserts what is checked here.
fn check_vector(vector: &Type) -> Result<()> {
    let wrong =
        || anyhow!("column {:?}: expected lists of floats, found {}", vector.name(), kind(vector));
    if vector.is_primitive() || vector.get_basic_info().converted_type() != ConvertedType::LIST {
        return Err(wrong());
    }
    let [repeated] = vector.get_fields() else { return Err(wrong()) };
    if repeated.get_basic_info().repetition() != Repetition::REPEATED {
        return Err(wrong());
    }
    let element = if repeated.is_primitive() {
        repeated
    } else {
        match repeated.get_fields() {
            [element]
                if element.is_primitive()
                    && element.get_basic_info().repetition() != Repetition::REPEATED =>
            {
                element
            }
            _ => return Err(wrong()),
        }
    };
    match element.get_physical_type() {
        Physical::FLOAT | Physical::DOUBLE => Ok(()),
        Physical::FIXED_LEN_BYTE_ARRAY
            if element.get_basic_info().logical_type_ref() == Some(&LogicalType::Float16) =>
        {
            Ok(())
        }
        _ => Err(anyhow!(
            "column {:?}: expected lists of floats, found lists of {}",
            vector.name(),
            kind(element)
        )),
    }
}

fn kind(column: &Type) -> String {
    match (column.is_primitive(), column.get_basic_info().converted_type()) {
        (true, ConvertedType::NONE) => column.get_physical_type().to_string(),
        (true, annotation) => format!("{} ({annotation})", column.get_physical_type()),
        (false, ConvertedType::NONE) => "a group".to_owned(),
        (false, annotation) => format!("a group ({annotation})"),
    }
}

fn fields(record: Row) -> Result<(Field, Field)> {
    let mut columns = record.into_columns().into_iter().map(|(_, field)| field);
    match (columns.next(), columns.next()) {
        (Some(id), Some(vector)) => Ok((id, vector)),
        _ => bail!("expected two columns"),
    }
}

fn id_text(id: Field) -> Result<String> {
    Ok(match id {
        Field::Str(text) => text,
        Field::Bytes(bytes) => bytes.as_utf8().map_err(|_| anyhow!("is not UTF-8"))?.to_owned(),
        Field::Byte(number) => number.to_string(),
        Field::Short(number) => number.to_string(),
        Field::Int(number) => number.to_string(),
        Field::Long(number) => number.to_string(),
        Field::UByte(number) => number.to_string(),
        Field::UShort(number) => number.to_string(),
        Field::UInt(number) => number.to_string(),
        Field::ULong(number) => number.to_string(),
        Field::Null => bail!("is null"),
        _ => bail!("is neither a string nor an integer"),
    })
}

fn floats(vector: &Field) -> Result<Vec<f64>> {
    let Field::ListInternal(list) = vector else { bail!("is null") };
    list.elements()
        .iter()
        .enumerate()
        .map(|(position, element)| match *element {
            Field::Float16(value) => Ok(value.to_f64()),
            Field::Float(value) => Ok(f64::from(value)),
            Field::Double(value) => Ok(value),
            _ => bail!("is null at position {position}"),
        })
        .collect()
}
