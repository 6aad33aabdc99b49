//! Pages: cut before they grow too large for a client to receive, and complete by their tokens.

use std::sync::Arc;

use prost::Message as _;
use prost_types::Timestamp;
use sessiond::proto::v1::{
    AppendEventRequest, AppendEventsRequest, BatchGetEventsRequest, CreateSessionRequest,
    DeleteSessionRequest, Event, EventRef, EventSelection, GetSessionRequest, KeyChange,
    ListEventsRequest, ListKeyChangesRequest, ListSessionsRequest, Session, event_ref::Ref,
};
use tokio::task::JoinSet;

use crate::{
    harness::{Service, owning_server, with_server},
    judge::reason,
    make::{
        APP, STRUCT, TEXT, append, append_all, create, get, key, list_events, plain, rewind,
        saying, session_scope, set, update, user_scope,
    },
    read::{HasState, body_text, ids, sequences},
};

with_server! {
    pages_of_large_events_are_cut_and_complete
    the_events_beside_a_session_go_on_in_a_list_of_the_same_moment
    events_that_are_named_are_cut_and_complete
    events_take_what_the_state_leaves
    pages_of_sessions_are_cut_and_complete
    pages_of_changes_are_cut_and_complete
    a_page_may_be_empty_and_have_a_token
}

owning_server! { pages_of_much_labelled_sessions_are_cut_and_complete }

pub const KIB: usize = 1024;

/// A body that takes five times as much as a Struct as it does as text.
pub fn zeros(bytes: usize) -> String {
    format!("{{\"zeros\":[0{}]}}", ",0".repeat((bytes - 13) / 2))
}

/// A body that takes as much in either form.
fn strings(bytes: usize) -> String {
    format!("{{\"k\":{}}}", large(bytes - 6))
}

/// A value of a number of bytes.
pub fn large(bytes: usize) -> String {
    format!("\"{}\"", "x".repeat(bytes - 2))
}

pub async fn append_bodies(service: &Service, id: &str, bodies: &[String]) {
    for (at, body) in bodies.iter().enumerate() {
        let event = Event { event_id: format!("e{at:03}"), ..saying(body) };
        let request = AppendEventRequest { return_state: false, ..append(id, event) };
        service.append_event(request).await.unwrap();
    }
}

/// Lists page by page: everything that there is, and how much of it is on each page.
macro_rules! all_pages {
    ($all:ident, $list:ident, $request:ident, $items:ident: $item:ident) => {
        pub async fn $all(service: &Service, mut request: $request) -> (Vec<$item>, Vec<usize>) {
            let (mut all, mut sizes) = (Vec::new(), Vec::new());
            loop {
                let page = service.$list(request.clone()).await.unwrap();
                sizes.push(page.$items.len());
                all.extend(page.$items);
                if page.next_page_token.is_empty() {
                    return (all, sizes);
                }
                request.page_token = page.next_page_token;
            }
        }
    };
}

all_pages!(all_events, list_events, ListEventsRequest, events: Event);
all_pages!(all_sessions, list_sessions, ListSessionsRequest, sessions: Session);
all_pages!(all_changes, list_key_changes, ListKeyChangesRequest, changes: KeyChange);

async fn pages_of_large_events_are_cut_and_complete(service: &Service) {
    // As text the first session takes two pages; as Structs, which are larger only for the second, both do.
    for (id, body, text_pages) in
        [("strings", strings as fn(usize) -> String, 2), ("zeros", zeros, 1)]
    {
        service.create_session(create(id, "")).await.unwrap();
        let sizes = if id == "zeros" { [180, 2, 75] } else { [900, 10, 300] };
        let bodies: Vec<String> = (0..12).map(|at| body(sizes[at % 3] * KIB)).collect();
        append_bodies(service, id, &bodies).await;
        let wanted: Vec<String> = (0..12).map(|at| format!("e{at:03}")).collect();
        for (json_form, most) in [(TEXT, text_pages), (STRUCT, 2)] {
            for descending in [false, true] {
                let request =
                    ListEventsRequest { page_size: 1000, json_form, descending, ..list_events(id) };
                let (mut events, pages) = all_events(service, request).await;
                assert_eq!(pages.len(), most, "no page is cut that had room");
                if descending {
                    events.reverse();
                }
                assert_eq!(ids(&events), wanted);
                if json_form == TEXT {
                    assert!(events.iter().zip(&bodies).all(|(it, body)| body_text(it) == body));
                }
            }
        }
    }
}

