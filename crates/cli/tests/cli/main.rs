//! The command from outside. One program for all tests of it, which links once.

mod access;
mod audit;
mod blind;
#[cfg(feature = "cluster")]
mod cluster;
mod demo;
mod dump;
mod errors;
mod eval;
mod exact;
mod fields;
#[cfg(feature = "import")]
mod import;
mod ingest;
mod journey;
mod leaks;
mod machines;
mod page;
mod recorder;
mod records;
mod remote;
mod rows;
mod search;
mod serve;
#[path = "../../../client/tests/support/mod.rs"]
mod server;
mod support;
mod terminal;
#[cfg(feature = "encode")]
mod texts;
mod updates;
mod usage;
mod vault;
