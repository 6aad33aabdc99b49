//! Page tokens.

use super::*;
use crate::domain::{
    event::Event,
    page::{EventFilter, EventSelection},
    token::EventToken,
};
use crate::store::StateQuery;

impl World {
    async fn filled(&self, events: usize) -> SessionKey {
        let session = self.create("alice", "s").await;
        for _ in 0..events {
            self.append(&session, None, Delta::default()).await.unwrap();
        }
        session
    }
}

impl World {
    async fn list(
        &self,
        key: &SessionKey,
        descending: bool,
        token: Option<String>,
    ) -> Result<List<Event>, Error> {
        let selection = EventSelection { descending, ..EventSelection::default() };
        self.select(key, selection, token).await
    }

    async fn select(
        &self,
        key: &SessionKey,
        selection: EventSelection,
        token: Option<String>,
    ) -> Result<List<Event>, Error> {
        let selection = EventSelection { max_items: 3, ..selection };
        let session = SessionQuery::info(SessionRef::Full(key.clone()));
        let query = SessionQuery { events: Some(selection), ..session };
        let token = token.map(|text| EventToken::decode(&text).unwrap());
        self.engine.list_events(&RequestContext::internal(), query, token).await
    }
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
                let page = world.list(&session, descending, token).await.unwrap();
                let taken = take.min(page.items.len());
                seen.extend(page.items[..taken].iter().map(|event| event.sequence));
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
    let wanted = EventSelection { recent: Some(4), ..EventSelection::default() };
    let info = SessionQuery::info(SessionRef::Full(session.clone()));
    let query = SessionQuery { events: Some(wanted.clone()), ..info };
    let answer = world.engine.get_session(&RequestContext::internal(), query, None).await.unwrap();
    assert_eq!(answer.events.next_page_token(4), None);
    let token = answer.events.next_page_token(1);
    world.append(&session, None, Delta::default()).await.unwrap();
    for wanted in [EventSelection::default(), wanted] {
        let page = world.select(&session, wanted, token.clone()).await.unwrap();
        let sequences: Vec<_> = page.items.iter().map(|event| event.sequence).collect();
        assert_eq!(sequences, [3, 4, 5]);
    }
    // Where not even one event fitted, the list begins with the first.
    let page = world.list(&session, false, answer.events.next_page_token(0)).await.unwrap();
    assert_eq!(page.items[0].sequence, 2);
}

#[tokio::test]
async fn a_token_is_refused_with_other_filters_another_order_and_another_life() {
    let world = world();
    let session = world.filled(5).await;
    let page = world.list(&session, false, None).await.unwrap();
    let token = page.next_page_token(3);
    assert!(token.is_some());
    let refused = |error: Error| {
        let Error::Invalid(violations) = error else { panic!("{error}") };
        violations[0].reason == crate::domain::error::Reason::BadPageToken
    };
    assert!(refused(world.list(&session, true, token.clone()).await.err().unwrap()));
    let filter = EventFilter { include_rewound: true, ..EventFilter::default() };
    let wanted = EventSelection { filter, ..EventSelection::default() };
    assert!(refused(world.select(&session, wanted, token.clone()).await.err().unwrap()));
    world.engine.delete_session(&RequestContext::internal(), session.clone().into()).await.unwrap();
    world.filled(5).await;
    assert!(refused(world.list(&session, false, token).await.err().unwrap()));
}

/// Replicas of different builds read each other's tokens.
#[tokio::test]
async fn tokens_are_pinned() {
    let (world, context) = (world(), RequestContext::internal());
    let session = world.create("alice", "s").await;
    world.append(&session, None, set(&[("a", "1"), ("b", "2")])).await.unwrap();
    let query = SessionQuery::info(SessionRef::Full(session.clone()));
    let info = world.engine.get_session(&context, query, None).await.unwrap().info;
    let filter = EventFilter {
        after_time: Time::new(-1, 5),
        author: Some(Author::new("agent").unwrap()),
        ..EventFilter::default()
    };
    let selection = EventSelection { filter, recent: Some(9), ..EventSelection::default() };
    assert_eq!(
        events::token(&info, &selection, false).encode(),
        "ZQEAAAAAAAAAApwxrmiKBqkAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAf0H0_zoAAAD_yZo7AMP3XVk"
    );
    let query = StateQuery { scope: Scope::Session(session), keys: None };
    let page = StatePage { max_items: Some(1), token: None };
    let (list, _) =
        world.engine.get_state(&context, query, page, Some(invocation("turn"))).await.unwrap();
    assert_eq!(list.next_page_token(1).unwrap(), "cNmknpar7w9RAQAAAAAAAAABAAAAAAAAAGElhTl0");
}
