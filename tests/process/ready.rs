//! What a server says of itself when it is ready: one record, and nothing beside it that a collector would have to guess.

use std::{fs, process::Command};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    harness::{Server, append, create, event, file_in, read, serve, serve_on, signal},
    jwt::Issuer,
};

const JSON: [&str; 2] = ["--log-format", "json"];

/// Starts a server, and ends it. The records of its log.
fn records(command: &mut Command) -> Vec<Value> {
    let server = Server::run(command).unwrap_or_else(|ended| panic!("{}", ended.log));
    records_of(&server.stop().log)
}

fn records_of(log: &str) -> Vec<Value> {
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ready(records: &[Value]) -> &Value {
    let mut ready = records.iter().filter(|record| record["message"] == "ready");
    let (first, second) = (ready.next().unwrap(), ready.next());
    assert_eq!(second, None, "it is said once");
    first
}

#[test]
fn one_record_tells_what_a_server_is() {
    let folder = TempDir::new().unwrap();
    let found = records(serve(folder.path()).args(JSON));
    let record = ready(&found);
    assert_eq!(record["level"], "INFO");
    assert!(record["version"].as_str().unwrap().starts_with(env!("CARGO_PKG_VERSION")));
    assert!(record["listen"].as_str().unwrap().starts_with("127.0.0.1:"), "{record}");
    assert_eq!(record["store"], file_in(folder.path()));
    let told = |names: &[&str]| names.iter().map(|name| record[*name].clone()).collect::<Vec<_>>();
    assert_eq!(
        told(&["tls", "callers", "full_keys"]),
        [json!(false), json!("anybody"), json!(false)]
    );
    let absent = ["admin_listen", "policy", "max_appends_per_principal", "recovered_bytes"];
    assert!(told(&absent).iter().all(Value::is_null), "{record}");

    let policy = folder.path().join("policy.toml");
    fs::write(&policy, "").unwrap();
    let admin = format!("unix:{}", folder.path().join("admin").display());
    let mut command = serve_on("memory:");
    command.args(JSON).args(Issuer::new().publish(&folder.path().join("keys")));
    command.args(["--policy", policy.to_str().unwrap(), "--admin-listen", &admin]);
    command.args(["--max-appends-per-principal", "100"]);
    let found = records(&mut command);
    let record = ready(&found);
    assert_eq!(record["callers"], "jwts");
    assert_eq!(record["policy"], policy.to_str().unwrap());
    assert_eq!(record["full_keys"], true);
    assert_eq!(record["admin_listen"], admin);
    assert_eq!(record["max_appends_per_principal"], 100);
    assert_eq!(record["store"], "memory:");
}

#[test]
fn beside_a_log_of_json_standard_output_is_empty() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    for (format, is_empty) in [("json", true), ("text", false)] {
        // Through a file, so that the server has no reader that could keep something back.
        let script = "exec \"$0\" \"$@\" > \"$OUT\"";
        let mut serving = serve(folder.path());
        serving.args(["--log-format", format]);
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(serving.get_program()).args(serving.get_args());
        command.env("OUT", &out).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut log = std::io::BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("ready") {
            line.clear();
            assert!(std::io::BufRead::read_line(&mut log, &mut line).unwrap() > 0, "it ended");
        }
        signal(&child, "TERM");
        child.wait().unwrap();
        let text = fs::read_to_string(&out).unwrap();
        assert_eq!(text.is_empty(), is_empty, "{format}: {text}");
        assert!(text.lines().count() <= 1, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_after_a_kill_tells_what_it_recovers() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let channel = server.channel().await;
    create(&channel, "s", "{}").await;
    append(&channel, "s", event("one", "{}", "{}")).await.unwrap();
    drop(channel);
    server.kill();
    let left = fs::metadata(folder.path().join("test.db-wal")).unwrap().len();
    let server = Server::start_with(folder.path(), &JSON);
    assert_eq!(read(&server.channel().await, "s").await.events.len(), 1);
    let found = records_of(&server.stop().log);
    assert_eq!(ready(&found)["recovered_bytes"], left);
    // A clean shutdown leaves nothing to recover.
    let found = records(serve(folder.path()).args(JSON));
    assert_eq!(ready(&found)["recovered_bytes"], Value::Null);
}

#[test]
fn a_variable_that_no_flag_reads_is_named() {
    let folder = TempDir::new().unwrap();
    let mut command = serve(folder.path());
    command.args(JSON).env("SESSIOND_LISTN", "1").env("SESSIOND_READERS", "3");
    // Of other commands, of Kubernetes for a service named sessiond, and of nobody here.
    for name in
        ["SESSIOND_TIMEOUT", "SESSIOND_SERVICE_HOST", "SESSIOND_PORT", "SESSIOND_PORT_80_TCP"]
    {
        command.env(name, "1");
    }
    command.env("SESSIONDLISTEN", "1");
    let found = records(&mut command);
    let named: Vec<_> = found.iter().filter_map(|record| record["variable"].as_str()).collect();
    assert_eq!(named, ["SESSIOND_LISTN"]);
}
