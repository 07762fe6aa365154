//! Publishing from copies that have parted, from other vaults, and two at once.

use std::sync::atomic::{AtomicUsize, Ordering};

use shard_client::remote::describe;
use shard_client::{ClientError, Transport, published_rows};
use shard_protocol::{
    CollectionState, MessageKind, Refusal, RefusalCode, RowHandle, RowMac, RowMacs, message_kind,
};

use crate::copies::held;
use crate::publish::assert_holds;
use crate::support::Served;
use crate::vaults::Owner;

#[test]
fn a_collection_is_one_vaults_until_another_is_told_to_replace_it() {
    let (mut first, second) = (Owner::with_documents(40), Owner::seeded(9, 40, 24));
    first.add(1);
    let served = Served::new(None);
    first.publish(&*served).unwrap();
    let error = second.publish(&*served).unwrap_err();
    assert!(matches!(error, ClientError::AnotherVault), "{error}");
    assert_eq!(first.publish(&*served).unwrap().uploaded, 0, "nothing was touched");
    // Of an earlier revision than the first, which is no matter.
    assert!(describe(&*served).unwrap().revision > second.collection().position().revision());
    let count = published_rows(&second.vault).unwrap().rows().len();
    let done = second.replace(&*served).unwrap();
    assert_eq!((done.uploaded, done.deleted), (count, 0), "what was there is forgotten at once");
    assert_holds(&served, &second);
    assert!(matches!(first.publish(&*served), Err(ClientError::AnotherVault)));
    second.publish(&*served).unwrap();
}

#[test]
fn a_copy_that_went_another_way_is_told_so_and_overwrites_nothing() {
    let mut one = Owner::with_documents(40);
    let served = Served::new(None);
    one.publish(&*served).unwrap();
    let mut two = one.copy(11);
    two.publish(&*served).unwrap();
    one.add(1);
    two.add(1);
    let (ours, theirs) = (two.vault.head().unwrap().name, one.vault.head().unwrap().name);
    one.publish(&*served).unwrap();
    let before = held(&served);
    // Parted at the same revision, further on, and when only the other has gone on.
    for changes in 0..2 {
        (0..changes).for_each(|_| two.add(1));
        served.take_seen();
        let error = two.publish(&*served).unwrap_err();
        assert!(matches!(error, ClientError::Forked { .. }), "{error}");
        let words = error.to_string();
        assert!(words.contains(&ours.to_string()), "{words}");
        assert!(words.contains(&theirs.to_string()), "{words}");
        assert_eq!(served.take_seen(), [MessageKind::Describe, MessageKind::FetchShared]);
    }
    assert!(held(&served) == before, "nothing changed");
    one.add(1);
    one.add(1);
    one.publish(&*served).unwrap();
    let error = two.publish(&*served).unwrap_err();
    assert!(matches!(error, ClientError::Behind { .. }), "{error}");
    // The way out that loses what the other has published.
    two.replace(&*served).unwrap();
    assert_holds(&served, &two);
    assert!(one.publish(&*served).is_err());
    two.search(&served).unwrap();
}

/// Lets something happen before the first message of a kind arrives.
struct Meanwhile<'a, F: Fn() + Send + Sync> {
    served: &'a Served,
    before: MessageKind,
    happens: F,
    done: AtomicUsize,
}

impl<F: Fn() + Send + Sync> Transport for Meanwhile<'_, F> {
    type Error = ClientError;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        let now = message_kind(&message)? == self.before;
        if now && self.done.fetch_add(1, Ordering::SeqCst) == 0 {
            (self.happens)();
        }
        self.served.exchange(message)
    }
}

#[test]
fn two_copies_that_publish_at_once_do_not_mix_their_rows() {
    let mut one = Owner::with_documents(40);
    let served = Served::new(None);
    one.publish(&*served).unwrap();
    let mut two = one.copy(11);
    one.add(1);
    two.add(1);
    let happens = || assert!(two.publish(&*served).unwrap().activated);
    let (before, done) = (MessageKind::PublishRows, AtomicUsize::new(0));
    let between = Meanwhile { served: &served, before, happens, done };
    let error = one.publish(&between).unwrap_err();
    assert!(matches!(error, ClientError::Overtaken { .. }), "{error}");
    assert_holds(&served, &two);
    let again = one.publish(&*served).unwrap_err();
    assert!(matches!(again, ClientError::Forked { .. }), "{again}");
    one.pull(&*served).unwrap();
    one.publish(&*served).unwrap();
    assert_holds(&served, &one);
}

/// A publish that finds nothing to do takes no turn of the server's, so another may end in its
/// middle. What the other has published stays for others to pull.
#[test]
fn a_publish_with_nothing_to_do_leaves_what_another_publishes_meanwhile() {
    let mut one = Owner::with_documents(40);
    let served = Served::new(None);
    one.publish(&*served).unwrap();
    let mut two = one.copy(11);
    two.add(1);
    let happens = || assert!(two.publish(&*served).unwrap().activated);
    let (before, done) = (MessageKind::ListBlobs, AtomicUsize::new(0));
    let between = Meanwhile { served: &served, before, happens, done };
    one.publish(&between).unwrap();
    assert_holds(&served, &two);
    one.pull(&*served).unwrap();
    assert_eq!(one.vault.head().unwrap(), two.vault.head().unwrap());
}

#[test]
fn a_server_whose_pages_never_end_is_found_out() {
    struct Circle;
    impl Transport for Circle {
        type Error = ClientError;

        fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
            match message_kind(&message)? {
                MessageKind::Describe => Ok(CollectionState::default().encode()),
                MessageKind::FetchShared => {
                    let code = RefusalCode::UnknownBlob;
                    Ok(Refusal { code, text: "none".into() }.encode())
                }
                MessageKind::ListMacs => {
                    let mac = |n| (RowHandle(n), RowMac([0; 16]));
                    Ok(RowMacs { macs: (0..RowMacs::PAGE as u64).map(mac).collect() }.encode())
                }
                _ => Ok(MessageKind::Accepted.bare()),
            }
        }
    }
    let error = Owner::with_documents(20).publish(&Circle).unwrap_err();
    assert!(matches!(error, ClientError::Answer(_)), "{error}");
}
