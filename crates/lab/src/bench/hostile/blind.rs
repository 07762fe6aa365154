//! The worst that can be sent to a blind collection: searches, blobs, lists of blocks.

use anyhow::{Context, Result};
use shard_cli::output::progress;
use shard_client::remote::{PublishOptions, Remote, publish};
use shard_client::{BlindSearcher, Hints, SearchOptions, UNWATCHED};
use shard_protocol::{
    ActivateEpoch, Advance, BeginPublish, BlindQuery, BlobName, BlockList, CommitName, Epoch,
    FetchBlobs, Leak, Limits, PutBlob, PutBlobs, Revision, Table, declassify,
};

use super::{Attempt, attempt, noise};
use crate::bench::arguments::Hostile;
use crate::bench::corpus::Corpus;
use crate::bench::crash::state;
use crate::bench::owner::{BlindOwner, Truth};
use crate::bench::served::Served;

/// The commit of a publish that nobody should believe.
const FALSE: CommitName = CommitName([0xee; 16]);

/// Where a search has the number of its queries, and the length of each.
const COUNT: usize = 32;
const LENGTH: usize = 36;

/// Makes requests against a collection of known shape.
struct Maker {
    truth: Truth,
    /// What a publish would begin with.
    advance: Advance,
    limits: Limits,
}

type Make = fn(&Maker) -> Result<Vec<u8>>;

