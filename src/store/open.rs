//! Opens and migrates a store by its URL.

use std::sync::Arc;

use super::{
    Crash, Store, SystemClock,
    memory::MemoryStore,
    postgres::{self, PostgresOptions, PostgresSettings},
    sqlite::{self, SqliteOptions},
};
use crate::{domain::token::StoreId, files::FileMode, metrics::Metrics};

/// Options of every store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Threads or connections that read, at least 1.
    pub readers: usize,
    /// Identity of a store that begins empty.
    pub new_id: StoreId,
    /// The mode of files that are made.
    pub file_mode: FileMode,
    /// Look for damage first, and do not open a damaged store.
    pub verify: bool,
    /// The commit at which the process aborts itself, for crash tests.
    pub crash: Option<Crash>,
    pub postgres: PostgresSettings,
    pub metrics: Arc<Metrics>,
}

/// The kind of a store, with what its URL names.
enum Kind<'u> {
    Memory,
    Sqlite(&'u str),
    Postgres(&'u str),
}

fn kind(url: &str) -> Result<Kind<'_>, String> {
    match (url, url.strip_prefix("sqlite:")) {
        ("memory:", _) => Ok(Kind::Memory),
        (_, Some(":memory:")) => Err("Pass memory: to store nothing on disk. 'sqlite::memory:' would be a file of this name.".to_owned()),
        (_, Some(path)) if path.len() > 2 && path.starts_with("//") && !path.starts_with("///") => {
            let path = &path[2..];
            Err(format!(
                "'{url}' has a host, which a file does not. Pass sqlite:{path} for a file in this folder, or sqlite:/{path}."
            ))
        }
        (_, Some(path)) if !path.is_empty() => Ok(Kind::Sqlite(path)),
        _ if ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) => {
            Ok(Kind::Postgres(url))
        }
        _ => {
            let fault = match scheme(url) {
                Some(scheme) => format!("'{scheme}:…' is not the URL of a store"),
                None => "The URL of the store has no scheme".to_owned(),
            };
            Err(format!(
                "{fault}. Pass sqlite:PATH for a file, postgres://… for a database, or memory: to store nothing on disk."
            ))
        }
    }
}

/// The part of a URL that cannot hold a password, wherever a person has put one.
fn scheme(url: &str) -> Option<&str> {
    let scheme = url.split_once(':')?.0;
    let may = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    (scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(may))
        .then_some(scheme)
}

/// The URL of a store as people may see it: without a password.
pub fn public_url(url: &str) -> String {
    match kind(url) {
        Ok(Kind::Postgres(url)) => postgres::public_url(url),
        _ => url.to_owned(),
    }
}

/// File descriptors that a store takes, about, with this many readers, and writers to PostgreSQL.
pub fn descriptors(url: &str, readers: u64, writers: u64) -> u64 {
    match kind(url) {
        // Of each reader and of the writer the database, its log and the index of that, and one to spare.
        Ok(Kind::Sqlite(_)) => 4 * (readers + 1),
        // The others find and announce commits. Each may be replaced while it ends. The runtime of a writer takes four more.
        Ok(Kind::Postgres(_)) => 2 * (readers + writers + 3) + 4 * writers,
        Ok(Kind::Memory) | Err(_) => 0,
    }
}

/// Bytes of commits beside the file of a store that no process has moved into it: the last one did not close the file, and the next to
/// open it takes them over.
pub fn unfinished_bytes(url: &str) -> Option<u64> {
    match kind(url) {
        Ok(Kind::Sqlite(path)) => sqlite::unfinished_bytes(path.as_ref()),
        Ok(Kind::Memory | Kind::Postgres(_)) | Err(_) => None,
    }
}

