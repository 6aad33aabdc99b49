//! A policy and tokens that change under open watches and streams.

use std::{fs, time::Instant};

use serde_json::json;
use sessiond::{
    domain::permission::Right,
    proto::v1::{
        AppendEventRequest, AppendEventStreamRequest, Event, SessionKey,
        append_event_stream_response::Outcome, event_service_client::EventServiceClient,
    },
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    calls::{Client, method, request},
    cases::at,
    harness::{Ended, PATIENCE, Server, reason, with_token},
    setting::{Setting, caller, rule, token},
};

/// Seconds from the last message of a watch within which it has to end. One that would only notice at its heartbeat takes ten, and one
/// that notices when the file is read again takes two on an idle machine.
const END_SECS: u64 = 9;

/// Calls until the answer has this code: the files are read again meanwhile.
async fn until(client: &Client, code: &str) {
    let key = at("shop", "alice", "s").key();
    let waiting =
        async { while client.ask("GetSession", &json!({ "key": key })).await.code() != code {} };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("waited in vain for {code}"));
}

/// A server that reads its files again every second, with a session of alice.
async fn start() -> (Setting, Server) {
    let setting = Setting::on_sqlite();
    setting.set_policy(&policy(&["alice", "bob"]));
    setting.set_tokens(&["alice", "bob"]);
    let server = setting.start_with_tokens(&["--reload-interval", "1"]);
    let alice = caller(&server, "alice").await;
    let created = alice.ask("CreateSession", &at("shop", "alice", "s").key()).await;
    assert_eq!(created.refusal, None);
    (setting, server)
}

/// Both are about the sessions of alice.
fn policy(names: &[&str]) -> String {
    let rules =
        names.iter().map(|it| rule(&format!("token:{it}"), "shop", "[\"alice\"]", &Right::ALL));
    rules.collect()
}

/// Watches of bob and alice. Those of bob end for this reason when a file has changed.
async fn watches_of_bob_end(change: impl FnOnce(&Setting), expected: &str) {
    let (setting, server) = start().await;
    let (live, mut lives) = mpsc::unbounded_channel();
    let session = at("shop", "alice", "s");
    let user = json!({"app_name": "shop", "user_id": "alice"});
    let scopes = [session.key(), user, json!({"app_name": "shop"})];
    let mut watches = Vec::new();
    for (name, scope) in scopes.iter().map(|scope| ("bob", scope)).chain([("alice", &scopes[0])]) {
        let (client, live) = (caller(&server, name).await, live.clone());
        let method = method("Watch");
        let request = request(&method, &json!({ "scope": scope }));
        watches.push(tokio::spawn(async move {
            let mut last = Instant::now();
            let (_, ended) = client
                .follow(&method, &request, |message| {
                    last = Instant::now();
                    if message.has_field_by_name("caught_up") {
                        live.send(()).unwrap();
                    }
                    message.has_field_by_name("event")
                })
                .await;
            ended.map(|status| (reason(&status), last.elapsed()))
        }));
    }
    for _ in 0..watches.len() {
        timeout(PATIENCE, lives.recv()).await.unwrap();
    }
    change(&setting);
    let of_alice = watches.pop().unwrap();
    for watch in watches {
        let (reason, after) = timeout(PATIENCE, watch).await.unwrap().unwrap().expect("it ended");
        assert_eq!(reason, expected);
        assert!(after.as_secs() < END_SECS, "{after:?}");
    }
    // Another's goes on.
    let event = json!({"key": session.key(), "event": {"author": "a", "body_json": "{}"}});
    let appended = caller(&server, "alice").await.ask("AppendEvent", &event).await;
    assert_eq!(appended.refusal, None);
    assert!(timeout(PATIENCE, of_alice).await.unwrap().unwrap().is_none(), "the event came");
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_end_when_the_policy_takes_their_right() {
    watches_of_bob_end(|setting| setting.set_policy(&policy(&["alice"])), "PERMISSION_DENIED")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_end_when_their_token_is_taken_back() {
    watches_of_bob_end(|setting| setting.set_tokens(&["alice"]), "CREDENTIAL_INVALID").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_of_a_stream_are_judged_by_the_policy_and_the_tokens_of_their_time() {
    let (setting, server) = start().await;
    let (items, sent) = mpsc::channel(1);
    let call = with_token(Some(&token("bob")), ReceiverStream::new(sent));
    let mut client = EventServiceClient::new(server.channel().await);
    let mut answers = client.append_event_stream(call).await.unwrap().into_inner();
    let bob = caller(&server, "bob").await;
    let both = &["alice", "bob"][..];
    for (names, tokens, code, expected) in [
        (both, both, "OK", None),
        (&["alice"], both, "PERMISSION_DENIED", Some("PERMISSION_DENIED")),
        (&["bob"], both, "OK", None),
        (&["bob"], &["alice"], "UNAUTHENTICATED", Some("CREDENTIAL_INVALID")),
    ] {
        setting.set_policy(&policy(names));
        setting.set_tokens(tokens);
        until(&bob, code).await;
        let key =
            SessionKey { app_name: "shop".into(), user_id: "alice".into(), session_id: "s".into() };
        let event = Event { author: "bob".into(), ..Event::default() };
        let append =
            AppendEventRequest { key: Some(key), event: Some(event), ..Default::default() };
        items.send(AppendEventStreamRequest { append: Some(append) }).await.unwrap();
        let answer = timeout(PATIENCE, answers.message()).await.unwrap().unwrap().unwrap();
        let failed = match answer.outcome.unwrap() {
            Outcome::Appended(_) => None,
            Outcome::Failure(failure) => Some(failure.reason),
        };
        assert_eq!(failed.as_deref(), expected);
    }
    drop(items);
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_policy_changes_nothing_and_is_logged() {
    let (setting, server) = start().await;
    let [alice, bob] = [caller(&server, "alice").await, caller(&server, "bob").await];
    setting.set_policy(&policy(&["alice"]));
    until(&bob, "PERMISSION_DENIED").await;
    let mut names = vec!["alice", "bob"];
    let broken = ["[[rule]]\nprincipal = \"token:bob\"\n", "s3cret"];
    for (broken, others) in broken.into_iter().zip([["first", "second"], ["third", "fourth"]]) {
        setting.set_policy(broken);
        // Of the two rounds that it takes to know two more tokens, the later one reads the policy, whatever the order of files.
        for other in others {
            names.push(other);
            setting.set_tokens(&names);
            until(&caller(&server, other).await, "PERMISSION_DENIED").await;
        }
        until(&bob, "PERMISSION_DENIED").await;
        until(&alice, "OK").await;
    }
    fs::remove_file(setting.path("policy.toml")).unwrap();
    until(&alice, "OK").await;
    setting.set_policy(&policy(&["bob"]));
    until(&bob, "OK").await;
    until(&alice, "PERMISSION_DENIED").await;
    let Ended { log, .. } = server.stop();
    let failures = log.lines().filter(|line| line.contains("not reloaded")).collect::<Vec<_>>();
    assert!(failures.len() >= 2, "each was logged: {log}");
    assert!(failures.iter().all(|line| line.contains("--policy") && !line.contains("s3cret")));
}
