//! The audit as a page, as plots, as JSON, and as an exit code.
