//! Sessions with one server, each used by one request at a time.
//!
//! A request takes a session for itself until its answer has been checked. So nobody spends the
//! last request of a secret twice, and nobody goes on using a secret under which an answer turned
//! out false: it is dropped before the next one could take it, and with it every other session of
//! the pool, those in use once they come back. Requests at the same time take
//! different sessions, up to [`MOST_SESSIONS`]; beyond that they wait.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use shard_protocol::{Refusal, RefusalCode};

use crate::error::ClientError;

/// Sessions open at once: their keys are megabytes on the server, which has many clients.
const MOST_SESSIONS: usize = 4;

/// A secret whose keys a server holds.
pub(crate) trait Session {
    /// What requests need of a session.
    type Shape: Clone + PartialEq;

    /// What the session was opened for.
    fn shape(&self) -> Self::Shape;

    /// Whether it has what a request needs.
    fn serves(&self, needed: &Self::Shape) -> bool;

    /// Requests left.
    fn remaining(&self) -> u32;
}

/// The open sessions of one client with one server.
pub(crate) struct Pool<S: Session> {
    state: Mutex<State<S>>,
    freed: Condvar,
}

struct State<S: Session> {
    /// Free ones, the latest used last.
    idle: Vec<S>,
    /// Shapes of those in use.
    taken: Vec<S::Shape>,
    /// False answers so far. A session taken before the last of them does not come back.
    generation: u64,
}

impl<S: Session> Default for Pool<S> {
    fn default() -> Self {
        let state = State { idle: Vec::new(), taken: Vec::new(), generation: 0 };
        Self { state: Mutex::new(state), freed: Condvar::new() }
    }
}

/// A place in the pool, with the session in it if there is one. Dropped, it frees the place.
struct Lease<'a, S: Session> {
    pool: &'a Pool<S>,
    shape: S::Shape,
    session: Option<S>,
    /// The pool's when the place was taken.
    generation: u64,
}

impl<S: Session> Pool<S> {
    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shape of keys that the server holds already, of the session used last.
    pub(crate) fn held(&self) -> Option<S::Shape> {
        let state = self.lock();
        state.idle.last().map(S::shape).or_else(|| state.taken.last().cloned())
    }

    /// Makes one request under a session that has what it needs. A session that the server does
    /// not know, or no longer, is replaced once.
    ///
    /// `ask` opens a session where it is given none, makes the request and checks the answer.
    pub(crate) fn request<V>(
        &self,
        needed: &S::Shape,
        mut ask: impl FnMut(&mut Option<S>) -> Result<V, ClientError>,
    ) -> Result<V, ClientError> {
        match self.take(needed, Wanted::Any).request(&mut ask) {
            Err(error) if is_unknown_session(&error) => {
                self.take(needed, Wanted::Fresh).request(&mut ask)
            }
            outcome => outcome,
        }
    }

    /// A session that serves, or a place to open one in.
    fn take(&self, needed: &S::Shape, wanted: Wanted) -> Lease<'_, S> {
        let mut state = self.lock();
        let session = loop {
            let serving = match wanted {
                Wanted::Any => state.idle.iter().rposition(|session| session.serves(needed)),
                Wanted::Fresh => None,
            };
            if let Some(at) = serving {
                break Some(state.idle.remove(at));
            }
            if state.idle.len() + state.taken.len() < MOST_SESSIONS {
                break None;
            }
            if !state.idle.is_empty() {
                state.idle.remove(0); // the one unused for longest gives way
                break None;
            }
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        let shape = session.as_ref().map_or_else(|| needed.clone(), S::shape);
        state.taken.push(shape.clone());
        Lease { pool: self, shape, session, generation: state.generation }
    }
}

/// Which session will do.
#[derive(Clone, Copy)]
enum Wanted {
    Any,
    Fresh,
}

impl<S: Session> Lease<'_, S> {
    /// Asks under the session, which goes back to the pool unless it is spent or must not be used
    /// again.
    fn request<V>(
        mut self,
        ask: &mut impl FnMut(&mut Option<S>) -> Result<V, ClientError>,
    ) -> Result<V, ClientError> {
        let mut session = self.session.take();
        let outcome = ask(&mut session);
        let sound = match &outcome {
            Ok(_) => true,
            // A request that was not answered says nothing about the secret.
            Err(ClientError::NoAnswer { .. }) => true,
            #[cfg(feature = "remote")]
            Err(ClientError::Remote(_)) => true,
            Err(ClientError::Outdated { .. } | ClientError::Unpublished { .. }) => true,
            Err(error @ ClientError::Refused(_)) => !is_unknown_session(error),
            Err(_) => false,
        };
        let mut state = self.pool.lock();
        if matches!(outcome, Err(ClientError::FalseAnswer { .. })) {
            state.generation += 1;
            state.idle.clear();
        } else if sound && self.generation == state.generation {
            state.idle.extend(session.filter(|session| session.remaining() > 0));
        }
        drop(state);
        outcome
    }
}

impl<S: Session> Drop for Lease<'_, S> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        if let Some(at) = state.taken.iter().position(|shape| *shape == self.shape) {
            state.taken.swap_remove(at);
        }
        drop(state);
        self.pool.freed.notify_all();
    }
}

fn is_unknown_session(error: &ClientError) -> bool {
    let ClientError::Refused(Refusal { code, .. }) = error else { return false };
    *code == RefusalCode::UnknownSession
}

#[cfg(test)]
mod tests;
