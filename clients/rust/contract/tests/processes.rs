//! Two processes append to one session: no event is lost or stored twice, and both read the same session.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Lines, Write as _},
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};
use sessiond_adk_contract::shared_session;
use sessiond_adk_testing::{Server, Store, builder};
use upstream::{CreateRequest, SessionService as _};

const PROCESSES: [&str; 2] = ["a", "b"];
const WRITERS: usize = 4;
const APPENDS: usize = 200;
const EVENTS: usize = PROCESSES.len() * WRITERS * APPENDS;

/// A running `writer`, killed on drop.
struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(address: &str, name: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_writer"))
            .args([address, name, &WRITERS.to_string(), &APPENDS.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("the process exited early").unwrap()
    }

    fn go_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn two_processes_write(store: Store) {
    let server = Server::start(store);
    let service = builder(server.address()).connect().await.unwrap();
    let identity = shared_session();
    let request = CreateRequest {
        app_name: identity.app_name.as_ref().into(),
        user_id: identity.user_id.as_ref().into(),
        session_id: Some(identity.session_id.as_ref().into()),
        state: Default::default(),
    };
    service.create(request).await.unwrap();
    let mut processes = PROCESSES.map(|name| Process::start(server.address(), name));
    // All start together, and all read after the last append.
    for step in ["ready", "written"] {
        for process in &mut processes {
            assert_eq!(process.line(), step);
        }
        let stored = service.get_for_identity(&identity).await.unwrap().events().len();
        assert_eq!(stored, if step == "ready" { 0 } else { EVENTS }, "{step}");
        processes.iter_mut().for_each(Process::go_on);
    }
    let seen = processes.each_mut().map(|process| (process.line(), process.line()));
    assert_eq!(seen[0], seen[1], "both processes see the same");

    let session = service.get_for_identity(&identity).await.unwrap();
    let ids: Vec<String> = session.events().all().into_iter().map(|event| event.id).collect();
    assert_eq!(json!(ids), seen[0].1.parse::<Value>().unwrap());
    assert_eq!(json!(session.state().all()), seen[0].0.parse::<Value>().unwrap());

    let writers: Vec<_> =
        PROCESSES.iter().flat_map(|name| (0..WRITERS).map(move |n| format!("{name}{n}"))).collect();
    let wanted: BTreeSet<_> = writers
        .iter()
        .flat_map(|writer| (1..=APPENDS).map(move |n| format!("{writer}-{n}")))
        .collect();
    assert_eq!(ids.len(), EVENTS, "nothing is doubled");
    assert_eq!(ids.iter().cloned().collect::<BTreeSet<_>>(), wanted, "nothing is lost");
    for writer in &writers {
        let of_writer: Vec<_> =
            ids.iter().filter(|id| id.split('-').next() == Some(writer)).collect();
        let in_order: Vec<_> = (1..=APPENDS).map(|n| format!("{writer}-{n}")).collect();
        assert_eq!(of_writer, in_order.iter().collect::<Vec<_>>(), "in the writer's order");
        for key in [writer.clone(), format!("user:{writer}")] {
            assert_eq!(session.state().get(&key), Some(json!(APPENDS)));
        }
    }
    for shared in ["last", "user:last", "app:last"] {
        assert_eq!(session.state().get(shared), Some(json!(ids.last())), "the last event won");
    }
}

#[tokio::test]
async fn two_processes_write_to_one_session_in_memory() {
    two_processes_write(Store::Memory).await;
}

#[tokio::test]
async fn two_processes_write_to_one_session_in_sqlite() {
    two_processes_write(Store::Sqlite).await;
}