/// Every request, and how many honest searches were answered wrongly after one of them.
pub(super) fn attempts(
    arguments: &Hostile,
    server: &Served,
    remote: &Remote,
) -> Result<(Vec<Attempt>, usize)> {
    let corpus = Corpus::synthetic(arguments.rows, arguments.dim, 2026)?;
    let owner = BlindOwner::of(&corpus.documents)?;
    publish(&owner.vault, PublishOptions::default(), remote, UNWATCHED)?;
    let truth = Truth::of(&owner.vault)?;
    let held = state(remote)?;
    let (from, revision) = (Some(truth.collection.commit()), Revision(held.revision.0 + 1));
    let advance = Advance { from, to: FALSE, revision, turn: held.turn + 1 };
    let maker = Maker { truth, advance, limits: Limits::default() };
    let searcher = BlindSearcher::new(remote, Hints::in_memory());
    let (mut attempts, mut wrong) = (Vec::new(), 0);
    let bar = progress("asking", Maker::REQUESTS.len());
    for (number, (name, make)) in Maker::REQUESTS.iter().enumerate() {
        let message = make(&maker).with_context(|| (*name).to_owned())?;
        attempts.push(attempt(server, remote, name, message)?);
        let query = corpus.queries.row(number % corpus.queries.rows());
        let options = SearchOptions::default();
        let answer = searcher
            .search(&maker.truth.collection, query, &options)
            .with_context(|| format!("after the request {name:?} the server does not score"))?;
        wrong += usize::from(!maker.truth.is_answered_by(query, options.top, &answer)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok((attempts, wrong))
}

impl Maker {
    const REQUESTS: &[(&'static str, Make)] = &[
        ("a search for eight queries", |maker| Ok(maker.search(8))),
        ("a search for nine", |maker| Ok(maker.search_with(COUNT, 9))),
        ("a search for no query", |maker| Ok(maker.search_with(COUNT, 0))),
        ("a search that says it has 64 MiB", |maker| Ok(maker.search_with(LENGTH, 64 << 20))),
        ("a search that says it has 4 GiB", |maker| Ok(maker.search_with(LENGTH, u32::MAX))),
        ("a search before 64 MiB of noise", Self::noisy_search),
        ("a query of words above the modulus", Self::no_query),
        ("64 MiB as one query", Self::longest_query),
        ("a search of a later epoch", Self::other_epoch),
        ("a search of a commit that is not there", Self::other_commit),
        ("4,096 blobs in 64 MiB", Self::most_blobs),
        ("4,096 times the same blob", Self::one_blob_many_times),
        ("4,096 blobs that are not there", Self::no_blobs),
        ("the beginning of a false publish", Self::begin),
        ("a list of a million blocks that are not there", Self::longest_list),
        ("its activation", Self::activate),
        ("a list of 64 MiB of noise", Self::no_list),
        ("its activation, again", Self::activate),
        ("a list of a block that is not there", Self::list_of_none),
        ("its activation, once more", Self::activate),
        ("words above the modulus as that block", Self::no_block),
        ("its activation, at last", Self::activate),
    ];

    fn epoch(&self) -> Epoch {
        self.truth.collection.epoch()
    }

    fn searches(&self, epoch: Epoch, commit: CommitName, queries: Vec<Vec<u8>>) -> Vec<u8> {
        let shape = Leak::CollectionShape;
        let (epoch, commit) = (declassify(epoch, shape), declassify(commit, shape));
        BlindQuery::new(Table::Rows, epoch, commit, queries).encode()
    }

    /// Zeros are a ciphertext like any other, and cost the same.
    fn query(&self) -> Vec<u8> {
        vec![0; self.truth.collection.shape().query_bytes()]
    }

    fn search(&self, queries: usize) -> Vec<u8> {
        let commit = self.truth.collection.commit();
        self.searches(self.epoch(), commit, vec![self.query(); queries])
    }

    /// A search for one query that says something else of itself.
    fn search_with(&self, at: usize, value: u32) -> Vec<u8> {
        let mut message = self.search(1);
        message[at..at + 4].copy_from_slice(&value.to_le_bytes());
        message
    }

    fn noisy_search(&self) -> Result<Vec<u8>> {
        let mut message = self.search(1);
        message.extend(noise(self.limits.bytes - message.len()));
        Ok(message)
    }

    fn no_query(&self) -> Result<Vec<u8>> {
        let query = vec![0xff; self.query().len()];
        Ok(self.searches(self.epoch(), self.truth.collection.commit(), vec![query]))
    }

    fn longest_query(&self) -> Result<Vec<u8>> {
        let query = noise(self.limits.bytes - 64);
        Ok(self.searches(self.epoch(), self.truth.collection.commit(), vec![query]))
    }

    fn other_epoch(&self) -> Result<Vec<u8>> {
        let commit = self.truth.collection.commit();
        Ok(self.searches(Epoch(self.epoch().0 + 1), commit, vec![self.query()]))
    }

    fn other_commit(&self) -> Result<Vec<u8>> {
        Ok(self.searches(self.epoch(), FALSE, vec![self.query()]))
    }

    fn most_blobs(&self) -> Result<Vec<u8>> {
        let each = noise(self.limits.bytes / PutBlobs::MOST - 64);
        let blob = |number: usize| Ok((format!("noise.{number}").parse()?, each.clone()));
        let blobs = (0..PutBlobs::MOST).map(blob).collect::<Result<Vec<_>>>()?;
        Ok(PutBlobs::new(declassify(blobs, Leak::SealedBlobs)).encode())
    }

    fn one_blob_many_times(&self) -> Result<Vec<u8>> {
        fetch(vec!["noise.0".parse()?; FetchBlobs::MOST])
    }

    fn no_blobs(&self) -> Result<Vec<u8>> {
        let name = |number: usize| Ok(format!("nothing.{number}").parse()?);
        fetch((0..FetchBlobs::MOST).map(name).collect::<Result<_>>()?)
    }

    fn begin(&self) -> Result<Vec<u8>> {
        Ok(BeginPublish::new(declassify(self.advance, Leak::CollectionShape)).encode())
    }

    fn activate(&self) -> Result<Vec<u8>> {
        let advance = declassify(self.advance, Leak::CollectionShape);
        let epoch = declassify(self.epoch(), Leak::CollectionShape);
        Ok(ActivateEpoch::new(advance, epoch).encode())
    }

    fn longest_list(&self) -> Result<Vec<u8>> {
        let name = |number: u32| {
            let mut name = [0xee; 16];
            name[..4].copy_from_slice(&number.to_le_bytes());
            name
        };
        self.list((0..BlockList::MOST as u32).map(name).collect())
    }

    fn no_list(&self) -> Result<Vec<u8>> {
        put(BlobName::blocks(FALSE), noise(self.limits.bytes - 128))
    }

    /// The first of the blocks that the collection has, and one that it has not.
    fn list_of_none(&self) -> Result<Vec<u8>> {
        let first = self.truth.collection.blocks().first().context("a collection of documents")?;
        self.list(vec![first.file_name(), [0xee; 16]])
    }

    /// Words below the modulus would be a block like any other.
    fn no_block(&self) -> Result<Vec<u8>> {
        put(BlobName::block([0xee; 16]), vec![0xff; self.truth.collection.shape().block_bytes()])
    }

    fn list(&self, names: Vec<[u8; 16]>) -> Result<Vec<u8>> {
        let shape = Leak::CollectionShape;
        let list = BlockList::new(
            declassify(self.epoch(), shape),
            declassify(*self.truth.collection.shape(), shape),
            declassify(0, shape),
            declassify(names, Leak::BlockChanges),
        )?;
        put(BlobName::blocks(FALSE), list.encode())
    }
}

fn put(name: BlobName, bytes: Vec<u8>) -> Result<Vec<u8>> {
    let sealed = Leak::SealedBlobs;
    Ok(PutBlob::new(declassify(name, sealed), declassify(bytes, sealed)).encode())
}

fn fetch(names: Vec<BlobName>) -> Result<Vec<u8>> {
    Ok(FetchBlobs::new(declassify(names, Leak::SealedBlobs)).encode())
}
