//! Metrics of watches and of `temp:` state.

use futures_util::FutureExt as _;

use super::*;
use crate::{domain::scope::Scope, store::RequestContext};

impl World {
    /// The lag of the slowest watch, as a scrape finds it.
    async fn lag(&self) -> i64 {
        self.engine.metrics.scrape().await.unwrap();
        self.engine.metrics.watches.lag_commits.get()
    }
}

#[tokio::test]
async fn the_slowest_watch_lags_by_what_it_has_not_delivered() {
    let world = world();
    let session = world.create("alice", "s").await;
    let watch = async || {
        let scope = Scope::Session(session.clone());
        world.engine.watch(&RequestContext::internal(), scope, WatchFrom::Now).await.unwrap()
    };
    let (mut fast, slow) = (watch().await, watch().await);
    let metrics = &world.engine.metrics.watches;
    assert_eq!((metrics.open.get(), world.lag().await), (2, 0));
    for _ in 0..3 {
        world.append(&session, None, Delta::default()).await.unwrap();
    }
    assert_eq!(world.lag().await, 3);
    drop(slow);
    assert_eq!((metrics.open.get(), world.lag().await), (1, 3));
    // Three events, that nothing is left, and the wait for more.
    for _ in 0..4 {
        assert!(fast.next().now_or_never().is_some());
    }
    assert!(fast.next().now_or_never().is_none());
    assert_eq!(world.lag().await, 0);
    world.append(&session, None, Delta::default()).await.unwrap();
    assert_eq!(world.lag().await, 1);
    drop(fast);
    assert_eq!((metrics.open.get(), world.lag().await), (0, 0));
}

#[tokio::test]
async fn temp_state_is_measured_however_it_ends() {
    let world = world_with(EngineOptions { temp_idle_secs: 60, ..EngineOptions::default() });
    let session = world.create("alice", "s").await;
    let metrics = &world.engine.metrics.watches;
    let measured = || (metrics.temp_bytes.get(), metrics.temp_invocations.get());
    world.append(&session, Some("a"), set(&[("temp:key", "12345")])).await.unwrap();
    world.append(&session, Some("b"), set(&[("temp:k", "1")])).await.unwrap();
    assert_eq!(measured(), (8 + 2, 2));
    world.append(&session, Some("a"), set(&[("temp:key", "1")])).await.unwrap();
    assert_eq!(measured(), (4 + 2, 2));
    let ended = invocation("a");
    world.engine.end_invocation(&RequestContext::internal(), session.clone(), ended).await.unwrap();
    assert_eq!(measured(), (2, 1));
    world.clock.forward(60);
    world.engine.sweep().await.unwrap();
    assert_eq!(measured(), (0, 0));
}
