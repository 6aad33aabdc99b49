//! Round robin: who has much waiting holds up nobody else. Each caller's items keep their order.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use sessiond_access::Principal;

/// A caller in the queues of a server: a principal or, without identities, a connection. Callers with the same number share their turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallerId(u64);

impl CallerId {
    /// This process itself.
    pub const INTERNAL: Self = Self(0);

    pub fn new(principal: &Principal, connection: u64) -> Self {
        let mut hasher = DefaultHasher::new();
        match principal {
            Principal::Local => connection.hash(&mut hasher),
            Principal::Identified(identity) => identity.name.hash(&mut hasher),
        }
        Self(hasher.finish())
    }
}

/// Items that wait, one lane for each caller that has any.
pub struct Turns<T> {
    lanes: HashMap<CallerId, VecDeque<T>>,
    /// The callers that have items, the next one first.
    next: VecDeque<CallerId>,
    items: usize,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { lanes: HashMap::new(), next: VecDeque::new(), items: 0 }
    }
}

impl<T> Turns<T> {
    pub fn len(&self) -> usize {
        self.items
    }

    pub fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Puts an item behind the caller's others.
    pub fn push(&mut self, caller: CallerId, item: T) {
        self.lane(caller, VecDeque::push_back).push_back(item);
    }

    /// Puts an item that was taken before the caller's others, whose turn is the next one.
    pub fn put_back(&mut self, caller: CallerId, item: T) {
        self.lane(caller, VecDeque::push_front).push_front(item);
    }

    fn lane(
        &mut self,
        caller: CallerId,
        queue: fn(&mut VecDeque<CallerId>, CallerId),
    ) -> &mut VecDeque<T> {
        self.items += 1;
        let lane = self.lanes.entry(caller).or_default();
        if lane.is_empty() {
            queue(&mut self.next, caller);
        }
        lane
    }

    /// The next item; its caller has its next turn behind all others.
    pub fn pop(&mut self) -> Option<T> {
        let caller = self.next.pop_front()?;
        let lane = self.lanes.get_mut(&caller)?;
        let item = lane.pop_front()?;
        self.items -= 1;
        match lane.is_empty() {
            true => drop(self.lanes.remove(&caller)),
            false => self.next.push_back(caller),
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(turns: &mut Turns<u32>) -> Vec<u32> {
        std::iter::from_fn(|| turns.pop()).collect()
    }

    #[test]
    fn callers_take_turns_and_each_keeps_its_order() {
        let (a, b, c) = (CallerId(1), CallerId(2), CallerId(3));
        let mut turns = Turns::default();
        for item in [10, 11, 12] {
            turns.push(a, item);
        }
        turns.push(b, 20);
        assert_eq!(turns.pop(), Some(10));
        turns.push(c, 30);
        turns.push(b, 21);
        assert_eq!(turns.len(), 5);
        assert_eq!(all(&mut turns), [20, 11, 30, 21, 12]);
        assert!(turns.is_empty() && turns.lanes.is_empty() && turns.next.is_empty());
    }

    #[test]
    fn what_is_put_back_comes_first_and_in_its_order() {
        let (a, b) = (CallerId(1), CallerId(2));
        let mut turns = Turns::default();
        for (caller, item) in [(a, 10), (a, 11), (a, 12), (b, 20)] {
            turns.push(caller, item);
        }
        let taken: Vec<u32> = (0..3).filter_map(|_| turns.pop()).collect();
        assert_eq!(taken, [10, 20, 11]);
        turns.put_back(a, 11);
        turns.put_back(b, 20);
        assert_eq!(all(&mut turns), [20, 11, 12]);
    }

    #[test]
    fn a_principal_is_one_caller_on_every_connection() {
        use std::sync::Arc;

        use sessiond_access::Identity;

        let identified = |name| Principal::Identified(Arc::new(Identity::new(name)));
        let (one, other) = (identified("jwt:a"), identified("jwt:b"));
        assert_eq!(CallerId::new(&one, 1), CallerId::new(&one, 2));
        assert_ne!(CallerId::new(&one, 1), CallerId::new(&other, 1));
        assert_ne!(CallerId::new(&Principal::Local, 1), CallerId::new(&Principal::Local, 2));
    }
}
