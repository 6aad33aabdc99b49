//! Threads that read, each with a connection of its own. A read sees one snapshot, and never waits for the writer.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use tokio::sync::oneshot;
use tracing::error;

use super::{lock::FileLock, prelude::*};
use sessiond_metrics::ReadMetrics;
use sessiond_store::{
    queue::{QUEUE_READS, Queue, READS_FULL},
    reading,
};

/// Work for a reader: it reads and answers the caller. Returns whether the connection is still good.
type Job = Box<dyn FnOnce(&Tables) -> bool + Send>;

#[derive(Clone)]
pub(super) struct Readers {
    queue: Arc<Queue<Job>>,
    /// A flush of the file failed. Readers do not hold the file's lock, because others keep them beyond the end of the store.
    flush_failed: Arc<AtomicBool>,
    pub(super) damaged: Arc<AtomicU64>,
}

impl Readers {
    /// Starts the threads. They end when [`Self::close`] has been called and nothing is left to do.
    pub(super) fn start(
        file: &Arc<FileLock>,
        threads: usize,
        metrics: &ReadMetrics,
    ) -> io::Result<(Self, Vec<JoinHandle<()>>)> {
        let waits = metrics.queue_wait.clone();
        let queue = Arc::new(Queue::new(QUEUE_READS, usize::MAX, READS_FULL, waits));
        let start = |at| {
            let (file, queue) = (Arc::clone(file), Arc::clone(&queue));
            let thread = thread::Builder::new().name(format!("sqlite-read-{at}"));
            thread.spawn(move || work(&file, &queue))
        };
        let flush_failed = Arc::clone(&file.flush_failed);
        let readers = Self { queue: Arc::clone(&queue), flush_failed, damaged: Arc::default() };
        let handles = all_or_none(threads.max(1), start, || readers.close())?;
        Ok((readers, handles))
    }

    /// Reads in one snapshot, in its caller's turn.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tables) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let (caller, account) = reading();
        let (flush_failed, damaged) = (Arc::clone(&self.flush_failed), Arc::clone(&self.damaged));
        let job = Box::new(move |tables: &Tables| {
            if reply.is_closed() {
                return true;
            }
            // Other answers of the connection may have been made since it was checked.
            let result = account.check().and_then(|()| {
                catch_unwind(AssertUnwindSafe(|| in_snapshot(tables, work)))
                    .unwrap_or_else(|_| Err(Error::internal("a read panicked")))
            });
            let result =
                if flush_failed.load(Ordering::Relaxed) { Err(Error::FileLost) } else { result };
            let failed = matches!(result, Err(Error::StoreUnavailable(_) | Error::Internal(_)));
            if failed && let Err(error) = &result {
                error!(%error, "a read failed, replacing its connection");
            }
            if let Err(error @ Error::Damaged(..)) = &result {
                let damaged_reads = damaged.fetch_add(1, Ordering::Relaxed) + 1;
                // Ever more rarely, because damage is read again and again.
                if damaged_reads.is_power_of_two() {
                    error!(%error, damaged_reads, "a read met damage: run `sessiond verify`");
                }
            }
            // The caller may have gone, which is fine.
            let _ = reply.send(result);
            !failed
        });
        let gone = || Error::StoreUnavailable(Cause::new("the reader ended before it answered"));
        self.queue.push(caller, job, 0)?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.waiting().0
    }

    pub(super) fn close(&self) {
        self.queue.close();
    }
}

/// What one thread does until the queue is closed.
fn work(file: &FileLock, queue: &Queue<Job>) {
    // At once, so that a file can still be read when it is removed.
    let mut connection = connect(file);
    while let Some(job) = queue.pop() {
        // A job without a connection is dropped, so that its caller gets an answer.
        connection = connection.or_else(|| connect(file)).filter(|it| job(it));
    }
}

/// Starts threads. If one cannot start, `end` ends those that have, and none is left when this returns.
fn all_or_none(
    count: usize,
    start: impl Fn(usize) -> io::Result<JoinHandle<()>>,
    end: impl FnOnce(),
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut started = Vec::new();
    for at in 0..count {
        match start(at) {
            Ok(thread) => started.push(thread),
            Err(error) => {
                end();
                started.into_iter().for_each(join);
                return Err(error);
            }
        }
    }
    Ok(started)
}

pub(super) fn join(handle: JoinHandle<()>) {
    if handle.join().is_err() {
        error!("a thread of the store panicked");
    }
}

fn connect(file: &FileLock) -> Option<Tables> {
    let opened = Tables::reader(&file.path).map_err(driver);
    // Not another file that has come in its place.
    let opened = opened.and_then(|tables| file.check().map(|()| tables));
    opened.inspect_err(|error| error!(%error, "opening a connection for reading failed")).ok()
}

fn in_snapshot<T>(tables: &Tables, work: impl FnOnce(&Tables) -> Result<T>) -> Result<T> {
    tables.run("BEGIN DEFERRED", ())?;
    let result = work(tables);
    // COMMIT would fail after a damaged page, also where the read went on without it.
    let ended = tables.run("ROLLBACK", ());
    let value = result?;
    ended?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use sessiond_metrics::Metrics;

    use super::*;

    #[test]
    fn threads_that_began_end_where_another_cannot_begin() {
        let waits = Metrics::default().reads.queue_wait;
        let queue = Arc::new(Queue::<()>::new(1, 1, READS_FULL, waits));
        let started = Arc::new(());
        let start = |at| {
            let (queue, started) = (Arc::clone(&queue), Arc::clone(&started));
            let thread = move || {
                let _started = started;
                queue.pop();
            };
            if at < 2 { Ok(thread::spawn(thread)) } else { Err(io::ErrorKind::WouldBlock.into()) }
        };
        assert!(all_or_none(3, start, || queue.close()).is_err());
        assert_eq!(Arc::strong_count(&started), 1);
    }
}
