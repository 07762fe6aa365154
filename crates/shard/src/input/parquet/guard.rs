//! Turns failed assertions of the parquet library into errors.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::input::error::{InputError, InputProblem};

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs a reader and turns a panic inside it into an error.
///
/// The library asserts on some damaged files where it should return an error (about one in 400 of files with a
/// few flipped bits). What was half read is dropped, so nothing broken is seen afterwards. The usual report of a panic is silenced for this thread only.
pub(super) fn without_panics<T>(
    read: impl FnOnce() -> Result<T, InputError>,
) -> Result<T, InputError> {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |information| {
            if !QUIET.get() {
                report(information);
            }
        }));
    });
    let before = QUIET.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(read));
    QUIET.set(before);
    match outcome {
        Ok(result) => result,
        Err(_) => {
            let words = "the file is damaged: the parquet reader gave up on it";
            Err(InputProblem::Malformed(words.to_owned()).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_and_a_result_passes() {
        let error = without_panics::<()>(|| panic!("an assertion")).unwrap_err();
        assert_eq!(error.to_string(), "the file is damaged: the parquet reader gave up on it");
        assert_eq!(without_panics(|| Ok(7)).unwrap(), 7);
        assert!(!QUIET.get());
    }
}
