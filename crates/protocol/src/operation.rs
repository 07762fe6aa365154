//! What can be asked of a collection: operations, the messages they take, who may ask.

use crate::wire::MessageKind;

/// What somebody must be allowed to do to have a request served.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Access {
    /// Search, and describe what is held.
    Read,
    /// Change rows and blobs, and fetch what is sealed.
    Write,
}

/// One thing that can be asked of a collection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// Score candidates under encryption.
    Rerank,
    /// Score all blocks of a blind collection, or fetch from all of its records.
    Search,
    /// Leave the keys of a session.
    Sessions,
    /// Begin a publish.
    Begin,
    /// Add or replace rows of an epoch.
    Rows,
    /// List the MACs of an epoch's rows.
    Macs,
    /// Remove rows.
    Delete,
    /// Make an epoch the current one.
    Activate,
    /// Forget everything but sealed bytes.
    Reset,
    /// Say what is held.
    Describe,
    /// Store sealed bytes.
    PutBlob,
    /// Fetch sealed bytes.
    FetchBlob,
    /// Fetch a sealed blob that readers may have.
    FetchShared,
    /// Remove sealed bytes.
    DeleteBlob,
    /// List the names of sealed bytes.
    ListBlobs,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 15] = [
        Self::Rerank,
        Self::Search,
        Self::Sessions,
        Self::Begin,
        Self::Rows,
        Self::Macs,
        Self::Delete,
        Self::Activate,
        Self::Reset,
        Self::Describe,
        Self::PutBlob,
        Self::FetchBlob,
        Self::FetchShared,
        Self::DeleteBlob,
        Self::ListBlobs,
    ];

    /// The operation that takes messages of this kind; `None` for what servers do not take.
    pub fn of(kind: MessageKind) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.kinds().contains(&kind))
    }

    /// What follows the collection's name in a path; also the operation's name in logs and
    /// metrics.
    pub fn path(self) -> &'static str {
        match self {
            Self::Rerank => "rerank",
            Self::Search => "search",
            Self::Sessions => "sessions",
            Self::Begin => "begin",
            Self::Rows => "rows",
            Self::Macs => "macs",
            Self::Delete => "delete",
            Self::Activate => "activate",
            Self::Reset => "reset",
            Self::Describe => "describe",
            Self::PutBlob => "blobs/put",
            Self::FetchBlob => "blobs/fetch",
            Self::FetchShared => "blobs/shared",
            Self::DeleteBlob => "blobs/delete",
            Self::ListBlobs => "blobs/list",
        }
    }

    /// The messages it takes.
    pub fn kinds(self) -> &'static [MessageKind] {
        match self {
            Self::Rerank => &[
                MessageKind::RerankRequest,
                #[cfg(feature = "slots")]
                MessageKind::SlotsRequest,
            ],
            Self::Sessions => &[
                MessageKind::OpenSession,
                #[cfg(feature = "slots")]
                MessageKind::OpenSlotsSession,
            ],
            Self::Search => &[MessageKind::BlindQuery, MessageKind::RecordQuery],
            Self::Begin => &[MessageKind::BeginPublish],
            Self::Rows => &[MessageKind::PublishRows],
            Self::Macs => &[MessageKind::ListMacs],
            Self::Delete => &[MessageKind::DeleteRows],
            Self::Activate => &[MessageKind::ActivateEpoch],
            Self::Reset => &[MessageKind::ResetCollection],
            Self::Describe => &[MessageKind::Describe],
            Self::PutBlob => &[MessageKind::PutBlob, MessageKind::PutBlobs],
            Self::FetchBlob => &[MessageKind::FetchBlob, MessageKind::FetchBlobs],
            Self::FetchShared => &[MessageKind::FetchShared, MessageKind::FetchSharedMany],
            Self::DeleteBlob => &[MessageKind::DeleteBlob],
            Self::ListBlobs => &[MessageKind::ListBlobs],
        }
    }

    /// The answer when it is served.
    pub fn answer(self) -> &'static [MessageKind] {
        match self {
            Self::Rerank => &[
                MessageKind::RerankResponse,
                #[cfg(feature = "slots")]
                MessageKind::SlotsResponse,
            ],
            Self::Search => &[MessageKind::BlindAnswer],
            Self::Macs => &[MessageKind::RowMacs],
            Self::Describe => &[MessageKind::CollectionState],
            Self::FetchBlob | Self::FetchShared => &[MessageKind::Blob, MessageKind::Blobs],
            Self::ListBlobs => &[MessageKind::BlobList],
            Self::Sessions
            | Self::Begin
            | Self::Rows
            | Self::Delete
            | Self::Activate
            | Self::Reset
            | Self::PutBlob
            | Self::DeleteBlob => &[MessageKind::Accepted],
        }
    }

    /// What it takes to have it served.
    pub fn access(self) -> Access {
        match self {
            Self::Rerank | Self::Search | Self::Sessions | Self::Describe | Self::FetchShared => {
                Access::Read
            }
            Self::Begin | Self::Rows | Self::Macs | Self::Delete | Self::Activate | Self::Reset => {
                Access::Write
            }
            // Whoever has a keyring can guess at its passphrase, so readers do not get the backup.
            Self::PutBlob | Self::FetchBlob | Self::DeleteBlob | Self::ListBlobs => Access::Write,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_asked_with_or_answered_by_an_operation() {
        for &(kind, _) in MessageKind::ALL {
            let asked = Operation::ALL.iter().filter(|one| one.kinds().contains(&kind)).count();
            let answered = Operation::ALL.iter().any(|one| one.answer().contains(&kind));
            let neither = matches!(
                kind,
                MessageKind::RowBatch
                    | MessageKind::BlockList
                    | MessageKind::RecordList
                    | MessageKind::Refusal
            );
            assert_eq!(asked == 1, Operation::of(kind).is_some(), "{kind:?}");
            assert_eq!(asked + usize::from(answered), usize::from(!neither), "{kind:?}");
        }
    }

    #[test]
    fn paths_differ() {
        for (at, one) in Operation::ALL.iter().enumerate() {
            assert!(Operation::ALL[..at].iter().all(|other| other.path() != one.path()));
        }
    }
}
