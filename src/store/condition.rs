//! What a store can do at present. The server's health tells it.

/// The condition of a store. Every store begins as [`Condition::Ready`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It reads and writes.
    Ready,
    /// It reads and deletes. Other writes are [`Error::DiskFull`](crate::domain::error::Error::DiskFull).
    DiskFull,
    /// Its file was removed or replaced. It commits nothing more; reads go on, so that sessions can be exported. Or the disk failed to
    /// store it, and reads are refused as well.
    FileLost,
    /// The database cannot be reached, or does not take writes. It is tried again.
    Unreachable,
}
