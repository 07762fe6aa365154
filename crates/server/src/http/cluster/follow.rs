//! The threads of a server that works beside others: one for its lease, which nothing may hold up, one for its share,
//! one for the commits of collections.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::{Cluster, KEPT};
use crate::http::spawn;
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

fn follow_heads(cluster: &Cluster, server: &Server) {
    while !cluster.left.load(Ordering::Relaxed) {
        let moved = cluster.members.moved(LOOK * cluster.renewal);
        // With nothing said all are looked at, now and then.
        let some = moved.filter(|moved| !moved.is_empty());
        if let Some(some) = &some {
            let mut seen = cluster.seen_mut();
            seen.behind = seen.behind.max(some.len());
        }
        match server.follow(some.as_deref()) {
            Ok(failed) => {
                for (collection, error) in &failed {
                    tracing::error!(%collection, %error, "a commit cannot be followed");
                }
                let mut seen = cluster.seen_mut();
                (seen.looked, seen.behind) = (Instant::now(), failed.len());
            }
            Err(error) => tracing::error!(%error, "collections cannot be looked at"),
        }
    }
}
