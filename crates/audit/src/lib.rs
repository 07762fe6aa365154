//! Retrieval quality with intervals
