//! The calls in flight of each identified caller, so that none of them takes the last permits from the others.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Calls in flight by the name of their caller. Callers without any are not kept, so there are no more than calls.
#[derive(Default)]
pub struct Shares(Mutex<HashMap<String, usize>>);

impl Shares {
    /// Counts a call. When permits are scarce, not one of a caller that has its share of them: permits are divided among those that have
    /// calls in flight and one more, which may come.
    pub fn begin(&self, caller: &str, permits: usize, are_scarce: bool) -> bool {
        let mut calls = self.lock();
        let share = permits / (calls.len() + 1);
        let own = calls.get(caller).copied().unwrap_or(0);
        if are_scarce && own >= share {
            return false;
        }
        match calls.get_mut(caller) {
            Some(own) => *own += 1,
            None => drop(calls.insert(caller.to_owned(), 1)),
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
