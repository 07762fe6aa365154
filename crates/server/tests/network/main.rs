//! The server on a socket: what is answered, who may do what, hostile peers, starting and stopping.

#[path = "../support/mod.rs"]
mod support;

mod hostile;
mod lifecycle;
mod requests;
