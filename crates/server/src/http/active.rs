//! Whether anything is still being served.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::sleep;

/// How often a server that wants to end looks whether it may.
const LOOK: Duration = Duration::from_millis(20);

/// Time for the last bytes of an answer to leave the buffers of TLS, which has copies of its own.
const LAST_BYTES: Duration = Duration::from_millis(500);

/// Counts requests that are served, work that goes on without a peer, and answers that are sent.
#[derive(Clone, Default)]
pub(super) struct Active(Arc<AtomicUsize>);

/// One of them, until it is dropped.
pub(super) struct Begun(Active);

impl Active {
    pub(super) fn begin(&self) -> Begun {
        self.0.fetch_add(1, Ordering::Relaxed);
        Begun(self.clone())
    }

    fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Waits until all of them have ended.
    pub(super) async fn over(&self) {
        while !self.is_over() {
            sleep(LOOK).await;
        }
    }

    /// Waits until all of them have ended, and their bytes had time to go.
    pub(super) async fn end(&self) {
        loop {
            self.over().await;
            sleep(LAST_BYTES).await;
            // One may have begun on a connection that was open already.
            if self.is_over() {
                return;
            }
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
