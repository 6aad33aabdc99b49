//! Page tokens.

use super::*;
use crate::domain::{page::EventFilter, token::EventToken};
use crate::store::RequestContext;

impl World {
    async fn filled(&self, events: usize) -> SessionKey {
        let session = self.create("alice", "s").await;
        for _ in 0..events {
            self.append(&session, None, Delta::default()).await.unwrap();
        }
        session
    }
}

fn list(key: &SessionKey, descending: bool, page_token: Option<String>) -> ListEvents {
    let wanted = EventsWanted::default();
    let page_token = page_token.map(|text| EventToken::decode(&text).unwrap());
    ListEvents { key: key.clone(), wanted, descending, page_size: 3, page_token }
}

#[tokio::test]
async fn pages_that_are_answered_in_part_still_go_on_without_gap_or_repetition() {
    let world = world();
    let session = world.filled(10).await;
    for descending in [false, true] {
        for take in 1..=3 {
            let mut seen = Vec::new();
            let mut token = None;
            loop {
                let request = list(&session, descending, token);
                let page =
                    world.engine.list_events(&RequestContext::internal(), request).await.unwrap();
                let taken = take.min(page.events.len());
                seen.extend(page.events[..taken].iter().map(|event| event.sequence));
                token = page.next_page_token(taken);
                if token.is_none() {
                    break;
                }
            }
            let mut expected: Vec<u64> = (1..=10).collect();
            if descending {
                expected.reverse();
            }
            assert_eq!(seen, expected, "descending {descending}, {take} at a time");
        }
    }
}

#[tokio::test]
async fn a_session_read_goes_on_in_a_list_at_the_same_moment() {
    let world = world();
    let session = world.filled(5).await;
    let wanted = EventsWanted { recent: Some(4), ..EventsWanted::default() };
    let request = GetSession {
        session: SessionRef::Full(session.clone()),
        events: Some(wanted.clone()),
        as_of: None,
        invocation_id: None,
        without_state: true,
    };
    let answer = world.engine.get_session(&RequestContext::internal(), request).await.unwrap();
    assert_eq!(answer.events.next_page_token(4), None);
    let token = answer.events.next_page_token(1);
    world.append(&session, None, Delta::default()).await.unwrap();
    for wanted in [EventsWanted::default(), wanted] {
        let request = ListEvents { wanted, ..list(&session, false, token.clone()) };
        let page = world.engine.list_events(&RequestContext::internal(), request).await.unwrap();
        let sequences: Vec<_> = page.events.iter().map(|event| event.sequence).collect();
        assert_eq!(sequences, [3, 4, 5]);
    }
    // Where not even one event fitted, the list begins with the first.
    let request = list(&session, false, answer.events.next_page_token(0));
    let page = world.engine.list_events(&RequestContext::internal(), request).await.unwrap();
    assert_eq!(page.events[0].sequence, 2);
}

#[tokio::test]
async fn a_token_is_refused_with_other_filters_another_order_and_another_life() {
    let world = world();
    let session = world.filled(5).await;
    let page = world
        .engine
        .list_events(&RequestContext::internal(), list(&session, false, None))
        .await
        .unwrap();
    let token = page.next_page_token(3);
    assert!(token.is_some());
    let refused = |error: Error| {
        let Error::Invalid(violations) = error else { panic!("{error}") };
        violations[0].reason == crate::domain::error::Reason::BadPageToken
    };
    let other_order = list(&session, true, token.clone());
    assert!(refused(
        world.engine.list_events(&RequestContext::internal(), other_order).await.unwrap_err()
    ));
    let filter = EventFilter { include_rewound: true, ..EventFilter::default() };
    let wanted = EventsWanted { filter, ..EventsWanted::default() };
    let other_filter = ListEvents { wanted, ..list(&session, false, token.clone()) };
    assert!(refused(
        world.engine.list_events(&RequestContext::internal(), other_filter).await.unwrap_err()
    ));
    world.engine.delete_session(&RequestContext::internal(), session.clone(), false).await.unwrap();
    world.filled(5).await;
    let other_life = list(&session, false, token);
    assert!(refused(
        world.engine.list_events(&RequestContext::internal(), other_life).await.unwrap_err()
    ));
}
