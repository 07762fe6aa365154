//! Other ways to protect vectors: what Shard is compared with.
