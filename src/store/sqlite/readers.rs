//! Threads that read, each with a connection of its own. A read sees one snapshot, and never waits for the writer.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
};

use rusqlite::{Connection, OpenFlags};
use tokio::sync::oneshot;
use tracing::error;

use super::{schema, statements::Reads};
use crate::{
    domain::error::{Bounded, Cause, Error},
    store::queue::{Queue, Rejected},
};

/// Milliseconds after which a retry makes sense when too many reads wait: what a few hundred of them take.
const RETRY_AFTER_MILLIS: u64 = 50;

/// Work for a reader: it reads and answers the caller. Returns whether the connection is still good.
type Job = Box<dyn FnOnce(&mut Reads<'_>) -> bool + Send>;

/// The pool.
pub(super) struct Readers {
    queue: Arc<Queue<Job>>,
}

impl Readers {
    /// Starts the threads. They end when [`Self::close`] has been called and nothing is left to do.
    pub(super) fn start(
        path: &Path,
        threads: usize,
        queue_reads: usize,
    ) -> io::Result<(Self, Vec<JoinHandle<()>>)> {
        let queue = Arc::new(Queue::new(queue_reads, usize::MAX));
        let mut handles = Vec::new();
        for at in 0..threads.max(1) {
            let (path, queue) = (path.to_path_buf(), Arc::clone(&queue));
            let thread = thread::Builder::new().name(format!("sqlite-read-{at}"));
            handles.push(thread.spawn(move || run(&path, &queue))?);
        }
        Ok((Self { queue }, handles))
    }

    /// Reads in one snapshot.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Reads<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(move |reads: &mut Reads<'_>| {
            if reply.is_closed() {
                return true;
            }
            let result = catch_unwind(AssertUnwindSafe(|| in_snapshot(reads, work)))
                .unwrap_or_else(|_| Err(Error::internal("a read panicked")));
            let failed = matches!(result, Err(Error::StoreUnavailable(_) | Error::Internal(_)));
            if failed && let Err(error) = &result {
                error!(?error, "a read failed, replacing its connection");
            }
            // The caller may have gone, which is fine.
            let _ = reply.send(result);
            !failed
        });
        self.queue.push(job, 0).map_err(|rejected| match rejected {
            Rejected::Full => Error::Overloaded {
                what: Bounded::ReadQueue,
                retry_after_millis: RETRY_AFTER_MILLIS,
            },
            Rejected::Closed => Error::Draining,
        })?;
        let gone = || Error::StoreUnavailable(Cause::new("the reader ended before it answered"));
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    pub(super) fn close(&self) {
        self.queue.close();
    }
}

fn in_snapshot<T>(
    reads: &mut Reads<'_>,
    work: impl FnOnce(&mut Reads<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    reads.begin.execute(())?;
    let result = work(reads);
    let ended = reads.end.execute(());
    let value = result?;
    ended?;
    Ok(value)
}

/// A reader's thread: serves with one connection for as long as it is good, then with the next.
fn run(path: &Path, queue: &Queue<Job>) {
    loop {
        let served = match connect(path) {
            Ok(connection) => serve(&connection, queue),
            Err(error) => Err(error),
        };
        match served {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => {
                error!(%error, "opening a connection for reading failed");
                // One job is given up for every attempt, so that callers get an answer and the thread does not spin.
                match queue.pop() {
                    None => return,
                    Some(job) => drop(job),
                }
            }
        }
    }
}

/// Whether all is done (true) or the connection is not to be trusted any more.
fn serve(connection: &Connection, queue: &Queue<Job>) -> rusqlite::Result<bool> {
    let mut reads = Reads::prepare(connection)?;
    while let Some(job) = queue.pop() {
        if !job(&mut reads) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    schema::set_up_reader(&connection)?;
    Ok(connection)
}
