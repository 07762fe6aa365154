//! What can be asked of a collection, by path.

use shard_protocol::{Access, MessageKind};

/// An operation: the last part of a path, and the messages that may be sent there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Rerank,
    Sessions,
    Rows,
    Tags,
    Delete,
    Activate,
    Describe,
    PutBlob,
    FetchBlob,
    DeleteBlob,
    ListBlobs,
}

impl Operation {
    pub(super) const ALL: [Self; 11] = [
        Self::Rerank,
        Self::Sessions,
        Self::Rows,
        Self::Tags,
        Self::Delete,
        Self::Activate,
        Self::Describe,
        Self::PutBlob,
        Self::FetchBlob,
        Self::DeleteBlob,
        Self::ListBlobs,
    ];

    /// What follows the collection's name; also the operation's name in logs and metrics.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Rerank => "rerank",
            Self::Sessions => "sessions",
            Self::Rows => "rows",
            Self::Tags => "tags",
            Self::Delete => "delete",
            Self::Activate => "activate",
            Self::Describe => "describe",
            Self::PutBlob => "blobs/put",
            Self::FetchBlob => "blobs/fetch",
            Self::DeleteBlob => "blobs/delete",
            Self::ListBlobs => "blobs/list",
        }
    }

    /// The messages it takes; all need the same access.
    pub(super) fn kinds(self) -> &'static [MessageKind] {
        match self {
            Self::Rerank => &[MessageKind::RerankRequest, MessageKind::SlotsRequest],
            Self::Sessions => &[MessageKind::OpenSession, MessageKind::OpenSlotsSession],
            Self::Rows => &[MessageKind::PublishRows],
            Self::Tags => &[MessageKind::ListMacs],
            Self::Delete => &[MessageKind::DeleteRows],
            Self::Activate => &[MessageKind::ActivateEpoch],
            Self::Describe => &[MessageKind::Describe],
            Self::PutBlob => &[MessageKind::PutBlob],
            Self::FetchBlob => &[MessageKind::FetchBlob],
            Self::DeleteBlob => &[MessageKind::DeleteBlob],
            Self::ListBlobs => &[MessageKind::ListBlobs],
        }
    }

    /// The answer when it is served.
    pub(super) fn answer(self) -> &'static [MessageKind] {
        match self {
            Self::Rerank => &[MessageKind::RerankResponse, MessageKind::SlotsResponse],
            Self::Tags => &[MessageKind::RowMacs],
            Self::Describe => &[MessageKind::CollectionState],
            Self::FetchBlob => &[MessageKind::Blob],
            Self::ListBlobs => &[MessageKind::BlobList],
            _ => &[MessageKind::Accepted],
        }
    }

    /// What a token must allow.
    pub(super) fn access(self) -> Access {
        self.kinds()[0].access().expect("operations take requests only")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_of_an_operation_need_the_same_access() {
        for operation in Operation::ALL {
            for kind in operation.kinds() {
                assert_eq!(kind.access(), Some(operation.access()), "{operation:?}");
            }
        }
    }
}
