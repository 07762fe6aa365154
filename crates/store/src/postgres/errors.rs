//! What the database or the way to it says, as an engine's error.

use deadpool_postgres::PoolError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::StoreError;

/// An error of a request.
pub(super) fn failed(doing: &'static str) -> impl Fn(Error) -> StoreError + Copy {
    move |error| {
        let reason = said(&error);
        let Some(code) = error.code() else {
            return StoreError::Unavailable { doing, reason };
        };
        if *code == SqlState::DISK_FULL {
            let reason = format!("the disk of the database is full: {reason}");
            return StoreError::Engine { doing, reason };
        }
        if is_passing(code) {
            StoreError::Unavailable { doing, reason }
        } else {
            StoreError::Engine { doing, reason }
        }
    }
}

/// Whether the same request may go a moment later: connections that are cut or refused while a server starts
/// or stops, one that has become a replica, transactions that were in each other's way, waits that were
/// too long.
fn is_passing(code: &SqlState) -> bool {
    let passing = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::QUERY_CANCELED,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    code.code().starts_with("08") || passing.contains(code)
}

/// An error of the pool.
pub(super) fn unconnected(doing: &'static str) -> impl Fn(PoolError) -> StoreError {
    move |error| match error {
        PoolError::Backend(error)
        | PoolError::PostCreateHook(deadpool_postgres::HookError::Backend(error)) => {
            failed(doing)(error)
        }
        PoolError::Timeout(_) => late(doing),
        other => StoreError::Unavailable { doing, reason: other.to_string() },
    }
}

/// Nothing has come in time.
pub(super) fn late(doing: &'static str) -> StoreError {
    StoreError::Unavailable { doing, reason: "no answer in time".to_owned() }
}

/// What a server or the way to it says, in one line.
pub(super) fn said(error: &Error) -> String {
    match error.as_db_error() {
        Some(error) => error.message().to_owned(),
        None => innermost(error),
    }
}

/// The cause of all others, in one line.
pub(super) fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string().replace('\n', " ")
}
