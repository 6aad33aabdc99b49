//! What a store can do at present. The server's health tells it.

use tokio::sync::watch;

/// The condition of a store. Every store begins as [`Condition::Ready`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It reads and writes.
    Ready,
    /// It reads and deletes. Other writes are [`Error::DiskFull`](sessiond_core::domain::error::Error::DiskFull).
    DiskFull,
    /// Its file was removed or replaced. It commits nothing more; reads go on, so that sessions can be exported. Or the disk failed to
    /// store it, and reads are refused as well.
    FileLost,
    /// The database cannot be reached, or does not take writes. It is tried again.
    Unreachable,
    /// The database lacks commits that were acknowledged. It is not used until it has them.
    Behind,
}

impl Condition {
    /// Changes the condition of a store if it is `from`.
    pub fn switch(condition: &watch::Sender<Self>, from: Self, to: Self) {
        condition.send_if_modified(|condition| {
            let switches = *condition == from;
            if switches {
                *condition = to;
            }
            switches
        });
    }
}
