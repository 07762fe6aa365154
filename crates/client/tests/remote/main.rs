//! The client with a server at the other end: connection, publish, backup, sessions, batches,
//! diagnoses.

#[path = "../support/mod.rs"]
mod support;
#[path = "../support/vaults.rs"]
mod vaults;

mod backup;
mod batch;
mod connection;
mod damage;
mod diagnose;
mod publish;
mod sessions;
