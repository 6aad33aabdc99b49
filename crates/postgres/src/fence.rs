//! A fence against a database that went back: a standby that lacked commits and was promoted, or a copy that was restored.
//!
//! Each connection that writes has a row with the number of its last commit. A replica keeps marks: the numbers of the commits that it has
//! acknowledged, and those that other replicas tell. A database whose rows have less lacks acknowledged commits, and is not used. Its
//! timeline need not be known: a number is raised by its own connection alone, which is refused, so that no other history overtakes it.
//! A replica that has just started has no marks.

use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use super::{connect::clock::DatabaseClock, prelude::*, row::number};
use sessiond_store::Clock as _;

/// The id of a row in the table of writers.
pub(super) type WriterId = [u8; 16];

/// The number of a commit, as it is told to other replicas.
pub(super) type Told = (WriterId, i64);

/// Seconds of the database's clock after which a mark is forgotten that did not grow: before the row of a connection that writes no longer
/// is removed.
const REMEMBERED_SECS: i64 = 24 * 3600;

/// Marks that are kept: those of some hundred replicas.
const MARKS: usize = 1024;

pub(super) struct Fence {
    marks: Mutex<HashMap<WriterId, Mark>>,
    clock: Arc<DatabaseClock>,
    /// The last look found that marks are lacking: none is forgotten, however long that lasts.
    is_behind: AtomicBool,
}

struct Mark {
    commits: i64,
    is_own: bool,
    at: Time,
}

/// Marks that a transaction looks at. A database lacks the newest commits if it lacks any.
const NEWEST: usize = 8;

/// Counts the marks that a database lacks, and tells whether it is a standby, to which a pooler may lead.
const LOOK: &str = "
SELECT count(*), coalesce(current_setting('in_hot_standby', true), '') FROM unnest($1, $2) AS m (id, commits) LEFT JOIN writer w ON w.id = m.id
WHERE (w.commits >= m.commits) IS NOT TRUE";

impl Fence {
    pub(super) fn new(clock: Arc<DatabaseClock>) -> Self {
        Self { marks: Mutex::default(), clock, is_behind: AtomicBool::new(false) }
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

    /// The statement that looks whether a database has every commit that is known. [`Self::judge`] takes its answer.
    pub(super) fn look(&self) -> Columns<'static> {
        Self::look_at(self.remembered().iter())
    }

    /// As [`Self::look`], at the newest marks: for each transaction.
    pub(super) fn look_at_newest(&self) -> Columns<'static> {
        let marks = self.remembered();
        let mut newest: Vec<_> = marks.iter().collect();
        newest.sort_unstable_by_key(|(_, mark)| Reverse(mark.at));
        Self::look_at(newest.into_iter().take(NEWEST))
    }

    /// The marks, without those that are too old.
    fn remembered(&self) -> MutexGuard<'_, HashMap<WriterId, Mark>> {
        let (mut marks, now) = (self.marks(), self.clock.now().secs());
        if !self.is_behind.load(Relaxed) {
            marks.retain(|_, mark| now.saturating_sub(mark.at.secs()) < REMEMBERED_SECS);
        }
        marks
    }

    fn look_at<'m>(marks: impl Iterator<Item = (&'m WriterId, &'m Mark)>) -> Columns<'static> {
        let (ids, commits): (Vec<_>, Vec<_>) =
            marks.map(|(id, mark)| (id.to_vec(), mark.commits)).unzip();
        Columns::new(LOOK).value(Type::BYTEA_ARRAY, ids).signed(commits)
    }

    /// A connection to a database that cannot be used is lost. Errors: [`Fault::Behind`], [`Error::StoreUnavailable`].
    pub(super) fn judge(&self, connection: &Connection, answer: &[Row]) -> Result<()> {
        let Some(row) = answer.first() else { return Ok(()) };
        let (lacking, standby): (u64, &str) = (number(row, 0)?, row.try_get(1)?);
        self.is_behind.store(lacking > 0, Relaxed);
        if (lacking, standby) == (0, "on") {
            connection.lose();
            return Err(Error::StoreUnavailable(Cause::new("the database is a standby")).into());
        }
        if lacking > 0 {
            connection.lose();
            return Err(Fault::Behind { writers: lacking });
        }
        Ok(())
    }

    /// Looks whether a database has every commit that is known. Errors: as [`Self::judge`].
    pub(super) async fn check(&self, connection: &Connection) -> Result<()> {
        self.judge(connection, &self.look().all(connection).await?)
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
        assert_eq!((fence.look(), fence.marks().len()).1, 2);
        clock.set(REMEMBERED_SECS + 1);
        fence.look_at_newest();
        assert!(fence.marks().keys().eq([&id(1)]));
        fence.is_behind.store(true, Relaxed);
        clock.set(9 * REMEMBERED_SECS);
        fence.look();
        assert_eq!(
            fence.marks().len(),
            1,
            "a database that went back is not used after a day either"
        );
    }
}
