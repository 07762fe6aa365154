//! The threads of a server that works beside others: one for its lease, which nothing may hold up, one for its share,
//! one for the commits of collections.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use shard_protocol::CollectionName;

use super::{Cluster, KEPT};
use crate::http::spawn;
use crate::http::told::Told;
use crate::{Peers, Server};

/// How often commits are looked for that nobody has told of, in times between two renewals.
const LOOK: u32 = 5;

/// Keeps the lease, follows the others and the collections, until the cluster is left.
pub(in crate::http) fn follow(cluster: &Arc<Cluster>, server: &Arc<Server>) {
    let (one, of) = (cluster.clone(), server.clone());
    spawn("share", move || keep_share(&one, &of));
    let (one, of) = (cluster.clone(), server.clone());
    // Nothing may hold it up.
    let lease = cluster.clone();
    spawn("lease", move || keep_lease(&lease));
    spawn("heads", move || follow_heads(&one, &of));
}

fn keep_lease(cluster: &Cluster) {
    while !cluster.left.load(Ordering::Relaxed) {
        if let Err(error) = cluster.renew() {
            tracing::error!(%error, "the lease cannot be renewed");
        }
        std::thread::sleep(cluster.renewal);
    }
}

/// Loads what this server is to hold, whenever the others change, and lets go of the rest when nobody counts on it.
fn keep_share(cluster: &Cluster, server: &Server) {
    let mut divided = cluster.next_view();
    let mut tidied = true;
    while !cluster.left.load(Ordering::Relaxed) {
        let view = cluster.next_view();
        if view != divided || view != cluster.view() {
            tracing::info!(servers = view.workers().len(), "blocks are divided anew");
            let start = Instant::now();
            share(server, false);
            cluster.divided(&view, start.elapsed());
            (divided, tidied) = (view, false);
        } else if !tidied && cluster.seen().changed.elapsed() > KEPT * cluster.renewal {
            share(server, true);
            tidied = true;
        }
        std::thread::sleep(cluster.renewal / 4);
    }
}

fn share(server: &Server, tidy: bool) {
    for (collection, error) in server.share_all(tidy) {
        tracing::error!(%collection, %error, "a share cannot be loaded");
    }
}

/// Loads the commits that collections move on to: of those that are said to have moved, and of those that could not
/// be followed before. All are looked at now and then, whatever is said.
fn follow_heads(cluster: &Cluster, server: &Server) {
    let every = LOOK * cluster.renewal;
    let mut behind: BTreeSet<CollectionName> = BTreeSet::new();
    let mut told = Told::default();
    let mut looked: Option<Instant> = None;
    while !cluster.left.load(Ordering::Relaxed) {
        let moved = cluster.members.moved(every);
        let is_due = moved.is_none() || looked.is_none_or(|then| then.elapsed() >= every);
        behind.extend(moved.into_iter().flatten());
        cluster.seen_mut().behind = behind.len();
        let now = Instant::now();
        let some: Vec<CollectionName> = behind.iter().cloned().collect();
        match server.follow((!is_due).then_some(&some)) {
            Ok(failed) => {
                told.tell(&failed, "a commit cannot be followed");
                behind = failed.into_iter().map(|(collection, _)| collection).collect();
                let mut seen = cluster.seen_mut();
                seen.behind = behind.len();
                if is_due {
                    looked = Some(now);
                    seen.looked = now;
                }
            }
            Err(error) => told.tell_all(&error, "collections cannot be looked at"),
        }
    }
}
