//! A damaged file: found by `verify` and by `serve --verify`, named by reads, and saved as far as it can be read.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Output},
};

use rusqlite::Connection;
use serde_json::Value;
use sessiond::proto::v1::{
    ListEventsRequest, RewindSessionRequest, event_service_client::EventServiceClient,
    session::StateForm, session_service_client::SessionServiceClient,
};
use tempfile::TempDir;
use tonic::Code;

use crate::harness::{Ended, Server, append, create, event, key, program, read, reason, serve};

/// Events of the session `s`.
const EVENTS: usize = 150;

fn sessiond(arguments: &[&str]) -> Output {
    Command::new(program()).args(arguments).env_remove("SESSIOND_SERVER").output().unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A closed store with the sessions `l`, `s` and `r`, in this order of their last events.
async fn filled() -> TempDir {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let channel = server.channel().await;
    for (session, events) in [("l", 3), ("s", EVENTS), ("r", 3)] {
        create(&channel, session, "{\"k\":0}").await;
        for number in 1..=events {
            let set = format!("{{\"k\":{number}}}");
            append(&channel, session, event(&format!("e{number}"), &set, "{}")).await.unwrap();
        }
    }
    drop(channel);
    assert!(server.stop().status.success());
    folder
}

fn damage(folder: &Path, sql: &str) {
    let tables = Connection::open(folder.join("test.db")).unwrap();
    assert_eq!(tables.execute(sql, ()).unwrap(), 1, "{sql}");
}

/// Exports the application. The exit code, the events of each session, and what was told.
fn export(server: &Server, folder: &Path, more: &[&str]) -> (i32, BTreeMap<String, u64>, String) {
    let out = folder.join("out");
    let to = ["export", "--app", "app", "--out", out.to_str().unwrap(), "--server"];
    let output = sessiond(&[&to[..], &[server.address()], more].concat());
    let files = lines(&output).into_iter().map(|line| {
        (line["session_id"].as_str().unwrap().to_owned(), line["events"].as_u64().unwrap())
    });
    let told = String::from_utf8(output.stderr.clone()).unwrap();
    (output.status.code().unwrap(), files.collect(), told)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verify_and_compact_work_on_a_file_that_is_not_served() {
    let folder = filled().await;
    let path = folder.path().join("test.db");
    let file = path.to_str().unwrap();
    let output = sessiond(&["verify", file]);
    assert_eq!(output.status.code(), Some(0));
    let summary = &lines(&output)[0];
    assert_eq!((&summary["sessions"], &summary["findings"]), (&3.into(), &0.into()));
    let output = sessiond(&["compact", &format!("sqlite:{file}")]);
    assert!(output.status.success());
    let compacted = &lines(&output)[0];
    assert!(compacted["bytes_after"].as_u64() <= compacted["bytes_before"].as_u64());
    assert!(compacted["bytes_after"].as_u64().unwrap() > 0);

    damage(folder.path(), "DELETE FROM event WHERE event_id = 'e30'");
    let output = sessiond(&["verify", file]);
    assert_eq!(output.status.code(), Some(1));
    let mut found = lines(&output);
    let summary = found.pop().unwrap();
    assert_eq!(summary["findings"], found.len());
    let finding = &found[0];
    assert_eq!((&finding["check"], &finding["position"]), (&"sequence".into(), &30.into()));
    assert_eq!((&finding["app_name"], &finding["session_id"]), (&"app".into(), &"s".into()));

    // A server that shall look first does not serve it. Any other keeps the file to itself.
    match Server::run(serve(folder.path()).arg("--verify")) {
        Ok(server) => {
            server.kill();
            panic!("it serves a damaged file");
        }
        Err(Ended { status, log }) => {
            assert_eq!(status.code(), Some(1), "{log}");
            assert!(log.contains("Event 30 is missing") && log.contains("is damaged:"), "{log}");
        }
    }
    let server = Server::start(folder.path());
    for command in ["verify", "compact"] {
        let output = sessiond(&[command, file]);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains("in use by"), "{output:?}");
    }
    assert!(server.stop().status.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_file_is_verified_and_served() {
    let folder = filled().await;
    let server = Server::start_with(folder.path(), &["--verify"]);
    assert_eq!(read(&server.channel().await, "l").await.events.len(), 3);
    let ended = server.stop();
    assert!(ended.status.success() && ended.log.contains("the database was verified"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_meets_damage_is_data_loss_and_export_saves_the_rest() {
    let folder = filled().await;
    damage(folder.path(), "DELETE FROM event WHERE event_id = 'e130'");
    let server = Server::start(folder.path());
    let channel = server.channel().await;
    let mut client = EventServiceClient::new(channel);
    let first = ListEventsRequest { key: Some(key("s")), page_size: 1000, ..Default::default() };
    let page = client.list_events(first.clone()).await.unwrap().into_inner();
    assert_eq!(page.events.len(), 129, "a page ends before the damage");
    let next = ListEventsRequest { page_token: page.next_page_token, ..first };
    let status = client.list_events(next).await.unwrap_err();
    drop(client);
    assert_eq!((status.code(), &*reason(&status)), (Code::DataLoss, "DAMAGED"), "{status}");

    let (code, saved, told) = export(&server, folder.path(), &[]);
    assert_eq!((code, saved.len()), (1, 2), "{told}");
    let (code, saved, told) = export(&server, folder.path(), &["--skip-damaged"]);
    let expected = [("l", 3), ("r", 3), ("s", 129)].map(|(id, events)| (id.to_owned(), events));
    assert_eq!((code, saved), (0, expected.into()), "{told}");
    assert!(told.contains("session `s` of `alice` is damaged after event 129"), "{told}");
    let log = server.stop().log;
    assert!(log.contains("damaged_reads=1\n"), "it is counted: {log}");

    // What was saved is a session like others.
    let other = TempDir::new().unwrap();
    let server = Server::start(other.path());
    let file = folder.path().join("out/app~alice~s.session.json");
    let import = sessiond(&["import", file.to_str().unwrap(), "--server", server.address()]);
    assert!(import.status.success(), "{import:?}");
    let found = read(&server.channel().await, "s").await;
    assert_eq!(
        (found.events.len(), crate::harness::state(found.session)["k"].clone()),
        (129, 129.into())
    );
    assert!(server.stop().status.success());
}

/// In every format: what is damaged is missing, and what is exported is JSON.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_that_is_no_json_costs_an_export_that_text_alone() {
    let events = EVENTS as u64;
    for (row, is_event) in [
        ("event SET body = '{\"a\":' WHERE event_id = 'e100'", true),
        ("event SET body = 'null' WHERE event_id = 'e100'", true),
        ("event SET set_json = '[1]' WHERE event_id = 'e100'", true),
        ("state SET value = '{' WHERE name = 'k' AND value = '150'", false),
        ("state SET value = '{' WHERE name = 'total'", false),
    ] {
        let folder = filled().await;
        damage(folder.path(), &format!("UPDATE {row}"));
        let server = Server::start(folder.path());
        let is_shared = row.contains("total");
        for format in ["adk", "sessiond"] {
            let (code, saved, told) = export(&server, folder.path(), &["--format", format]);
            let expected = if is_shared { (0, 3) } else { (1, 2) };
            assert_eq!((code, saved.len()), expected, "{row}: {told}");
            let more = ["--format", format, "--skip-damaged"];
            let (code, saved, told) = export(&server, folder.path(), &more);
            let expected = [("l", 3), ("r", 3), ("s", events)];
            let expected = expected.map(|(id, events)| (id.to_owned(), events));
            assert_eq!((code, saved), (0, expected.into()), "{row}: {told}");
            assert_eq!(told.contains("damaged and left out: app:total"), is_shared, "{told}");
            let file = folder.path().join("out/app~alice~s.session.json");
            let file: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
            assert_eq!(file["state"]["k"], events, "{row}");
            assert_eq!(file["state"].get("app:total").is_none(), is_shared, "{row}");
            assert_eq!(told.contains("the places of the damaged ones: 100\n"), is_event, "{told}");
            let ids = file["events"].as_array().unwrap().iter().map(|event| event["id"].as_str());
            let expected = (1..=EVENTS).map(|number| match number {
                100 if is_event => "damaged-100".to_owned(),
                number => format!("e{number}"),
            });
            assert_eq!(ids.map(Option::unwrap).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        }
        assert!(server.stop().status.success());
        // What was saved is a session again, in its last state.
        let (again, saved) = (TempDir::new().unwrap(), folder.path().join("out"));
        let server = Server::start(again.path());
        let file = saved.join("app~alice~s.session.json");
        let import = ["import", file.to_str().unwrap(), "--server", server.address()];
        let output = sessiond(&import);
        assert!(output.status.success(), "{row}: {output:?}");
        let channel = server.channel().await;
        let answer = read(&channel, "s").await;
        assert_eq!(answer.events.len(), EVENTS, "{row}");
        let state = answer.session.unwrap().state_form;
        let Some(StateForm::StateJson(state)) = state else { panic!("{state:?}") };
        assert!(state.contains("\"k\":150"), "{row}: {state}");
        drop(channel);
        assert!(server.stop().status.success());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_rewind_hides_stays_hidden_beside_damage() {
    let folder = filled().await;
    let server = Server::start(folder.path());
    let channel = server.channel().await;
    let rewind =
        RewindSessionRequest { key: Some(key("l")), to_sequence: Some(1), ..Default::default() };
    SessionServiceClient::new(channel.clone()).rewind_session(rewind).await.unwrap();
    append(&channel, "l", event("e5", "{\"k\":5}", "{}")).await.unwrap();
    drop(channel);
    assert!(server.stop().status.success());
    let damaged = "UPDATE event SET body = '{' WHERE sequence = 2
        AND session = (SELECT id FROM session WHERE session_id = 'l')";
    damage(folder.path(), damaged);
    let server = Server::start(folder.path());
    let (code, saved, told) = export(&server, folder.path(), &["--skip-damaged"]);
    assert_eq!((code, saved["l"]), (0, 5), "{told}");
    let file = folder.path().join("out/app~alice~l.session.json");
    let file: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let ids = file["events"].as_array().unwrap().iter().map(|event| &event["id"]);
    assert_eq!(ids.collect::<Vec<_>>(), ["e1", "e5"]);
    assert!(server.stop().status.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn export_passes_a_session_that_cannot_even_be_listed() {
    let folder = filled().await;
    damage(folder.path(), "UPDATE session SET labels = '{' WHERE session_id = 's'");
    let server = Server::start(folder.path());
    let (code, saved, told) = export(&server, folder.path(), &[]);
    assert_eq!((code, saved.len()), (1, 0), "{told}");
    assert!(told.contains("DAMAGED"), "{told}");
    let (code, saved, told) = export(&server, folder.path(), &["--skip-damaged"]);
    let expected = [("l", 3), ("r", 3)].map(|(id, events)| (id.to_owned(), events));
    assert_eq!((code, saved), (0, expected.into()), "{told}");
    assert!(told.contains("the list of sessions is damaged"), "{told}");
    assert!(server.stop().status.success());
}

/// As on a disk that cannot read some of the file's pages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_shorter_than_it_says_costs_the_sessions_that_lack_pages() {
    let folder = filled().await;
    let path = folder.path().join("test.db");
    let server = Server::start(folder.path());
    let channel = server.channel().await;
    let mut client = EventServiceClient::new(channel.clone());
    let request = |session| ListEventsRequest { key: Some(key(session)), ..Default::default() };
    // Both readers know the file as it was.
    for _ in 0..8 {
        client.list_events(request("l")).await.unwrap();
    }
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let pages = file.metadata().unwrap().len() / 4096;
    file.set_len(pages / 3 * 4096).unwrap();
    let mut damaged = 0;
    for session in ["l", "s", "r"] {
        if let Err(status) = client.list_events(request(session)).await {
            assert_eq!((status.code(), &*reason(&status)), (Code::DataLoss, "DAMAGED"), "{status}");
            damaged += 1;
        }
    }
    assert!(damaged > 0, "of {pages} pages a third is left");
    server.kill();
}
