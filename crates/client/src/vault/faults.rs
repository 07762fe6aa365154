//! Failures on request, so that tests can stop a writer at every step. Outside tests there are
//! none, and nothing of this is compiled in.

use std::io;

/// What is about to be done to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    Write,
    SyncFile,
    SyncDirectory,
    Rename,
    Remove,
}

#[cfg(not(test))]
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {}

#[cfg(not(test))]
impl Faults {
    /// Fails when a test asked for it: here, never.
    #[inline]
    pub(super) fn before(&self, _operation: Operation, _name: &str) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
pub(super) use requested::{Failure, Faults};

#[cfg(test)]
mod requested {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// What happens at the operation chosen to fail.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(in super::super) enum Failure {
        /// The process dies: neither that operation nor any later one takes place.
        Killed,
        /// Writing fails from there on, as on a full disk; everything else still works.
        DiskFull,
        /// That one operation fails, and everything after it works.
        Once,
    }

    #[derive(Debug, Default)]
    struct Plan {
        failure: Option<(Failure, usize)>,
        log: Vec<(Operation, String)>,
        failed: bool,
    }

    /// A plan shared by a vault's directory and the files it creates.
    #[derive(Clone, Debug, Default)]
    pub(in super::super) struct Faults(Arc<Mutex<Plan>>);

    impl Faults {
        /// Lets the operation numbered `at`, counted from now, fail.
        pub(in super::super) fn arm(&self, failure: Failure, at: usize) {
            *self.0.lock().unwrap() = Plan { failure: Some((failure, at)), ..Plan::default() };
        }

        /// Lets everything work again and forgets the log.
        pub(in super::super) fn disarm(&self) {
            *self.0.lock().unwrap() = Plan::default();
        }

        /// Whether anything failed since the plan was armed.
        pub(in super::super) fn struck(&self) -> bool {
            self.0.lock().unwrap().failed
        }

        /// The operations since the plan was armed or disarmed.
        pub(in super::super) fn log(&self) -> Vec<(Operation, String)> {
            self.0.lock().unwrap().log.clone()
        }

        pub(in super::super) fn before(&self, operation: Operation, name: &str) -> io::Result<()> {
            let mut plan = self.0.lock().unwrap();
            let number = plan.log.len();
            plan.log.push((operation, name.to_owned()));
            let fails = match plan.failure {
                None => false,
                Some((Failure::Killed, at)) => number >= at,
                Some((Failure::DiskFull, at)) => {
                    number >= at && matches!(operation, Operation::Create | Operation::Write)
                }
                Some((Failure::Once, at)) => number == at,
            };
            if fails {
                plan.failed = true;
                return Err(io::Error::new(io::ErrorKind::StorageFull, "requested fault"));
            }
            Ok(())
        }
    }
}
