//! Searches that come while a pass over the blocks is under way share the next one.
//!
//! One pass reads all blocks once, for up to [`BlindQuery::MOST`] queries. Whoever waits for a pass
//! works on it: a pass is cut into parts, and every waiting thread takes the next part until none is
//! left. So a pass has as many cores as there are searches, and there is no thread beside theirs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rayon::prelude::*;
use shard_protocol::BlindQuery;

/// One answer to every query of a part or of a search.
type Answers = Vec<Vec<u8>>;

/// Passes, the queries they were for and the time they took, since the start.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) passes: AtomicU64,
    pub(super) queries: AtomicU64,
    /// From the beginning of each to its end.
    pub(super) microseconds: AtomicU64,
}

impl Tally {
    /// Counts a pass that begins.
    fn begin(&self, queries: usize) {
        self.passes.fetch_add(1, Ordering::Relaxed);
        self.queries.fetch_add(queries as u64, Ordering::Relaxed);
    }

    /// Counts the time of one that ends.
    fn end(&self, begun: Instant) {
        self.microseconds.fetch_add(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
    }
}

/// The searches of one list of blocks.
pub(super) struct Passes<Q> {
    line: Mutex<Line<Q>>,
    changed: Condvar,
    tally: Arc<Tally>,
}

struct Line<Q> {
    running: Option<Arc<Pass<Q>>>,
    waiting: VecDeque<Arc<Search<Q>>>,
}

/// The queries of one message.
struct Search<Q> {
    queries: Vec<Q>,
    outcome: Mutex<Outcome>,
}

enum Outcome {
    Waiting,
    Answered(Answers),
    /// The work on its pass panicked.
    Failed,
}

/// Searches that are answered together.
struct Pass<Q> {
    searches: Vec<Arc<Search<Q>>>,
    parts: usize,
    begun: Instant,
    next: AtomicUsize,
    done: Mutex<Done>,
}

struct Done {
    parts: Vec<Answers>,
    left: usize,
}

impl<Q: Send + Sync> Passes<Q> {
    pub(super) fn new(tally: Arc<Tally>) -> Self {
        let line = Line { running: None, waiting: VecDeque::new() };
        Self { line: Mutex::new(line), changed: Condvar::new(), tally }
    }

    /// Answers queries over so many parts; `work` answers all queries of a pass for one part. May wait
    /// for other threads that are in here, so it must not be called where those could be waiting for
    /// this one.
    pub(super) fn answer(
        &self,
        queries: Vec<Q>,
        parts: usize,
        work: impl Fn(usize, &[&Q]) -> Answers + Sync,
    ) -> Answers {
        let search = Arc::new(Search { queries, outcome: Mutex::new(Outcome::Waiting) });
        self.line().waiting.push_back(search.clone());
        while let Some(pass) = self.next_pass(&search, parts) {
            // One for every thread of this caller's pool.
            (0..rayon::current_num_threads())
                .into_par_iter()
                .for_each(|_| self.work_on(&pass, &work));
        }
        match std::mem::replace(&mut *locked(&search.outcome), Outcome::Waiting) {
            Outcome::Answered(answers) => answers,
            // Another search of that pass may be the reason: this one gets a pass of its own.
            Outcome::Failed | Outcome::Waiting => self.alone(&search.queries, parts, work),
        }
    }

    /// The same without waiting for anybody.
    pub(super) fn alone(
        &self,
        queries: &[Q],
        parts: usize,
        work: impl Fn(usize, &[&Q]) -> Answers + Sync,
    ) -> Answers {
        let begun = Instant::now();
        self.tally.begin(queries.len());
        let queries: Vec<&Q> = queries.iter().collect();
        let done: Vec<Answers> =
            (0..parts).into_par_iter().map(|part| work(part, &queries)).collect();
        self.tally.end(begun);
        joined(&done, 0..queries.len())
    }

    /// The pass that runs, to help with, or the next one; `None` when the search is answered.
    fn next_pass(&self, search: &Search<Q>, parts: usize) -> Option<Arc<Pass<Q>>> {
        let mut line = self.line();
        loop {
            if !matches!(*locked(&search.outcome), Outcome::Waiting) {
                return None;
            }
            match &line.running {
                Some(pass) if pass.next.load(Ordering::Relaxed) < pass.parts => {
                    return Some(pass.clone());
                }
                Some(_) => {
                    line = self.changed.wait(line).unwrap_or_else(PoisonError::into_inner);
                }
                None => {
                    let pass = Arc::new(Pass::of(&mut line.waiting, parts));
                    line.running = Some(pass.clone());
                    let queries = pass.searches.iter().map(|search| search.queries.len());
                    self.tally.begin(queries.sum());
                    // Those who are left over can help.
                    self.changed.notify_all();
                    return Some(pass);
                }
            }
        }
    }

    /// Takes parts of a pass until none is left, and ends it if the last one was this one's.
    fn work_on(&self, pass: &Arc<Pass<Q>>, work: &impl Fn(usize, &[&Q]) -> Answers) {
        let queries: Vec<&Q> = pass.searches.iter().flat_map(|search| &search.queries).collect();
        loop {
            let part = pass.next.fetch_add(1, Ordering::Relaxed);
            if part >= pass.parts {
                return;
            }
            let guard = EndOnPanic(self, pass);
            let answers = work(part, &queries);
            drop(guard);
            let mut done = locked(&pass.done);
            done.parts[part] = answers;
            done.left -= 1;
            if done.left == 0 {
                let parts = std::mem::take(&mut done.parts);
                return self.end(pass, Some(&parts));
            }
        }
    }

