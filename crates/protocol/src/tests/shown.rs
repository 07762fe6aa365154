//! What is said of a message is what its fields were declassified as.

use std::collections::BTreeSet;

use super::blind::{celled_list, celled_query, commit, list, records};
use super::*;
use crate::leak::ACCOUNTED;

/// What the fields of a message are accounted under when it is read.
fn accounted(read: impl FnOnce()) -> BTreeSet<Leak> {
    ACCOUNTED.take();
    read();
    ACCOUNTED.take()
}

fn shown(message: &[u8]) -> BTreeSet<Leak> {
    leaks_of(message, &Limits::default()).unwrap()
}

#[test]
fn every_message_to_a_server_shows_what_its_fields_were_declassified_as() {
    let mut seen = vec![MessageKind::Describe];
    for (_, bytes, _, again) in collections::golden() {
        let kind = message_kind(&bytes).unwrap();
        if Operation::of(kind).is_none() {
            assert!(leaks_of(&bytes, &Limits::default()).is_err(), "{kind:?}");
            continue;
        }
        let mut accounted = accounted(|| drop(again(&bytes).unwrap()));
        accounted.insert(Leak::RequestShape);
        assert_eq!(shown(&bytes), accounted, "{kind:?}");
        seen.push(kind);
    }
    let limits = Limits::default();
    let span = MergeSpan { top: 11, levels: 1 };
    let (_, keys) = SessionKey::fresh(RingDegree::N2048, span, 1, Entropy::from_os().unwrap());
    let id = declassify(SessionId([5; 16]), Leak::SessionLinkage);
    let open = OpenSession::new(id, keys).encode();
    let mut read = accounted(|| drop(OpenSession::decode(&open, &limits).unwrap()));
    read.insert(Leak::RequestShape);
    assert_eq!(shown(&open), read);
    let request = request().encode();
    let read = accounted(|| drop(RerankRequest::decode(&request, &limits).unwrap()));
    assert_eq!(shown(&request), read);
    seen.extend([MessageKind::OpenSession, MessageKind::RerankRequest]);
    #[cfg(feature = "slots")]
    seen.extend([MessageKind::OpenSlotsSession, MessageKind::SlotsRequest]);
    for kind in Operation::ALL.iter().flat_map(|operation| operation.kinds()) {
        assert!(seen.contains(kind), "{kind:?} was not tried");
    }
}

#[test]
fn lists_that_a_server_reads_and_pages_that_it_is_asked_for_are_told_from_other_blobs() {
    let lists = [
        accounted(|| drop(PutBlob::block_list(commit(), &list(3, 1)))),
        accounted(|| drop(list(3, 1))),
        accounted(|| drop(records(2))),
    ];
    let made: BTreeSet<Leak> = lists.into_iter().flatten().chain([Leak::SealedBlobs]).collect();
    assert!(made.contains(&Leak::BlockChanges));
    let made: BTreeSet<Leak> = made.into_iter().chain([Leak::RequestShape]).collect();
    assert_eq!(shown(&PutBlob::block_list(commit(), &list(3, 1)).encode()), made);
    assert_eq!(shown(&PutBlob::record_list(commit(), &records(2)).encode()), made);
    let pages = FetchSharedMany::pages(declassify(vec![[0xab; 16]], Leak::FetchedRecords));
    assert!(shown(&pages.encode()).contains(&Leak::FetchedRecords));
    let page = declassify(BlobName::page([1; 16]), Leak::SealedBlobs);
    assert!(shown(&FetchShared::new(page).encode()).contains(&Leak::FetchedRecords));
    let hints = declassify(vec![BlobName::record_hint([1; 16])], Leak::SealedBlobs);
    assert!(!shown(&FetchSharedMany::new(hints).encode()).contains(&Leak::FetchedRecords));
}

#[test]
fn cells_are_shown_where_a_list_or_a_search_names_them() {
    let bytes = celled_query().encode();
    let mut read = accounted(|| drop(BlindQuery::decode(&bytes, &Limits::default()).unwrap()));
    assert!(read.contains(&Leak::ActiveCells));
    read.insert(Leak::RequestShape);
    assert_eq!(shown(&bytes), read);
    let stored = PutBlob::block_list(commit(), &celled_list()).encode();
    assert!(shown(&stored).contains(&Leak::CellMembership));
    assert!(
        !shown(&PutBlob::block_list(commit(), &list(3, 1)).encode())
            .contains(&Leak::CellMembership)
    );
}

#[test]
fn a_request_of_a_session_shows_the_session() {
    let parameters = Parameters::default();
    let degree = parameters.degree();
    let layout = Layout::packed(degree, 4, 1, degree.coefficients() / 4, true).unwrap();
    let span = MergeSpan::of(&layout, 2).unwrap();
    let (mut key, _) = SessionKey::fresh(degree, span, 1, Entropy::from_os().unwrap());
    let query = layout.encode_query(&[0.5; 4], 1e6);
    let (seed, ciphertexts) =
        key.encrypt(&parameters, &query, Entropy::from_os().unwrap()).unwrap();
    let epoch = declassify(Epoch(7), Leak::CollectionShape);
    let shape = declassify((parameters, layout), Leak::RequestShape);
    let id = declassify(SessionId([5; 16]), Leak::SessionLinkage);
    let candidates = candidates(&[(8, &[3, 1])]).unwrap();
    let message = RerankRequest::new(epoch, shape, Some(id), candidates, seed, ciphertexts);
    let bytes = message.encode();
    let read = accounted(|| drop(RerankRequest::decode(&bytes, &Limits::default()).unwrap()));
    assert!(read.contains(&Leak::SessionLinkage));
    assert_eq!(shown(&bytes), read);
}
