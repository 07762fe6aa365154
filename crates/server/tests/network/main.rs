//! The server on a socket: what is answered, who may do what, hostile peers, starting and stopping.

#[path = "../support/mod.rs"]
mod support;

#[path = "../support/blind.rs"]
mod commits;

mod blind;
mod cluster;
mod doors;
mod hostile;
mod lifecycle;
#[cfg(feature = "postgres")]
mod postgres;
mod requests;