async fn events_that_are_named_are_cut_and_complete(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let bodies: Vec<String> = (0..12).map(|_| zeros(200 * KIB)).collect();
    append_bodies(service, "s1", &bodies).await;
    service.rewind_session(rewind("s1", 11)).await.unwrap();
    // From the last to the first, each by its id and by its sequence, and one that is not there behind each.
    let refs: Vec<EventRef> = (0..12)
        .rev()
        .flat_map(|at: i64| {
            let id = format!("e{at:03}");
            [Ref::EventId(id.clone()), Ref::Sequence(at + 1), Ref::EventId(id + "x")]
        })
        .map(|named| EventRef { r#ref: Some(named) })
        .collect();
    let expected: Vec<i64> = (1..=12).rev().flat_map(|sequence| [sequence; 2]).collect();
    let mut last = None;
    for (json_form, most) in [(TEXT, 2), (STRUCT, 8)] {
        let key = Some(key("s1"));
        let mut request =
            BatchGetEventsRequest { key, refs: refs.clone(), json_form, ..Default::default() };
        let (mut events, mut missing, mut pages) = (Vec::new(), Vec::new(), 0);
        loop {
            let page = service.batch_get_events(request.clone()).await.unwrap();
            assert!(page.encoded_len() <= 4 * KIB * KIB);
            events.extend(page.events);
            missing.extend(page.missing);
            pages += 1;
            if page.next_page_token.is_empty() {
                break;
            }
            request.page_token = page.next_page_token;
        }
        assert_eq!((sequences(&events), pages), (expected.clone(), most));
        let hidden: Vec<bool> = events.iter().map(|event| event.rewound).collect();
        assert_eq!(hidden, (0..24).map(|at| at < 2).collect::<Vec<_>>());
        let absent: Vec<EventRef> = refs.iter().skip(2).step_by(3).cloned().collect();
        assert_eq!(missing, absent);
        let other = BatchGetEventsRequest { refs: refs[1..].to_vec(), ..request.clone() };
        let refused = service.batch_get_events(other).await.unwrap_err();
        assert_eq!(reason(&refused), "BAD_PAGE_TOKEN");
        last = Some(request);
    }
    let delete = DeleteSessionRequest { key: Some(key("s1")), ..Default::default() };
    service.delete_session(delete).await.unwrap();
    service.create_session(create("s1", "")).await.unwrap();
    let refused = service.batch_get_events(last.unwrap()).await.unwrap_err();
    assert_eq!(reason(&refused), "BAD_PAGE_TOKEN");
}

async fn the_events_beside_a_session_go_on_in_a_list_of_the_same_moment(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let bodies = vec![strings(900 * KIB); 9];
    append_bodies(service, "s1", &bodies).await;
    for include_rewound in [false, true] {
        let selection = EventSelection { include_rewound, after_sequence: 1, ..Default::default() };
        let request = GetSessionRequest { events: Some(selection), ..get("s1") };
        let read = service.get_session(request).await.unwrap();
        let last_sequence = read.session.unwrap().last_sequence;
        let mut events = read.events;
        let mut page_token = read.next_page_token;
        assert!(!events.is_empty() && !page_token.is_empty());
        while !page_token.is_empty() {
            // Meanwhile others append, and rewind what is being read.
            service.append_event(append("s1", plain())).await.unwrap();
            service.rewind_session(rewind("s1", 1)).await.unwrap();
            let request = ListEventsRequest { page_token, page_size: 2, ..list_events("s1") };
            let page = service.list_events(request).await.unwrap();
            events.extend(page.events);
            page_token = page.next_page_token;
        }
        if !include_rewound {
            assert_eq!(sequences(&events), (2..=9).collect::<Vec<_>>());
            assert!(events.iter().all(|event| !event.rewound), "as it was at that moment");
        }
        assert_eq!(events.last().unwrap().sequence, last_sequence);
        let dense = events.windows(2).all(|pair| pair[0].sequence + 1 == pair[1].sequence);
        assert!(dense, "{:?}", sequences(&events));
        let moment = GetSessionRequest {
            events: Some(EventSelection { recent: Some(1), include_rewound, ..Default::default() }),
            as_of_sequence: Some(last_sequence),
            ..get("s1")
        };
        let moment = service.get_session(moment).await.unwrap().events;
        assert_eq!(moment.last(), events.last());
    }
}

/// A session that sees three scopes, each as full as it may be.
pub async fn create_full(service: &Service, id: &str) {
    service.create_session(create(id, "")).await.unwrap();
    for prefix in ["app:", "user:", ""] {
        for at in 0..4 {
            let key = format!("{prefix}k{at}");
            let value = large(256 * KIB - 2);
            let delta = set(&format!("{{\"{key}\":{value}}}"));
            service.update_state(update(session_scope(id), delta)).await.unwrap();
        }
    }
}

async fn events_take_what_the_state_leaves(service: &Service) {
    create_full(service, "s1").await;
    append_bodies(service, "s1", &[strings(900 * KIB), strings(900 * KIB)]).await;
    let selection = EventSelection { recent: Some(2), ..Default::default() };
    let request = GetSessionRequest { events: Some(selection), ..get("s1") };
    let read = service.get_session(request).await.unwrap();
    assert_eq!(read.state().as_object().unwrap().len(), 12);
    assert_eq!(ids(&read.events), ["e000"], "one fits beside three mebibytes");
    let request = ListEventsRequest { page_token: read.next_page_token, ..list_events("s1") };
    let (rest, _) = all_events(service, request).await;
    assert_eq!(ids(&rest), ["e001"]);

    // None may fit, and then all are in the list.
    let value = large(256 * KIB - 2);
    let body = strings(1000 * KIB);
    for key in ["user:k0", "app:k0"] {
        let delta = set(&format!("{{\"{key}\":{value}}}"));
        let event = Event { state_delta: Some(delta), ..saying(&body) };
        let request = AppendEventRequest { return_state: false, ..append("s1", event) };
        service.append_event(request).await.unwrap();
    }
    let selection = EventSelection { after_sequence: 14, ..Default::default() };
    let request = GetSessionRequest { events: Some(selection), ..get("s1") };
    let read = service.get_session(request).await.unwrap();
    assert_eq!((read.events.len(), read.next_page_token.is_empty()), (0, false));
    let request = ListEventsRequest { page_token: read.next_page_token, ..list_events("s1") };
    assert_eq!(sequences(&all_events(service, request).await.0), [15, 16]);
}

/// More rows than a page looks at lie between what a filter finds.
async fn a_page_may_be_empty_and_have_a_token(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let old = Some(Timestamp { seconds: 1, nanos: 0 });
    for batch in 0..3 {
        let event = |at| Event {
            author: if (batch, at) == (0, 1) { "rare" } else { "agent" }.into(),
            event_time: if batch == 0 { None } else { old },
            ..Default::default()
        };
        let request = append_all("s1", (0..1000).map(event).collect());
        service
            .append_events(AppendEventsRequest { return_state: false, ..request })
            .await
            .unwrap();
    }
    let rare = ListEventsRequest { author: "rare".into(), descending: true, ..list_events("s1") };
    let page = service.list_events(rare.clone()).await.unwrap();
    assert_eq!((page.events.len(), page.next_page_token.is_empty()), (0, false));
    let rest = ListEventsRequest { page_token: page.next_page_token, ..rare };
    assert_eq!(sequences(&all_events(service, rest).await.0), [2]);

    // The newest are counted over several pages.
    let after_time = Some(Timestamp { seconds: 2, nanos: 0 });
    let selection = EventSelection { recent: Some(2), after_time, ..Default::default() };
    let request = GetSessionRequest { events: Some(selection), ..get("s1") };
    let read = service.get_session(request).await.unwrap();
    assert_eq!((read.events.len(), read.next_page_token.is_empty()), (0, false));
    service.append_event(append("s1", plain())).await.unwrap();
    let rest = ListEventsRequest { page_token: read.next_page_token, ..list_events("s1") };
    assert_eq!(sequences(&all_events(service, rest).await.0), [999, 1000], "as of that moment");
}

async fn pages_of_sessions_are_cut_and_complete(service: &Service) {
    for at in 0..8 {
        let state = format!("{{\"k\":{0},\"l\":{0},\"m\":{0}}}", large(250 * KIB));
        service.create_session(create(&format!("s{at}"), &state)).await.unwrap();
    }
    for json_form in [TEXT, STRUCT] {
        let request = ListSessionsRequest {
            app_name: APP.into(),
            include_state: true,
            page_size: 1000,
            json_form,
            ..Default::default()
        };
        let (found, pages) = all_sessions(service, request).await;
        assert!(found.iter().all(|session| session.state()["m"].is_string()));
        assert_eq!((found.len(), pages.len()), (8, 2));
    }
}

/// Labels alone can fill an answer.
async fn pages_of_much_labelled_sessions_are_cut_and_complete(service: Service) {
    const SESSIONS: usize = 600;
    let service = Arc::new(service);
    let labels: Vec<(String, String)> =
        (0..64).map(|at| (format!("{at:063}"), "v".repeat(63))).collect();
    let mut tasks = JoinSet::new();
    for task in 0..20 {
        let (service, labels) = (Arc::clone(&service), labels.clone());
        tasks.spawn(async move {
            for at in 0..SESSIONS / 20 {
                let request = CreateSessionRequest {
                    session: Some(Session {
                        labels: labels.iter().cloned().collect(),
                        ..Default::default()
                    }),
                    ..create(&format!("s{task}-{at}"), "")
                };
                service.create_session(request).await.unwrap();
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let request =
        ListSessionsRequest { app_name: APP.into(), page_size: 1000, ..Default::default() };
    let (found, pages) = all_sessions(&service, request).await;
    assert_eq!((found.len(), pages.len()), (SESSIONS, 2));
    Arc::into_inner(service).unwrap().stop().await;
}

async fn pages_of_changes_are_cut_and_complete(service: &Service) {
    for at in 0..20 {
        let delta = set(&format!("{{\"user:k\":[{at},{}]}}", large(250 * KIB)));
        service.update_state(update(user_scope(), delta)).await.unwrap();
    }
    for json_form in [TEXT, STRUCT] {
        let request = ListKeyChangesRequest {
            scope: Some(user_scope()),
            key: "user:k".into(),
            page_size: 1000,
            json_form,
            ..Default::default()
        };
        let (found, pages) = all_changes(service, request).await;
        let versions: Vec<_> = found.iter().map(|change| change.version).collect();
        assert_eq!((versions, pages.len()), ((1..=20).rev().collect(), 2));
    }
}
