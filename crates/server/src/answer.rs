//! One message in, one message out.

use shard_protocol::{
    ActivateEpoch, BeginPublish, BlindQuery, Blob, BlobList, CollectionName, DecodeError,
    DeleteBlob, DeleteRows, FetchBlob, FetchBlobs, FetchShared, FetchSharedMany, ListBlobs,
    ListMacs, MessageKind, OpenSession, Operation, PublishRows, PutBlob, PutBlobs, ResetCollection,
    RowMacs, message_kind,
};
#[cfg(feature = "slots")]
use shard_protocol::{OpenSlotsSession, SlotsRequest};

use crate::{Caller, Server, ServerError, SessionName, Stages, timed};

impl Server {
    /// One message in, one message out: a refusal is a message too.
    pub fn handle(&self, collection: &CollectionName, message: &[u8]) -> Vec<u8> {
        self.answer(collection, message).unwrap_or_else(|error| error.refusal().encode())
    }

    /// Serves one message.
    pub fn answer(
        &self,
        collection: &CollectionName,
        message: &[u8],
    ) -> Result<Vec<u8>, ServerError> {
        self.answer_in_stages(&Caller::default(), collection, message, &mut Stages::default())
    }

    /// Serves one message of a caller and adds up where the time went, also when it is refused.
    pub fn answer_in_stages(
        &self,
        caller: &Caller,
        collection: &CollectionName,
        message: &[u8],
        stages: &mut Stages,
    ) -> Result<Vec<u8>, ServerError> {
        let (rows, limits) = (&self.rows, &self.limits);
        let moment = self.revisions.moment();
        let Stages { decode, engine, score, encode } = stages;
        let kind = message_kind(message)?;
        let named = |id| {
            let (caller, collection) = (caller.clone(), collection.clone());
            SessionName { caller, collection, id }
        };
        match kind {
            MessageKind::RerankRequest => {
                let prepared = self.prepare(collection, message, stages)?;
                return self.answer_prepared(caller, collection, &prepared, stages);
            }
            #[cfg(feature = "slots")]
            MessageKind::SlotsRequest => {
                let request = timed(decode, || SlotsRequest::decode(message, limits))?;
                let response = self.slots_response(caller, collection, &request, stages)?;
                return Ok(timed(&mut stages.encode, || response.encode()));
            }
            MessageKind::BlindQuery | MessageKind::RecordQuery => {
                let query = timed(decode, || BlindQuery::decode(message, limits))?;
                let answer = self.search_in_stages(collection, &query, stages)?;
                return Ok(timed(&mut stages.encode, || answer.encode()));
            }
            MessageKind::OpenSession => {
                let session = timed(decode, || OpenSession::decode(message, limits))?;
                timed(score, || self.open_session(named(session.id()), &session))?;
            }
            #[cfg(feature = "slots")]
            MessageKind::OpenSlotsSession => {
                let session = timed(decode, || OpenSlotsSession::decode(message, limits))?;
                timed(score, || self.open_slots_session(named(session.id()), &session))?;
            }
            MessageKind::BeginPublish => {
                let begin = timed(decode, || BeginPublish::decode(message, limits))?;
                timed(engine, || rows.begin(collection, begin.advance()))?;
            }
            MessageKind::PublishRows => {
                let publish = timed(decode, || PublishRows::decode(message, limits))?;
                let (advance, batch, macs) = publish.into_parts();
                timed(engine, || rows.upsert(collection, &advance, batch, &macs))?;
            }
            MessageKind::DeleteRows => {
                let delete = timed(decode, || DeleteRows::decode(message, limits))?;
                let (advance, epoch) = (delete.advance(), delete.epoch());
                timed(engine, || rows.delete(collection, advance, epoch, delete.handles()))?;
            }
            MessageKind::ActivateEpoch => {
                let activate = timed(decode, || ActivateEpoch::decode(message, limits))?;
                let advance = activate.advance();
                timed(engine, || self.activate(collection, advance, activate.epoch()))?;
                self.revisions.reached(collection, advance.revision, moment);
            }
            MessageKind::ResetCollection => {
                let reset = timed(decode, || ResetCollection::decode(message, limits))?;
                let forget = || self.reset(collection, reset.from());
                timed(engine, || self.revisions.forget_while(collection, forget))?;
            }
            MessageKind::ListMacs => {
                let list = timed(decode, || ListMacs::decode(message, limits))?;
                let (epoch, after) = (list.epoch(), list.after());
                let macs = timed(engine, || rows.macs(collection, epoch, after, RowMacs::PAGE))?;
                return Ok(timed(encode, || RowMacs { macs }.encode()));
            }
            MessageKind::Describe => {
                bare(message, kind)?;
                return Ok(timed(engine, || rows.describe(collection))?.encode());
            }
            MessageKind::PutBlob => {
                let put = timed(decode, || PutBlob::decode(message, limits))?;
                timed(engine, || rows.put_blob(collection, put.name(), put.sealed()))?;
            }
            MessageKind::PutBlobs => {
                let put = timed(decode, || PutBlobs::decode(message, limits))?;
                timed(engine, || rows.put_blobs(collection, put.blobs()))?;
            }
            MessageKind::FetchBlobs => {
                let fetch = timed(decode, || FetchBlobs::decode(message, limits))?;
                let blobs = timed(engine, || self.many_blobs(collection, fetch.names()))?;
                return Ok(timed(encode, || blobs.encode()));
            }
            MessageKind::FetchSharedMany => {
                let fetch = timed(decode, || FetchSharedMany::decode(message, limits))?;
                let blobs = timed(engine, || self.many_shared(collection, fetch.names()))?;
                return Ok(timed(encode, || blobs.encode()));
            }
            MessageKind::FetchBlob => {
                let fetch = timed(decode, || FetchBlob::decode(message, limits))?;
                let sealed = timed(engine, || rows.blob(collection, fetch.name()))?;
                return Ok(timed(encode, || Blob { sealed }.encode()));
            }
            MessageKind::FetchShared => {
                let fetch = timed(decode, || FetchShared::decode(message, limits))?;
                if !fetch.name().is_shared() {
                    return Err(shard_store::StoreError::UnknownBlob(fetch.name().clone()).into());
                }
                let sealed = timed(engine, || rows.blob(collection, fetch.name()))?;
                return Ok(timed(encode, || Blob { sealed }.encode()));
            }
            MessageKind::DeleteBlob => {
                let delete = timed(decode, || DeleteBlob::decode(message, limits))?;
                timed(engine, || rows.delete_blob(collection, delete.name()))?;
            }
            MessageKind::ListBlobs => {
                let list = timed(decode, || ListBlobs::decode(message, limits))?;
                let (after, most) = (list.after(), list.most());
                let blobs = timed(engine, || rows.blobs(collection, after, most))?;
                return Ok(timed(encode, || BlobList { blobs }.encode()));
            }
            // A request that this build of the server does not know, though its protocol does.
            _ if Operation::of(kind).is_some() => return Err(DecodeError::NoSlots.into()),
            _ => {
                return Err(DecodeError::Invalid("a message that servers do not take").into());
            }
        }
        Ok(MessageKind::Accepted.bare())
    }
}

/// Refuses bytes after a message that has no body.
fn bare(message: &[u8], kind: MessageKind) -> Result<(), DecodeError> {
    match message.len() - kind.bare().len() {
        0 => Ok(()),
        trailing => Err(DecodeError::Trailing(trailing)),
    }
}
