//! Reads that look at more events than one page may.

use super::*;
use crate::domain::limits::PAGE_SCANNED;

/// A log in which only the second event is of another author.
async fn long_log() -> (Fixture, u64) {
    let fixture = Fixture::new().await;
    fixture.create("u", "s", 1).await;
    let mut number = 0;
    while number < PAGE_SCANNED + 500 {
        let events = (0..1000).map(|at| {
            let number = number + at + 1;
            let author = if number == 2 { "user" } else { "agent" };
            let author = Author::new(author).unwrap();
            NewEvent { author, ..event(&format!("{number:06}"), &[]) }
        });
        number += fixture.store.append(batch("s", events)).await.unwrap().events.len();
    }
    (fixture, number as u64)
}

fn of_user(recent: Option<u64>, descending: bool) -> EventSelection {
    let author = Some(Author::new("user").unwrap());
    let filter = EventFilter { author, ..EventFilter::default() };
    EventSelection { filter, descending, ..selection(recent) }
}

async fn read(fixture: &Fixture, selection: EventSelection) -> EventPage {
    let query = EventQuery { key: address("s"), as_of: None, selection, now: at(1000) };
    fixture.store.list_events(query).await.unwrap().1
}

#[tokio::test]
async fn a_page_ends_when_it_has_looked_at_enough() {
    let (fixture, last) = long_log().await;
    let page = read(&fixture, of_user(None, true)).await;
    assert!(page.events.is_empty());
    let rest = page.rest.unwrap();
    assert_eq!(rest.up_to, Some(last - PAGE_SCANNED as u64));
    let page = read(&fixture, EventSelection { up_to: rest.up_to, ..of_user(None, true) }).await;
    assert_eq!(page.events.iter().map(|event| event.sequence).collect::<Vec<_>>(), [2]);
    assert_eq!(page.rest, None);

    let page = read(&fixture, of_user(None, false)).await;
    assert_eq!(page.events.len(), 1);
    assert_eq!(page.rest.unwrap().after, PAGE_SCANNED as u64);
}

#[tokio::test]
async fn the_newest_are_found_however_far_back_they_are() {
    let (fixture, _) = long_log().await;
    for recent in [1, 5] {
        let page = read(&fixture, of_user(Some(recent), false)).await;
        assert_eq!(page.events.iter().map(|event| event.sequence).collect::<Vec<_>>(), [2]);
    }
    // The search went back to the event, and the page goes on behind it.
    let page = read(&fixture, of_user(Some(1), false)).await;
    assert_eq!(page.rest.unwrap().after, 1 + PAGE_SCANNED as u64);
}

#[tokio::test]
async fn a_session_that_goes_while_it_is_searched_is_not_found() {
    let (fixture, _) = long_log().await;
    let query = SessionQuery { events: Some(of_user(Some(1), false)), ..query("s") };
    let read = fixture.store.readers.read(move |reads| reads.read_session(query));
    let (_, search) = read.await.unwrap();
    fixture.store.delete_session(address("s"), at(1)).await.unwrap();
    let found = fixture.store.finish(search.unwrap()).await;
    assert_eq!(found, Err(Error::not_found(&address("s"))));
}
