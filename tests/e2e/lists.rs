//! Lists: of sessions by user, label and order, of events by author, invocation, time and order; page by page.

use prost_types::Timestamp;
use serde_json::json;
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        CreateSessionRequest, Event, EventSelection, ListEventsRequest, ListSessionsRequest,
        Session, SessionOrder,
    },
};

use crate::{
    harness::{Service, with_server},
    judge::{faulty, refused},
    make::{
        APP, STRUCT, TEXT, append, append_all, create, key, list_events, plain, rewind, setting,
    },
    pages::all_events,
    read::{HasState, sequences},
    sessions::labels,
};

with_server! {
    sessions_are_listed_by_user_label_and_order
    events_are_listed_by_every_filter
    events_come_page_by_page_in_both_orders
    the_newest_events_of_a_list_are_those_of_its_first_page
    a_page_token_belongs_to_its_request
}

fn list(user: &str) -> ListSessionsRequest {
    ListSessionsRequest {
        app_name: APP.into(),
        user_id: user.into(),
        json_form: TEXT,
        ..Default::default()
    }
}

fn names(sessions: &[Session]) -> Vec<String> {
    let name = |session: &Session| {
        let key = session.key.as_ref().unwrap();
        format!("{}/{}", key.user_id, key.session_id)
    };
    sessions.iter().map(name).collect()
}

async fn create_for(service: &Service, user: &str, id: &str, labelled: &[(&str, &str)]) {
    let request = CreateSessionRequest {
        user_id: user.into(),
        session: Some(Session { labels: labels(labelled), ..Default::default() }),
        ..create(id, &json!({"id": id, "user:name": user}).to_string())
    };
    service.create_session(request).await.unwrap();
}

/// Appends an event of this time to a session.
async fn touch(service: &Service, user: &str, id: &str, seconds: i64) {
    let event = Event { event_time: Some(Timestamp { seconds, nanos: 0 }), ..plain() };
    let mut request = append(id, event);
    request.key.as_mut().unwrap().user_id = user.into();
    service.append_event(request).await.unwrap();
}

async fn sessions_are_listed_by_user_label_and_order(service: &Service) {
    let team = ("team", "billing");
    create_for(service, "alice", "a1", &[team, ("level", "1")]).await;
    create_for(service, "alice", "a2", &[team]).await;
    create_for(service, "bob", "b1", &[("team", "sales")]).await;
    let mut elsewhere = create("x1", "");
    elsewhere.app_name = "other_app".into();
    service.create_session(elsewhere).await.unwrap();
    for (user, id, seconds) in [("alice", "a1", 30), ("alice", "a2", 10), ("bob", "b1", 20)] {
        touch(service, user, id, seconds).await;
    }
    let listed = async |request: ListSessionsRequest| {
        let answer = service.list_sessions(request).await.unwrap();
        assert_eq!(answer.next_page_token, "");
        names(&answer.sessions)
    };
    // Least recently used first, unless asked otherwise.
    assert_eq!(listed(list("")).await, ["alice/a2", "bob/b1", "alice/a1"]);
    let order = |order: SessionOrder| ListSessionsRequest { order: order as i32, ..list("") };
    let asc = listed(order(SessionOrder::LastEventTimeAsc)).await;
    assert_eq!(asc, ["alice/a2", "bob/b1", "alice/a1"]);
    let desc = listed(order(SessionOrder::LastEventTimeDesc)).await;
    assert_eq!(desc, ["alice/a1", "bob/b1", "alice/a2"]);
    assert_eq!(listed(list("alice")).await, ["alice/a2", "alice/a1"]);
    assert_eq!(listed(list("nobody")).await, [""; 0]);
    let by = |pairs: &[(&str, &str)]| ListSessionsRequest { labels: labels(pairs), ..list("") };
    assert_eq!(listed(by(&[team])).await, ["alice/a2", "alice/a1"]);
    assert_eq!(listed(by(&[team, ("level", "1")])).await, ["alice/a1"], "all of the labels");
    assert_eq!(listed(by(&[("team", "")])).await, [""; 0]);
    let both = ListSessionsRequest { user_id: "bob".into(), ..by(&[team]) };
    assert_eq!(listed(both).await, [""; 0]);

    // State only where asked for, in the form asked for.
    let plain = service.list_sessions(list("bob")).await.unwrap();
    assert_eq!(plain.sessions[0].state_if_any(), None);
    assert_eq!(plain.sessions[0].labels, labels(&[("team", "sales")]));
    for json_form in [TEXT, STRUCT] {
        let request = ListSessionsRequest { include_state: true, json_form, ..list("bob") };
        let with_state = service.list_sessions(request).await.unwrap();
        assert_eq!(with_state.sessions[0].state(), json!({"id": "b1", "user:name": "bob"}));
    }
}

