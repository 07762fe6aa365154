//! One message in and one out: what is refused, sessions, and blind collections.

#[path = "../support/messages.rs"]
mod support;

#[path = "../support/blind.rs"]
mod commits;

mod blind;
mod blind_time;
mod refusals;
mod sessions;
