//! Every store there is: listed here once, for the suite and for the model test.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use sessiond::{
    domain::token::StoreId,
    store::{Store, memory::MemoryStore},
};

/// A kind of store.
pub struct Backend {
    /// What tests call it.
    pub name: &'static str,
    /// Opens the store in a folder: a new one, or the one that is there.
    pub open: fn(&Path) -> Arc<dyn Store>,
    /// Cases that it is not held to, as `concept::case`, each with the reason.
    pub excluded: &'static [(&'static str, &'static str)],
}

/// The list. Makes one test of a case for every store: `$run(&BACKEND, $($argument),*)`.
macro_rules! for_each_backend {
    ($run:path, $($argument:expr),*) => {
        #[test]
        fn memory() {
            $run(&$crate::backends::MEMORY, $($argument),*);
        }
    };
}
pub(crate) use for_each_backend;

/// The specification.
pub const MEMORY: Backend = Backend {
    name: "memory",
    open: |_| {
        static OPENED: AtomicU8 = AtomicU8::new(0);
        let id = StoreId([OPENED.fetch_add(1, Ordering::Relaxed); 16]);
        Arc::new(MemoryStore::new(id))
    },
    excluded: &[(
        "durability::everything_is_there_after_a_restart",
        "it lives as long as its process, and promises nothing beyond",
    )],
};
