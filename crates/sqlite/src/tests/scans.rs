//! Reads that look at more events than one page may.

use super::*;
use crate::read::Snapshot;
use sessiond_core::{
    domain::{limits::PAGE_SCANNED, page::Rest},
    read::{SessionRead, finish},
};
use sessiond_store::SessionView;

/// An event that another step looks at than the first one, from either end.
const LATE: usize = PAGE_SCANNED + 100;

/// A log in which only the second event and a late one are of another author.
async fn long_log() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    let mut number = 0;
    while number < 2 * PAGE_SCANNED + 500 {
        let events = (0..1000).map(|at| {
            let number = number + at + 1;
            let author = if number == 2 || number == LATE { "user" } else { "agent" };
            let author = Author::new(author).unwrap();
            NewEvent { author, ..event(&format!("{number:06}"), &[]) }
        });
        number += fixture.store().append(&call(), batch("s", events)).await.unwrap().events.len();
    }
    fixture
}

fn of_user(recent: Option<u64>, descending: bool) -> EventSelection {
    let author = Some(Author::new("user").unwrap());
    let filter = EventFilter { author, ..EventFilter::default() };
    EventSelection { filter, descending, ..selection(recent) }
}

fn sequences(page: &EventPage) -> Vec<u64> {
    page.events.iter().map(|event| event.sequence).collect()
}

/// One step of a read.
async fn step(
    fixture: &Fixture,
    mut read: SessionRead,
) -> Result<(Option<SessionView>, SessionRead), Error> {
    let step =
        move |tables: &_| Ok((finish(read.step(&Snapshot { tables, now: at(1000) }))?, read));
    fixture.store.readers.read(step).await
}

async fn read_page(fixture: &Fixture, selection: EventSelection) -> EventPage {
    let query = SessionQuery { events: Some(selection), ..query("s") };
    fixture.store.read_session(query).await.unwrap().events.unwrap()
}

#[tokio::test]
async fn a_step_ends_when_it_has_looked_at_enough_and_the_page_goes_on() {
    let fixture = long_log().await;
    for descending in [false, true] {
        let query = SessionQuery { events: Some(of_user(None, descending)), ..query("s") };
        let (first, unfinished) = step(&fixture, query.into()).await.unwrap();
        assert!(first.is_none());
        let page = fixture.store.read(unfinished).await.unwrap().events.unwrap();
        let mut wanted = vec![2, LATE as u64];
        if descending {
            wanted.reverse();
        }
        assert_eq!(sequences(&page), wanted);
        assert_eq!(page.rest, None);
        // What one step has found counts for the next: the page is as full as if there had been one.
        let one = EventSelection { max_items: 1, ..of_user(None, descending) };
        let small = EventSelection { max_bytes: 1, ..of_user(None, descending) };
        for selection in [one, small] {
            let page = read_page(&fixture, selection.clone()).await;
            assert_eq!(sequences(&page), wanted[..1]);
            let Rest { after, up_to } = page.rest.unwrap();
            let rest = read_page(&fixture, EventSelection { after, up_to, ..selection }).await;
            assert_eq!(sequences(&rest), wanted[1..]);
        }
    }
}

#[tokio::test]
async fn the_newest_are_found_however_far_back_they_are() {
    let fixture = long_log().await;
    for (recent, wanted) in
        [(1, vec![LATE as u64]), (2, vec![2, LATE as u64]), (5, vec![2, LATE as u64])]
    {
        let page = read_page(&fixture, of_user(Some(recent), false)).await;
        assert_eq!((sequences(&page), page.rest), (wanted, None));
    }
}

#[tokio::test]
async fn a_session_that_goes_while_it_is_searched_is_not_found() {
    let fixture = long_log().await;
    let query = SessionQuery { events: Some(of_user(Some(1), false)), ..query("s") };
    let (_, unfinished) = step(&fixture, query.into()).await.unwrap();
    assert!(fixture.delete("s").await);
    let found = fixture.store.read(unfinished).await.map(|view| view.info);
    assert_eq!(found, Err(Error::not_found(&address("s"))));
}
