//! A damaged file: what reads and writes say of it.

use super::{
    verifying::{EVENTS, break_pages, filled},
    *,
};
use sessiond_core::domain::error::{Damage, Damaged};

#[tokio::test]
async fn a_read_that_meets_damage_says_so_and_is_counted() {
    let mut fixture = filled().await;
    let id = "(SELECT id FROM session WHERE session_id = 's')";
    let sql = format!("DELETE FROM event WHERE session = {id} AND sequence = 500");
    assert_eq!(fixture.tables().execute(&sql, ()).unwrap(), 1);
    break_pages(&fixture, "scope_log");
    fixture.store = open(fixture.options.clone()).await.unwrap();
    let list = async |id: &str, after| {
        let selection = EventSelection { max_items: 2000, after, ..selection(None) };
        let query = SessionQuery { events: Some(selection), ..query(id) };
        let view = fixture.store.read_session(query).await;
        view.map(|view| view.events.unwrap())
            .map(|page| (page.events.len(), page.rest.map(|rest| rest.after)))
    };
    // A page ends before the damage, and the next one says so.
    assert_eq!(list("s", 0).await, Ok((499, Some(499))));
    assert_eq!(list("s", 499).await, Err(Error::damaged(Damage::Log, "any")));
    let past = SessionQuery { as_of: Some(510), with_state: true, ..query("s") };
    assert!(matches!(fixture.store.read_session(past).await, Err(Error::Damaged(..))));
    // What is not damaged can be read.
    assert_eq!(list("s", 500).await, Ok((2000, Some(2500))));
    assert_eq!(list("s", EVENTS - 600).await, Ok((600, None)));
    assert_eq!(list("t", 0).await, Ok((2, None)));
    let now = SessionQuery { with_state: true, ..query("s") };
    let now = fixture.store.read_session(now).await;
    assert!(
        matches!(now, Err(Error::Damaged(Damaged { what: Damage::Pages, .. }, _)) | Ok(_)),
        "{now:?}"
    );
    assert!(fixture.store.readers.damaged.load(std::sync::atomic::Ordering::Relaxed) >= 2);
}

#[tokio::test]
async fn a_write_that_meets_damage_costs_no_other_write() {
    let fixture = Fixture::new().await;
    for session in ["s", "t"] {
        fixture.create("u", session).await;
    }
    fixture.append("s", "1", &[("k", "1")]).await;
    fixture.store.close().await;
    let direct = DirectWriter::open(fixture.folder.path(), &fixture.clock);
    let broken = "UPDATE session SET labels = '{' WHERE session_id = 's'";
    assert_eq!(direct.connection.execute(broken, ()).unwrap(), 1);
    let mut writer = direct.writer();
    let append = |session| Request::Append(one(session, "2", &[("k", "2")]));
    let group = vec![append("t"), append("s"), append("t")];
    let answers = execute(&mut writer, group).0;
    assert_eq!(sequence(&answers[0]), Ok(1));
    assert_eq!(sequence(&answers[1]), Err(Error::damaged(Damage::Row, "any")));
    assert_eq!(sequence(&answers[2]), Ok(1), "a replay");
    // Found when the change is applied.
    let mended = "UPDATE session SET labels = NULL WHERE session_id = 's'";
    let broken = "UPDATE session SET unindexed = '{' WHERE session_id = 's'";
    for sql in [mended, broken] {
        assert_eq!(direct.connection.execute(sql, ()).unwrap(), 1);
    }
    let mut writer = direct.writer();
    let deletion = Request::Delete(address("s").into());
    let append = |id| Request::Append(one("t", id, &[("k", "3")]));
    let answers = execute(&mut writer, vec![append("3"), deletion, append("4")]).0;
    assert_eq!(sequence(&answers[0]), Ok(2));
    assert_eq!(answers[1].clone().err(), Some(Error::damaged(Damage::Row, "any")));
    assert_eq!(sequence(&answers[2]), Ok(3));
}

#[tokio::test]
async fn a_hole_in_the_log_costs_a_snapshot_and_no_write() {
    let fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    let large = format!("\"{}\"", "x".repeat(5000));
    fixture.append("s", "0", &[("app:large", &large)]).await;
    let append = async |number: u64| {
        fixture.append("s", &number.to_string(), &[("app:k", "1")]).await.info.last_sequence
    };
    for number in 1..62 {
        append(number).await;
    }
    assert_eq!(fixture.tables().execute("DELETE FROM scope_log WHERE version = 30", ()), Ok(1));
    for number in 62..130 {
        assert_eq!(append(number).await, number + 1);
    }
    let of_application = "SELECT count(*) FROM snapshot WHERE node IN (SELECT id FROM scope)";
    assert_eq!(fixture.count(of_application), 0);
}

#[tokio::test]
async fn a_list_of_rows_that_names_an_event_of_another_session_shows_nothing_of_it() {
    let fixture = Fixture::new().await;
    for session in ["r", "s"] {
        fixture.create("u", session).await;
        fixture.append(session, session, &[]).await;
    }
    let of_r = "SELECT json_group_array(id) FROM event WHERE event_id = 'r'";
    let damage = format!("UPDATE session SET unindexed = ({of_r}) WHERE session_id = 's'");
    assert_eq!(fixture.tables().execute(&damage, ()).unwrap(), 1);
    let read = fixture
        .store()
        .read_session(SessionQuery { events: Some(selection(None)), ..query("s") })
        .await;
    assert_eq!(read.unwrap_err(), Error::damaged(Damage::Log, "any"));
    assert_eq!(fixture.events("r").await.events.len(), 1);
    assert_eq!(fixture.count("SELECT count(*) FROM event_view WHERE session_id = 's'"), 0);
}
