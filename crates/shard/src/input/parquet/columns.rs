//! An id column and a list column, read row by row.

use std::fs::File;
use std::sync::Arc;

use ::parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::{Field, Row};
use ::parquet::schema::types::{Type, TypePtr};

use crate::input::collect::Collector;
use crate::input::error::{InputError, InputProblem, Record};
use crate::input::{Documents, first_line};

fn malformed(words: impl Into<String>) -> InputProblem {
    InputProblem::Malformed(words.into())
}

/// Reads a column of strings or integers and a column of lists of floats, and no other column.
pub(super) fn read(
    file: File,
    id_column: &str,
    vector_column: &str,
) -> Result<Documents, InputError> {
    let reader = SerializedFileReader::new(file)
        .map_err(|error| malformed(format!("not a parquet file: {}", first_line(&error))))?;
    let root = reader.metadata().file_metadata().schema();
    let id = column(root, id_column)?;
    let vector = column(root, vector_column)?;
    check_id(&id)?;
    check_vector(&vector)?;

    let failed = |error| malformed(first_line(&error));
    let projection = Type::group_type_builder(root.name())
        .with_fields(vec![id, vector])
        .build()
        .map_err(failed)?;
    let mut collector = Collector::default();
    for (row, fields) in reader.get_row_iter(Some(projection)).map_err(failed)?.enumerate() {
        let record = Record::Row(row);
        let in_column = |column: &str, problem: String| {
            record.with(malformed(format!("column {column:?} {problem}")))
        };
        let fields = fields.map_err(|error| record.with(failed(error)))?;
        let (id, vector) =
            id_and_vector(fields).ok_or_else(|| record.with(malformed("expected two columns")))?;
        let id = id_text(id).map_err(|problem| in_column(id_column, problem.to_owned()))?;
        let vector = floats(&vector).map_err(|problem| in_column(vector_column, problem))?;
        collector.push(record, id, vector.into_iter())?;
    }
    collector.finish()
}

fn column(root: &Type, name: &str) -> Result<TypePtr, InputProblem> {
    let found = root.get_fields().iter().find(|field| field.name() == name);
    found.map(Arc::clone).ok_or_else(|| {
        let names: Vec<&str> = root.get_fields().iter().map(|field| field.name()).collect();
        malformed(format!("expected a column {name:?}, found {}", names.join(", ")))
    })
}

fn check_id(id: &Type) -> Result<(), InputProblem> {
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
        let (name, kind) = (id.name(), kind(id));
        let words = format!("column {name:?}: expected strings or integers, found {kind}");
        return Err(malformed(words));
    }
    Ok(())
}

/// Refuses all but `list<float>`, `list<double>` and `list<halffloat>`, in the standard form (a repeated group
/// around the element) or the old one (a repeated element). The row reader asserts what is checked here.
fn check_vector(vector: &Type) -> Result<(), InputProblem> {
    let found = |what: String| {
        malformed(format!("column {:?}: expected lists of floats, found {what}", vector.name()))
    };
    let wrong = || found(kind(vector));
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
        _ => Err(found(format!("lists of {}", kind(element)))),
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

fn id_and_vector(row: Row) -> Option<(Field, Field)> {
    let mut columns = row.into_columns().into_iter().map(|(_, field)| field);
    Some((columns.next()?, columns.next()?))
}

fn id_text(id: Field) -> Result<String, &'static str> {
    Ok(match id {
        Field::Str(text) => text,
        Field::Bytes(bytes) => bytes.as_utf8().map_err(|_| "is not UTF-8")?.to_owned(),
        Field::Byte(number) => number.to_string(),
        Field::Short(number) => number.to_string(),
        Field::Int(number) => number.to_string(),
        Field::Long(number) => number.to_string(),
        Field::UByte(number) => number.to_string(),
        Field::UShort(number) => number.to_string(),
        Field::UInt(number) => number.to_string(),
        Field::ULong(number) => number.to_string(),
        Field::Null => return Err("is null"),
        _ => return Err("is neither a string nor an integer"),
    })
}

fn floats(vector: &Field) -> Result<Vec<f64>, String> {
    let Field::ListInternal(list) = vector else { return Err("is null".to_owned()) };
    list.elements()
        .iter()
        .enumerate()
        .map(|(position, element)| match *element {
            Field::Float16(value) => Ok(value.to_f64()),
            Field::Float(value) => Ok(f64::from(value)),
            Field::Double(value) => Ok(value),
            _ => Err(format!("is null at position {position}")),
        })
        .collect()
}
