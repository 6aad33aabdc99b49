//! Every store there is: listed here once, for the suite and for the model test.

use std::{
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use sessiond::{
    domain::token::StoreId,
    store::{
        Store,
        memory::MemoryStore,
        sqlite::{self, SqliteOptions},
    },
};

/// A kind of store.
pub struct Backend {
    /// What tests call it.
    pub name: &'static str,
    /// Opens the store in a folder: a new one, or the one that is there.
    pub open: fn(PathBuf) -> Opening,
    /// Whether what was written is there when it is opened again.
    pub durable: bool,
    /// Cases that it is not held to, as `concept::case`, each with the reason.
    pub excluded: &'static [(&'static str, &'static str)],
}

/// A store about to be open.
pub type Opening = Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send>>;

/// The list: makes one test of a case for every store. `$run(&BACKEND, $argument, …)`
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
    };
}
pub(crate) use for_each_backend;

/// The specification.
pub const MEMORY: Backend = Backend {
    name: "memory",
    open: |_| Box::pin(async { Arc::new(MemoryStore::new(new_id())) as Arc<dyn Store> }),
    durable: false,
    excluded: &[(
        "durability::everything_is_there_after_a_restart",
        "it lives as long as its process, and promises nothing beyond",
    )],
};

/// An identity that no other store of this process has: as many are made as there are tests.
fn new_id() -> StoreId {
    static MADE: AtomicU32 = AtomicU32::new(0);
    StoreId(u128::from(MADE.fetch_add(1, Ordering::Relaxed)).to_be_bytes())
}

/// A file.
pub const SQLITE: Backend = Backend {
    name: "sqlite",
    open: |folder| {
        Box::pin(async move {
            let options = SqliteOptions::new(folder.join("sessiond.db"), new_id());
            Arc::new(sqlite::open(options).await.unwrap()) as Arc<dyn Store>
        })
    },
    durable: true,
    excluded: &[],
};

/// A file, by a writer that remembers nothing from one commit to the next: everything that it knows comes from the tables.
pub const SQLITE_WITHOUT_CACHE: Backend = Backend {
    name: "sqlite without cache",
    open: |folder| {
        Box::pin(async move {
            let options = SqliteOptions::new(folder.join("sessiond.db"), new_id());
            let options = SqliteOptions { cache_bytes: 0, ..options };
            Arc::new(sqlite::open(options).await.unwrap()) as Arc<dyn Store>
        })
    },
    durable: true,
    excluded: &[],
};
