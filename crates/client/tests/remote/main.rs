//! The client with a server at the other end: connection, publish, backup, sessions, batches.

#[path = "../support/mod.rs"]
mod support;
#[path = "../support/vaults.rs"]
mod vaults;

mod backup;
mod batch;
mod connection;
mod publish;
mod sessions;
