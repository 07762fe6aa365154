//! Recently used keys, within a budget of memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use shard_geometry::Transform;

use crate::settings::TransformKind;

/// Cell, family and width. A cache belongs to one epoch.
pub(super) type KeyLabel = (u32, TransformKind, usize);

/// Least recently used keys give way once the budget is spent.
pub(super) struct KeyCache {
    budget: usize,
    pub(super) state: Mutex<CacheState>,
}

#[derive(Default)]
pub(super) struct CacheState {
    keys: HashMap<KeyLabel, (u64, Arc<Transform>)>,
    pub(super) bytes: usize,
    clock: u64,
}

impl KeyCache {
    pub(super) fn new(budget: usize) -> Self {
        Self { budget, state: Mutex::default() }
    }

    pub(super) fn find(&self, label: &KeyLabel) -> Option<Arc<Transform>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock += 1;
        let now = state.clock;
        let (used, key) = state.keys.get_mut(label)?;
        *used = now;
        Some(key.clone())
    }

    pub(super) fn insert(&self, label: KeyLabel, key: Arc<Transform>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock += 1;
        let now = state.clock;
        state.bytes += key.bytes();
        if let Some((_, replaced)) = state.keys.insert(label, (now, key)) {
            state.bytes -= replaced.bytes();
        }
        while state.bytes > self.budget && state.keys.len() > 1 {
            let oldest = *state.keys.iter().min_by_key(|(_, (used, _))| used).expect("not empty").0;
            if let Some((_, key)) = state.keys.remove(&oldest) {
                state.bytes -= key.bytes();
            }
        }
    }
}
