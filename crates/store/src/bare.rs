//! The sessions that bare ids may mean to the callers of a group: a few for each caller, however many sessions have an id.

use std::collections::BTreeMap;

use sessiond_core::{
    commit::{Address, MANY_SESSIONS, Needs},
    domain::prelude::*,
};

/// The callers of a group that name one id, and the sessions that they see.
pub struct Callers<'r> {
    lives_until: Time,
    callers: Vec<Caller<'r>>,
}

struct Caller<'r> {
    sight: &'r Visibility,
    /// At most [`MANY_SESSIONS`], by the time for which they live, longest first. So if one has expired, those left out have as well.
    seen: Vec<(Time, SessionKey)>,
}

impl Caller<'_> {
    fn has_enough(&self, lives_until: Time) -> bool {
        self.seen.get(MANY_SESSIONS - 1).is_some_and(|(expires, _)| *expires > lives_until)
    }
}

impl<'r> Callers<'r> {
    /// By the id that they name. [`MANY_SESSIONS`] that live beyond `lives_until` are enough for a caller, whatever else it sees. A caller
    /// without rights is left out, so that it cannot have all sessions of an id read.
    pub fn of(needs: &[Needs<'r>], lives_until: Time) -> BTreeMap<&'r SessionId, Self> {
        let mut by_id: BTreeMap<&SessionId, Self> = BTreeMap::new();
        for needs in needs {
            let Some(Address::Bare(id, sight)) = needs.address else { continue };
            if sight.sees_nothing() {
                continue;
            }
            let new = || Self { lives_until, callers: Vec::new() };
            let callers = &mut by_id.entry(id).or_insert_with(new).callers;
            if callers.iter().all(|caller| caller.sight != sight) {
                callers.push(Caller { sight, seen: Vec::new() });
            }
        }
        by_id
    }

    /// Learns of a session. Returns whether it is one of a caller's few.
    pub fn consider(&mut self, key: &SessionKey, expires: Option<Time>) -> bool {
        let expires = expires.unwrap_or(Time::LAST);
        let mut is_kept = false;
        for caller in &mut self.callers {
            let place = caller.seen.partition_point(|(other, _)| *other >= expires);
            if place < MANY_SESSIONS
                && !caller.has_enough(self.lives_until)
                && key.is_seen(caller.sight)
            {
                caller.seen.truncate(MANY_SESSIONS - 1);
                caller.seen.insert(place, (expires, key.clone()));
                is_kept = true;
            }
        }
        is_kept
    }

    /// Whether no caller has to know of more sessions.
    pub fn have_enough(&self) -> bool {
        self.callers.iter().all(|caller| caller.has_enough(self.lives_until))
    }

    /// The addresses of their sessions, and those of the callers that have [`MANY_SESSIONS`], so that they may see more. Each is named
    /// once.
    pub fn addresses(self) -> (Vec<SessionKey>, Vec<SessionKey>) {
        let (mut all, mut many) = (Vec::new(), Vec::new());
        for Caller { seen, .. } in self.callers {
            let keys = seen.into_iter().map(|(_, key)| key);
            if keys.len() == MANY_SESSIONS {
                many.extend(keys.clone());
            }
            all.extend(keys);
        }
        for keys in [&mut all, &mut many] {
            keys.sort();
            keys.dedup();
        }
        (all, many)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{at, of_user, one, sight_of};
    use sessiond_core::commit::{Append, Request, needs};

    fn append(sight: Visibility) -> Request {
        let session = SessionRef::Bare(SessionId::new("s").unwrap(), sight);
        Request::Append(Append { session, ..one("s", "1", &[]) })
    }

    fn callers(requests: &[Request]) -> Callers<'_> {
        let needs: Vec<Needs<'_>> = requests.iter().map(needs).collect();
        Callers::of(&needs, at(100)).into_values().next().unwrap()
    }

    fn key(user: u64) -> SessionKey {
        of_user(&format!("u{user:03}"), "s")
    }

    #[test]
    fn a_caller_keeps_a_few_of_the_sessions_that_it_sees() {
        let requests =
            [Visibility::EVERYTHING, sight_of("u099"), Visibility::EVERYTHING].map(append);
        let mut callers = callers(&requests);
        assert_eq!(callers.callers.len(), 2);
        for user in 0..99 {
            assert_eq!(callers.consider(&key(user), None), user < MANY_SESSIONS as u64);
        }
        assert!(!callers.have_enough(), "one of them has seen nothing yet");
        assert!(callers.consider(&key(99), None));
        let (all, many) = callers.addresses();
        assert_eq!((all.len(), many.len()), (MANY_SESSIONS + 1, MANY_SESSIONS));
        assert!(all.contains(&key(99)) && !many.contains(&key(99)));
    }

    #[test]
    fn sessions_that_end_soon_give_way_to_those_that_live_longer() {
        let requests = [append(Visibility::EVERYTHING)];
        let mut callers = callers(&requests);
        for user in 0..100 {
            callers.consider(&key(user), Some(at(user.cast_signed())));
        }
        assert!(!callers.have_enough());
        assert!(!callers.consider(&key(0), Some(at(0))));
        let longest: Vec<SessionKey> = (92..100).map(key).collect();
        assert_eq!(callers.addresses(), (longest.clone(), longest));
    }

    #[test]
    fn a_caller_without_rights_is_left_out() {
        let blind = append(sight_of(""));
        assert!(Callers::of(&[needs(&blind)], at(100)).is_empty());
    }
}
