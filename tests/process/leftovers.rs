//! What stays on the disk after sessions are deleted.

use std::{fs, path::Path, process::Command, time::Duration};

use tempfile::TempDir;
use tokio::time::{interval, timeout};

use crate::harness::{PATIENCE, PROGRAM, Server};

/// Bytes of the database and its log.
fn bytes(folder: &Path) -> u64 {
    let size = |name| fs::metadata(folder.join(name)).map_or(0, |found| found.len());
    size("test.db") + size("test.db-wal")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bench_leaves_nothing_large_behind() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let bench = ["bench", "append", "--in-flight", "4", "--count", "500", "--warmup", "0"];
    let large = ["--body-bytes", "20000", "--server", server.address()];
    let output = Command::new(PROGRAM).args(bench).args(large).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let shrunk = timeout(PATIENCE, async {
        let mut looks = interval(Duration::from_millis(100));
        // What stays is the log of changes that a benchmark makes to application and user.
        while bytes(folder.path()) > 512 << 10 {
            looks.tick().await;
        }
    });
    assert!(shrunk.await.is_ok(), "{} of 10 MB are left", bytes(folder.path()));
    assert!(server.stop().status.success());
}
