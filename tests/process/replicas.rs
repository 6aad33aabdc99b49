//! Replicas as processes: one whose clock is wrong, and one whose database goes away.

use std::{
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use sessiond::proto::v1::{
    CreateSessionRequest, Session, SessionKey, session::Expiration,
    session_service_client::SessionServiceClient,
};
use sessiond_test_support::is_ci;
use tonic::{Code, transport::Channel};
use tonic_health::pb::health_check_response::ServingStatus;

use crate::{
    cluster::{Cluster, Database, Stop, shared_server},
    harness::{Server, append, create, event, key, read, reason, serve_on, wait_for_health},
};

/// Seconds for which the sessions of the test live: more than the test, and less than the clock is wrong by.
const TTL_SECS: i64 = 1800;

async fn create_for_a_while(channel: &Channel, session: &str) {
    let SessionKey { app_name, user_id, session_id } = key(session);
    let ttl = prost_types::Duration { seconds: TTL_SECS, nanos: 0 };
    let request = CreateSessionRequest {
        app_name,
        user_id,
        session_id,
        session: Some(Session { expiration: Some(Expiration::Ttl(ttl)), ..Session::default() }),
        ..CreateSessionRequest::default()
    };
    SessionServiceClient::new(channel.clone()).create_session(request).await.unwrap();
}

/// Seconds of the commit time of a session's newest event.
async fn last_commit(channel: &Channel, session: &str) -> i64 {
    let answer = read(channel, session).await;
    answer.events.last().unwrap().commit_time.unwrap().seconds
}

/// The library that changes the clock of a process, as the program that comes with it names it. `None`: the test is skipped, which CI
/// forbids.
fn faketime() -> Option<String> {
    let printed = Command::new("faketime").args(["-f", "+0", "printenv", "LD_PRELOAD"]).output();
    assert!(printed.is_ok() || !is_ci(), "no faketime. Run tests/tools/install faketime.");
    Some(String::from_utf8(printed.ok()?.stdout).unwrap().trim().to_owned())
}

/// Whether the library changes the clock of another program by about an hour.
fn is_wrong(library: &str, offset: &str) -> bool {
    let mut date = Command::new("date");
    date.arg("+%s").env("LD_PRELOAD", library).env("FAKETIME", offset);
    let printed = String::from_utf8(date.output().unwrap().stdout).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    printed.trim().parse::<u64>().unwrap().abs_diff(now) > 3000
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_whose_clock_is_an_hour_wrong_changes_nothing_that_others_see() {
    if shared_server().is_none() {
        return;
    }
    let Some(library) = faketime() else { return };
    let database = Database::create();
    let right = Server::start_on(&database.url, &[]);
    let right_channel = right.channel().await;
    for offset in ["+1h", "-1h"] {
        assert!(is_wrong(&library, offset), "the clock is not changed");
        let mut serve = serve_on(&database.url);
        // Waits are counted by the monotonic clock, which nothing sets.
        serve.env("LD_PRELOAD", &library).env("FAKETIME", offset);
        serve.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let wrong = Server::run(&mut serve).unwrap_or_else(|ended| panic!("{}", ended.log));
        let wrong_channel = wrong.channel().await;
        let mut times = Vec::new();
        for (at, channel) in
            [&right_channel, &wrong_channel, &right_channel].into_iter().enumerate()
        {
            let session = format!("{offset}{at}");
            create_for_a_while(channel, &session).await;
            // Neither has it expired for the other, nor is it swept.
            for channel in [&right_channel, &wrong_channel] {
                append(channel, &session, event(&format!("{offset}{at}"), "{}", "{}"))
                    .await
                    .unwrap();
                times.push(last_commit(channel, &session).await);
            }
        }
        assert!(times.is_sorted(), "{offset}: {times:?}");
        let first = times[0];
        assert!(times.iter().all(|time| time - first < 600), "{offset}: {times:?}");
        assert!(wrong.stop().status.success());
    }
    assert!(right.stop().status.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_tells_whether_the_database_can_be_reached() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let server = Server::start_on(&cluster.url(), &[]);
    let channel = server.channel().await;
    wait_for_health(&channel, "", ServingStatus::Serving).await;
    create(&channel, "s", "{}").await;
    cluster.stop(Stop::Fast);
    wait_for_health(&channel, "", ServingStatus::NotServing).await;
    let refused = append(&channel, "s", event("1", "{}", "{}")).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::Unavailable, "STORE_UNAVAILABLE"));
    cluster.start_again();
    wait_for_health(&channel, "", ServingStatus::Serving).await;
    let appended = append(&channel, "s", event("1", "{}", "{}")).await.unwrap();
    assert_eq!((appended.event.unwrap().sequence, appended.replayed), (1, false));
    let ended = server.stop();
    assert!(ended.status.success(), "{}", ended.log);
    assert!(ended.log.contains("the database cannot be reached"), "{}", ended.log);
}
