//! One index and those within it.

use std::fmt;
use std::io::Read;

use super::scalar::ScalarQuantiser;
use crate::MAX_DIMENSION;
use crate::bytes::{Bytes, Malformed, Parsed};

/// Indexes within indexes that are followed.
const MAX_DEPTH: usize = 4;

/// Rows of an index.
pub(super) struct Contents {
    pub(super) kind: Kind,
    /// Whether vectors were rounded when they were added.
    pub(super) lossy: bool,
    pub(super) dimension: usize,
    /// The id of each row: its number, or what it was added with.
    pub(super) numbers: Vec<i64>,
    pub(super) vectors: Vec<f32>,
}

/// What kind of index it is, as far as it matters for what is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Flat,
    Scalar,
    IdMap,
    Hnsw,
    Ivf,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flat => "flat",
            Self::Scalar => "of a scalar quantiser",
            Self::IdMap => "a map of ids",
            Self::Hnsw => "a graph (HNSW)",
            Self::Ivf => "of inverted lists (IVF)",
        })
    }
}

/// Why an index is not read.
#[derive(Debug)]
pub(super) enum Unread {
    Malformed(Malformed),
    Unsupported(String),
}

impl From<Malformed> for Unread {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// Fields that every index begins with.
struct Header {
    dimension: usize,
    rows: usize,
}

impl Header {
    fn read<R: Read>(bytes: &mut Bytes<R>) -> Parsed<Self> {
        let (dimension, rows) = (bytes.i32()?, bytes.u64()?);
        bytes.skip(2, 8)?;
        bytes.u8()?;
        if bytes.i32()? > 1 {
            bytes.skip(1, 4)?;
        }
        let fits = usize::try_from(dimension).ok().filter(|d| (1..=MAX_DIMENSION).contains(d));
        let dimension =
            fits.ok_or_else(|| Malformed(format!("vectors of dimension {dimension}")))?;
        // Whatever the kind, a row is at least a byte.
        let rows = usize::try_from(rows).ok().filter(|&rows| rows as u64 <= bytes.left());
        let rows =
            rows.ok_or_else(|| Malformed::new("more rows are announced than bytes are left"))?;
        Ok(Self { dimension, rows })
    }