    /// Hands out the answers of a pass, or that there are none.
    fn end(&self, pass: &Arc<Pass<Q>>, done: Option<&[Answers]>) {
        self.tally.end(pass.begun);
        let mut first = 0;
        for search in &pass.searches {
            let queries = first..first + search.queries.len();
            first = queries.end;
            *locked(&search.outcome) = match done {
                Some(done) => Outcome::Answered(joined(done, queries)),
                None => Outcome::Failed,
            };
        }
        let mut line = self.line();
        if line.running.as_ref().is_some_and(|running| Arc::ptr_eq(running, pass)) {
            line.running = None;
        }
        self.changed.notify_all();
    }

    fn line(&self) -> MutexGuard<'_, Line<Q>> {
        locked(&self.line)
    }
}

impl<Q> Pass<Q> {
    /// The first of those who wait, as long as their queries fit.
    fn of(waiting: &mut VecDeque<Arc<Search<Q>>>, parts: usize) -> Self {
        let mut searches: Vec<Arc<Search<Q>>> = Vec::new();
        let mut queries = 0;
        while let Some(next) = waiting.front() {
            queries += next.queries.len();
            if queries > BlindQuery::MOST && !searches.is_empty() {
                break;
            }
            searches.extend(waiting.pop_front());
        }
        let done = Mutex::new(Done { parts: vec![Vec::new(); parts], left: parts });
        Self { searches, parts, begun: Instant::now(), next: AtomicUsize::new(0), done }
    }
}

/// Ends a pass without answers when the work on a part panics: nobody else would.
struct EndOnPanic<'a, Q: Send + Sync>(&'a Passes<Q>, &'a Arc<Pass<Q>>);

impl<Q: Send + Sync> Drop for EndOnPanic<'_, Q> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.1.next.store(self.1.parts, Ordering::Relaxed);
            self.0.end(self.1, None);
        }
    }
}

// What panics is the work on parts, which holds none of these locks.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The answers to some of the queries, part after part.
fn joined(done: &[Answers], queries: std::ops::Range<usize>) -> Answers {
    let all_parts = |query: usize| -> Vec<u8> {
        done.iter().map(|part| &part[query][..]).collect::<Vec<_>>().concat()
    };
    queries.map(all_parts).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Duration;

    use super::*;

    const PARTS: usize = 3;

    /// Two bytes a part: which part, which query.
    fn work(part: usize, queries: &[&u8]) -> Answers {
        queries.iter().map(|&&query| vec![part as u8, query]).collect()
    }

    fn expected(query: u8) -> Vec<u8> {
        (0..PARTS as u8).flat_map(|part| [part, query]).collect()
    }

    fn counts(tally: &Tally) -> (u64, u64) {
        (tally.passes.load(Ordering::Relaxed), tally.queries.load(Ordering::Relaxed))
    }

    /// Answers a query while others come, which wait until its pass lets them. Where the work on a
    /// pass of several is to fail, once, one of them gets no answer.
    fn with_others(first: u8, others: &[Vec<u8>], fails: bool) -> (u64, u64) {
        let tally = Arc::new(Tally::default());
        let passes = Passes::new(tally.clone());
        let (begun, open) = (AtomicBool::new(false), AtomicBool::new(false));
        let failed = AtomicBool::new(!fails);
        let wait = |flag: &AtomicBool| {
            while !flag.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
        };
        let gated = |part: usize, queries: &[&u8]| {
            if queries.contains(&&first) {
                begun.store(true, Ordering::SeqCst);
                wait(&open);
            }
            assert!(queries.len() == 1 || failed.swap(true, Ordering::SeqCst), "fails once");
            work(part, queries)
        };
        thread::scope(|scope| {
            let alone = scope.spawn(|| passes.answer(vec![first], PARTS, gated));
            wait(&begun);
            let waiting: Vec<_> = others
                .iter()
                .map(|queries| scope.spawn(|| passes.answer(queries.clone(), PARTS, gated)))
                .collect();
            while passes.line().waiting.len() < others.len() {
                thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(counts(&tally), (1, 1), "the first one runs alone");
            open.store(true, Ordering::SeqCst);
            assert_eq!(alone.join().unwrap(), [expected(first)]);
            let mut answered = 0;
            for (thread, queries) in waiting.into_iter().zip(others) {
                if let Ok(answers) = thread.join() {
                    let expected: Answers = queries.iter().map(|&query| expected(query)).collect();
                    assert_eq!(answers, expected);
                    answered += 1;
                }
            }
            assert_eq!(answered, others.len() - usize::from(fails));
            assert!(passes.line().waiting.is_empty() && passes.line().running.is_none());
        });
        counts(&tally)
    }

    #[test]
    fn eight_searches_that_wait_share_the_next_pass() {
        let others: Vec<Vec<u8>> = (0..8).map(|query| vec![query]).collect();
        assert_eq!(with_others(99, &others, false), (2, 9));
    }

    #[test]
    fn a_pass_takes_whole_searches_of_eight_queries_at_most() {
        // Five, three and the one that finds no room, in whatever order they came: at least two more
        // passes, at most one for each.
        let others = [vec![1, 2, 3, 4, 5], vec![6, 7, 8], vec![9; 8]];
        let (passes, queries) = with_others(99, &others, false);
        assert!((3..=4).contains(&passes), "{passes}");
        assert_eq!(queries, 17);
    }

    #[test]
    fn a_pass_that_fails_costs_no_other_search_its_answer() {
        // Two share a pass, whose work panics in one of them; the other asks again, alone.
        let others = [vec![1], vec![2]];
        assert_eq!(with_others(99, &others, true), (3, 4));
    }
}
