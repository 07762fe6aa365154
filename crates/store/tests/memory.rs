//! The engine in memory, under the tests of every engine.

mod conformance;

use shard_store::MemoryRows;

conformance::suite!(MemoryRows::new());