    /// The rows of an index that holds them in order.
    fn with(self, kind: Kind, vectors: Vec<f32>) -> Parsed<Contents> {
        let Self { dimension, rows } = self;
        if vectors.len() != rows * dimension {
            let found = vectors.len();
            return Err(Malformed(format!("{found} values for {rows} rows of {dimension}")));
        }
        let lossy = kind == Kind::Scalar;
        Ok(Contents { kind, lossy, dimension, numbers: (0..rows as i64).collect(), vectors })
    }
}

/// Reads an index with those within it.
pub(super) fn read<R: Read>(bytes: &mut Bytes<R>, depth: usize) -> Result<Contents, Unread> {
    if depth > MAX_DEPTH {
        return Err(Malformed::new("indexes within indexes without end").into());
    }
    let name = bytes.u32()?.to_le_bytes();
    match &name {
        b"IxFI" | b"IxF2" | b"IxFl" => {
            let header = Header::read(bytes)?;
            let count = bytes.count()?;
            Ok(header.with(Kind::Flat, bytes.f32s(count)?)?)
        }
        b"IxSQ" => {
            let header = Header::read(bytes)?;
            let quantiser = ScalarQuantiser::read(bytes, header.dimension)?;
            let count = bytes.count()?;
            let vectors = quantiser.decode(&bytes.bytes(count, 1)?);
            Ok(header.with(Kind::Scalar, vectors)?)
        }
        b"IxMp" | b"IxM2" => mapped(bytes, depth),
        b"IHNf" | b"IHNs" => {
            let header = Header::read(bytes)?;
            skip_graph(bytes)?;
            let stored = read(bytes, depth + 1)?;
            if stored.dimension != header.dimension || stored.numbers.len() != header.rows {
                return Err(Malformed::new("a graph over vectors of another number or dimension").into());
            }
            Ok(Contents { kind: Kind::Hnsw, ..stored })
        }
        b"IwFl" => inverted(bytes, depth),
        b"null" => Err(Unread::Unsupported(
            "the vectors were left out when the graph was written; write the index with its storage".into(),
        )),
        _ => Err(refusal(name)),
    }
}

/// What is said of a kind that is not read.
fn refusal(name: [u8; 4]) -> Unread {
    let shown = String::from_utf8_lossy(&name).into_owned();
    let quantised = "the index keeps compressed codes, and the original vectors are not in the file; import \
                     them from where they were kept, or have FAISS write a flat index of them";
    Unread::Unsupported(match &name {
        b"IxPT" => "the index transforms vectors before it keeps them (IndexPreTransform), so the original \
                    vectors are not in the file"
            .into(),
        b"IxPq" | b"IxPo" | b"IxPQ" | b"IwPQ" | b"IwQR" | b"IvPQ" | b"IwPf" | b"IPfs" | b"IHNp" | b"IHN2" | b"IxRq"
        | b"IxRQ" | b"IxLS" | b"IxPR" | b"IxPL" | b"IwLS" | b"IwRQ" | b"IwPR" | b"IwPL" | b"Ix2L" | b"IxHe"
        | b"IwSh" | b"Ixrq" | b"Iwrq" | b"IxLa" | b"INSp" => format!("{quantised} ({shown})"),
        _ if name.iter().all(u8::is_ascii_alphanumeric) && name[0] == b'I' => {
            format!("an index of the kind {shown} is not read; IndexFlat, IndexIDMap, IndexIVFFlat, \
                     IndexHNSWFlat and IndexScalarQuantizer are")
        }
        _ => "this is not a file of faiss.write_index".into(),
    })
}

/// An index with an id for each of its rows.
fn mapped<R: Read>(bytes: &mut Bytes<R>, depth: usize) -> Result<Contents, Unread> {
    let header = Header::read(bytes)?;
    let inner = read(bytes, depth + 1)?;
    let count = bytes.count()?;
    let ids = bytes.i64s(count)?;
    if ids.len() != header.rows || inner.numbers.len() != header.rows {
        let (found, rows) = (ids.len(), inner.numbers.len());
        return Err(Malformed(format!("{found} ids for {rows} rows")).into());
    }
    let id = |&row: &i64| usize::try_from(row).ok().and_then(|row| ids.get(row).copied());
    let numbers: Option<Vec<i64>> = inner.numbers.iter().map(id).collect();
    let numbers = numbers.ok_or_else(|| Malformed::new("a row that has no id"))?;
    Ok(Contents { kind: Kind::IdMap, numbers, ..inner })
}

fn skip_graph<R: Read>(bytes: &mut Bytes<R>) -> Parsed<()> {
    for size in [8, 4, 4, 8, 4] {
        let count = bytes.count()?;
        bytes.skip(count, size)?;
    }
    bytes.skip(5, 4)
}

/// Rows in inverted lists, put in the order of their ids.
fn inverted<R: Read>(bytes: &mut Bytes<R>, depth: usize) -> Result<Contents, Unread> {
    let Header { dimension, rows } = Header::read(bytes)?;
    let lists = bytes.count()?;
    bytes.skip(1, 8)?;
    read(bytes, depth + 1)?; // centroids
    let direct = bytes.u8()?;
    let count = bytes.count()?;
    bytes.skip(count, 8)?;
    if direct == 2 {
        let count = bytes.count()?;
        bytes.skip(count, 16)?;
    }
    match &bytes.u32()?.to_le_bytes() {
        b"ilar" => {}
        b"il00" => {
            return Err(Unread::Unsupported(
                "the index was written without its inverted lists".into(),
            ));
        }
        _ => {
            return Err(Unread::Unsupported(
                "its inverted lists are in another file or form; have FAISS \
                                             write them as arrays"
                    .into(),
            ));
        }
    }
    let (found_lists, code) = (bytes.count()?, bytes.count()?);
    if found_lists != lists || code != dimension * 4 {
        return Err(Malformed::new("inverted lists of another shape than the index").into());
    }
    let sizes = list_sizes(bytes, lists)?;
    let total = sizes.iter().try_fold(0_usize, |sum, &size| sum.checked_add(size));
    if total != Some(rows) {
        return Err(
            Malformed(format!("inverted lists of another number of rows than {rows}")).into()
        );
    }
    let (mut numbers, mut values) = (Vec::new(), Vec::new());
    for size in sizes.into_iter().filter(|&size| size > 0) {
        let count =
            size.checked_mul(dimension).ok_or_else(|| Malformed::new("a list without end"))?;
        values.append(&mut bytes.f32s(count)?);
        numbers.append(&mut bytes.i64s(size)?);
    }
    let mut order: Vec<usize> = (0..rows).collect();
    order.sort_by_key(|&row| numbers[row]);
    let mut vectors = Vec::with_capacity(values.len());
    order
        .iter()
        .for_each(|&row| vectors.extend_from_slice(&values[row * dimension..][..dimension]));
    let numbers = order.iter().map(|&row| numbers[row]).collect();
    Ok(Contents { kind: Kind::Ivf, lossy: false, dimension, numbers, vectors })
}

/// How many rows each list has; lists without any may be left out.
fn list_sizes<R: Read>(bytes: &mut Bytes<R>, lists: usize) -> Result<Vec<usize>, Unread> {
    let form = bytes.u32()?.to_le_bytes();
    let count = bytes.count()?;
    let listed = bytes.u64s(count)?;
    let size = |size: u64| usize::try_from(size).map_err(|_| Malformed::new("a list without end"));
    match &form {
        b"full" if count == lists => Ok(listed.into_iter().map(size).collect::<Result<_, _>>()?),
        b"sprs" if count % 2 == 0 => {
            // Lists come in order, so no list of all of them is needed.
            let (pairs, _) = listed.as_chunks::<2>();
            let ordered = pairs.windows(2).all(|two| two[0][0] < two[1][0]);
            if !ordered || pairs.last().is_some_and(|last| last[0] >= lists as u64) {
                return Err(Malformed::new("inverted lists out of order").into());
            }
            Ok(pairs.iter().map(|pair| size(pair[1])).collect::<Result<_, _>>()?)
        }
        _ => Err(Malformed::new("sizes of inverted lists in an unknown form").into()),
    }
}
