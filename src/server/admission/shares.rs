//! The calls in flight of each identified caller, so that none of them takes the last places from the others.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Calls in flight by the name of their caller. Callers without any are not kept, so there are no more than calls.
#[derive(Default)]
pub struct Shares(Mutex<HashMap<String, usize>>);

impl Shares {
    /// Counts a call. When places are scarce, not one of a caller that has its share of them: places are divided among those that have
    /// calls in flight and one more, which may come.
    pub fn begin(&self, caller: &str, places: usize, are_scarce: bool) -> bool {
        let mut calls = self.lock();
        let sharers = calls.len() + 1;
        if let Some(own) = calls.get_mut(caller) {
            if are_scarce && *own >= places / sharers {
                return false;
            }
            *own += 1;
        } else {
            calls.insert(caller.to_owned(), 1);
        }
        true
    }

    pub fn end(&self, caller: &str) {
        let mut calls = self.lock();
        if let Some(own) = calls.get_mut(caller) {
            *own -= 1;
            if *own == 0 {
                calls.remove(caller);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
