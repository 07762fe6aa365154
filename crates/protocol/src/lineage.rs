//! From which commit of a vault to which a publish leads, and the messages that begin it, end it
//! and undo it.
//!
//! A server remembers the [name](CommitName) of the commit whose rows it holds. A publish says which
//! commit it found there and which it brings, so a copy of the vault that has gone another way is
//! told so and overwrites nothing.

use crate::leak::{Disclosed, Leak, declassify};
use crate::names::{CommitName, Epoch, Revision};
use crate::wire::{DecodeError, Limits, MessageKind, Reader, Writer};

/// A step of a collection from one commit of its vault to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advance {
    /// The commit that the publisher found on the server; `None` when nothing was published.
    pub from: Option<CommitName>,
    /// The commit that is published. The same as `from` where rows of it are sent again.
    pub to: CommitName,
    /// The revision of the vault at that commit.
    pub revision: Revision,
    /// Which publish of the collection it belongs to: one more than the server had seen begin, so that
    /// rows of an earlier one that are late are told apart.
    pub turn: u64,
}

impl Advance {
    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u64(self.revision.0);
        writer.u64(self.turn);
        writer.commit(self.from);
        writer.raw(&self.to.0);
    }
}

macro_rules! body_of_advance {
    ($message:ident, $($field:ident: $type:ident),*) => {
        impl $message {
            /// Where it leads.
            pub fn advance(&self) -> &Advance {
                &self.advance
            }

            /// The wire form.
            pub fn encode(&self) -> Vec<u8> {
                let mut writer = Writer::new(MessageKind::$message);
                self.advance.write(&mut writer);
                $(writer.u64(self.$field.0);)*
                writer.bytes
            }

            /// Reads the wire form.
            pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
                let mut reader = Reader::open(bytes, MessageKind::$message, limits)?;
                let message = Self::new(reader.advance()? $(, reader.$field()?)*);
                reader.finish()?;
                Ok(message)
            }
        }
    };
}

/// Begins a publish. From then on rows of a publish that began before are refused, so that what is
/// activated in the end is what one publisher sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BeginPublish {
    advance: Disclosed<Advance>,
}

impl BeginPublish {
    /// A publish that leads from one commit to another.
    pub fn new(advance: Disclosed<Advance>) -> Self {
        Self { advance: advance.accounted_under(Leak::CollectionShape) }
    }
}

body_of_advance!(BeginPublish,);

/// Makes an epoch the one that is searched and its commit the collection's, in one step, and erases
/// every other epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActivateEpoch {
    advance: Disclosed<Advance>,
    epoch: Disclosed<Epoch>,
}

impl ActivateEpoch {
    /// An epoch that has been published whole.
    pub fn new(advance: Disclosed<Advance>, epoch: Disclosed<Epoch>) -> Self {
        Self {
            advance: advance.accounted_under(Leak::CollectionShape),
            epoch: epoch.accounted_under(Leak::CollectionShape),
        }
    }

    /// The epoch.
    pub fn epoch(&self) -> Epoch {
        *self.epoch
    }
}

body_of_advance!(ActivateEpoch, epoch: Epoch);

/// Forgets the epochs, rows, revision and commit of a collection in one step, if its commit is the
/// one named. Its blobs stay. So a vault can take the place of another one, or of a state that it
/// did not come from, deliberately.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResetCollection {
    from: Disclosed<Option<CommitName>>,
}

impl ResetCollection {
    /// A collection that is at this commit.
    pub fn new(from: Disclosed<Option<CommitName>>) -> Self {
        Self { from: from.accounted_under(Leak::CollectionShape) }
    }

    /// The commit that is forgotten.
    pub fn from(&self) -> Option<CommitName> {
        *self.from
    }

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::ResetCollection);
        writer.commit(*self.from);
        writer.bytes
    }

    /// Reads the wire form.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::ResetCollection, limits)?;
        let from = reader.commit()?;
        reader.finish()?;
        Ok(Self::new(declassify(from, Leak::CollectionShape)))
    }
}

impl Reader<'_> {
    pub(crate) fn advance(&mut self) -> Result<Disclosed<Advance>, DecodeError> {
        let (revision, turn) = (Revision(self.u64()?), self.u64()?);
        let from = self.commit()?;
        let advance = Advance { from, to: CommitName(self.array()?), revision, turn };
        Ok(declassify(advance, Leak::CollectionShape))
    }

    pub(crate) fn epoch(&mut self) -> Result<Disclosed<Epoch>, DecodeError> {
        Ok(declassify(Epoch(self.u64()?), Leak::CollectionShape))
    }

    /// A commit that may be none: a flag, then the name or zeros.
    pub(crate) fn commit(&mut self) -> Result<Option<CommitName>, DecodeError> {
        match (self.u8()?, self.array()?) {
            (0, name) if name == [0; 16] => Ok(None),
            (1, name) => Ok(Some(CommitName(name))),
            _ => Err(DecodeError::Invalid("a commit that is none")),
        }
    }
}

impl Writer {
    pub(crate) fn commit(&mut self, commit: Option<CommitName>) {
        self.u8(u8::from(commit.is_some()));
        self.raw(&commit.unwrap_or_default().0);
    }
}
