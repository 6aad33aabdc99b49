//! Responses that take long to encode: they leave the runtime's threads to others.

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::Semaphore,
    task::block_in_place,
};

use super::prelude::*;
use crate::{
    engine::{List, SessionAnswer, WatchItem},
    store::{Appended, Created, StateUpdated},
};

/// Entries of states in a response that is large: a millisecond of work, or several as a Struct.
const LARGE: usize = 4096;

/// One at a time, so that the processor is left to others as well.
static TURN: Semaphore = Semaphore::const_new(1);

/// Counts the entries of its states.
pub trait Entries {
    /// The entries of its states.
    fn entries(&self) -> usize;
}

fn of(state: Option<&State>) -> usize {
    state.map_or(0, |state| state.0.len())
}

/// Gives the entries of answers.
macro_rules! answers {
    ($($type:ty: |$it:ident| $entries:expr;)*) => {
        $(impl Entries for $type {
            fn entries(&self) -> usize {
                let $it = self;
                $entries
            }
        })*
    };
}

answers! {
    Created: |it| of(Some(&it.state));
    (SessionInfo, State): |it| of(Some(&it.1));
    Appended: |it| of(it.state.as_ref());
    StateUpdated: |it| of(Some(&it.state));
    SessionAnswer: |it| of(it.state.as_ref());
    List<(SessionInfo, Option<State>)>: |it| it.items.iter().map(|(_, state)| of(state.as_ref())).sum();
    (List<StateEntry>, Option<Life>): |it| it.0.items.len();
    Result<(WatchItem, String), Error>: |it| match it {
        Ok((WatchItem::Snapshot { state, .. }, _)) => of(Some(state)),
        _ => 0,
    };
}

/// Encodes a response.
pub async fn encoded<A: Entries, T>(answer: A, encode: impl FnOnce(A) -> T) -> T {
    let has_threads = || Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if answer.entries() < LARGE || !has_threads() {
        return encode(answer);
    }
    // It is never closed.
    let _turn = TURN.acquire().await;
    block_in_place(|| encode(answer))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier, mpsc};

    use super::*;

    impl Entries for usize {
        fn entries(&self) -> usize {
            *self
        }
    }

    /// With one thread of the runtime, which the encoding of a large response would hold.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_large_response_holds_up_no_other_task() {
        let (begun, begins) = mpsc::channel();
        let end = Arc::new(Barrier::new(2));
        let other = Arc::clone(&end);
        let large = tokio::spawn(async move {
            encoded(LARGE, |_| {
                begun.send(()).unwrap();
                other.wait()
            })
            .await
        });
        let small = tokio::spawn(async move {
            begins.recv().unwrap();
            let second = tokio::spawn(encoded(LARGE, |_| ()));
            tokio::task::yield_now().await;
            assert!(!second.is_finished(), "large ones take turns");
            assert_eq!(encoded(LARGE - 1, |it| it).await, LARGE - 1);
            end.wait();
            second.await.unwrap();
        });
        small.await.unwrap();
        large.await.unwrap();
    }
}
