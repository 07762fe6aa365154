//! Reading words out of vectors.
