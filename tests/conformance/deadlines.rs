//! Writes whose callers have stopped waiting.

use sessiond::{commit::Request, domain::error::Error, store::RequestContext};
use tokio::time::Instant;

use crate::{fixture::*, requests::*};

#[expect(clippy::disallowed_methods, reason = "a deadline is of the caller's clock")]
fn expired() -> RequestContext {
    RequestContext { deadline: Some(Instant::now()), ..RequestContext::internal() }
}

pub async fn a_write_after_its_deadline_leaves_nothing(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("k", "1")]).await;
    fixture.put("a/u/s", "1", add("k", 1)).await;
    let before = fixture.info("a/u/s").await;
    let all = |amount| add("k", amount).add("app:k", amount).add("user:k", amount);
    for late in [
        Request::Create(create("a/u/t", &[("app:k", "1"), ("user:k", "1")])),
        Request::Update(touch("a/u/s")),
        Request::Delete(address("a/u/s").into()),
        Request::Fork(fork("a/u/s", None, "t")),
        Request::Append(append("a/u/s", [event("2", all(1))]).to(address("a/u/s"))),
        Request::Rewind(rewind("a/u/s", 0, "2")),
        Request::UpdateState(update("a/u", add("app:k", 1).add("user:k", 1))),
    ] {
        let refused = fixture.commit(&expired(), late).await;
        assert_eq!(refused.unwrap_err(), Error::ExpiredInQueue);
    }
    assert_eq!(fixture.info("a/u/s").await, before);
    assert_eq!(fixture.state("a/u/s").await, r#"{"k":2}"#);
    assert_eq!(fixture.position("a/u").await.versions, Default::default());
    fixture.read_session(read("a/u/t")).await.unwrap_err();
    // Its event id is free.
    assert_eq!(fixture.put("a/u/s", "2", all(5)).await.sequence, 2);
}
