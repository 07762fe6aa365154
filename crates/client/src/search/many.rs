//! Many queries at once.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use rayon::ThreadPoolBuilder;
use shard_geometry::VectorSet;
use shard_protocol::Transport;

use super::{Answer, SearchOptions, Searcher};
use crate::collection::Collection;
use crate::error::ClientError;

impl<T: Transport<Error: Into<ClientError>>> Searcher<T> {
    /// Searches for every query, up to `parallel` at a time, each on one core unless it is the
    /// only one: searches that share the cores piece by piece wait for each other. Answers are handed to `each` on the
    /// calling thread, in the order of the queries; a break ends the search once the queries
    /// under way are answered.
    ///
    /// # Errors
    /// That of the first query, in order, that fails. Answers to those before it were handed over.
    pub fn search_many(
        &self,
        collection: &Collection,
        queries: &VectorSet,
        options: &SearchOptions,
        parallel: usize,
        each: impl FnMut(usize, Answer) -> ControlFlow<()>,
    ) -> Result<(), ClientError> {
        let search = |rows: Range<usize>| -> Vec<Result<Answer, ClientError>> {
            rows.map(|row| self.search(collection, queries.row(row), options)).collect()
        };
        search_many(queries.rows(), 1, parallel, search, each)
    }
}

/// Runs `search` for so many queries at a time, and up to `parallel` of these at a time; it returns their
/// answers in order, up to the first that failed. The rest is as for [`Searcher::search_many`].
///
/// # Errors
/// That of the first query, in order, that fails. Answers to those before it were handed over.
pub(crate) fn search_many(
    queries: usize,
    together: usize,
    parallel: usize,
    search: impl Fn(Range<usize>) -> Vec<Result<Answer, ClientError>> + Sync,
    mut each: impl FnMut(usize, Answer) -> ControlFlow<()>,
) -> Result<(), ClientError> {
    let groups = queries.div_ceil(together);
    let next = AtomicUsize::new(0);
    let end = || next.store(groups, Ordering::Relaxed);
    let (done, answers) = mpsc::channel();
    let parallel = parallel.clamp(1, groups.max(1));
    let work = |done: mpsc::Sender<_>| {
        let alone = (parallel > 1).then(|| ThreadPoolBuilder::new().num_threads(1).build());
        let alone = alone.and_then(Result::ok); // without threads to spare, as it comes
        loop {
            let group = next.fetch_add(1, Ordering::Relaxed);
            if group >= groups {
                return;
            }
            let rows = group * together..queries.min((group + 1) * together);
            let search = || search(rows.clone());
            let answers = alone.as_ref().map_or_else(search, |pool| pool.install(search));
            if answers.iter().any(Result::is_err) {
                end();
            }
            let _ = done.send((group, answers));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..parallel {
            let done = done.clone();
            scope.spawn(|| work(done));
        }
        drop(done);
        let mut early = BTreeMap::new();
        let mut expected = 0;
        for (group, answers) in answers {
            early.insert(group, answers);
            while let Some(answers) = early.remove(&expected) {
                for (row, answer) in (expected * together..).zip(answers) {
                    if each(row, answer?).is_break() {
                        end();
                        return Ok(());
                    }
                }
                expected += 1;
            }
        }
        Ok(())
    })
}
