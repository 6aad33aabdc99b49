//! Which calls are under way: at a stop, a connection without any has nothing left to say.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use http_body::{Frame, SizeHint};
use tokio::time::interval;
use tonic::{Status, body::Body, codegen::Bytes};

/// How often a server that stops looks whether calls are left.
const LOOK: Duration = Duration::from_millis(100);

/// How long none must have been left: time for the last answers to leave, and for clients to hear that no more calls are taken.
const QUIET: Duration = Duration::from_secs(5);

/// How many calls are under way, and parts of their answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(Arc<AtomicUsize>);

/// A call that is under way until this is dropped.
#[derive(Debug)]
pub(super) struct Call(Calls);

impl Calls {
    pub(super) fn begin(&self) -> Call {
        self.0.fetch_add(1, Ordering::Relaxed);
        Call(self.clone())
    }

    /// Waits until no call has been under way for a while: of so much time as there is at all, half of it at most.
    pub(super) async fn over(&self, at_all: Duration) {
        let quiet = QUIET.min(at_all / 2);
        let mut looks = interval(LOOK);
        let mut last_seen = looks.tick().await;
        loop {
            let now = looks.tick().await;
            if self.0.load(Ordering::Relaxed) > 0 {
                last_seen = now;
            } else if now - last_seen >= quiet {
                return;
            }
        }
    }
}

impl Call {
    /// The same body. The call ends when all of it has been written to the connection.
    pub(super) fn until_the_end_of(self, inner: Body) -> Body {
        Body::new(Answering { inner, call: self })
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is answered. It is dropped when its last part is handed over, or when nobody wants it any more; parts that the client has not
/// made room for yet wait behind it.
struct Answering {
    inner: Body,
    call: Call,
}

/// A part of an answer. It is dropped when it is written.
struct Part {
    data: Bytes,
    _call: Call,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl http_body::Body for Answering {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        let part = |data| Bytes::from_owner(Part { data, _call: self.call.0.begin() });
        Poll::Ready(frame.map(|frame| Ok(frame?.map_data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin};

    use http_body::Body as _;
    use tokio::time::{pause, timeout};

    use super::*;

    /// An answer that goes on.
    struct Endless;

    impl http_body::Body for Endless {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn calls_are_over_when_none_was_left_for_a_while() {
        pause();
        let calls = Calls::default();
        let (first, second) = (calls.begin(), calls.begin());
        let hour = Duration::from_secs(3600);
        assert!(timeout(hour, calls.over(hour)).await.is_err(), "two are under way");
        drop(first);
        assert!(timeout(hour, calls.over(hour)).await.is_err(), "one is under way");
        drop(second);
        let mut over = pin!(calls.over(hour));
        assert!(timeout(QUIET / 2, &mut over).await.is_err(), "that may be a pause");
        let late = calls.begin().until_the_end_of(Body::new(Endless));
        assert!(timeout(LOOK * 2, &mut over).await.is_err());
        drop(late);
        assert!(timeout(QUIET - LOOK * 2, &mut over).await.is_err(), "the wait begins anew");
        assert!(timeout(LOOK * 4, over).await.is_ok());
        assert!(timeout(LOOK * 4, calls.over(LOOK * 6)).await.is_ok(), "half of what there is");
    }
    #[tokio::test]
    async fn a_call_is_under_way_until_what_it_said_is_written() {
        pause();
        let calls = Calls::default();
        let mut answer = Box::pin(calls.begin().until_the_end_of(Body::new("text".to_owned())));
        let frame = poll_fn(|context| answer.as_mut().poll_frame(context)).await.unwrap().unwrap();
        drop(answer);
        let part = frame.into_data().unwrap();
        assert_eq!(part, "text");
        let hour = Duration::from_secs(3600);
        assert!(timeout(hour, calls.over(hour)).await.is_err(), "a part waits for its reader");
        drop(part);
        assert!(timeout(hour, calls.over(hour)).await.is_ok());
    }
}
