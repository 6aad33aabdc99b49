//! How watches and streams end: with their session, with the server, and how a server stops.

use prost_types::Duration;
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        CreateSessionRequest, DeleteSessionRequest, GetSessionRequest, GetSessionResponse, Session,
        WatchStart, session::Expiration, watch_response::Kind,
    },
};
use tokio::{io::AsyncWriteExt, net::TcpStream};
use tonic::{Request, client::Grpc};
use tonic_prost::ProstCodec;

use crate::{
    expiry::{set_expiry, soon},
    harness::{Service, owning_server, with_server, within},
    health::is_serving,
    judge::{detail, refused},
    make::{
        app_scope, append, create, get_with_events, key, plain, saying, session_scope, user_scope,
    },
    streams::Appends,
    watching::{Watching, watch},
};

with_server! {
    a_deleted_session_ends_its_watches_and_no_others
    an_expired_session_ends_its_watches
    an_expiry_that_is_set_later_ends_watches_as_well
    an_expiry_that_is_taken_back_ends_no_watch
    what_came_before_a_deletion_is_told_first
    a_watch_ends_with_its_session_though_another_takes_its_place
}

owning_server! {
    a_stop_ends_watches_with_their_cursor
    a_stop_ends_streams_of_appends
    connections_that_say_nothing_do_not_hold_up_a_stop
}

async fn delete(service: &Service, id: &str) {
    let request =
        DeleteSessionRequest { key: Some(key(id)), allow_missing: false, ..Default::default() };
    service.delete_session(request).await.unwrap();
}

/// Sees that the next message says that the session is gone, and that none follows.
async fn deleted(watching: &mut Watching) {
    let kind = watching.next().await;
    assert!(matches!(kind, Kind::SessionDeleted(_)), "{kind:?}");
    watching.ends().await.unwrap();
}

