//! Whose a collection is, and what two collections of one vault show of that.

use std::collections::BTreeMap;

use shard_client::remote::{Remote, is_of_vault};
use shard_client::{BlindCollection, ClientError, Collection};
use shard_protocol::{BlobList, BlobName, CollectionName};

use crate::copies::fetch;
use crate::support::{Listening, Served, options};
use crate::vaults::{Owner, contents};

/// Everything sealed that the server keeps of a collection.
fn kept(served: &Served, collection: &str) -> BTreeMap<BlobName, Vec<u8>> {
    let collection: CollectionName = collection.parse().unwrap();
    let names = served.rows().blobs(&collection, None, BlobList::PAGE).unwrap();
    names
        .into_iter()
        .map(|(name, _)| {
            let blob = served.rows().blob(&collection, &name).unwrap();
            (name, blob)
        })
        .collect()
}

#[test]
fn nothing_that_a_server_keeps_holds_the_id_of_the_vault() {
    for mut owner in [Owner::with_documents(30), Owner::blind(5, 30)] {
        let listening = Listening::plain(Served::new(None));
        let at = |name: &str| {
            let url = listening.url.replace("/main", &format!("/{name}"));
            Remote::connect(options(&url)).unwrap()
        };
        owner.publish(&at("papers")).unwrap();
        owner.back_up(&at("papers")).unwrap();
        // Another epoch, so that neither rows nor blocks are those of the first collection.
        owner.rekey();
        owner.publish(&at("letters")).unwrap();
        owner.back_up(&at("letters")).unwrap();

        let root = contents(&owner.path()).1;
        let id = &root[50..66];
        let (papers, letters) =
            (kept(&listening.served, "papers"), kept(&listening.served, "letters"));
        for (name, blob) in papers.iter().chain(&letters) {
            assert!(!blob.windows(id.len()).any(|bytes| bytes == id), "{name} holds the id");
        }
        let claim: BlobName = "claim".parse().unwrap();
        assert_eq!(papers[&claim].len(), 16);
        assert_ne!(papers[&claim], letters[&claim]);

        // Each is known as its own, by owners, and by whoever restores or pulls from it.
        let blind = BlindCollection::open(&owner.vault).ok();
        let rotated = blind.is_none().then(|| owner.collection());
        let position = blind.as_ref().map(BlindCollection::position);
        let position = position.or(rotated.as_ref().map(Collection::position)).unwrap();
        for name in ["papers", "letters"] {
            assert_eq!(is_of_vault(position, &at(name)).unwrap(), Some(true));
            let directory = tempfile::tempdir().unwrap();
            fetch(&at(name), &directory.path().join("vault")).unwrap();
        }
        owner.pull(&at("letters")).unwrap();
        let other = Owner::seeded(9, 30, 24);
        let refused = other.publish(&at("papers")).unwrap_err();
        assert!(matches!(refused, ClientError::AnotherVault), "{refused}");
        // A claim on one collection is none on another.
        let moved = &letters[&claim];
        listening.served.rows().put_blob(&"papers".parse().unwrap(), &claim, moved).unwrap();
        assert_eq!(is_of_vault(position, &at("papers")).unwrap(), Some(false));
    }
}