/// Opens `sqlite:PATH`, `postgres://…` or `memory:`. An error is a whole sentence that says what to do.
pub async fn open(url: &str, options: StoreOptions) -> Result<Arc<dyn Store>, String> {
    Ok(match kind(url)? {
        Kind::Memory => {
            let store = MemoryStore::new(options.new_id, Arc::new(SystemClock));
            Arc::new(store.measured(options.metrics))
        }
        Kind::Sqlite(path) => {
            let StoreOptions { readers, new_id, file_mode, verify, crash, postgres: _, metrics } =
                options;
            let defaults = SqliteOptions::new(path, new_id);
            let options = SqliteOptions { file_mode, readers, verify, crash, metrics, ..defaults };
            Arc::new(sqlite::open(options).await.map_err(|error| error.to_string())?)
        }
        Kind::Postgres(_) if options.verify => {
            return Err(
                "--verify is for sqlite: files. Check a PostgreSQL database with pg_amcheck."
                    .to_owned(),
            );
        }
        Kind::Postgres(url) => {
            let StoreOptions {
                readers,
                new_id,
                file_mode: _,
                verify: _,
                crash,
                postgres: settings,
                metrics,
            } = options;
            let defaults = PostgresOptions::new(url, new_id);
            let options = PostgresOptions { readers, crash, settings, metrics, ..defaults };
            Arc::new(postgres::open(options).await.map_err(|error| error.to_string())?)
        }
    })
}

/// Brings a store to the newest version, or only tries that out. Returns the steps, as titles. An empty database gets an identity.
pub async fn migrate(
    url: &str,
    new_id: StoreId,
    settings: PostgresSettings,
    is_dry_run: bool,
) -> Result<Vec<&'static str>, String> {
    match kind(url)? {
        Kind::Memory | Kind::Sqlite(_) if settings.partitions.is_some() => {
            Err("Only a PostgreSQL database has partitions. Leave --postgres-partitions out, or pass its URL with --store.".to_owned())
        }
        Kind::Memory => Ok(Vec::new()),
        Kind::Sqlite(path) => {
            let migrate = if is_dry_run { sqlite::dry_run } else { sqlite::migrate_file };
            migrate(path.as_ref()).map_err(|error| error.to_string())
        }
        Kind::Postgres(url) => {
            let options = PostgresOptions { settings, ..PostgresOptions::new(url, new_id) };
            postgres::migrate(options, is_dry_run).await.map_err(|error| error.to_string())
        }
    }
}

/// Gives a PostgreSQL database that lost acknowledged commits another identity.
pub async fn accept_loss(
    url: &str,
    new_id: StoreId,
    settings: PostgresSettings,
) -> Result<(), String> {
    let Kind::Postgres(url) = kind(url)? else {
        return Err(
            "Only a PostgreSQL database can go back while it is in use. Pass its URL with --store."
                .to_owned(),
        );
    };
    let options = PostgresOptions { settings, ..PostgresOptions::new(url, new_id) };
    postgres::accept_loss(options).await.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        assert_eq!(public_url("sqlite:a@b.db"), "sqlite:a@b.db");
        let shown = public_url("postgres://me:secret@db:1234/sessions?password=secret");
        assert_eq!(shown, "postgres://me@db:1234/sessions");
        assert!(!public_url("postgres://me:secret@db:x/sessions").contains("secret"));
    }

    #[tokio::test]
    async fn an_unknown_url_is_refused_with_the_forms_there_are() {
        let options = StoreOptions {
            readers: 1,
            new_id: StoreId([0; 16]),
            file_mode: FileMode::default(),
            verify: false,
            crash: None,
            postgres: PostgresSettings::default(),
            metrics: Arc::default(),
        };
        for url in ["sqlite::memory:", "sqlite://sessiond.db"] {
            let error = open(url, options.clone()).await.err().unwrap();
            assert!(error.contains("Pass ") && error.contains(url), "{error}");
        }
        for (url, shown) in [
            ("", "no scheme"),
            ("memory", "no scheme"),
            ("sqlite:", "'sqlite:…'"),
            ("postgres:x", "'postgres:…'"),
            ("mysql://u:secret@localhost/x", "'mysql:…'"),
            ("postgre://db/sessions?user=u&password=secret", "'postgre:…'"),
            ("host=db user=u password=secret", "no scheme"),
            ("u@db/sessions?password=secret&options=a:b", "no scheme"),
        ] {
            let error = open(url, options.clone()).await.err().unwrap();
            assert!(error.contains(shown), "{error}");
            assert!(error.contains("sqlite:PATH") && error.contains("memory:"), "{error}");
            assert!(error.contains("postgres://") && !error.contains("secret"), "{error}");
        }
    }
}
