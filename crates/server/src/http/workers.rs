//! Computing, away from the threads that serve sockets.
//!
//! A fixed number of workers, each a rayon pool of its own, so that requests under load share the
//! cores by request and not by piece of work; a bounded queue before them, first come first
//! served; when the queue is full, requests are refused at once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use tokio::sync::{Semaphore, oneshot};
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
    free: Arc<Semaphore>,
    pools: Arc<Mutex<Vec<Arc<ThreadPool>>>>,
    count: usize,
    waiting: AtomicUsize,
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
        let pools: Vec<_> =
            (0..count).map(|at| pool(at).map(Arc::new)).collect::<Result<_, _>>()?;
        Ok(Self {
            free: Arc::new(Semaphore::new(count)),
            pools: Arc::new(Mutex::new(pools)),
            count,
            waiting: AtomicUsize::new(0),
            queue,
        })
    }

    /// Requests that wait for a worker.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Requests that are being computed.
    pub(super) fn computing(&self) -> usize {
        self.count - self.free.available_permits()
    }

    /// Runs work on a worker, and says how long it waited for one. Work that has begun is finished
    /// even when nobody waits for it any longer.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        patience: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(T, Duration), NotDone> {
        let start = Instant::now();
        let worker = match self.free.clone().try_acquire_owned() {
            Ok(worker) => worker,
            Err(_) => {
                let _place = self.queue_up().ok_or(NotDone::Full)?;
                let free = timeout(patience, self.free.clone().acquire_owned()).await;
                free.map_err(|_| NotDone::Late)?.expect("the semaphore is never closed")
            }
        };
        let waited = start.elapsed();
        let pools = self.pools.clone();
        let pool = lock(&pools).pop().expect("as many pools as workers");
        let (sender, receiver) = oneshot::channel();
        pool.clone().spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(work));
            lock(&pools).push(pool);
            drop(worker);
            // Nobody is there to receive it when the peer has gone.
            let _ = sender.send(outcome);
        });
        match receiver.await {
            Ok(Ok(done)) => Ok((done, waited)),
            Ok(Err(_)) | Err(_) => Err(NotDone::Panicked),
        }
    }

    fn queue_up(&self) -> Option<Place<'_>> {
        let place = |waiting| (waiting < self.queue).then_some(waiting + 1);
        let taken = self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, place);
        taken.ok().map(|_| Place(&self.waiting))
    }
}

/// A place in the queue; given back also when the one who waits gives up.
struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(pools: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    pools.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const PATIENCE: Duration = Duration::from_secs(30);

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
                workers.run(PATIENCE, work).await
            }
        });
        begun.await.unwrap();
        let second = tokio::spawn({
            let workers = workers.clone();
            async move { workers.run(PATIENCE, || 2).await }
        });
        while workers.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(workers.run(PATIENCE, || 3).await.unwrap_err(), NotDone::Full);
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
        let (blocked, late) = tokio::join!(workers.run(PATIENCE, move || gate.recv()), async {
            let late = workers.run(Duration::from_millis(20), || ()).await;
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
        let boom = workers.run(PATIENCE, || std::panic::resume_unwind(Box::new("boom"))).await;
        assert_eq!(boom.map(|(never, _): ((), _)| never), Err(NotDone::Panicked));
        assert_eq!(workers.run(PATIENCE, || 5).await.unwrap().0, 5);
    }
}
