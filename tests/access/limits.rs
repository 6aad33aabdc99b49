//! Limits of an application tell nothing of it to those who have no right on it.

use serde_json::json;

use crate::{
    calls::{Client, Refusal},
    cases::{Address, CASES, at},
    setting::{Setting, caller},
    tenants::APPLICATIONS,
};

/// The refusals of all RPCs on a session.
async fn refusals(client: &Client, at: &Address) -> Vec<Option<Refusal>> {
    let mut refusals = Vec::new();
    for case in CASES {
        refusals.push(client.ask(case.method, &(case.request)(at)).await.refusal);
    }
    refusals
}

/// Appends until the application takes no more.
async fn flood(client: &Client, at: &Address) {
    let event = json!({"key": at.key(), "event": {"author": "b"}});
    loop {
        let answer = client.ask("AppendEvent", &event).await;
        let Some(refusal) = answer.refusal else { continue };
        assert_eq!(refusal.reason, "RATE_LIMITED", "{refusal:?}");
        return;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_call_does_not_tell_that_an_application_is_at_its_limit() {
    let setting = Setting::in_memory();
    setting.set_policy(&APPLICATIONS.policy());
    setting.set_tokens(&["root", "a", "b"]);
    let flags = ["--max-appends-per-application", "20", "--max-watches-per-application", "1"];
    let server = setting.start_with_tokens(&flags);
    let [a, b] = [caller(&server, "a").await, caller(&server, "b").await];
    let session = at(APPLICATIONS.b.0, APPLICATIONS.b.1, "s");
    assert_eq!(b.ask("CreateSession", &session.key()).await.refusal, None);
    let before = refusals(&a, &session).await;
    for (case, before) in CASES.iter().zip(before) {
        flood(&b, &session).await;
        let now = a.ask(case.method, &(case.request)(&session)).await.refusal;
        assert_eq!(now, before, "{} ({})", case.method, case.about);
    }
    flood(&b, &session).await;
    let own = at(APPLICATIONS.a.0, APPLICATIONS.a.1, "s");
    assert_eq!(a.ask("CreateSession", &own.key()).await.refusal, None);
    server.stop();
}
