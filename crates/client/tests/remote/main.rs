//! The client with a server at the other end: connection, publish, pull, backup, sessions, batches,
//! diagnoses.

#[path = "../support/mod.rs"]
mod support;
#[path = "../support/vaults.rs"]
mod vaults;

mod backup;
mod batch;
mod blind;
mod blind_alarms;
mod blind_cells;
mod blind_lies;
mod blind_publish;
mod claims;
mod cluster;
mod connection;
mod copies;
mod damage;
mod diagnose;
mod kept;
mod merge;
mod parted;
mod publish;
mod pull;
mod reader;
mod records;
mod restore;
mod sessions;
mod two_owners;
mod vectors_left;
