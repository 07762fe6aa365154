//! Errors of the disk, for tests: redb is real, only its writes are made to fail.

use std::io;
use std::sync::{Arc, Mutex};

/// Which writes fail; shared by every handle on the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Arc<Mutex<Plan>>);

#[derive(Debug, Default)]
struct Plan {
    /// Writes until they fail; `None` when they do not.
    left: Option<u64>,
    /// How many fail.
    failing: u64,
    kind: Option<io::ErrorKind>,
    struck: bool,
}

impl Faults {
    /// After `left` more writes and syncs, `failing` ones fail with an error of a kind.
    pub(crate) fn fail_after(&self, left: u64, failing: u64, kind: io::ErrorKind) {
        *self.0.lock().unwrap() =
            Plan { left: Some(left), failing, kind: Some(kind), struck: false };
    }

    /// Whether a write has failed.
    pub(crate) fn struck(&self) -> bool {
        self.0.lock().unwrap().struck
    }

    /// Lets every write through again.
    pub(crate) fn end(&self) {
        *self.0.lock().unwrap() = Plan::default();
    }

    /// Called before every write and sync.
    pub(super) fn strike(&self) -> io::Result<()> {
        let mut plan = self.0.lock().unwrap();
        let (Some(left), Some(kind)) = (plan.left, plan.kind) else { return Ok(()) };
        match (left, plan.failing) {
            (0, 0) => Ok(()),
            (0, _) => {
                plan.failing -= 1;
                plan.struck = true;
                Err(kind.into())
            }
            _ => {
                plan.left = Some(left - 1);
                Ok(())
            }
        }
    }
}
