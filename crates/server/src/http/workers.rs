//! Computing, away from the threads that serve sockets.
//!
//! A fixed number of workers, each a rayon pool of its own, and a bounded queue before them. A request that is
//! alone is spread over the threads of its worker, which by default are as many as there are cores, up to eight.
//! Under load workers have more threads than there are cores: the system divides these among requests, and none
//! waits behind the pieces of another. Collections take turns, and within one it is first come, first served: a
//! collection that is asked much holds up its own requests. When the queue is full, or a collection has its part
//! of it, requests are refused at once.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use shard_protocol::CollectionName;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Why work was not done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotDone {
    /// The queue is full.
    Full,
    /// No worker was free in time.
    Late,
    /// The work panicked.
    Panicked,
}

pub(super) struct Workers {
    desk: Arc<Desk>,
    count: usize,
    queue: usize,
}

impl Workers {
    pub(super) fn new(
        name: &'static str,
        count: usize,
        threads: usize,
        queue: usize,
    ) -> Result<Self, ThreadPoolBuildError> {
        let pool = |index| {
            let name = move |thread| format!("{name}-{index}-{thread}");
            ThreadPoolBuilder::new().num_threads(threads.max(1)).thread_name(name).build()
        };
        let count = count.max(1);
        let free = (0..count).map(|at| pool(at).map(Arc::new)).collect::<Result<_, _>>()?;
        let desk = Desk(Mutex::new(Line { free, ..Line::default() }));
        Ok(Self { desk: Arc::new(desk), count, queue })
    }

    /// Requests that wait for a worker.
    pub(super) fn waiting(&self) -> usize {
        self.desk.line().waiting
    }

    /// Requests that are being computed.
    pub(super) fn computing(&self) -> usize {
        self.count - self.desk.line().free.len()
    }

    /// Runs work for a collection on a worker, and says how long it waited for one. Work that has begun is
    /// finished even when nobody waits for it any longer.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        collection: &CollectionName,
        patience: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(T, Duration), NotDone> {
        let start = Instant::now();
        let place = self.desk.line().take(collection, self.queue).ok_or(NotDone::Full)?;
        let worker = match place {
            Place::Free(pool) => Worker { desk: self.desk.clone(), pool: Some(pool) },
            Place::Queued(ticket, granted) => {
                let _queued = Queued { desk: &self.desk, collection, ticket };
                let granted = timeout(patience, granted).await.map_err(|_| NotDone::Late)?;
                granted.expect("a place in the queue is granted or left")
            }
        };
        let waited = start.elapsed();
        let (sender, receiver) = oneshot::channel();
        let pool = worker.pool.clone().expect("a worker has a pool until it is dropped");
        pool.spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(work));
            drop(worker);
            // Nobody is there to receive it when the peer has gone.
            let _ = sender.send(outcome);
        });
        match receiver.await {
            Ok(Ok(done)) => Ok((done, waited)),
            Ok(Err(_)) | Err(_) => Err(NotDone::Panicked),
        }
    }
}

/// Where workers are given out.
struct Desk(Mutex<Line>);

/// Free workers, and those who wait for one.
#[derive(Default)]
struct Line {
    free: Vec<Arc<ThreadPool>>,
    waiting: usize,
    /// Whoever waits, by collection; no collection is here for whom nobody waits.
    lines: HashMap<CollectionName, VecDeque<(u64, oneshot::Sender<Worker>)>>,
    /// The collections of `lines` in the order of their turns.
    turns: VecDeque<CollectionName>,
    tickets: u64,
}

/// What one who comes gets.
enum Place {
    Free(Arc<ThreadPool>),
    Queued(u64, oneshot::Receiver<Worker>),
}

/// A worker that is taken; it goes to the next one who waits, also when whoever was to have it is gone.
struct Worker {
    desk: Arc<Desk>,
    pool: Option<Arc<ThreadPool>>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        while let Some(pool) = self.pool.take() {
            let next = self.desk.line().give_back(pool);
            if let Some((next, pool)) = next {
                let worker = Self { desk: self.desk.clone(), pool: Some(pool) };
                // Whoever gave up just now does not take it.
                self.pool = next.send(worker).err().and_then(|mut worker| worker.pool.take());
            }
        }
    }
}

/// A place in the queue; given back also when the one who waits gives up.
struct Queued<'a> {
    desk: &'a Desk,
    collection: &'a CollectionName,
    ticket: u64,
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.desk.line().leave(self.collection, self.ticket);
    }
}

