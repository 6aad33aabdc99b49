//! Events by their ids and sequences.

use sessiond::{
    domain::{
        error::Error,
        event::{Event, NewEvent},
        id::EventId,
        page::EventRef,
    },
    store::EventsQuery,
};

use crate::{fixture::*, requests::*};

const PATH: &str = "a/u/s";

/// A log of 300 events, whose ids do not sort like them, with a rewind; another session has the same ids.
async fn log(fixture: &Fixture) -> Vec<Event> {
    for path in [PATH, "a/u/t"] {
        fixture.new_session(path, &[]).await;
        let entry = |number: u64| NewEvent {
            body: Some(json(&format!("{{\"n\":\"{path} {}\"}}", "x".repeat(number as usize)))),
            ..event(&id(number), nothing())
        };
        fixture.append(append(path, (1..=200).map(entry))).await.unwrap();
        fixture.rewind_session(rewind(path, 150, &id(201))).await.unwrap();
        fixture.append(append(path, (202..=300).map(entry))).await.unwrap();
    }
    fixture.whole_log(PATH).await
}

fn id(number: u64) -> String {
    format!("{}-{number}", number * 7919 % 1000)
}

fn by_id(number: u64) -> EventRef {
    EventRef::Id(EventId::new(id(number)).unwrap())
}

/// The events of all pages, and the number of pages.
async fn read(fixture: &Fixture, refs: &[EventRef], max_bytes: usize) -> (Vec<Option<Event>>, u64) {
    let (mut found, mut pages) = (Vec::new(), 0);
    while found.len() < refs.len() {
        let query =
            EventsQuery { key: address(PATH), refs: refs[found.len()..].to_vec(), max_bytes };
        let page = fixture.read_events(query).await.unwrap().found;
        assert!(!page.is_empty(), "a page has one at least");
        let events: Vec<_> = page.iter().flatten().collect();
        let bytes: usize = events.iter().map(|event| event.bytes()).sum();
        assert!(bytes <= max_bytes || events.len() == 1, "{bytes} bytes");
        found.extend(page);
        pages += 1;
    }
    (found, pages)
}

pub async fn events_are_read_by_ids_and_sequences_in_any_order(fixture: &mut Fixture) {
    let all = log(fixture).await;
    let event = |number: u64| all.get((number as usize).wrapping_sub(1)).cloned();
    // All twice, in an order without neighbours, with others between them that are not there.
    let numbers: Vec<u64> = (0..640).map(|at| at * 191 % 320).collect();
    let named = |(at, number): (usize, &u64)| match at % 2 {
        0 => EventRef::Sequence(*number),
        _ => by_id(*number),
    };
    let refs: Vec<EventRef> = numbers.iter().enumerate().map(named).collect();
    let expected: Vec<_> = numbers.iter().map(|number| event(*number)).collect();
    assert_eq!(expected.iter().flatten().filter(|event| event.rewound).count(), 2 * 51);
    let (found, pages) = read(fixture, &refs, usize::MAX).await;
    assert_eq!((found == expected, pages), (true, 1));
    let bytes: usize = expected.iter().flatten().map(Event::bytes).sum();
    for max_bytes in [1, 700, 20_000] {
        let (found, pages) = read(fixture, &refs, max_bytes).await;
        assert!(found == expected && pages > 1, "pages of {max_bytes} bytes");
        // Two pages that follow each other have more than one may hold.
        let most = 2 * (bytes / max_bytes) as u64 + 2;
        assert!(max_bytes < 700 || pages <= most, "{pages} pages of {max_bytes} bytes, not {most}");
    }
}

pub async fn no_event_is_found_without_its_session(fixture: &mut Fixture) {
    let query = EventsQuery { key: address(PATH), refs: vec![by_id(1)], max_bytes: 1 };
    let missing = fixture.read_events(query.clone()).await.unwrap_err();
    assert_eq!(missing, Error::not_found(&address(PATH)));
    fixture.new_session(PATH, &[]).await;
    let refs =
        vec![by_id(1), EventRef::Sequence(0), EventRef::Sequence(1), EventRef::Sequence(u64::MAX)];
    let found = fixture.read_events(EventsQuery { refs, ..query }).await.unwrap().found;
    assert_eq!(found, vec![None; 4]);
}
