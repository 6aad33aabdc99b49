//! A fence against a database that went back: a standby that lacked commits and was promoted, or a copy that was restored.
//!
//! Each connection that writes has a row with the number of its last commit. A replica keeps marks: the numbers of the commits that it has
//! acknowledged, and those that other replicas tell. A database whose rows have less lacks acknowledged commits, and is not used. Its
//! timeline need not be known: a number is raised by its own connection alone, which is refused, so that no other history overtakes it.
//! A replica that has just started has no marks.

use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{connect::clock::DatabaseClock, prelude::*, row::number};
use sessiond_store::Clock as _;

/// The id of a row in the table of writers.
pub(super) type WriterId = [u8; 16];

/// The number of a commit, as it is told to other replicas.
pub(super) type Told = (WriterId, i64);

/// Seconds of the database's clock after which a mark is forgotten that did not grow, once a look has missed none.
const REMEMBERED_SECS: i64 = 24 * 3600;

/// Seconds after which nothing is looked for any more: a day before the row of a connection that writes no longer is removed.
const KEPT_SECS: i64 = 6 * 24 * 3600;

/// Marks that are kept: those of some hundred replicas.
const MARKS: usize = 1024;

pub(super) struct Fence {
    marks: Mutex<HashMap<WriterId, Mark>>,
    clock: Arc<DatabaseClock>,
}

struct Mark {
    commits: i64,
    is_own: bool,
    at: Time,
}

/// Marks of its own, and of others, that a transaction looks at.
const NEWEST: usize = 8;

/// Counts the marks that a database lacks, and tells whether it is a standby, to which a pooler may lead.
const LOOK: &str = "
SELECT count(*), coalesce(current_setting('in_hot_standby', true), '') FROM unnest($1, $2) AS m (id, commits) LEFT JOIN writer w ON w.id = m.id
WHERE (w.commits >= m.commits) IS NOT TRUE";

impl Fence {
    pub(super) fn new(clock: Arc<DatabaseClock>) -> Self {
        Self { marks: Mutex::default(), clock }
    }

    fn marks(&self) -> MutexGuard<'_, HashMap<WriterId, Mark>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A commit of this replica has succeeded.
    pub(super) fn acknowledged(&self, id: WriterId, commits: i64) {
        self.put(id, commits, true);
    }

    /// Takes what another replica told.
    pub(super) fn hear(&self, told: &[Told]) {
        told.iter().for_each(|(id, commits)| self.put(*id, *commits, false));
    }

    fn put(&self, id: WriterId, commits: i64, is_own: bool) {
        let (mut marks, at) = (self.marks(), self.clock.now());
        if marks.len() >= MARKS && !marks.contains_key(&id) {
            let others = marks.iter().filter(|(_, mark)| !mark.is_own);
            let oldest = others.min_by_key(|(_, mark)| mark.at).map(|(id, _)| *id);
            oldest.map(|oldest| marks.remove(&oldest));
        }
        let mark = marks.entry(id).or_insert(Mark { commits, is_own, at });
        if commits > mark.commits {
            (mark.commits, mark.at) = (commits, at);
        }
    }

    /// The marks of this replica, for others.
    pub(super) fn told(&self) -> Vec<Told> {
        let marks = self.marks();
        let own = marks.iter().filter(|(_, mark)| mark.is_own);
        own.map(|(id, mark)| (*id, mark.commits)).collect()
    }

