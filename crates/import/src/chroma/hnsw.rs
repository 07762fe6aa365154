//! The folder of a vector segment, as hnswlib writes it.
//!
//! ```text
//! header.bin       version i32 = 1, offset u64, capacity u64, elements u64, bytes per element u64,
//!                  offset of the label u64, offset of the vector u64, and what the graph needs
//! data_level0.bin  elements: links (count u16, marks u8, u8, neighbours), vector of floats, label u64
//! length.bin       a float per element: what a vector was divided by, where angles are compared
//! ```
//!
//! The first mark says that an element was deleted.

use std::collections::HashMap;
use std::path::Path;

use super::pickle;
use crate::bytes::{self, Malformed, Parsed};
use crate::{ImportError, MAX_DIMENSION};

/// The file that says which label is which id.
pub(super) const NAMES: &str = "index_metadata.pickle";

/// The longest pickle that is read: ids of some tens of millions of documents.
const MAX_PICKLE_BYTES: u64 = 4 << 30;

/// Where the marks of an element are.
const MARKS: usize = 2;

/// What an index holds.
pub(super) struct Index {
    pub(super) vectors: HashMap<String, Vec<f32>>,
    /// The entry of the log up to which it has come, where the pickle says it.
    pub(super) reached: Option<i64>,
}

/// Sizes and places within an element.
struct Shape {
    elements: usize,
    element: usize,
    label: usize,
    vector: usize,
    dimension: usize,
}

/// Whether vectors were divided by their lengths when they were added, as they are where angles are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    AsTheyCame,
    Divided,
}

/// Reads the vectors of a folder, as they were added.
pub(super) fn read(
    folder: &Path,
    dimension: Option<usize>,
    stored: Stored,
) -> Result<Index, ImportError> {
    let names = folder.join(NAMES);
    let mut bytes = bytes::open(&names)?;
    let length = bytes.left();
    let wrong = |path: &Path| {
        let path = path.to_owned();
        move |Malformed(what): Malformed| ImportError::damaged(&path, what)
    };
    if length > MAX_PICKLE_BYTES {
        return Err(ImportError::damaged(&names, "too long"));
    }
    let pickled = bytes.bytes(length as usize, 1).map_err(wrong(&names))?;
    let pickle::Names { labels, reached } = pickle::names(&pickled).map_err(wrong(&names))?;

    let header = folder.join("header.bin");
    let shape = shape(&header, dimension).map_err(|error| match error {
        Ok(malformed) => wrong(&header)(malformed),
        Err(error) => error,
    })?;
    let lengths = folder.join("length.bin");
    let lengths = match stored {
        Stored::Divided => {
            bytes::open(&lengths)?.f32s(shape.elements).map_err(wrong(&lengths)).map(Some)?
        }
        Stored::AsTheyCame => None, // the file is there and was never filled
    };
    let data = folder.join("data_level0.bin");
    let mut bytes = bytes::open(&data)?;
    let mut by_label = HashMap::new();
    for at in 0..shape.elements {
        let element = bytes.bytes(shape.element, 1).map_err(wrong(&data))?;
        if element[MARKS] & 1 != 0 {
            continue;
        }
        let label = element[shape.label..][..8].try_into().expect("eight bytes are taken");
        let values = element[shape.vector..][..4 * shape.dimension].as_chunks::<4>().0;
        let length = lengths.as_ref().map_or(1.0, |lengths| lengths[at]);
        let vector: Vec<f32> =
            values.iter().map(|&value| f32::from_le_bytes(value) * length).collect();
        by_label.insert(u64::from_le_bytes(label), vector);
    }
    // A label without an element is a document without a vector, which is told of when it is read.
    let vectors =
        labels.into_iter().filter_map(|(id, label)| Some((id, by_label.remove(&label)?))).collect();
    Ok(Index { vectors, reached })
}

fn shape(path: &Path, dimension: Option<usize>) -> Result<Shape, Result<Malformed, ImportError>> {
    let mut bytes = bytes::open(path).map_err(Err)?;
    let mut parse = || -> Parsed<Shape> {
        if bytes.i32()? != 1 {
            return Err(Malformed::new("an index of hnswlib in another version than 1"));
        }
        bytes.u64()?;
        bytes.u64()?;
        let (elements, element) = (bytes.count()?, bytes.count()?);
        let (label, vector) = (bytes.count()?, bytes.count()?);
        // Links, then the vector, then the label at the end.
        let ordered = vector > MARKS && vector < label && label.checked_add(8) == Some(element);
        let width = label.saturating_sub(vector);
        if !ordered || !width.is_multiple_of(4) || width / 4 > MAX_DIMENSION || element > 1 << 24 {
            return Err(Malformed::new("elements of a shape that cannot be"));
        }
        let found = width / 4;
        match dimension {
            Some(dimension) if dimension != found => Err(Malformed(format!(
                "vectors of dimension {found} in a collection of dimension {dimension}"
            ))),
            _ => Ok(Shape { elements, element, label, vector, dimension: found }),
        }
    };
    parse().map_err(Ok)
}
