//! Sealed bytes that a server keeps for the owner and cannot read: a vault's backup, payloads.
//!
//! A blob is at most one message long; what is longer is stored in pieces under names of its
//! own. What is inside was sealed by the client before it came here.

use crate::block_list::BlockList;
use crate::leak::{Disclosed, Leak, declassify};
use crate::names::{BlobName, CommitName};
use crate::records::RecordList;
use crate::wire::{DecodeError, Limits, MessageKind, Reader, Writer};

/// Stores a blob, in place of one of the same name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PutBlob {
    name: Disclosed<BlobName>,
    sealed: Disclosed<Vec<u8>>,
}

impl PutBlob {
    /// Sealed bytes under a name.
    pub fn new(name: Disclosed<BlobName>, sealed: Disclosed<Vec<u8>>) -> Self {
        Self {
            name: name.accounted_under(Leak::SealedBlobs),
            sealed: sealed.accounted_under(Leak::SealedBlobs),
        }
    }

    /// The list of the blocks of a commit, which the server reads. All that is in it was declassified
    /// when the list was made.
    pub fn block_list(commit: Disclosed<CommitName>, list: &BlockList) -> Self {
        let commit = commit.accounted_under(Leak::CollectionShape);
        Self {
            name: declassify(BlobName::blocks(*commit), Leak::SealedBlobs),
            sealed: declassify(list.encode(), Leak::SealedBlobs),
        }
    }

    /// The list of the records of a commit, as [`PutBlob::block_list`].
    pub fn record_list(commit: Disclosed<CommitName>, list: &RecordList) -> Self {
        let commit = commit.accounted_under(Leak::CollectionShape);
        Self {
            name: declassify(BlobName::records(*commit), Leak::SealedBlobs),
            sealed: declassify(list.encode(), Leak::SealedBlobs),
        }
    }

    /// The name.
    pub fn name(&self) -> &BlobName {
        &self.name
    }

    /// The bytes.
    pub fn sealed(&self) -> &[u8] {
        &self.sealed
    }

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::PutBlob);
        write_name(&mut writer, &self.name);
        write_bytes(&mut writer, &self.sealed);
        writer.bytes
    }

    /// Reads the wire form.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::PutBlob, limits)?;
        let name = read_name(&mut reader)?;
        let sealed = read_bytes(&mut reader, limits)?;
        reader.finish()?;
        Ok(Self::new(name, declassify(sealed, Leak::SealedBlobs)))
    }
}

macro_rules! by_name {
    ($(#[$doc:meta])* $message:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $message {
            name: Disclosed<BlobName>,
        }

        impl $message {
            /// The blob of a name.
            pub fn new(name: Disclosed<BlobName>) -> Self {
                Self { name: name.accounted_under(Leak::SealedBlobs) }
            }

            /// The name.
            pub fn name(&self) -> &BlobName {
                &self.name
            }

            /// The wire form.
            pub fn encode(&self) -> Vec<u8> {
                let mut writer = Writer::new(MessageKind::$message);
                write_name(&mut writer, &self.name);
                writer.bytes
            }

            /// Reads the wire form.
            pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
                let mut reader = Reader::open(bytes, MessageKind::$message, limits)?;
                let name = read_name(&mut reader)?;
                reader.finish()?;
                Ok(Self::new(name))
            }
        }
    };
}

by_name!(
    /// Asks for a blob.
    FetchBlob
);
by_name!(
    /// Asks for a blob that [readers may have](BlobName::is_shared).
    FetchShared
);
by_name!(
    /// Removes a blob. A name that is not there is not an error.
    DeleteBlob
);

/// A blob that was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blob {
    /// Its bytes, sealed.
    pub sealed: Vec<u8>,
}

impl Blob {
    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::Blob);
        write_bytes(&mut writer, &self.sealed);
        writer.bytes
    }

    /// Reads the wire form.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::Blob, limits)?;
        let sealed = read_bytes(&mut reader, limits)?;
        reader.finish()?;
        Ok(Self { sealed })
    }
}

