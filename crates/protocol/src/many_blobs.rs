//! Many blobs in one message: what a publish of small blocks and a first fetch of hints send.

use crate::blobs::{read_bytes, read_name, write_bytes, write_name};
use crate::leak::{Disclosed, Leak, declassify};
use crate::names::BlobName;
use crate::wire::{DecodeError, Limits, MessageKind, Reader, Writer};

/// Names in one message at most.
const MOST: usize = 4096;

/// Stores blobs, all or none, each in place of one of the same name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PutBlobs {
    blobs: Disclosed<Vec<(BlobName, Vec<u8>)>>,
}

impl PutBlobs {
    /// Blobs in one message at most.
    pub const MOST: usize = MOST;

    /// Sealed bytes by name. Sorts them by name: the order in which they were made does not travel.
    ///
    /// # Panics
    /// When there are none or more than [`MOST`](Self::MOST), a name is there twice, or they were
    /// declassified as another leak than they are.
    pub fn new(blobs: Disclosed<Vec<(BlobName, Vec<u8>)>>) -> Self {
        let mut blobs = blobs.accounted_under(Leak::SealedBlobs).into_inner();
        assert!((1..=MOST).contains(&blobs.len()), "1 to {MOST} blobs");
        blobs.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        assert!(blobs.is_sorted_by(|a, b| a.0 < b.0), "a name for every blob");
        Self { blobs: declassify(blobs, Leak::SealedBlobs) }
    }

    /// Names and bytes, by name.
    pub fn blobs(&self) -> &[(BlobName, Vec<u8>)] {
        &self.blobs
    }

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::PutBlobs);
        writer.count(self.blobs.len());
        for (name, sealed) in self.blobs.iter() {
            write_name(&mut writer, name);
            write_bytes(&mut writer, sealed);
        }
        writer.bytes
    }

    /// Reads the wire form.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::PutBlobs, limits)?;
        let count = some_of(&mut reader)?;
        let mut blobs = Vec::new();
        for _ in 0..count {
            let name = read_name(&mut reader)?.into_inner();
            blobs.push((name, read_bytes(&mut reader, limits)?));
        }
        reader.finish()?;
        if !blobs.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(DecodeError::Order("blob names"));
        }
        Ok(Self::new(declassify(blobs, Leak::SealedBlobs)))
    }
}

macro_rules! by_names {
    ($(#[$doc:meta])* $message:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $message {
            names: Disclosed<Vec<BlobName>>,
        }

        impl $message {
            /// Names in one message at most.
            pub const MOST: usize = MOST;

            /// The blobs of these names.
            ///
            /// # Panics
            /// When there are none or more than [`MOST`](Self::MOST), or they were declassified as
            /// another leak than they are.
            pub fn new(names: Disclosed<Vec<BlobName>>) -> Self {
                assert!((1..=MOST).contains(&names.len()), "1 to {MOST} names");
                Self { names: names.accounted_under(Leak::SealedBlobs) }
            }

            /// The names.
            pub fn names(&self) -> &[BlobName] {
                &self.names
            }

            /// The wire form.
            pub fn encode(&self) -> Vec<u8> {
                let mut writer = Writer::new(MessageKind::$message);
                writer.count(self.names.len());
                self.names.iter().for_each(|name| write_name(&mut writer, name));
                writer.bytes
            }

            /// Reads the wire form.
            pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
                let mut reader = Reader::open(bytes, MessageKind::$message, limits)?;
                let mut names = Vec::new();
                for _ in 0..some_of(&mut reader)? {
                    names.push(read_name(&mut reader)?.into_inner());
                }
                reader.finish()?;
                Ok(Self::new(declassify(names, Leak::SealedBlobs)))
            }
        }
    };
}

by_names!(
    /// Asks for blobs.
    FetchBlobs
);
by_names!(
    /// Asks for blobs that [readers may have](BlobName::is_shared).
    FetchSharedMany
);

impl FetchSharedMany {
    /// The pages of records of these names: which says what is wanted, to within a page.
    ///
    /// # Panics
    /// As for [`new`](Self::new).
    pub fn pages(names: Disclosed<Vec<[u8; 16]>>) -> Self {
        let names = names.accounted_under(Leak::FetchedRecords).into_inner();
        let names = names.into_iter().map(BlobName::page).collect();
        Self::new(declassify(names, Leak::SealedBlobs))
    }
}

/// The blobs of the first of the names that were asked for: as many as fit into
/// [`MOST_BYTES`](Self::MOST_BYTES), at least one. Whoever asked asks again for the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blobs {
    /// Their bytes, in the order of the names; `None` where there is no such blob.
    pub blobs: Vec<Option<Vec<u8>>>,
}

impl Blobs {
    /// Bytes of an answer that a server does not go beyond with a second blob.
    pub const MOST_BYTES: usize = 32 << 20;

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::Blobs);
        let bytes: usize =
            self.blobs.iter().map(|blob| 5 + blob.as_ref().map_or(0, Vec::len)).sum();
        writer.bytes.reserve(4 + bytes);
        writer.count(self.blobs.len());
        for blob in &self.blobs {
            writer.u8(u8::from(blob.is_some()));
            if let Some(sealed) = blob {
                write_bytes(&mut writer, sealed);
            }
        }
        writer.bytes
    }

    /// Reads the wire form. A server that sends more blobs than it was asked for is not found out here.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::Blobs, limits)?;
        let mut blobs = Vec::new();
        for _ in 0..some_of(&mut reader)? {
            blobs.push(match reader.u8()? {
                0 => None,
                1 => Some(read_bytes(&mut reader, limits)?),
                _ => return Err(DecodeError::Invalid("a blob that is neither there nor not")),
            });
        }
        reader.finish()?;
        Ok(Self { blobs })
    }
}

/// A count of at least one.
fn some_of(reader: &mut Reader<'_>) -> Result<usize, DecodeError> {
    match reader.count("blobs of a message", MOST)? {
        0 => Err(DecodeError::Invalid("a message about no blob")),
        count => Ok(count),
    }
}
