//! State that no answer holds: exported all the same.

use std::{fs, process::Command};

use serde_json::{Value, json};
use sessiond::proto::v1::{
    Scope, StateDelta, UpdateStateRequest, state_delta::SetForm,
    state_service_client::StateServiceClient,
};
use tempfile::TempDir;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tonic::transport::Channel;

use crate::harness::{Server, append, create, event, program};

fn export_to(server: &Server, arguments: &[&str]) -> Vec<Value> {
    let folder = TempDir::new().unwrap();
    let out = folder.path().to_str().unwrap();
    let to = ["export", "--app", "app", "--out", out, "--server", server.address()];
    let output = Command::new(program()).args([&to[..], arguments].concat()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut files: Vec<_> = fs::read_dir(out).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    let read = |path| serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    files.iter().map(read).collect()
}

/// Fills a scope with keys that are nearly nothing but punctuation.
async fn fill(channel: &Channel, prefix: &str, user_id: &str) {
    for half in [0..65_500, 65_500..131_000] {
        let members: Vec<_> = half.map(|at| format!("\"{prefix}{at:05x}\":1")).collect();
        let set_form = Some(SetForm::SetJson(format!("{{{}}}", members.join(","))));
        let user_id = user_id.to_owned();
        let request = UpdateStateRequest {
            scope: Some(Scope { app_name: "app".into(), user_id, ..Default::default() }),
            delta: Some(StateDelta { set_form, ..Default::default() }),
            ..Default::default()
        };
        StateServiceClient::new(channel.clone()).update_state(request).await.unwrap();
    }
}

/// The export ends with the state of its last event.
async fn is_exported_while_it_is_used(server: &Server, channel: Channel) {
    let (stop, mut stopped) = oneshot::channel::<()>();
    let appending = tokio::spawn(async move {
        let mut number = 0;
        while number < 300 && stopped.try_recv() == Err(TryRecvError::Empty) {
            number += 1;
            let set = format!("{{\"changed\":{number},\"new {number}\":1}}");
            let mut event = event(&format!("n{number}"), &set, "{}");
            event.state_delta.as_mut().unwrap().operations.clear();
            append(&channel, "s1", event).await.unwrap();
        }
        number
    });
    let file = export_to(server, &["--user", "alice", "--session", "s1"]).remove(0);
    drop(stop);
    let delta = &file["events"].as_array().unwrap().last().unwrap()["actions"]["stateDelta"];
    let last = delta["changed"].as_u64().unwrap();
    assert_eq!(file["state"]["changed"], last);
    assert_eq!(file["state"].get(format!("new {}", last + 1)), None);
    assert!(appending.await.unwrap() > last);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_that_no_answer_holds_is_exported_and_so_are_the_sessions_behind_it() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let channel = server.channel().await;
    fill(&channel, "app:", "").await;
    fill(&channel, "user:", "alice").await;
    let large = "x".repeat(250_000);
    let own = json!({"kept": large, "other": large, "changed": 1, "removed": 1});
    create(&channel, "s1", &own.to_string()).await;
    for (id, set) in [("e1", r#"{"changed":2,"late":1}"#), ("e2", r#"{"changed":3}"#)] {
        let mut event = event(id, set, "{}");
        let delta = event.state_delta.as_mut().unwrap();
        delta.operations.clear();
        delta.remove.extend((id == "e1").then(|| "removed".to_owned()));
        append(&channel, "s1", event).await.unwrap();
    }
    create(&channel, "s2", "{}").await;
    let export = |form| export_to(&server, &["--format", form]);
    for form in ["adk", "sessiond"] {
        let mut files: Vec<Value> = export(form);
        files.sort_by_key(|file| file["id"].to_string());
        assert_eq!(files.iter().map(|it| &it["id"]).collect::<Vec<_>>(), ["s1", "s2"]);
        let state = files[0]["state"].as_object().unwrap();
        assert_eq!(state.len(), 2 * 131_000 + 4);
        assert_eq!((&state["kept"], &state["changed"]), (&json!(large), &json!(3)));
        assert_eq!((&state["user:1ffb7"], state.get("removed")), (&json!(1), None));
        if form == "sessiond" {
            let mut initial = files[0]["sessiond"]["initial_state"].clone();
            initial.as_object_mut().unwrap().retain(|key, _| !key.contains(':'));
            assert_eq!(initial, own);
        }
    }
    let states = export_to(&server, &["--state-only"]);
    let sizes = states.iter().map(|it| it["state"].as_object().unwrap().len());
    assert_eq!(sizes.collect::<Vec<_>>(), [131_000, 131_000]);
    is_exported_while_it_is_used(&server, channel).await;
    server.stop();
}
