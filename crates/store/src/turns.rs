//! Fair queueing: the next turn is that of the caller who has spent least. A caller with many items or costly ones does not delay the
//! others. Each caller's items keep their order.
//!
//! An item is charged its own bytes when it is taken, and what it has cost beyond that when that is known. A caller begins with what the
//! last turn's caller had spent, so that turns cannot be saved up.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use sessiond_access::Principal;

/// What an item costs at least, in bytes.
const ITEM_COST: u64 = 1024;

/// Callers without items whose spending is remembered, beside as many as have some, before those are forgotten that owe nothing.
const REMEMBERED: usize = 64;

/// A caller in the queues of a server: a principal or, without identities, a connection. Callers with the same number share their turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

/// Items that wait, one lane for each caller.
pub struct Turns<T> {
    lanes: HashMap<CallerId, Lane<T>>,
    /// The callers that have items: by what they have spent, then in the order in which they got in line. The first is the next.
    next: BTreeSet<(u64, i64, CallerId)>,
    /// What the caller of the last turn had spent before it.
    spent: u64,
    order: i64,
    items: usize,
}

struct Lane<T> {
    items: VecDeque<(T, usize)>,
    spent: u64,
    order: i64,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        let (lanes, next) = Default::default();
        Self { lanes, next, spent: 0, order: 0, items: 0 }
    }
}

fn cost(bytes: usize) -> u64 {
    ITEM_COST.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX))
}

impl<T> Turns<T> {
    pub fn len(&self) -> usize {
        self.items
    }

    pub fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// The items of a caller.
    pub fn of(&self, caller: CallerId) -> usize {
        self.lanes.get(&caller).map_or(0, |lane| lane.items.len())
    }

    /// Whether a caller may have one more item where `max` are enough: the first one always, and others up to its share, so that a caller with
    /// many does not keep the others away. Places are divided among those that have items and one more, which may come.
    pub fn admits(&self, caller: CallerId, max: usize) -> bool {
        let own = self.of(caller);
        self.items < max || own == 0 || own < max / (self.next.len() + 1)
    }

    /// Puts an item of some bytes behind the caller's others.
    pub fn push(&mut self, caller: CallerId, item: T, bytes: usize) {
        self.items += 1;
        self.order += 1;
        let order = self.order;
        self.change(caller, |lane| {
            if lane.items.is_empty() {
                lane.order = order;
            }
            lane.items.push_back((item, bytes));
        });
    }

    /// Puts an item that was taken before the caller's others, and gives back what it was charged.
    pub fn put_back(&mut self, caller: CallerId, item: T, bytes: usize) {
        self.items += 1;
        self.order += 1;
        let (order, spent) = (-self.order, self.spent);
        self.change(caller, |lane| {
            lane.spent = lane.spent.saturating_sub(cost(bytes)).max(spent);
            lane.order = order;
            lane.items.push_front((item, bytes));
        });
    }

    /// Charges what an item that was taken has cost beyond its own bytes.
    pub fn charge(&mut self, caller: CallerId, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.change(caller, |lane| lane.spent = lane.spent.saturating_add(bytes));
    }

    /// The next item.
    pub fn pop(&mut self) -> Option<T> {
        let &(spent, _, caller) = self.next.first()?;
        self.spent = self.spent.max(spent);
        self.order += 1;
        let (order, mut taken) = (self.order, None);
        self.change(caller, |lane| {
            lane.order = order;
            taken = lane.items.pop_front();
            lane.spent += taken.as_ref().map_or(0, |(_, bytes)| cost(*bytes));
        });
        self.items -= 1;
        if self.items == 0 {
            // Nobody waits for anybody.
            self.lanes.clear();
        } else if self.lanes.len() > 2 * self.next.len() + REMEMBERED {
            let spent = self.spent;
            self.lanes.retain(|_, lane| !lane.items.is_empty() || lane.spent > spent);
        }
        taken.map(|(item, _)| item)
    }

