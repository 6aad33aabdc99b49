//! Events of a session by their ids and sequences.

use std::collections::HashMap;

use adk_core::{Content, ErrorCategory, Event};
use futures_util::TryStreamExt as _;
use serde_json::json;
use sessiond_adk::EventRef;

use crate::harness::{APP, Fixture, USER, assert_error, identity, named, on_each_store};

on_each_store! {
    events_come_in_the_order_of_their_refs
    refs_are_more_than_one_request_may_name
    events_take_several_pages
    a_missing_session_and_an_empty_id_are_refused
}

fn id(id: &str) -> EventRef {
    EventRef::Id(id.into())
}

fn at(sequence: i64) -> EventRef {
    EventRef::Sequence(sequence)
}

async fn events_come_in_the_order_of_their_refs(f: Fixture) {
    f.create("s1", json!({})).await;
    for n in 1..=4 {
        f.append("s1", named(&format!("e{n}"))).await;
    }
    let s1 = identity(APP, USER, "s1");
    f.service.rewind_to(&s1, 2).await.unwrap();
    let log: Vec<_> = f.service.list_events(&s1, 0, true).try_collect().await.unwrap();
    let log: HashMap<_, _> = log.into_iter().map(|stored| (stored.sequence, stored)).collect();
    let refs = [id("e4"), at(9), at(2), id("none"), id("e1"), at(2), at(5), at(3), id("e2"), at(9)];
    let (found, missing) = f.service.get_events(&s1, &refs).await.unwrap();
    let sequences: Vec<_> = found.iter().map(|stored| stored.sequence).collect();
    assert_eq!(sequences, [4, 2, 1, 2, 5, 3, 2]);
    assert_eq!(missing, [at(9), id("none"), at(9)]);
    for stored in &found {
        assert_eq!(format!("{stored:?}"), format!("{:?}", log[&stored.sequence]));
    }
    assert!(found[0].is_rewound && !found[1].is_rewound);
}

async fn refs_are_more_than_one_request_may_name(f: Fixture) {
    f.create("s1", json!({})).await;
    f.append("s1", named("e1")).await;
    let s1 = identity(APP, USER, "s1");
    let refs: Vec<_> = (0..2400).map(|n| if n % 2 == 0 { id("none") } else { at(1) }).collect();
    let (found, missing) = f.service.get_events(&s1, &refs).await.unwrap();
    assert_eq!(found.len(), 1200);
    assert!(found.iter().all(|stored| stored.event.id == "e1"));
    assert_eq!(missing, vec![id("none"); 1200]);
    let (found, missing) = f.service.get_events(&s1, &[]).await.unwrap();
    assert!(found.is_empty() && missing.is_empty());
}

async fn events_take_several_pages(f: Fixture) {
    f.create("s1", json!({})).await;
    let text = "x".repeat(900_000);
    for n in 1..=6 {
        let mut event: Event = named(&format!("e{n}"));
        event.set_content(Content::new("user").with_text(&text));
        f.append("s1", event).await;
    }
    let refs = [at(6), id("none"), id("e2"), at(4), at(1), id("e3"), at(8), id("e5"), at(6)];
    let s1 = identity(APP, USER, "s1");
    let (found, missing) = f.service.get_events(&s1, &refs).await.unwrap();
    let ids: Vec<_> = found.iter().map(|stored| &*stored.event.id).collect();
    assert_eq!(ids, ["e6", "e2", "e4", "e1", "e3", "e5", "e6"]);
    for stored in &found {
        let parts = &stored.event.content().unwrap().parts;
        assert_eq!(parts[0].text().map(str::len), Some(text.len()));
    }
    assert_eq!(missing, [id("none"), at(8)]);
}

async fn a_missing_session_and_an_empty_id_are_refused(f: Fixture) {
    let s1 = identity(APP, USER, "s1");
    let outcome = f.service.get_events(&s1, &[at(1)]).await;
    assert_error(outcome, ErrorCategory::NotFound, "session.not_found");
    f.create("s1", json!({})).await;
    for refused in [id(""), at(-1)] {
        let outcome = f.service.get_events(&s1, &[refused]).await;
        assert_eq!(outcome.unwrap_err().category, ErrorCategory::InvalidInput);
    }
}
