//! Work that takes long: it leaves the runtime's threads to others.

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::Semaphore,
    task::block_in_place,
};

/// One at a time, so that the processor is left to others as well, and what it takes in memory is bounded.
static TURN: Semaphore = Semaphore::const_new(1);

/// Does work that is long, or not.
pub async fn apart<T>(is_long: bool, work: impl FnOnce() -> T) -> T {
    let has_threads = || Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if !is_long || !has_threads() {
        return work();
    }
    // It is never closed.
    let _turn = TURN.acquire().await;
    block_in_place(work)
}
