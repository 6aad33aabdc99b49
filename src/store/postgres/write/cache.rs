//! What a writer knows of scopes from its earlier groups, each as of a version. A group takes from it only what has the version that it
//! found in the database, under its locks.

use hashbrown::HashMap;

use super::super::prelude::*;
use crate::{
    commit::{KEY_BYTES, Loaded, ScopeKey, ScopeState, SessionState},
    metrics::ReadMetrics,
};

/// Bytes in memory of an address, about.
const ADDRESS_BYTES: usize = 256;

/// The keys of scopes, and the markers of sessions, as of the versions that they had after the last commit that read or changed them.
pub(super) struct Cache {
    known: HashMap<ScopeKey, Known>,
    /// The sessions that were at these addresses.
    incarnations: HashMap<SessionKey, Incarnation>,
    /// Of everything in it.
    bytes: usize,
    max_bytes: usize,
    metrics: ReadMetrics,
}

pub(super) struct Known {
    pub(super) state: ScopeState,
    /// Of a session's rewinds.
    pub(super) markers: Vec<Marker>,
    bytes: usize,
}

impl Cache {
    /// It is emptied when it has grown beyond a bound. With 0 it stays empty.
    pub(super) fn new(max_bytes: usize, metrics: ReadMetrics) -> Self {
        let (known, incarnations) = (HashMap::new(), HashMap::new());
        Self { known, incarnations, bytes: 0, max_bytes, metrics }
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.incarnations.clear();
        self.bytes = 0;
    }

    /// Takes what is known of a scope that has a version, and forgets what was known of another version.
    pub(super) fn take(&mut self, scope: &ScopeKey, version: Version) -> Option<Known> {
        let known = self.known.remove(scope);
        if let Some(known) = &known {
            self.bytes -= known.bytes;
        }
        let found = known.filter(|known| known.state.version == version);
        self.metrics.looked_up(found.is_some());
        found
    }

    /// The session that was at an address.
    pub(super) fn incarnation(&self, key: &SessionKey) -> Option<Incarnation> {
        self.incarnations.get(key).copied()
    }

    /// Keeps what a group leaves that was committed, or that changed nothing.
    pub(super) fn keep(&mut self, loaded: &mut Loaded) {
        for (scope, state) in loaded.scopes.drain() {
            self.put(scope, state, Vec::new());
        }
        for (incarnation, SessionState { info, own, markers }) in loaded.sessions.drain() {
            if own.version == info.last_sequence {
                self.put(ScopeKey::Session(incarnation), own, markers);
                if self.incarnations.insert(info.key, incarnation).is_none() {
                    self.bytes += ADDRESS_BYTES;
                }
            }
        }
        if self.bytes > self.max_bytes {
            self.clear();
        }
    }

    fn put(&mut self, scope: ScopeKey, state: ScopeState, markers: Vec<Marker>) {
        let bytes = bytes(&state) + size_of_val(&markers[..]);
        self.bytes += bytes;
        if let Some(replaced) = self.known.insert(scope, Known { state, markers, bytes }) {
            self.bytes -= replaced.bytes;
        }
    }
}

/// Bytes in memory, about.
fn bytes(state: &ScopeState) -> usize {
    let of_keys = || {
        let value_bytes =
            |value: &Option<(Json, Version)>| value.as_ref().map_or(0, |it| it.0.len());
        state.keys.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
    };
    let texts = if state.complete { state.state_bytes } else { of_keys() };
    size_of::<Known>() + KEY_BYTES * (1 + state.keys.len()) + texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    fn cache(max_bytes: usize) -> Cache {
        Cache::new(max_bytes, Metrics::default().reads)
    }

    fn application(name: &str) -> ScopeKey {
        ScopeKey::Application(AppName::new(name).unwrap())
    }

    /// What a group leaves: applications of version 1, each with a value of some bytes.
    fn loaded(names: &[&str], bytes: usize) -> Loaded {
        let mut loaded = Loaded::default();
        for name in names {
            let mut state = ScopeState { version: 1, ..ScopeState::default() };
            state.put("k", Some((Json::string(&"v".repeat(bytes)), 1)));
            loaded.scopes.insert(application(name), state);
        }
        loaded
    }

    #[test]
    fn only_the_version_that_was_found_is_taken() {
        let mut cache = cache(1 << 20);
        cache.keep(&mut loaded(&["a", "b"], 10));
        assert!(cache.take(&application("a"), 1).is_some());
        assert!(cache.take(&application("b"), 2).is_none());
        assert!(cache.take(&application("b"), 1).is_none());
        assert_eq!(cache.bytes, 0);
    }

    #[test]
    fn it_is_emptied_beyond_its_bound() {
        let mut cache = cache(10_000);
        cache.keep(&mut loaded(&["a"], 8_000));
        cache.keep(&mut loaded(&["a"], 8_000));
        assert_eq!(cache.known.len(), 1);
        cache.keep(&mut loaded(&["b"], 8_000));
        assert_eq!((cache.known.len(), cache.bytes), (0, 0));
    }
}
