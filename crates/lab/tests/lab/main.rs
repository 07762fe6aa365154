//! `shard-lab` from outside. One program for all tests of it, which links once.

mod bench;
mod blind;
mod load;
mod reproduce;
mod slots;
#[path = "../../../cli/tests/cli/support/mod.rs"]
mod support;
mod usage;
mod vault;
