//! Ctrl-C: the first asks for an end, the second makes it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Exit code of a command that was stopped by its user, as shells have it.
pub const EXIT_CODE: u8 = 130;

static STOPPED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C is remembered instead of ending the program at once.
pub fn watch() {
    thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        // Without it Ctrl-C ends the program as ever; nothing is half done then either.
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                if STOPPED.swap(true, Ordering::Relaxed) {
                    std::process::exit(EXIT_CODE.into());
                }
            }
        });
    });
}

/// Whether the end was asked for.
pub fn is_stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}
