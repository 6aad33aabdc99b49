//! Files that a running server reads again: certificates, keys and tokens. Content that cannot be used changes nothing.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use crate::metrics::TlsMetrics;

#[derive(Clone, Debug)]
pub struct NamedFile {
    pub flag: &'static str,
    pub path: PathBuf,
}

impl NamedFile {
    pub fn new(flag: &'static str, path: &Path) -> Self {
        Self { flag, path: path.to_owned() }
    }

    fn read(&self) -> Result<Vec<u8>, String> {
        fs::read(&self.path).map_err(|error| {
            format!("{} Pass a file that this user can read.", self.refused(&error.to_string()))
        })
    }

    pub fn refused(&self, cause: &str) -> String {
        format!("The file '{}' of {} cannot be used ({cause}).", self.path.display(), self.flag)
    }
}

/// Makes a value of the contents of the files, in their order. An error must contain nothing of a secret.
type Parse<T> = dyn Fn(&[NamedFile], &[Vec<u8>]) -> Result<T, String> + Send + Sync;

/// The value that some files contain, as of the last time that they could be used.
pub struct Reloaded<T> {
    /// Its name in the log and in metrics.
    what: &'static str,
    files: Vec<NamedFile>,
    parse: Box<Parse<T>>,
    current: watch::Sender<Arc<T>>,
    last: Mutex<Last>,
}

/// The last attempt to read the files.
struct Last {
    /// Whether they could be used or not.
    contents: Vec<Vec<u8>>,
    /// Why they could not be used, so that the log has it once.
    failure: Option<String>,
}

impl<T> Reloaded<T> {
    pub fn load(
        what: &'static str,
        files: Vec<NamedFile>,
        parse: impl Fn(&[NamedFile], &[Vec<u8>]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let contents = read(&files)?;
        let current = watch::Sender::new(Arc::new(parse(&files, &contents)?));
        Ok(Self {
            what,
            files,
            parse: Box::new(parse),
            current,
            last: Mutex::new(Last { contents, failure: None }),
        })
    }

    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.current.borrow())
    }

    pub fn subscribe(&self) -> watch::Receiver<Arc<T>> {
        self.current.subscribe()
    }
}

/// Something that follows its files.
pub trait Reload: Send + Sync {
    /// Their name in the log and in metrics.
    fn what(&self) -> &'static str;

    /// Reads the files again, and uses them if they have changed. Returns whether they could be used.
    fn reload(&self) -> bool;
}

impl<T: Send + Sync> Reload for Reloaded<T> {
    fn what(&self) -> &'static str {
        self.what
    }

    fn reload(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let parsed = match read(&self.files) {
            Ok(contents) if contents == last.contents && last.failure.is_none() => return true,
            Ok(contents) => {
                let parsed = (self.parse)(&self.files, &contents);
                last.contents = contents;
                parsed
            }
            Err(error) => Err(error),
        };
        let failure = match parsed {
            Ok(value) => {
                self.current.send_replace(Arc::new(value));
                tracing::info!(files = self.what, "reloaded");
                None
            }
            Err(error) => Some(error),
        };
        if let Some(error) = failure.as_ref().filter(|_| failure != last.failure) {
            tracing::error!(files = self.what, %error, "not reloaded, keeping the old content");
        }
        last.failure = failure;
        last.failure.is_none()
    }
}

fn read(files: &[NamedFile]) -> Result<Vec<Vec<u8>>, String> {
    files.iter().map(NamedFile::read).collect()
}

/// Reads all files again in this interval, for ever.
pub async fn follow(all: Vec<Arc<dyn Reload>>, every: Duration, metrics: TlsMetrics) {
    let all: Arc<[_]> = all.into();
    let mut rounds = interval(every);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let (all, metrics) = (Arc::clone(&all), metrics.clone());
        let reload = move |files: &Arc<dyn Reload>| {
            let failures = metrics.reload_failures.with_label_values(&[files.what()]);
            failures.inc_by(u64::from(!files.reload()));
        };
        let round = spawn_blocking(move || all.iter().for_each(reload));
        if let Err(error) = round.await {
            tracing::error!(%error, "a reload failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::metrics::Metrics;

    fn number(files: &[NamedFile], contents: &[Vec<u8>]) -> Result<u32, String> {
        let text = String::from_utf8_lossy(&contents[0]);
        text.parse().map_err(|_| files[0].refused("it has no number"))
    }

    #[tokio::test(start_paused = true)]
    async fn each_failed_reload_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let load = |what| {
            let path = folder.path().join(what);
            fs::write(&path, "1").unwrap();
            Reloaded::load(what, vec![NamedFile::new("--number", &path)], number).unwrap()
        };
        let all: Vec<Arc<dyn Reload>> = vec![Arc::new(load("good")), Arc::new(load("bad"))];
        fs::write(folder.path().join("bad"), "one").unwrap();
        let metrics = Metrics::default();
        let every = Duration::from_secs(60);
        let rounds = follow(all, every, metrics.tls().clone());
        // At once and after one and two intervals.
        assert!(timeout(every * 5 / 2, rounds).await.is_err());
        let failures = &metrics.tls().reload_failures;
        let counted = ["good", "bad"].map(|what| failures.with_label_values(&[what]).get());
        assert_eq!(counted, [0, 3]);
    }

    #[test]
    fn content_that_cannot_be_used_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("number");
        let load = || Reloaded::load("a number", vec![NamedFile::new("--number", &path)], number);
        let missing = load().err().unwrap();
        assert!(missing.contains("--number") && missing.contains("number' of"), "{missing}");
        fs::write(&path, "1").unwrap();
        let reloaded = load().unwrap();
        let first = reloaded.current();
        reloaded.reload();
        assert!(Arc::ptr_eq(&first, &reloaded.current()), "nothing has changed");

        let failed = || {
            assert_eq!((reloaded.reload(), *reloaded.current()), (false, 1));
            reloaded.last.lock().unwrap().failure.clone().unwrap()
        };
        fs::write(&path, "one").unwrap();
        assert!(failed().contains("it has no number"));
        assert!(failed().contains("it has no number"), "it is still unusable");
        fs::remove_file(&path).unwrap();
        assert!(failed().contains("No such file"));

        // Also the content of before counts as new after a failure.
        fs::write(&path, "1").unwrap();
        reloaded.reload();
        assert!(!Arc::ptr_eq(&first, &reloaded.current()));
        assert!(reloaded.last.lock().unwrap().failure.is_none());
    }
}
