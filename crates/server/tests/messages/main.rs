//! One message in and one out: what is refused, sessions, blind collections and their records.

#[path = "../support/messages.rs"]
mod support;

#[path = "../support/blind.rs"]
mod commits;

mod blind;
mod blind_time;
mod records;
mod refusals;
mod sessions;