async fn events_are_listed_by_every_filter(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let authors = ["user", "agent", "user", "agent"];
    for (at, author) in (1..).zip(authors) {
        let event = Event {
            author: author.into(),
            invocation_id: format!("turn{}", (at + 1) / 2),
            branch: "root.child".into(),
            event_time: Some(Timestamp { seconds: at * 10, nanos: 0 }),
            ..setting(&json!({"at": at}).to_string())
        };
        service.append_event(append("s1", event)).await.unwrap();
    }
    service.rewind_session(rewind("s1", 3)).await.unwrap();
    let listed = async |request: ListEventsRequest| {
        let answer = service.list_events(request).await.unwrap();
        assert_eq!(answer.next_page_token, "");
        sequences(&answer.events)
    };
    let all = || list_events("s1");
    let select = |selection| ListEventsRequest { selection: Some(selection), ..all() };
    assert_eq!(listed(all()).await, [1, 2, 3]);
    assert_eq!(listed(ListEventsRequest { descending: true, ..all() }).await, [3, 2, 1]);
    assert_eq!(listed(ListEventsRequest { author: "user".into(), ..all() }).await, [1, 3]);
    assert_eq!(listed(ListEventsRequest { author: "nobody".into(), ..all() }).await, [0; 0]);
    assert_eq!(listed(ListEventsRequest { invocation_id: "turn2".into(), ..all() }).await, [3]);
    let rewound = EventSelection { include_rewound: true, ..Default::default() };
    assert_eq!(listed(select(rewound)).await, [1, 2, 3, 4, 5]);
    let both = ListEventsRequest {
        author: "agent".into(),
        invocation_id: "turn2".into(),
        ..select(rewound)
    };
    assert_eq!(listed(both).await, [4]);
    let recent = EventSelection { recent: Some(2), ..Default::default() };
    assert_eq!(listed(select(recent)).await, [2, 3]);
    assert_eq!(listed(ListEventsRequest { descending: true, ..select(recent) }).await, [3, 2]);
    assert_eq!(listed(ListEventsRequest { author: "user".into(), ..select(recent) }).await, [1, 3]);
    let after_time = Some(Timestamp { seconds: 20, nanos: 0 });
    let later = EventSelection { after_time, ..Default::default() };
    assert_eq!(listed(select(later)).await, [2, 3]);
    let later = EventSelection { after_sequence: 2, include_rewound: true, ..Default::default() };
    assert_eq!(listed(select(later)).await, [3, 4, 5]);

    // Every field of an event, in either form.
    for json_form in [TEXT, STRUCT] {
        let answer = service.list_events(ListEventsRequest { json_form, ..all() }).await.unwrap();
        let event = &answer.events[1];
        assert_eq!((&*event.author, &*event.invocation_id), ("agent", "turn1"));
        assert_eq!((&*event.branch, event.partial, event.rewound), ("root.child", false, false));
        assert_eq!(event.event_time, Some(Timestamp { seconds: 20, nanos: 0 }));
        assert_eq!(crate::read::set_by(event), json!({"at": 2}));
        assert!(event.commit_time.is_some() && !event.rounded && event.body_form.is_none());
    }
}

async fn events_come_page_by_page_in_both_orders(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let events = (0..250).map(|_| plain()).collect();
    service.append_events(append_all("s1", events)).await.unwrap();
    let up: Vec<i64> = (1..=250).collect();
    let down: Vec<i64> = (1..=250).rev().collect();
    let pages = async |request| {
        let (events, sizes) = all_events(service, request).await;
        (sequences(&events), sizes)
    };
    let (found, sizes) = pages(list_events("s1")).await;
    assert_eq!((found, sizes), (up.clone(), vec![100, 100, 50]), "a hundred where none is named");
    let request = ListEventsRequest { page_size: 99, descending: true, ..list_events("s1") };
    assert_eq!(pages(request).await, (down, vec![99, 99, 52]));
    let request = ListEventsRequest { page_size: 250, ..list_events("s1") };
    assert_eq!(pages(request).await, (up, vec![250]), "no token behind the last event");
}

