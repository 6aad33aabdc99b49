//! Every workload runs on a server, leaves nothing behind and reports what its table promises.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use clap::Parser;
use serde_json::Value;
use sessiond::{
    config::Config,
    proto::v1::{
        GetStateRequest, ListSessionsRequest, Scope, session_service_client::SessionServiceClient,
        state_service_client::StateServiceClient,
    },
    server,
};
use tokio::{sync::oneshot, task::spawn_blocking};

#[derive(Debug, Parser)]
struct Serve {
    #[command(flatten)]
    config: Config,
}

/// The last line that a benchmark prints.
fn report(address: &str, workload: &[&str]) -> Value {
    let common = ["--app", "bench_app", "--json", "--server", address];
    let program = env!("CARGO_BIN_EXE_sessiond-bench");
    let output = Command::new(program).args(workload).args(common).output().unwrap();
    assert!(output.status.success(), "{workload:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

fn measure(address: &str) {
    let positive = |value: &Value| value.as_f64().unwrap() > 0.0;
    for workload in [
        &["spread", "--in-flight", "4", "--existing", "20", "--active", "5", "--count", "50"][..],
        &["length", "--events", "10,40", "--count", "50"],
        &["sessions", "--sessions", "3,9", "--count", "50"],
    ] {
        let report = report(address, workload);
        assert_eq!(report["errors"], Value::from(0), "{report}");
        assert!(report["operations"].as_u64().unwrap() > 0, "{report}");
    }
    for (warmup, is_told) in [("1", true), ("0", false)] {
        let rates = ["--flood-rate", "200", "--modest-rate", "50"];
        let flood = ["flood", "--seconds", "1", "--warmup", warmup];
        let report = report(address, &[&flood[..], &rates].concat());
        for caller in ["alone", "beside", "flood"] {
            assert!(positive(&report[caller]["goodput_per_second"]), "{caller}: {report}");
            assert!(positive(&report[caller]["p99_millis"]), "{caller}: {report}");
        }
        assert_eq!(report["at_first"]["p99_millis"].is_number(), is_told, "{report}");
        assert!(positive(&report["flood_begun_per_second"]), "{report}");
        assert!(positive(&report["p99_ratio"]), "{report}");
    }
    let overload = ["overload", "--in-flight", "1", "--factor", "0.5"];
    let report = report(address, &[&overload[..], &["--seconds", "1", "--warmup", "0"]].concat());
    assert!(positive(&report["begun_per_second"]) && positive(&report["p99_millis"]), "{report}");
}

/// No session, and no key of a user or the application.
async fn is_left_empty(address: &str, app: &str) {
    let app_name = app.to_owned();
    let sessions = ListSessionsRequest { app_name: app_name.clone(), ..Default::default() };
    let mut client = SessionServiceClient::connect(address.to_owned()).await.unwrap();
    let left = client.list_sessions(sessions).await.unwrap().into_inner();
    assert_eq!(left.sessions, [], "{app}");
    for user in ["", "spread-user-0", "overload-user-0", "flood-user-0"] {
        let (app_name, user_id) = (app_name.clone(), user.to_owned());
        let scope = Some(Scope { app_name, user_id, ..Default::default() });
        let mut client = StateServiceClient::connect(address.to_owned()).await.unwrap();
        let state = GetStateRequest { scope, include_versions: true, ..Default::default() };
        let state = client.get_state(state).await.unwrap().into_inner();
        assert!(state.versions.is_empty(), "{app} {user}: {state:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_workload_runs_and_reports() {
    let line = ["serve", "--store", "memory:", "--listen", "127.0.0.1:0"];
    let running = server::start(&Serve::parse_from(line).config).await.unwrap();
    let address = format!("http://{}", running.address());
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(running.serve_until(async move { drop(stopped.await) }));
    let measured = address.clone();
    spawn_blocking(move || measure(&measured)).await.unwrap();
    for app in ["bench_app", "bench_app-flood"] {
        is_left_empty(&address, app).await;
    }
    drop(stop);
    assert!(serving.await.unwrap());
}
