//! A fence against a database that went back: a standby that lacked commits and was promoted, or a copy that was restored.
//!
//! Each connection that writes has a row with the number of its last commit. A replica remembers the numbers of the commits that it has
//! acknowledged, and those that other replicas tell. A database whose rows have less lacks acknowledged commits, and is not used. A replica
//! that has just started knows nothing.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{prelude::*, row::number};
use sessiond_store::instant;

/// The id of a row in the table of writers.
pub(super) type WriterId = [u8; 16];

/// Time after which a number is forgotten that did not grow: before the row of a connection that writes no longer is removed.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// Numbers that are remembered: those of some hundred replicas.
const MARKS: usize = 1024;

/// The first byte of a notification that tells numbers.
const TELLS: char = 'm';

#[derive(Default)]
pub(super) struct Fence(Mutex<HashMap<WriterId, Mark>>);

struct Mark {
    commits: u64,
    is_own: bool,
    at: Instant,
}

const COMMITS: &str = "SELECT id, commits FROM writer WHERE id = ANY($1)";

impl Fence {
    /// A commit of this replica has succeeded.
    pub(super) fn acknowledged(&self, id: WriterId, commits: u64) {
        self.put(id, commits, true);
    }

    fn put(&self, id: WriterId, commits: u64, is_own: bool) {
        let (mut marks, at) = (self.0.lock().unwrap_or_else(PoisonError::into_inner), instant());
        if marks.len() >= MARKS && !marks.contains_key(&id) {
            marks.retain(|_, mark| at - mark.at < REMEMBERED);
            if marks.len() >= MARKS && !is_own {
                return;
            }
        }
        let mark = marks.entry(id).or_insert(Mark { commits, is_own, at });
        if commits > mark.commits {
            *mark = Mark { commits, is_own: is_own || mark.is_own, at };
        }
    }

    /// The numbers of this replica as text, for others.
    pub(super) fn told(&self) -> String {
        let marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = marks.iter().filter(|(_, mark)| mark.is_own);
        let words =
            own.map(|(id, mark)| format!("{:032x}{:016x}", u128::from_be_bytes(*id), mark.commits));
        [TELLS.to_string()].into_iter().chain(words).collect()
    }

    /// Reads what another replica told. Whether the text was that.
    pub(super) fn hear(&self, text: &str) -> bool {
        let Some(words) = text.strip_prefix(TELLS) else { return false };
        for word in words.as_bytes().chunks_exact(48).filter_map(|it| std::str::from_utf8(it).ok())
        {
            let (id, commits) = word.split_at(32);
            if let (Ok(id), Ok(commits)) =
                (u128::from_str_radix(id, 16), u64::from_str_radix(commits, 16))
            {
                self.put(id.to_be_bytes(), commits, false);
            }
        }
        true
    }

    /// Looks whether a database has every commit that is known. Errors: [`Fault::Behind`].
    pub(super) async fn check(&self, connection: &Connection) -> Result<()> {
        let known: HashMap<WriterId, u64> = {
            let (mut marks, now) =
                (self.0.lock().unwrap_or_else(PoisonError::into_inner), instant());
            marks.retain(|_, mark| now - mark.at < REMEMBERED);
            marks.iter().map(|(id, mark)| (*id, mark.commits)).collect()
        };
        if known.is_empty() {
            return Ok(());
        }
        let ids: Vec<Vec<u8>> = known.keys().map(|id| id.to_vec()).collect();
        let mut there = HashMap::with_capacity(known.len());
        for row in Columns::new(COMMITS).value(Type::BYTEA_ARRAY, ids).all(connection).await? {
            there.insert(row.try_get::<&[u8]>(0)?.to_vec(), number(&row, 1)?);
        }
        let lacks =
            |(id, commits): (&WriterId, &u64)| there.get(&id[..]).is_none_or(|it| it < commits);
        match known.iter().filter(|it| lacks(*it)).count() {
            0 => Ok(()),
            writers => Err(Fault::Behind { writers }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_replica_tells_another_hears() {
        let (one, other) = (Fence::default(), Fence::default());
        assert!(one.hear(&other.told()), "nothing yet");
        one.acknowledged([1; 16], 7);
        one.acknowledged([1; 16], 9);
        one.acknowledged([2; 16], u64::MAX);
        one.hear(&format!("{TELLS}{:032x}{:016x}", 3, 4));
        assert!(other.hear(&one.told()));
        let marks = other.0.lock().unwrap();
        let known = |id| marks.get(&[id; 16]).map(|mark| (mark.commits, mark.is_own));
        assert_eq!([known(1), known(2)], [Some((9, false)), Some((u64::MAX, false))]);
        assert_eq!(marks.len(), 2, "each tells its own");
        assert!(!other.0.is_poisoned());
    }

    #[test]
    fn other_texts_are_passed_over_and_numbers_only_grow() {
        let fence = Fence::default();
        assert!(!fence.hear("00000000000000ff"));
        assert!(fence.hear("mé") && fence.hear(&format!("m{}", "z".repeat(48))));
        fence.acknowledged([1; 16], 9);
        fence.hear(&format!("m{:032x}{:016x}", u128::from_be_bytes([1; 16]), 3));
        let marks = fence.0.lock().unwrap();
        assert_eq!((marks.len(), marks[&[1; 16]].commits, marks[&[1; 16]].is_own), (1, 9, true));
    }

    #[test]
    fn the_numbers_of_strangers_are_bounded() {
        let fence = Fence::default();
        for id in 0..2 * MARKS as u128 {
            fence.hear(&format!("m{id:032x}{:016x}", 1));
        }
        assert_eq!(fence.0.lock().unwrap().len(), MARKS);
        fence.acknowledged([255; 16], 1);
        assert_eq!(fence.0.lock().unwrap().len(), MARKS + 1, "its own always are");
    }
}
