//! An id column and a list column, read row by row.

use std::fs::File;
use std::sync::Arc;

use ::parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::Field;
use ::parquet::schema::types::{Type, TypePtr};

use super::fields::object;
use crate::input::collect::{Collector, check_distinct, check_not_empty};
use crate::input::error::{InputError, InputProblem, Record};
use crate::input::texts::document_of;
use crate::input::{Documents, ID_COLUMN, TextDocument, VECTOR_COLUMN, first_line};

fn malformed(words: impl Into<String>) -> InputProblem {
    InputProblem::Malformed(words.into())
}

/// Reads a column of strings or integers and a column of lists of floats; all other columns are kept as
/// records.
pub(super) fn read(
    file: File,
    id_column: &str,
    vector_column: &str,
) -> Result<Documents, InputError> {
    let reader = open(file)?;
    let root = reader.metadata().file_metadata().schema();
    let id = column(root, id_column)?;
    let vector = column(root, vector_column)?;
    check_id(&id)?;
    check_vector(&vector)?;

    let failed = |error| malformed(first_line(&error));
    let mut collector = Collector::default();
    for (row, fields) in reader.get_row_iter(None).map_err(failed)?.enumerate() {
        let record = Record::Row(row);
        let in_column = |column: &str, problem: String| {
            record.with(malformed(format!("column {column:?} {problem}")))
        };
        let fields = fields.map_err(|error| record.with(failed(error)))?;
        let mut columns = fields.into_columns();
        let id = take(&mut columns, id_column);
        let vector = take(&mut columns, vector_column);
        let id = id_text(id).map_err(|problem| in_column(id_column, problem.to_owned()))?;
        let vector = floats(&vector).map_err(|problem| in_column(vector_column, problem))?;
        collector.push(record, id, vector.into_iter())?;
        collector.keep(object(columns).map_err(|words| record.with(malformed(words)))?);
    }
    collector.finish()
}

/// Reads documents as text, with all columns but that of vectors.
pub(super) fn read_texts(file: File) -> Result<Vec<TextDocument>, InputError> {
    let reader = open(file)?;
    let root = reader.metadata().file_metadata().schema();
    let id_column = if column(root, ID_COLUMN).is_err() && column(root, "_id").is_ok() {
        "_id"
    } else {
        ID_COLUMN
    };
    check_id(&*column(root, id_column)?)?;
    column(root, "text")?;
    let failed = |error| malformed(first_line(&error));
    let others = root.get_fields().iter().filter(|field| field.name() != VECTOR_COLUMN).cloned();
    let projection = Type::group_type_builder(root.name()).with_fields(others.collect());
    let projection = projection.build().map_err(failed)?;
    let mut texts: Vec<TextDocument> = Vec::new();
    for (row, fields) in reader.get_row_iter(Some(projection)).map_err(failed)?.enumerate() {
        let record = Record::Row(row);
        let wrong = |words: String| record.with(malformed(words));
        let mut columns = fields.map_err(|error| record.with(failed(error)))?.into_columns();
        let id = id_text(take(&mut columns, id_column))
            .map_err(|problem| wrong(format!("column {id_column:?} {problem}")))?;
        check_not_empty(&id, record)?;
        texts.push(document_of(id, object(columns).map_err(wrong)?).map_err(wrong)?);
    }
    let ids: Vec<String> = texts.iter().map(|text| text.id.clone()).collect();
    check_distinct(&ids, Record::Row)?;
    Ok(texts)
}

/// Whether there is a column of this name.
pub(super) fn has_column(file: File, name: &str) -> Result<bool, InputError> {
    let reader = open(file)?;
    Ok(column(reader.metadata().file_metadata().schema(), name).is_ok())
}

fn open(file: File) -> Result<SerializedFileReader<File>, InputProblem> {
    SerializedFileReader::new(file)
        .map_err(|error| malformed(format!("not a parquet file: {}", first_line(&error))))
}

/// Takes a column out of a row; null where it is not there.
fn take(columns: &mut Vec<(String, Field)>, name: &str) -> Field {
    let at = columns.iter().position(|(column, _)| column == name);
    at.map_or(Field::Null, |at| columns.remove(at).1)
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