    /// The statement that looks at the newest marks, for each transaction: a database lacks the newest commits if it lacks any. Those of
    /// others are up to a heartbeat older than they seem, so that they take the place of none of its own.
    pub(super) fn look_at_newest(&self) -> Columns<'static> {
        let marks = self.kept();
        let (mut own, mut others): (Vec<_>, Vec<_>) =
            marks.iter().partition(|(_, mark)| mark.is_own);
        for newest in [&mut own, &mut others] {
            newest.sort_unstable_by_key(|(_, mark)| Reverse(mark.at));
            newest.truncate(NEWEST);
        }
        Self::look_at(own.into_iter().chain(others))
    }

    fn look_at<'m>(marks: impl Iterator<Item = (&'m WriterId, &'m Mark)>) -> Columns<'static> {
        let (ids, commits): (Vec<_>, Vec<_>) =
            marks.map(|(id, mark)| (id.to_vec(), mark.commits)).unzip();
        Columns::new(LOOK).value(Type::BYTEA_ARRAY, ids).value(Type::INT8_ARRAY, commits)
    }

    /// Takes the answer of a look. A connection to a database that cannot be used is lost. Errors: [`Fault::Behind`],
    /// [`Error::StoreUnavailable`].
    pub(super) fn judge(&self, connection: &Connection, answer: &[Row]) -> Result<()> {
        let Some(row) = answer.first() else { return Ok(()) };
        let (lacking, standby): (u64, &str) = (number(row, 0)?, row.try_get(1)?);
        let fault = match (standby, lacking) {
            // One that lags has not gone back.
            ("on", _) => Error::StoreUnavailable(Cause::new("the database is a standby")).into(),
            (_, 0) => return Ok(()),
            (_, writers) => Fault::Behind { writers },
        };
        connection.lose();
        Err(fault)
    }

    /// Looks whether a database has every commit that is known, and forgets old marks if it has. Errors: as [`Self::judge`].
    pub(super) async fn check(&self, connection: &Connection) -> Result<()> {
        let look = {
            let marks = self.kept();
            // Before the first migration there is no table of writers, and no mark.
            if marks.is_empty() {
                return Ok(());
            }
            Self::look_at(marks.iter())
        };
        self.judge(connection, &look.all(connection).await?)?;
        self.forget();
        Ok(())
    }

    /// Forgets old marks, after a look that missed none.
    fn forget(&self) {
        self.marks().retain(|_, mark| self.age(mark) < REMEMBERED_SECS);
    }

    /// The marks, without those whose rows may be gone.
    fn kept(&self) -> MutexGuard<'_, HashMap<WriterId, Mark>> {
        let mut marks = self.marks();
        marks.retain(|_, mark| self.age(mark) < KEPT_SECS);
        marks
    }

    fn age(&self, mark: &Mark) -> i64 {
        self.clock.now().secs().saturating_sub(mark.at.secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessiond_store::{Clock, tests::TestClock};

    fn fence() -> (Fence, Arc<TestClock>) {
        let clock = TestClock::new(1);
        let set = Arc::clone(&clock) as Arc<dyn Clock>;
        (Fence::new(Arc::new(DatabaseClock::new(Some(set), Time::default()))), clock)
    }

    fn id(number: usize) -> WriterId {
        (number as u128).to_be_bytes()
    }

    #[test]
    fn what_one_replica_tells_another_hears() {
        let ((one, _), (other, _)) = (fence(), fence());
        other.hear(&one.told());
        one.acknowledged(id(1), 7);
        one.acknowledged(id(1), 9);
        one.acknowledged(id(2), i64::MAX);
        one.hear(&[(id(3), 4)]);
        other.hear(&one.told());
        let marks = other.marks();
        let known = |number| marks.get(&id(number)).map(|mark| (mark.commits, mark.is_own));
        assert_eq!([known(1), known(2)], [Some((9, false)), Some((i64::MAX, false))]);
        assert_eq!(marks.len(), 2, "each tells its own");
    }

    #[test]
    fn numbers_only_grow() {
        let (fence, _) = fence();
        fence.acknowledged(id(1), 9);
        fence.hear(&[(id(1), 3)]);
        let marks = fence.marks();
        assert_eq!((marks.len(), marks[&id(1)].commits, marks[&id(1)].is_own), (1, 9, true));
    }

    #[test]
    fn the_oldest_of_others_goes_when_there_are_too_many() {
        let (fence, clock) = fence();
        fence.acknowledged(id(0), 1);
        for number in 1..=MARKS {
            clock.set(number as i64);
            fence.hear(&[(id(number), 1)]);
        }
        let has = |number| fence.marks().contains_key(&id(number));
        assert_eq!([has(0), has(1), has(2), has(MARKS)], [true, false, true, true]);
        fence.acknowledged(id(MARKS + 1), 1);
        assert_eq!([has(0), has(2), has(MARKS + 1)], [true, false, true], "its own always are");
        assert_eq!(fence.marks().len(), MARKS);
    }

    #[test]
    fn marks_age_by_the_clock_of_the_database() {
        let (fence, clock) = fence();
        fence.acknowledged(id(0), 1);
        clock.set(REMEMBERED_SECS);
        fence.hear(&[(id(1), 1)]);
        fence.forget();
        assert_eq!(fence.kept().len(), 2);
        clock.set(REMEMBERED_SECS + 1);
        fence.forget();
        assert!(fence.marks().keys().eq([&id(1)]));
        // Without a look that missed none, as in an outage, a mark is kept for longer.
        clock.set(REMEMBERED_SECS + KEPT_SECS - 1);
        assert_eq!(fence.kept().len(), 1);
        clock.set(REMEMBERED_SECS + KEPT_SECS);
        assert_eq!(fence.kept().len(), 0);
        clock.set(0);
        assert_eq!(fence.marks().len(), 0, "its row may be gone, whatever the clock says later");
    }
}