async fn the_newest_events_of_a_list_are_those_of_its_first_page(service: &Service) {
    for (id, descending, wanted) in
        [("up", false, [4, 5, 6, 7, 8, 9]), ("down", true, [9, 8, 7, 6, 5, 4])]
    {
        service.create_session(create(id, "")).await.unwrap();
        service.append_events(append_all(id, vec![plain(); 9])).await.unwrap();
        let recent = EventSelection { recent: Some(6), ..Default::default() };
        let mut request = ListEventsRequest {
            selection: Some(recent),
            page_size: 4,
            descending,
            ..list_events(id)
        };
        let first = service.list_events(request.clone()).await.unwrap();
        assert_eq!(sequences(&first.events), wanted[..4]);
        service.append_event(append(id, plain())).await.unwrap();
        request.page_token = first.next_page_token;
        let second = service.list_events(request).await.unwrap();
        assert_eq!(sequences(&second.events), wanted[4..]);
        assert_eq!(second.next_page_token, "");
    }
}

async fn a_page_token_belongs_to_its_request(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    service.create_session(create("s2", "")).await.unwrap();
    service.append_events(append_all("s1", vec![plain(); 3])).await.unwrap();
    let first = ListEventsRequest { page_size: 1, ..list_events("s1") };
    let token = service.list_events(first.clone()).await.unwrap().next_page_token;
    let next = ListEventsRequest { page_token: token.clone(), ..first.clone() };
    assert_eq!(sequences(&service.list_events(next.clone()).await.unwrap().events), [2]);
    // Another size and another form are the same list; other filters and orders are not, nor is another session.
    let larger = ListEventsRequest { page_size: 9, json_form: STRUCT, ..next.clone() };
    assert_eq!(sequences(&service.list_events(larger).await.unwrap().events), [2, 3]);
    for other in [
        ListEventsRequest { descending: true, ..next.clone() },
        ListEventsRequest { author: "agent".into(), ..next.clone() },
        ListEventsRequest { invocation_id: "x".into(), ..next.clone() },
        ListEventsRequest { key: Some(key("s2")), ..next.clone() },
        ListEventsRequest { page_token: token.replace(&token[..3], "???"), ..next.clone() },
        ListEventsRequest { page_token: token[1..].into(), ..next.clone() },
        ListEventsRequest { page_token: "garbage".into(), ..next.clone() },
    ] {
        faulty(service.list_events(other).await, Reason::BadPageToken, "page_token");
    }
    let sessions = ListSessionsRequest { page_size: 1, ..list("") };
    let token = service.list_sessions(sessions.clone()).await.unwrap().next_page_token;
    let next = ListSessionsRequest { page_token: token.clone(), ..sessions };
    assert_eq!(service.list_sessions(next.clone()).await.unwrap().sessions.len(), 1);
    // Another size, and state beside, are the same list here too.
    let whole = ListSessionsRequest { page_size: 9, include_state: true, ..next.clone() };
    let whole = service.list_sessions(whole).await.unwrap();
    assert_eq!(names(&whole.sessions), ["alice/s1"]);
    assert!(whole.sessions[0].state_if_any().is_some());
    for other in [
        ListSessionsRequest { user_id: "alice".into(), ..next.clone() },
        ListSessionsRequest { app_name: "other".into(), ..next.clone() },
        ListSessionsRequest { labels: labels(&[("a", "b")]), ..next.clone() },
        ListSessionsRequest { order: SessionOrder::LastEventTimeDesc as i32, ..next.clone() },
        ListSessionsRequest { page_token: format!("{token}A"), ..next.clone() },
    ] {
        faulty(service.list_sessions(other).await, Reason::BadPageToken, "page_token");
    }
    // The token of one kind of list is not that of another.
    let mixed = ListEventsRequest { page_token: token, ..first };
    refused(service.list_events(mixed).await, Reason::BadPageToken);
}
