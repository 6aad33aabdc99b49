//! Responses that take long to encode: they leave the runtime's threads to others.

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::Semaphore,
    task::block_in_place,
};

/// Entries of states in a response that is large: a millisecond of work, or several as a Struct.
const LARGE: usize = 4096;

/// One at a time, so that the processor is left to others as well, and that those whose turn has not come take no more memory.
static TURN: Semaphore = Semaphore::const_new(1);

/// Encodes a response that has so many entries of states.
pub async fn encoded<T>(entries: usize, encode: impl FnOnce() -> T) -> T {
    let is_shared = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
    if entries < LARGE || is_shared {
        return encode();
    }
    // It is never closed.
    let _turn = TURN.acquire().await;
    block_in_place(encode)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier, mpsc};

    use super::*;

    /// With one thread of the runtime, which the encoding of a large response would hold.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_large_response_holds_up_no_other_task() {
        let (begun, begins) = mpsc::channel();
        let end = Arc::new(Barrier::new(2));
        let other = Arc::clone(&end);
        let large = tokio::spawn(async move {
            encoded(LARGE, || {
                begun.send(()).unwrap();
                other.wait()
            })
            .await
        });
        let small = tokio::spawn(async move {
            begins.recv().unwrap();
            let second = tokio::spawn(encoded(LARGE, || ()));
            tokio::task::yield_now().await;
            assert!(!second.is_finished(), "large ones take turns");
            assert_eq!(encoded(LARGE - 1, || 7).await, 7);
            end.wait();
            second.await.unwrap();
        });
        small.await.unwrap();
        large.await.unwrap();
    }
}
