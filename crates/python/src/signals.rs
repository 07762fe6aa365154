//! Ctrl-C in long work.
//!
//! The interpreter runs handlers of signals on the thread that calls, and steps of work come from any
//! thread. So the work runs on a thread of its own; the calling one wakes now and then, looks for
//! signals, and tells a Python function how far the work has come.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use shard::{Error, Progress, Watch};

use crate::errors::raised;

/// How often the interpreter is asked: each time takes its lock.
const EVERY: Duration = Duration::from_millis(50);

/// Runs work without the interpreter's lock, followed. `told` is called as `told(done, total)`; it runs
/// while the work does, and must not use the vault that is worked on.
pub fn followed<R: Send>(
    py: Python<'_>,
    told: Option<Py<PyAny>>,
    work: impl FnOnce(&Watch<'_>) -> Result<R, Error> + Send,
) -> PyResult<R> {
    let (stopped, latest) = (AtomicBool::new(false), Mutex::new(None));
    let step = |progress: Progress| {
        if let Ok(mut latest) = latest.try_lock() {
            *latest = Some(progress);
        }
        if stopped.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let look = |py: Python<'_>| -> PyResult<()> {
        py.check_signals()?;
        let progress = latest.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let (Some(told), Some(Progress { done, total })) = (&told, progress) {
            told.call1(py, (done, total))?;
        }
        Ok(())
    };
    let (outcome, interrupted) = py.detach(|| {
        let (done, is_done) = channel::<()>();
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let outcome = work(&step);
                drop(done); // wakes the other side
                outcome
            });
            let mut interrupted = None;
            while let Err(RecvTimeoutError::Timeout) = is_done.recv_timeout(EVERY) {
                if interrupted.is_none()
                    && let Err(error) = Python::attach(look)
                {
                    interrupted = Some(error);
                    stopped.store(true, Ordering::Relaxed);
                }
            }
            (worker.join(), interrupted)
        })
    });
    if let Some(error) = interrupted {
        return Err(error);
    }
    match outcome {
        Ok(outcome) => {
            look(py)?;
            outcome.map_err(raised)
        }
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
