//! Opens a store by its URL.

use std::{num::NonZeroU64, str::FromStr, sync::Arc};

use super::{
    Store, SystemClock,
    memory::MemoryStore,
    sqlite::{self, Crash, CrashPoint, SqliteOptions},
};
use crate::domain::token::StoreId;

/// Options of every store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Threads that read, at least 1.
    pub readers: usize,
    /// Identity of a store that begins empty.
    pub new_id: StoreId,
    /// Look for damage first, and do not open a damaged store.
    pub verify: bool,
    /// The commit at which the process aborts itself, for crash tests.
    pub crash: Option<Crash>,
}

/// `before-commit:N` or `after-commit:N`: at the n-th commit since opening.
impl FromStr for Crash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "write before-commit:N or after-commit:N".to_owned();
        let (point, commit) = text.split_once(':').ok_or_else(form)?;
        let point = match point {
            "before-commit" => CrashPoint::BeforeCommit,
            "after-commit" => CrashPoint::AfterCommitBeforeAck,
            _ => return Err(form()),
        };
        let at_commit = commit.parse::<NonZeroU64>().map_err(|_| form())?.get();
        Ok(Self { point, at_commit })
    }
}

/// Opens `sqlite:PATH` or `memory:`. An error is a whole sentence that says what to do.
pub async fn open(url: &str, options: StoreOptions) -> Result<Arc<dyn Store>, String> {
    let StoreOptions { readers, new_id, verify, crash } = options;
    if url == "memory:" {
        return Ok(Arc::new(MemoryStore::new(new_id, Arc::new(SystemClock))));
    }
    match url.strip_prefix("sqlite:") {
        Some(path) if !path.is_empty() => {
            let options =
                SqliteOptions { readers, verify, crash, ..SqliteOptions::new(path, new_id) };
            let store = sqlite::open(options).await.map_err(|error| error.to_string())?;
            Ok(Arc::new(store))
        }
        _ => Err(format!(
            "'{url}' is not the URL of a store. Pass sqlite:PATH for a file, or memory: to store nothing on disk."
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_point_has_a_place_and_a_number() {
        assert!("before-commit:1".parse::<Crash>().is_ok());
        assert!("after-commit:12".parse::<Crash>().is_ok());
        for text in ["", "before-commit", "before-commit:0", "before-commit:x", "later:1"] {
            assert!(text.parse::<Crash>().is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn an_unknown_url_is_refused_with_the_forms_there_are() {
        let options =
            StoreOptions { readers: 1, new_id: StoreId([0; 16]), verify: false, crash: None };
        for url in ["", "sqlite:", "memory", "postgres://localhost/x"] {
            let error = open(url, options.clone()).await.err().unwrap();
            assert!(error.contains("sqlite:PATH") && error.contains("memory:"), "{error}");
        }
    }
}
