//! One message in and one out: what is refused, and sessions.

#[path = "../support/messages.rs"]
mod support;

mod refusals;
mod sessions;
