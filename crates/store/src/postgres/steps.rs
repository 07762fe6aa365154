//! Failures between any two steps, for tests.

use crate::StoreError;

/// Counts steps and fails one of them; outside of tests it does nothing.
#[derive(Default)]
pub(super) struct Steps {
    #[cfg(test)]
    left: std::sync::Mutex<Option<u64>>,
}

impl Steps {
    /// A step has been taken. A failure here is a process that is cut off: whatever comes next is not done.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "tests count"))]
    pub(super) fn pass(&self, doing: &'static str) -> Result<(), StoreError> {
        #[cfg(test)]
        {
            let mut left = self.left.lock().unwrap();
            match left.as_mut() {
                Some(0) => {
                    *left = None;
                    return Err(StoreError::Unavailable { doing, reason: "a test".to_owned() });
                }
                Some(left) => *left -= 1,
                None => {}
            }
        }
        let _ = doing;
        Ok(())
    }

    /// Lets so many steps pass and fails the next one.
    #[cfg(test)]
    pub(super) fn fail_after(&self, steps: u64) {
        *self.left.lock().unwrap() = Some(steps);
    }

    /// Fails none. Returns whether the failure that was planned has happened.
    #[cfg(test)]
    pub(super) fn end(&self) -> bool {
        self.left.lock().unwrap().take().is_none()
    }
}
