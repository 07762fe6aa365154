//! Matching rows of two releases, rows with rows, and requests with rows.