async fn a_deleted_session_ends_its_watches_and_no_others(service: &Service) {
    let mut others = Vec::new();
    for id in ["s1", "s2"] {
        service.create_session(create(id, "")).await.unwrap();
    }
    let mut own = Vec::new();
    for _ in 0..2 {
        own.push(Watching::open(service, watch(session_scope("s1"), WatchStart::Now)).await);
    }
    for scope in [session_scope("s2"), user_scope(), app_scope()] {
        others.push(Watching::open(service, watch(scope, WatchStart::Now)).await);
    }
    for watching in own.iter_mut().chain(&mut others) {
        watching.caught_up().await;
    }
    delete(service, "s1").await;
    for watching in &mut own {
        deleted(watching).await;
    }
    let mut request = create("s3", r#"{"app:a":1}"#);
    request.user_id = "bob".into();
    service.create_session(request).await.unwrap();
    for watching in &mut others {
        assert_eq!(watching.change().await.0, serde_json::json!({"app:a": 1}));
    }
}

async fn an_expired_session_ends_its_watches(service: &Service) {
    // Long enough for a watch to begin in time; how long that takes is not for this test to say.
    let mut millis = 200;
    let mut watching = loop {
        let id = format!("s{millis}");
        let ttl = Duration { seconds: millis / 1000, nanos: (millis % 1000) as i32 * 1_000_000 };
        let request = CreateSessionRequest {
            session: Some(Session { expiration: Some(Expiration::Ttl(ttl)), ..Default::default() }),
            ..create(&id, "")
        };
        service.create_session(request).await.unwrap();
        match Watching::try_open(service, watch(session_scope(&id), WatchStart::Now)).await {
            Ok(watching) => break watching,
            expired => drop(refused(expired.map(|_| ()), Reason::SessionNotFound)),
        }
        millis *= 2;
    };
    loop {
        match watching.next().await {
            Kind::CaughtUp(_) => {}
            Kind::SessionDeleted(_) => break,
            kind => panic!("{kind:?}"),
        }
    }
    watching.ends().await.unwrap();
}

/// The watch has long read when the session would expire; only the session has changed.
async fn an_expiry_that_is_set_later_ends_watches_as_well(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let mut watching = Watching::open(service, watch(session_scope("s1"), WatchStart::Now)).await;
    watching.caught_up().await;
    set_expiry(service, "s1", "ttl", Some(soon())).await;
    deleted(&mut watching).await;
}

/// And one that is moved away does not end them.
async fn an_expiry_that_is_taken_back_ends_no_watch(service: &Service) {
    let hour = Expiration::Ttl(Duration { seconds: 3600, nanos: 0 });
    service.create_session(create("s1", "")).await.unwrap();
    set_expiry(service, "s1", "ttl", Some(hour)).await;
    let mut watching = Watching::open(service, watch(session_scope("s1"), WatchStart::Now)).await;
    watching.caught_up().await;
    set_expiry(service, "s1", "expire_time", None).await;
    service.append_event(append("s1", plain())).await.unwrap();
    assert_eq!(watching.event().await.sequence, 1);
}

async fn what_came_before_a_deletion_is_told_first(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let mut watching = Watching::open(service, watch(session_scope("s1"), WatchStart::Now)).await;
    watching.caught_up().await;
    service.append_event(append("s1", plain())).await.unwrap();
    assert_eq!(watching.event().await.sequence, 1);
    delete(service, "s1").await;
    deleted(&mut watching).await;
}

async fn a_watch_ends_with_its_session_though_another_takes_its_place(service: &Service) {
    for _ in 0..20 {
        service.create_session(create("s1", "")).await.unwrap();
        let request = watch(session_scope("s1"), WatchStart::Now);
        let mut watching = Watching::open(service, request).await;
        watching.caught_up().await;
        delete(service, "s1").await;
        // The new session's events are not those of the old one, however fast they come.
        service.create_session(create("s1", "")).await.unwrap();
        service.append_event(append("s1", plain())).await.unwrap();
        deleted(&mut watching).await;
        delete(service, "s1").await;
    }
}

async fn a_stop_ends_watches_with_their_cursor(service: Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let mut all = Vec::new();
    for scope in [session_scope("s1"), user_scope(), app_scope()] {
        for _ in 0..5 {
            let mut watching =
                Watching::open(&service, watch(scope.clone(), WatchStart::Snapshot)).await;
            watching.until_caught_up().await;
            all.push(watching);
        }
    }
    service.stop().await;
    for mut watching in all {
        let status = refused(watching.ends().await, Reason::Draining);
        assert_eq!(detail(&status, "cursor"), watching.cursor, "where to go on");
    }
}

async fn a_stop_ends_streams_of_appends(service: Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let mut appends = Appends::open(&service).await;
    for _ in 0..3 {
        appends.send(append("s1", plain()));
        appends.appended().await;
    }
    // The client would go on, but the server does not wait for it.
    service.stop().await;
    refused(appends.message().await, Reason::Draining);
}

async fn connections_that_say_nothing_do_not_hold_up_a_stop(service: Service) {
    let silent = TcpStream::connect(service.address()).await.unwrap();
    let mut begun = TcpStream::connect(service.address()).await.unwrap();
    begun.write_all(b"PRI * HT").await.unwrap();
    // One that has spoken once and is kept for later.
    let idle = service.connect().await;
    assert!(is_serving(&service, "").await);
    service.stop().await;
    drop((silent, begun, idle));
}

/// The stop waits a moment for the client, and then goes on without it: every write was done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_nobody_reads_is_left_behind() {
    let service = Service::in_memory(&["--drain-timeout", "3600"]).await;
    service.create_session(create("s1", "")).await.unwrap();
    // More than the two MiB that a client takes unread.
    for _ in 0..3 {
        service.append_event(append("s1", saying(&long_body()))).await.unwrap();
    }
    let mut client = Grpc::new(service.channel());
    client.ready().await.unwrap();
    let codec = ProstCodec::<GetSessionRequest, GetSessionResponse>::default();
    let path = "/sessiond.v1.SessionService/GetSession".parse().unwrap();
    let request = Request::new(get_with_events("s1"));
    let answer = within("an answer", client.server_streaming(request, path, codec)).await.unwrap();
    assert!(within("a stop", service.stop_whatever_is_left()).await, "the store is closed well");
    drop(answer);
}

fn long_body() -> String {
    format!("{{\"k\":\"{}\"}}", "x".repeat(1_000_000))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_that_does_not_read_is_told_where_to_go_on() {
    let service = Service::in_memory(&["--drain-timeout", "1"]).await;
    service.create_session(create("s1", "")).await.unwrap();
    for _ in 0..20 {
        service.append_event(append("s1", saying(&long_body()))).await.unwrap();
    }
    let request = watch(session_scope("s1"), WatchStart::Beginning);
    let mut watching = Watching::open(&service, request).await;
    assert_eq!(watching.event().await.sequence, 1);
    service.stop_whatever_is_left().await;
    // What was on its way comes without a gap.
    let mut last = 1;
    let status = loop {
        match watching.message().await {
            Ok(Some(Kind::Event(event))) => {
                assert_eq!(event.sequence, last + 1);
                last = event.sequence;
            }
            Ok(told) => panic!("{told:?}"),
            Err(status) => break status,
        }
    };
    let status = refused::<()>(Err(status), Reason::Draining);
    assert_eq!(detail(&status, "cursor"), watching.cursor);
    assert!(last < 20, "everything was sent to somebody who did not read");
}
