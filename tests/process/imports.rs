//! `sessiond import`: each file by itself, text that is cut within an emoji, files of somebody else, and runs that were cut.

use std::{
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    service::Routes,
    transport::{Channel, Server},
};

use crate::shell::Shell;

fn session(id: &str, events: &[Value]) -> String {
    json!({"id": id, "appName": "a", "userId": "u", "state": {}, "events": events}).to_string()
}

fn event(id: &str, text: &str) -> Value {
    json!({"id": id, "author": "user", "timestamp": 1, "content": {"parts": [{"text": text}]}})
}

fn ids(shell: &Shell, app: &str) -> Vec<String> {
    let sessions = shell.run(&["session", "list", "--app", app]);
    let mut ids: Vec<_> = sessions
        .iter()
        .map(|it| {
            let id = |name: &str| it["key"][name].as_str().unwrap().to_owned();
            format!("{}/{}", id("user_id"), id("session_id"))
        })
        .collect();
    ids.sort();
    ids
}

/// Runs a command, which fails. Returns the lines that it prints and its errors.
fn failing(shell: &Shell, arguments: &[&str]) -> (Vec<Value>, String) {
    let output = shell.output(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (lines, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_file_that_fails_leaves_no_session_and_does_not_end_the_others() {
    let shell = Shell::new();
    shell.write("s1.json", &session("s1", &[event("e", "fine")]));
    let photo = "x".repeat(1_100_000);
    shell.write("s2.json", &session("s2", &[event("e1", "fine"), event("e2", &photo)]));
    shell.write("s3.json", &session("s3", &[event("twice", "one"), event("twice", "other")]));
    shell.write("s4.json", &session("s4", &[event("e\u{0}", "an id that no server takes")]));
    shell.write("s5.json", "{\"id\":\"s5\",\"appName\":\"a\",\"events\":[7]}");
    shell.write("s6.json", &session("s6", &[event("e", "fine")]));
    let files = ["s1.json", "s2.json", "s3.json", "s4.json", "s5.json", "s6.json", "s7.json"];
    let import = [&["import"], &files[..]].concat();
    let (reports, says) = failing(&shell, &import);
    assert_eq!(reports.len(), 2);
    assert_eq!(ids(&shell, "a"), ["u/s1", "u/s6"], "no session is left empty");
    for (file, parts) in [
        ("s2.json", &["a / u / s2: event `e2`: ", "EVENT_TOO_LARGE"][..]),
        ("s3.json", &["a / u / s3: event `twice`: "]),
        ("s4.json", &["a / u / s4: event `e"]),
        ("s5.json", &["a / s5: events[0]: expected a JSON object"]),
        ("s7.json", &["cannot read the file"]),
    ] {
        let mut lines = says.lines().filter(|line| line.starts_with(&format!("error: {file}: ")));
        let line = lines.next().unwrap_or_else(|| panic!("no line about {file} in {says}"));
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
        assert_eq!(lines.next(), None, "{says}");
    }
    assert!(says.contains("files: 2 imported, 5 failed, 0 not tried"), "{says}");
    let (reports, says) = failing(&shell, &[&import[..], &["--stop-on-error"]].concat());
    assert_eq!(reports.len(), 1);
    assert!(says.contains("files: 1 imported, 1 failed, 5 not tried"), "{says}");
    shell.stop();
}

#[test]
fn a_session_that_was_there_stays_when_its_file_fails() {
    let shell = Shell::new();
    shell.run(&["session", "create", "--app", "a", "--user", "u", "--session", "s2"]);
    shell.write("s2.json", &session("s2", &[event("e", &"x".repeat(1_100_000))]));
    failing(&shell, &["import", "s2.json"]);
    assert_eq!(ids(&shell, "a"), ["u/s2"]);
    shell.stop();
}

#[test]
fn half_an_emoji_is_mended_and_named_but_refused_in_keys_and_ids() {
    let shell = Shell::new();
    let file = r#"{"id":"s","appName":"a","userId":"u","state":{"answer":"x\ud83d","app:k":["\ude00"]},
        "events":[{"id":"e1","author":"m","text":"x\ud83d","actions":{"stateDelta":{"answer":"x\ud83d"}}},
        {"id":"e2","author":"m","text":"\ud83d\ude00"}]}"#;
    shell.write("s.json", file);
    let output = shell.output(&["import", "s.json"]);
    assert!(output.status.success());
    let says = String::from_utf8(output.stderr).unwrap();
    assert!(
        says.starts_with(
            "warning: s.json: half of a surrogate pair became U+FFFD in: key `answer`, key `app:k`, event `e1`\n"
        ),
        "{says}"
    );
    let address = ["--app", "a", "--user", "u", "--session", "s"];
    let found = &shell.run(&[&["session", "get"], &address[..], &["--events"]].concat())[0];
    assert_eq!(found["session"]["state"], json!({"answer": "x\u{fffd}", "app:k": ["\u{fffd}"]}));
    assert_eq!(found["events"][0]["body"]["text"], "x\u{fffd}");
    assert_eq!(found["events"][1]["body"]["text"], "😀");
    let report = &shell.run(&["import", "s.json"])[0];
    assert_eq!(report["events_already_there"], json!(2), "{report}");
    for text in [
        file.replace("\"id\":\"s\"", r#""id":"s\ud83d""#),
        file.replace("\"id\":\"e2\"", r#""id":"e\ud83d""#),
        file.replace("app:k", r"app:\ud83d").replace("\"s\"", "\"t\""),
    ] {
        shell.write("bad.json", &text);
        let (_, says) = failing(&shell, &["import", "bad.json"]);
        assert!(says.contains("half of a surrogate pair. Correct it"), "{says}");
    }
    assert_eq!(ids(&shell, "a"), ["u/s"]);
    shell.stop();
}

#[test]
fn a_file_of_somebody_else_is_refused_copied_or_meant() {
    let shell = Shell::new();
    let set = ["state", "set", "--app", "victim", "--user", "chief", "--set", "app:price=100"];
    shell.run(&set);
    shell.write(
        "upload.json",
        r#"{"id":"x","app_name":"victim","user_id":"chief","state":{"app:price":1,"user:role":"owner"},"events":[]}"#,
    );
    shell.write(
        "state.json",
        r#"{"sessiond_state":1,"app_name":"victim","user_id":"chief","state":{"user:role":"owner"}}"#,
    );
    let import = |file: &'static str| ["import", file, "--restore-shared"];
    let price =
        || shell.run(&["state", "get", "--app", "victim", "--user", "chief"])[0]["state"].clone();
    for file in ["upload.json", "state.json"] {
        for (more, flag) in [
            (&["--app", "customer", "--user", "me"][..], "--into-app"),
            (&["--app", "victim", "--user", "me"], "--into-user"),
            (&["--app", "customer"], "--as-named"),
        ] {
            let (_, says) = failing(&shell, &[&import(file), more].concat());
            assert!(says.contains(flag), "{says}");
            assert_eq!(price(), json!({"app:price": 100}), "{more:?}");
        }
        shell.run(&[&import(file)[..], &["--into-app", "customer", "--into-user", "me"]].concat());
        let mine = shell.run(&["state", "get", "--app", "customer", "--user", "me"]);
        assert_eq!(mine[0]["state"]["user:role"], "owner");
        assert_eq!(price(), json!({"app:price": 100}));
    }
    assert_eq!(ids(&shell, "customer"), ["me/x"]);
    shell.run(&[&import("upload.json")[..], &["--app", "customer", "--as-named"]].concat());
    assert_eq!(price(), json!({"app:price": 1, "user:role": "owner"}));
    shell.stop();
}

/// Forwards every call to a server, and holds back the answer of the write at which a client is to be killed.
struct Cutter {
    address: String,
    /// Writes until then.
    left: Arc<AtomicI64>,
    /// Calls of ListKeyChanges.
    lookups: Arc<AtomicI64>,
    cut: Receiver<()>,
    _runtime: Runtime,
}

impl Cutter {
    fn before(server: String) -> Self {
        let runtime = Runtime::new().unwrap();
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let lookups = Arc::new(AtomicI64::new(0));
        let (sender, cut) = mpsc::channel();
        let address = runtime.block_on(async {
            let channel = Channel::from_shared(server).unwrap().connect().await.unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let (left, lookups) = (left.clone(), lookups.clone());
            let forward = move |call: axum::extract::Request| {
                let is_lookup = call.uri().path().ends_with("/ListKeyChanges");
                lookups.fetch_add(i64::from(is_lookup), Ordering::SeqCst);
                forward(call, channel.clone(), left.clone(), sender.clone())
            };
            let routes = Routes::from(axum::Router::new().fallback(forward));
            let serve = Server::builder()
                .add_routes(routes)
                .serve_with_incoming(TcpListenerStream::new(listener));
            tokio::spawn(serve);
            address
        });
        Self { address, left, lookups, cut, _runtime: runtime }
    }

    /// Runs a command, which is killed right after its write of this number. Whether it was.
    fn run(&self, command: &mut Command, write: i64) -> bool {
        self.left.store(write, Ordering::SeqCst);
        let child = command
            .env("SESSIOND_SERVER", &self.address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let id = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let ended = thread::spawn(move || child.wait_with_output().unwrap());
        let is_cut = loop {
            match self.cut.recv_timeout(Duration::from_millis(10)) {
                Ok(()) => break true,
                Err(RecvTimeoutError::Timeout) if !ended.is_finished() => {}
                Err(_) => break false,
            }
        };
        if is_cut {
            kill_process(id, Signal::KILL).unwrap();
        }
        let output = ended.join().unwrap();
        assert!(is_cut || output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        is_cut
    }
}

async fn forward(
    call: axum::extract::Request,
    mut channel: Channel,
    left: Arc<AtomicI64>,
    cut: Sender<()>,
) -> axum::response::Response {
    use tonic::codegen::Service as _;
    let method = call.uri().path().rsplit('/').next().unwrap().to_owned();
    let is_read = ["Get", "List"].iter().any(|read| method.starts_with(read));
    std::future::poll_fn(|context| channel.poll_ready(context)).await.unwrap();
    let answer = channel.call(call.map(tonic::body::Body::new)).await.unwrap();
    if !is_read && left.fetch_sub(1, Ordering::SeqCst) == 1 {
        cut.send(()).unwrap();
        std::future::pending::<()>().await;
    }
    answer.map(axum::body::Body::new)
}

/// Everything that an application has, without times and identities.
fn all_of(shell: &Shell, app: &str) -> Value {
    let mut sessions: Vec<Value> = ids(shell, app)
        .iter()
        .map(|id| {
            let (user, id) = id.split_once('/').unwrap();
            let get = ["session", "get", "--app", app, "--user", user, "--session", id];
            let more = ["--events", "--include-rewound"];
            let mut found = shell.run(&[&get[..], &more].concat()).remove(0);
            let begin = shell.run(&[&get[..], &["--as-of", "0"]].concat()).remove(0);
            found["begin"] = begin["session"]["state"].clone();
            let session = found["session"].as_object_mut().unwrap();
            session.retain(|name, _| !name.ends_with("_time") && name != "uid" && name != "key");
            for event in found["events"].as_array_mut().unwrap() {
                event.as_object_mut().unwrap().retain(|name, _| !name.ends_with("_time"));
            }
            found
        })
        .collect();
    sessions.push(shell.run(&["state", "get", "--app", app, "--user", "u"])[0]["state"].clone());
    Value::Array(sessions)
}

/// Session files that set keys of all scopes at their beginning, in several batches and at their end.
fn write_files(shell: &Shell) -> [&'static str; 3] {
    let file = |id: &str, count: u32, corrected: u32| {
        let event = |n: u32, delta: Value| json!({"id": format!("{id}-{n}"), "author": "m", "timestamp": n, "actions": {"stateDelta": delta}});
        json!({"id": id, "appName": "source", "userId": "u",
            "state": {"app:began": id, "user:began": 1, "app:count": 7, "user:last": "s3", "own": corrected},
            "events": [
                event(1, json!({"app:count": count, "user:last": id, "own": 1})),
                event(2, json!({"app:count": count + 1, format!("app:only {id}"): 1})),
            ]})
        .to_string()
    };
    shell.write("s1.json", &file("s1", 1, 2));
    shell.write("s2.json", &file("s2", 3, 1));
    // An export with a rewind, and with keys that are gone at its end.
    let address = ["--app", "source", "--user", "u", "--session", "s3"];
    let run = |command: &[&str], more: &[&str]| shell.run(&[command, &address, more].concat());
    run(
        &["session", "create"],
        &["--set", "app:gone=1", "--set", "app:began=\"s3\"", "--set", "k=1"],
    );
    run(&["event", "append"], &["--author", "m", "--set", "app:count=5", "--set", "user:x=1"]);
    run(&["session", "rewind"], &["--to", "0"]);
    run(&["event", "append"], &["--author", "m", "--set", "app:count=7", "--remove", "app:gone"]);
    run(&["event", "append"], &["--author", "m", "--set", "user:last=\"s3\"", "--set", "user:x=2"]);
    let export = [&["export", "--format", "sessiond"], &address[..]].concat();
    shell.write("s3.json", &String::from_utf8(shell.output(&export).stdout).unwrap());
    ["s1.json", "s2.json", "s3.json"]
}

#[test]
fn a_run_that_was_cut_after_any_write_ends_as_an_unbroken_one() {
    let shell = Shell::new();
    let files = write_files(&shell);
    let cutter = Cutter::before(format!("http://{}", shell.address()));
    let import = |app: &str, more: &[&'static str]| -> Vec<String> {
        let line = [&["import"], &files[..], more, &["--into-app", app]].concat();
        line.into_iter().map(str::to_owned).collect()
    };
    let run = |line: &[String], write: Option<i64>| {
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        match write {
            Some(write) => cutter.run(&mut shell.command(&line), write),
            None => shell.run(&line).is_empty(),
        }
    };
    for (name, more) in [("plain", &[][..]), ("restored", &["--restore-shared"])] {
        let whole = format!("{name} whole");
        run(&import(&whole, more), None);
        let expected = all_of(&shell, &whole);
        assert_eq!(expected[3]["app:count"], json!(7), "{expected}");
        let mut write = 0;
        loop {
            write += 1;
            let app = format!("{name} {write}");
            let is_cut = run(&import(&app, more), Some(write));
            run(&import(&app, more), None);
            assert_eq!(all_of(&shell, &app), expected, "cut after write {write}");
            if !is_cut {
                break;
            }
        }
        assert!(write > 12, "there are many writes: {write}");
    }
    shell.stop();
}

#[test]
fn what_others_changed_between_two_runs_stays_and_is_told() {
    let shell = Shell::new();
    let files = write_files(&shell);
    let cutter = Cutter::before(format!("http://{}", shell.address()));
    let import = [&["import"], &files[..1], &["--into-app", "b"]].concat();
    // The keys that the session began with, the session, and its events.
    assert!(cutter.run(&mut shell.command(&import), 3));
    let state = || shell.run(&["state", "get", "--app", "b", "--user", "u"])[0]["state"].clone();
    assert_eq!(state()["app:count"], json!(2));
    shell.run(&["state", "set", "--app", "b", "--set", "app:count=99"]);
    let (_, says) = failing(&shell, &import);
    assert!(says.contains("changed by others during the import, and kept: app:count\n"), "{says}");
    assert_eq!(state()["app:count"], json!(99));
    assert_eq!(state()["user:last"], json!("s3"), "the others are complete");
    // The file's value wins if that is asked for.
    shell.run(&[&import[..], &["--restore-shared"]].concat());
    assert_eq!(state()["app:count"], json!(7));
    shell.stop();
}

#[test]
fn the_changes_of_a_shared_key_are_read_once_for_all_files() {
    let shell = Shell::new();
    let cutter = Cutter::before(format!("http://{}", shell.address()));
    let keys: Vec<_> = (0..20).map(|n| format!("app:{n}")).collect();
    let state: Value = keys.iter().map(|key| (key.clone(), json!(1))).collect();
    let files = ["s1.json", "s2.json", "s3.json", "s4.json", "s5.json"];
    for (file, user) in files.into_iter().zip(["u", "u", "v", "w", "w"]) {
        let events = [event("e1", "one"), event("e2", "two")];
        let file_json =
            json!({"id": file, "appName": "a", "userId": user, "state": state, "events": events});
        shell.write(file, &file_json.to_string());
    }
    let import = [&["import"], &files[..]].concat();
    let lookups = |more: &[&str]| {
        cutter.lookups.store(0, Ordering::SeqCst);
        let cut = cutter.run(&mut shell.command(&[&import[..], more].concat()), i64::MAX);
        assert!(!cut);
        cutter.lookups.load(Ordering::SeqCst)
    };
    assert_eq!(lookups(&[]), keys.len() as i64);
    assert_eq!(lookups(&["--into-app", "restored", "--restore-shared"]), 0);
    shell.stop();
}
