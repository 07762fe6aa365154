//! One message in and one out: what is refused, sessions, blind collections and their records.

#[path = "../support/messages.rs"]
mod support;

#[path = "../support/blind.rs"]
mod commits;

#[path = "../support/hooked.rs"]
#[allow(dead_code, reason = "every test program uses its own part of this")]
mod hooked;

mod blind;
mod blind_time;
mod records;
mod refusals;
mod sessions;
