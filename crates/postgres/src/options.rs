//! The options of a store on PostgreSQL.

use std::{path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use super::prelude::*;
use sessiond_metrics::Metrics;
use sessiond_store::{Clock, Crash, place::PLACES};

/// Partitions that each table has by place, if it grows.
///
/// * A divisor of [`PLACES`]: all have as many places.
/// * At most 64: a statement opens all of them before it knows which it reads.
/// * It is never changed, because rows do not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitions(u16);

impl Partitions {
    /// Tables without partitions.
    pub const ONE: Self = Self(1);

    pub fn get(self) -> u16 {
        self.0
    }
}

impl TryFrom<i32> for Partitions {
    type Error = ();

    fn try_from(number: i32) -> Result<Self, ()> {
        let number = u16::try_from(number).map_err(drop)?;
        let is_one = (1..=64).contains(&number) && PLACES.is_multiple_of(number);
        is_one.then_some(Self(number)).ok_or(())
    }
}

impl FromStr for Partitions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse::<i32>().ok().and_then(|number| number.try_into().ok());
        number.ok_or_else(|| format!("It must divide {PLACES} and be at most 64"))
    }
}

/// What users may set that only this store has.
#[derive(Clone, Debug)]
pub struct PostgresSettings {
    /// A file with the password, if the URL has none.
    pub password_file: Option<PathBuf>,
    /// Connections that write, at least 1.
    pub writers: usize,
    /// Time after which the database ends a statement.
    pub statement_timeout: Duration,
    /// `postgres://…` for the connection that listens, if the other connections go to a pooler.
    pub listen_url: Option<String>,
    /// Prepare no statement, for a pooler that gives every transaction another connection.
    pub unnamed_statements: bool,
    /// Partitions of an empty database, which another must have; `None`: one, or what the database has.
    pub partitions: Option<Partitions>,
}

impl Default for PostgresSettings {
    fn default() -> Self {
        Self {
            password_file: None,
            listen_url: None,
            writers: 4,
            statement_timeout: Duration::from_secs(3),
            unnamed_statements: false,
            partitions: None,
        }
    }
}

/// Options of a store on PostgreSQL.
#[derive(Clone)]
pub struct PostgresOptions {
    /// `postgres://user@host:port/database?sslmode=…`
    pub url: String,
    pub settings: PostgresSettings,
    /// Identity of the store if the database is empty.
    pub new_id: StoreId,
    /// Connections that read, at least 1.
    pub readers: usize,
    /// Writes that may wait for a connection. Beyond that callers are refused with OVERLOADED.
    pub queue_requests: usize,
    /// Writes of one commit at most.
    pub group_requests: usize,
    /// Time between two looks at whether the database can be reached, and at the versions of watched scopes.
    pub look_every: Duration,
    /// The commit at which the process aborts itself, for crash tests.
    pub crash: Option<Crash>,
    /// The time of commits, for tests; `None`: the database's.
    pub clock: Option<Arc<dyn Clock>>,
    pub metrics: Arc<Metrics>,
}

impl PostgresOptions {
    /// The defaults, for this database.
    pub fn new(url: impl Into<String>, new_id: StoreId) -> Self {
        Self {
            url: url.into(),
            settings: PostgresSettings::default(),
            new_id,
            readers: 4,
            queue_requests: 4096,
            group_requests: 512,
            look_every: Duration::from_secs(1),
            crash: None,
            clock: None,
            metrics: Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_share_the_places_equally() {
        let is_taken = |number: &u16| number.to_string().parse::<Partitions>().is_ok();
        let taken: Vec<u16> = (0..=PLACES).filter(is_taken).collect();
        assert_eq!(taken, [1, 2, 4, 8, 16, 32, 64]);
    }

    #[test]
    fn a_look_comes_soon_enough_for_watches_without_notifications() {
        // docs/postgresql.md promises two seconds: one until the look, and one for what it takes.
        let look_every = PostgresOptions::new("", StoreId([1; 16])).look_every;
        assert!(look_every <= Duration::from_secs(1), "{look_every:?}");
    }
}