    /// Changes a lane, and keeps its place.
    fn change(&mut self, caller: CallerId, change: impl FnOnce(&mut Lane<T>)) {
        let new = || Lane { items: VecDeque::new(), spent: 0, order: 0 };
        let lane = self.lanes.entry(caller).or_insert_with(new);
        if lane.items.is_empty() {
            // Behind the present turn, so that new callers do not keep away those that wait.
            lane.spent = lane.spent.max(self.spent + ITEM_COST);
        } else {
            self.next.remove(&(lane.spent, lane.order, caller));
        }
        change(lane);
        if !lane.items.is_empty() {
            self.next.insert((lane.spent, lane.order, caller));
        }
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
            turns.push(a, item, 0);
        }
        turns.push(b, 20, 0);
        assert_eq!(turns.pop(), Some(10));
        turns.push(c, 30, 0);
        turns.push(b, 21, 0);
        assert_eq!(turns.len(), 5);
        assert_eq!(all(&mut turns), [20, 11, 30, 21, 12]);
        assert!(turns.is_empty() && turns.next.is_empty());
    }

    #[test]
    fn what_is_put_back_comes_first_and_in_its_order() {
        let (a, b) = (CallerId(1), CallerId(2));
        let mut turns = Turns::default();
        for (caller, item) in [(a, 10), (a, 11), (a, 12), (b, 20)] {
            turns.push(caller, item, 5);
        }
        let taken: Vec<u32> = (0..3).filter_map(|_| turns.pop()).collect();
        assert_eq!(taken, [10, 20, 11]);
        turns.put_back(a, 11, 5);
        turns.put_back(b, 20, 5);
        assert_eq!(all(&mut turns), [20, 11, 12]);
    }

    #[test]
    fn who_spends_much_waits_until_others_have_spent_as_much() {
        let (much, little) = (CallerId(1), CallerId(2));
        let mut turns = Turns::default();
        for item in 0..100 {
            turns.push(much, 1, 0);
            turns.push(little, 2, 0);
            assert_eq!(item, turns.len() / 2 - 1);
        }
        assert_eq!(turns.pop(), Some(1));
        turns.charge(much, 9 * 1024);
        let next: Vec<u32> = (0..11).filter_map(|_| turns.pop()).collect();
        assert_eq!(next, [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]);
    }

    #[test]
    fn nobody_saves_turns_up_and_spending_is_remembered() {
        let (busy, idle, gone) = (CallerId(1), CallerId(2), CallerId(3));
        let mut turns = Turns::default();
        for _ in 0..50 {
            turns.push(busy, 1, 0);
            turns.pop();
        }
        (0..4).for_each(|_| turns.push(busy, 1, 0));
        (0..4).for_each(|_| turns.push(idle, 2, 0));
        assert_eq!(all(&mut turns), [1, 2, 1, 2, 1, 2, 1, 2]);
        for caller in 10..1000 {
            turns.push(CallerId(caller), 4, 0);
            turns.pop();
        }
        assert!(turns.lanes.is_empty());
        (0..4).for_each(|_| turns.push(busy, 1, 0));
        turns.push(gone, 3, 0);
        assert_eq!([turns.pop(), turns.pop()], [Some(1), Some(3)]);
        turns.charge(gone, 2 * 1024);
        turns.push(gone, 3, 0);
        assert_eq!(all(&mut turns), [1, 1, 3, 1]);
        // New callers, one after the other, keep nobody away and are forgotten.
        let mut taken = 0;
        for caller in 10..1000 {
            turns.push(busy, 1, 0);
            turns.push(CallerId(caller), 4, 0);
            taken += turns.pop().filter(|item| *item == 1).map_or(0, |_| 1);
            turns.pop();
        }
        assert!(taken > 400, "{taken}");
        assert!(turns.lanes.len() <= 2 * turns.next.len() + REMEMBERED, "{}", turns.lanes.len());
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