impl Desk {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    /// A free worker, or a place in a queue of so many; `None` when there is none. A quarter of the queue is
    /// kept for collections that wait less.
    fn take(&mut self, collection: &CollectionName, queue: usize) -> Option<Place> {
        if let Some(pool) = self.free.pop() {
            return Some(Place::Free(pool));
        }
        let own = self.lines.get(collection).map_or(0, VecDeque::len);
        if self.waiting >= queue || own >= (queue - queue / 4) {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        self.tickets += 1;
        if own == 0 {
            self.turns.push_back(collection.clone());
        }
        self.lines.entry(collection.clone()).or_default().push_back((self.tickets, sender));
        self.waiting += 1;
        Some(Place::Queued(self.tickets, receiver))
    }

    /// Takes a worker back: it is free, unless somebody waits for it, who is returned with it.
    fn give_back(
        &mut self,
        pool: Arc<ThreadPool>,
    ) -> Option<(oneshot::Sender<Worker>, Arc<ThreadPool>)> {
        if let Some(next) = self.next() {
            return Some((next, pool));
        }
        self.free.push(pool);
        None
    }

    /// Takes the next one out of the queue.
    fn next(&mut self) -> Option<oneshot::Sender<Worker>> {
        let collection = self.turns.pop_front()?;
        let line = self.lines.get_mut(&collection).expect("every turn has a line");
        let (_, next) = line.pop_front().expect("no line is empty");
        self.waiting -= 1;
        if line.is_empty() {
            self.lines.remove(&collection);
        } else {
            self.turns.push_back(collection);
        }
        Some(next)
    }

    /// Takes one out who waits no longer.
    fn leave(&mut self, collection: &CollectionName, ticket: u64) {
        let Some(line) = self.lines.get_mut(collection) else { return };
        let Some(at) = line.iter().position(|(other, _)| *other == ticket) else { return };
        line.remove(at);
        self.waiting -= 1;
        if line.is_empty() {
            self.lines.remove(collection);
            self.turns.retain(|other| other != collection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn name(text: &str) -> CollectionName {
        text.parse().unwrap()
    }

    #[tokio::test]
    async fn the_queue_is_bounded_and_what_it_holds_is_served() {
        let workers = Arc::new(Workers::new("worker", 1, 1, 1).unwrap());
        let (open, gate) = mpsc::channel::<()>();
        let (started, begun) = oneshot::channel();
        let first = tokio::spawn({
            let workers = workers.clone();
            async move {
                let work = move || {
                    started.send(()).unwrap();
                    gate.recv().unwrap();
                    1
                };
                workers.run(&name("a"), PATIENCE, work).await
            }
        });
        begun.await.unwrap();
        let second = tokio::spawn({
            let workers = workers.clone();
            async move { workers.run(&name("a"), PATIENCE, || 2).await }
        });
        while workers.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(workers.run(&name("a"), PATIENCE, || 3).await.unwrap_err(), NotDone::Full);
        assert_eq!((workers.computing(), workers.waiting()), (1, 1));
        open.send(()).unwrap();
        assert_eq!(first.await.unwrap().unwrap().0, 1);
        assert_eq!(second.await.unwrap().unwrap().0, 2);
        assert_eq!(workers.waiting(), 0);
    }

    #[tokio::test]
    async fn one_who_waits_too_long_is_turned_away_and_leaves_no_gap() {
        let workers = Workers::new("worker", 1, 1, 1).unwrap();
        let (open, gate) = mpsc::channel::<()>();
        let one = name("a");
        let (blocked, late) =
            tokio::join!(workers.run(&one, PATIENCE, move || gate.recv()), async {
                let late = workers.run(&one, Duration::from_millis(20), || ()).await;
                open.send(()).unwrap();
                late
            });
        assert_eq!(late.unwrap_err(), NotDone::Late);
        assert!(blocked.is_ok());
        assert_eq!((workers.waiting(), workers.computing()), (0, 0));
    }

    #[tokio::test]
    async fn a_panic_costs_one_request_and_no_worker() {
        let workers = Workers::new("worker", 1, 1, 1).unwrap();
        let boom =
            workers.run(&name("a"), PATIENCE, || std::panic::resume_unwind(Box::new("boom"))).await;
        assert_eq!(boom.map(|(never, _): ((), _)| never), Err(NotDone::Panicked));
        assert_eq!(workers.run(&name("a"), PATIENCE, || 5).await.unwrap().0, 5);
    }

    #[tokio::test]
    async fn collections_take_turns_and_none_fills_the_queue() {
        let workers = Arc::new(Workers::new("worker", 1, 1, 8).unwrap());
        let (open, gate) = mpsc::channel::<()>();
        let (order, done) = mpsc::channel();
        let start = |collection: &'static str, work: Box<dyn FnOnce() + Send>| {
            let (workers, order) = (workers.clone(), order.clone());
            tokio::spawn(async move {
                let work = move || {
                    work();
                    order.send(collection).unwrap();
                };
                workers.run(&name(collection), PATIENCE, work).await.map(|_| ())
            })
        };
        let mut all = vec![start("busy", Box::new(move || gate.recv().unwrap()))];
        while workers.computing() == 0 {
            tokio::task::yield_now().await;
        }
        let queued = async |count: usize| {
            while workers.waiting() < count {
                tokio::task::yield_now().await;
            }
        };
        for count in 1..=6 {
            all.push(start("busy", Box::new(|| ())));
            queued(count).await;
        }
        let more = workers.run(&name("busy"), PATIENCE, || ()).await;
        assert_eq!(more.unwrap_err(), NotDone::Full, "a quarter is for others");
        for count in 7..=8 {
            all.push(start("other", Box::new(|| ())));
            queued(count).await;
        }
        let third = workers.run(&name("third"), PATIENCE, || ()).await;
        assert_eq!(third.unwrap_err(), NotDone::Full);
        open.send(()).unwrap();
        for one in all {
            one.await.unwrap().unwrap();
        }
        let served: Vec<&str> = done.try_iter().collect();
        assert_eq!(served[..5], ["busy", "busy", "other", "busy", "other"]);
        assert_eq!((served.len(), workers.waiting(), workers.computing()), (9, 0, 0));
    }
}