/// Asks for the names of a collection's blobs, in their order, from after a name on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListBlobs {
    after: Option<Disclosed<BlobName>>,
    most: usize,
}

impl ListBlobs {
    /// The page after a name, of at most so many names; the first page after `None`.
    ///
    /// # Panics
    /// When `most` is zero or more than [`BlobList::PAGE`].
    pub fn new(after: Option<Disclosed<BlobName>>, most: usize) -> Self {
        assert!((1..=BlobList::PAGE).contains(&most), "a page has 1 to {} names", BlobList::PAGE);
        Self { after: after.map(|name| name.accounted_under(Leak::SealedBlobs)), most }
    }

    /// The name after which the page begins.
    pub fn after(&self) -> Option<&BlobName> {
        self.after.as_deref()
    }

    /// Names on the page at most.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::ListBlobs);
        match self.after() {
            Some(name) => write_name(&mut writer, name),
            None => writer.u8(0), // no name is empty
        }
        writer.count(self.most);
        writer.bytes
    }

    /// Reads the wire form.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::ListBlobs, limits)?;
        let after = match reader.u8()? {
            0 => None,
            length => Some(read_name_of(&mut reader, length)?),
        };
        let most = reader.count("names on a page", BlobList::PAGE)?;
        reader.finish()?;
        if most == 0 {
            return Err(DecodeError::Invalid("a page of no names"));
        }
        Ok(Self::new(after, most))
    }
}

/// One page of a collection's blobs with their lengths: the answer to [`ListBlobs`]. The last page is
/// the one that has fewer than were asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlobList {
    /// Names and lengths, ascending by name.
    pub blobs: Vec<(BlobName, u64)>,
}

impl BlobList {
    /// Names on a page at most: 2.3 MB.
    pub const PAGE: usize = 16_384;

    /// Blobs that a collection can have. A million documents take some 16,000 to 63,000, by their
    /// width, so tens of versions that share nothing fit.
    pub const MOST: usize = 1 << 21;

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::BlobList);
        writer.count(self.blobs.len());
        for (name, length) in &self.blobs {
            write_name(&mut writer, name);
            writer.u64(*length);
        }
        writer.bytes
    }

    /// Reads the wire form.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::BlobList, limits)?;
        let count = reader.count("blobs", Self::PAGE)?;
        let mut blobs = Vec::new();
        for _ in 0..count {
            blobs.push((read_name(&mut reader)?.into_inner(), reader.u64()?));
        }
        reader.finish()?;
        if !blobs.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(DecodeError::Order("blob names"));
        }
        Ok(Self { blobs })
    }
}

pub(crate) fn write_name(writer: &mut Writer, name: &BlobName) {
    writer.u8(u8::try_from(name.as_str().len()).expect("names are at most 128 bytes"));
    writer.raw(name.as_str().as_bytes());
}

pub(crate) fn read_name(reader: &mut Reader<'_>) -> Result<Disclosed<BlobName>, DecodeError> {
    let length = reader.u8()?;
    read_name_of(reader, length)
}

fn read_name_of(reader: &mut Reader<'_>, length: u8) -> Result<Disclosed<BlobName>, DecodeError> {
    let text = std::str::from_utf8(reader.take(length.into())?).unwrap_or_default();
    let name = text.parse().map_err(|_| DecodeError::Invalid("a blob's name that is none"))?;
    Ok(declassify(name, Leak::SealedBlobs))
}

pub(crate) fn write_bytes(writer: &mut Writer, bytes: &[u8]) {
    writer.count(bytes.len());
    writer.raw(bytes);
}

pub(crate) fn read_bytes(reader: &mut Reader<'_>, limits: &Limits) -> Result<Vec<u8>, DecodeError> {
    let length = reader.count("bytes of a blob", limits.bytes)?;
    Ok(reader.take(length)?.to_vec())
}
