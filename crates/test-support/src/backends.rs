//! All stores, listed once for the conformance suite and for the model test.

use std::{
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use sessiond::{
    domain::token::StoreId,
    store::{
        Clock, Store,
        memory::MemoryStore,
        postgres::{self, PostgresOptions, PostgresSettings},
        sqlite::{self, SqliteOptions},
    },
};

use crate::cluster::{database_of, pooled_database_of};

/// A kind of store.
pub struct Backend {
    /// Name in messages of tests.
    pub name: &'static str,
    /// Opens the store in a folder, or creates it.
    pub open: fn(PathBuf, Arc<dyn Clock>) -> Opening,
    /// Whether its data survives a restart.
    pub durable: bool,
    /// Whether writes of different users to one application take effect in the order of submission. Writes of one user always do.
    pub in_order: bool,
    /// How many times as long as another's its tests take.
    pub cost: u32,
    /// Excluded cases as `concept::case`, each with the reason.
    pub excluded: &'static [(&'static str, &'static str)],
}

/// A store about to be open.
pub type Opening = Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send>>;

/// The list of stores. Makes one test of a case for each: `$run(&BACKEND, $argument, …)`.
#[macro_export]
macro_rules! for_each_backend {
    ($run:path, $($argument:expr),* $(,)?) => {
        #[test]
        fn memory() {
            $run(&$crate::backends::MEMORY, $($argument),*);
        }

        #[test]
        fn sqlite() {
            $run(&$crate::backends::SQLITE, $($argument),*);
        }

        #[test]
        fn sqlite_without_cache() {
            $run(&$crate::backends::SQLITE_WITHOUT_CACHE, $($argument),*);
        }

        #[test]
        fn postgres() {
            if $crate::cluster::shared_server().is_some() {
                $run(&$crate::backends::POSTGRES, $($argument),*);
            }
        }

        #[test]
        fn postgres_behind_a_pooler() {
            if $crate::cluster::pooled_server().is_some() {
                $run(&$crate::backends::POSTGRES_BEHIND_A_POOLER, $($argument),*);
            }
        }
    };
}
pub use for_each_backend;

/// In memory.
pub const MEMORY: Backend = Backend {
    name: "memory",
    open: |_, clock| {
        Box::pin(async { Arc::new(MemoryStore::new(new_id(), clock)) as Arc<dyn Store> })
    },
    durable: false,
    in_order: true,
    cost: 1,
    excluded: &[
        (
            "durability::everything_is_there_after_a_restart",
            "it lives as long as its process, and promises nothing beyond",
        ),
        (
            "lives::lives_are_told_apart_after_a_restart",
            "it lives as long as its process, and promises nothing beyond",
        ),
    ],
};

/// An identity that no other store of this process has.
fn new_id() -> StoreId {
    static MADE: AtomicU32 = AtomicU32::new(0);
    StoreId(u128::from(MADE.fetch_add(1, Ordering::Relaxed)).to_be_bytes())
}

/// A file.
pub const SQLITE: Backend = Backend {
    name: "sqlite",
    open: |folder, clock| {
        Box::pin(async move {
            let options = SqliteOptions::new(folder.join("sessiond.db"), new_id());
            let options = SqliteOptions { clock, ..options };
            Arc::new(sqlite::open(options).await.unwrap()) as Arc<dyn Store>
        })
    },
    durable: true,
    in_order: true,
    cost: 1,
    excluded: &[],
};

/// A file, by a writer without a cache: everything is read from the tables.
pub const SQLITE_WITHOUT_CACHE: Backend = Backend {
    name: "sqlite without cache",
    open: |folder, clock| {
        Box::pin(async move {
            let options = SqliteOptions::new(folder.join("sessiond.db"), new_id());
            let options = SqliteOptions { clock, cache_bytes: 0, ..options };
            Arc::new(sqlite::open(options).await.unwrap()) as Arc<dyn Store>
        })
    },
    durable: true,
    in_order: true,
    cost: 1,
    excluded: &[],
};

/// A database that other processes may use as well. A case has a schema of its own.
pub const POSTGRES: Backend = Backend {
    name: "postgres",
    open: |folder, clock| {
        Box::pin(async move {
            let options = postgres_options(database_of(&folder), 1, clock);
            Arc::new(postgres::open(options).await.unwrap()) as Arc<dyn Store>
        })
    },
    durable: true,
    in_order: true,
    cost: 8,
    excluded: &[],
};

/// The same behind pgbouncer, on two connections that write, to tables of two partitions.
pub const POSTGRES_BEHIND_A_POOLER: Backend = Backend {
    name: "postgres behind a pooler",
    open: |folder, clock| {
        Box::pin(async move {
            let mut options = postgres_options(pooled_database_of(&folder), 2, clock);
            options.settings.unnamed_statements = true;
            options.settings.partitions = "2".parse().ok();
            Arc::new(postgres::open(options).await.unwrap()) as Arc<dyn Store>
        })
    },
    durable: true,
    in_order: false,
    cost: 8,
    excluded: &[],
};

fn postgres_options(url: String, writers: usize, clock: Arc<dyn Clock>) -> PostgresOptions {
    PostgresOptions {
        readers: 2,
        settings: PostgresSettings { writers, ..PostgresSettings::default() },
        clock: Some(clock),
        // A look at versions wakes watchers needlessly, which some cases count.
        look_every: Duration::from_secs(86_400),
        ..PostgresOptions::new(url, new_id())
    }
}
