//! Changes that are worked out on top of what is there, before any of it is touched.

use std::collections::HashMap;

use super::world::{KINDS, Sight};
use crate::domain::{
    delta::{Delta, KeyResult},
    error::Error,
    json::{Json, text_bytes},
    limits::SCOPE_BYTES,
    scope::StateKey,
};

/// The state that a write will leave, as far as it differs from what is there.
pub(super) struct Draft<'a> {
    sight: Sight<'a>,
    touched: HashMap<StateKey, Option<Json>>,
    /// Size of each scope, by kind.
    bytes: [usize; 3],
}

impl<'a> Draft<'a> {
    pub(super) fn new(sight: Sight<'a>) -> Self {
        Self {
            sight,
            touched: HashMap::new(),
            bytes: KINDS.map(|kind| sight.keys(kind).map_or(0, |keys| keys.bytes())),
        }
    }

    /// Works out one delta, which sees what those before it did. `path` leads to it in the request.
    pub(super) fn apply(&mut self, delta: Delta, path: &str) -> Result<Vec<KeyResult>, Error> {
        let results = delta.resolve(path, |key| Ok(self.value(key).cloned()))?;
        let before = self.bytes;
        for (key, value) in &results {
            let Some(kind) = key.scope() else { continue };
            let size = |value: &Json| text_bytes(key.name()) + value.len();
            let bytes = self.bytes[kind as usize] + value.as_ref().map_or(0, size);
            self.bytes[kind as usize] = bytes - self.value(key).map_or(0, size);
            self.touched.insert(key.clone(), value.clone());
        }
        for kind in KINDS {
            let after = self.bytes[kind as usize];
            if after > SCOPE_BYTES && after > before[kind as usize] {
                return Err(Error::StateTooLarge(kind));
            }
        }
        Ok(results)
    }

    fn value(&self, key: &StateKey) -> Option<&Json> {
        match self.touched.get(key) {
            Some(value) => value.as_ref(),
            None => self.sight.get(key).map(|(value, _)| value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::keys::Keys, *};
    use crate::domain::scope::ScopeKind;

    /// Limits change between versions of the program: a scope may hold more than it would be given.
    #[test]
    fn a_scope_that_holds_too_much_may_shrink_and_not_grow() {
        let text = |bytes: usize| Json::string(&"x".repeat(bytes));
        let mut own = Keys::default();
        own.put("k", Some(text(SCOPE_BYTES)), 1);
        let sight = Sight([None, None, Some(&own)]);
        let set = |bytes: usize| {
            let key = StateKey::from_stored("k");
            Delta { set: vec![(key, text(bytes))], ..Delta::default() }
        };
        for bytes in [SCOPE_BYTES, SCOPE_BYTES - 1, 0] {
            assert!(Draft::new(sight).apply(set(bytes), "delta").is_ok());
        }
        let grown = Draft::new(sight).apply(set(SCOPE_BYTES + 1), "delta");
        assert_eq!(grown, Err(Error::StateTooLarge(ScopeKind::Session)));
    }
}
