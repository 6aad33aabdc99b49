//! The client commands against a running server: their output, their exit codes, and that import and export lose nothing.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use crate::{
    harness::program,
    shell::{Shell, with},
};

#[test]
fn a_session_lives_through_all_commands() {
    let shell = Shell::new();
    let created = shell.run(&with(
        &["session", "create"],
        &["--set", "app:theme=\"dark\"", "--set", "topic=\"tea\"", "--label", "tier=gold"],
    ));
    assert_eq!(created[0]["created"], json!(true));
    assert_eq!(created[0]["session"]["state"], json!({"app:theme": "dark", "topic": "tea"}));
    for (id, topic) in [("e1", "\"milk\""), ("e2", "\"sugar\"")] {
        let set = format!("topic={topic}");
        let more = ["--author", "user", "--event-id", id, "--set", &set, "--increment", "user:n=1"];
        let answer = shell.run(&with(&["event", "append"], &more));
        assert_eq!(answer[0]["replayed"], json!(false));
        assert_eq!(shell.run(&with(&["event", "append"], &more))[0]["replayed"], json!(true));
    }
    let listed = shell.run(&with(&["event", "list"], &[]));
    let ids: Vec<_> = listed.iter().map(|event| event["event_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["e1", "e2"]);
    let past = shell.run(&with(&["session", "get"], &["--as-of", "1"]));
    assert_eq!(past[0]["session"]["state"]["topic"], json!("milk"));

    shell.run(&[
        "state",
        "set",
        "--app",
        "my_app",
        "--user",
        "alice",
        "--set",
        "user:language=\"de\"",
    ]);
    let state = shell.run(&with(&["state", "get"], &[]));
    assert_eq!(state[0]["state"]["user:language"], json!("de"));
    let history = shell.run(&with(&["state", "history"], &["--key", "topic"]));
    let values: Vec<_> = history.iter().map(|change| change["value"].clone()).collect();
    assert_eq!(values, [json!("sugar"), json!("milk"), json!("tea")]);
    let text = shell.run(&with(&["render"], &["--template", "{topic} in {user:language}"]));
    assert_eq!(text[0]["text"], json!("sugar in de"));

    shell.run(&with(&["session", "fork"], &["--new-session", "s2", "--up-to", "1"]));
    shell.run(&with(&["session", "rewind"], &["--to", "1"]));
    assert_eq!(shell.run(&with(&["event", "list"], &[])).len(), 1);
    assert_eq!(shell.run(&with(&["event", "list"], &["--include-rewound"])).len(), 3);
    let named = ["--sequence", "3,2", "--event-id", "e1"];
    let events = shell.run(&with(&["event", "get"], &named));
    let found: Vec<_> = events.iter().map(|it| (&it["sequence"], it["rewound"] == true)).collect();
    assert_eq!(found, [(&json!(3), true), (&json!(2), true), (&json!(1), false)]);
    let (code, says) =
        shell.fails(&with(&["event", "get"], &["--event-id", "e9", "--sequence", "9"]));
    assert_eq!(code, Some(1));
    assert!(says.contains("no event with sequence 9, event id e9"), "{says}");
    shell.run(&with(&["session", "update"], &["--display-name", "Tea"]));
    let sessions = shell.run(&["session", "list", "--app", "my_app", "--label", "tier=gold"]);
    assert_eq!(sessions.len(), 2, "a fork keeps the labels: {sessions:?}");
    shell.run(&with(&["session", "delete"], &[]));
    let (code, says) = shell.fails(&with(&["session", "get"], &[]));
    assert_eq!(code, Some(1));
    assert!(says.contains("SESSION_NOT_FOUND"), "{says}");
    assert_eq!(shell.run(&["health"])[0]["status"], json!("SERVING"));
    shell.stop();
}

#[test]
fn app_list_and_user_list_show_what_has_a_session_or_state() {
    let shell = Shell::new();
    for user in ["bob", "alice"] {
        shell.run(&["session", "create", "--app", "shop", "--user", user]);
    }
    shell.run(&["state", "set", "--app", "desk", "--set", "app:k=1"]);
    let apps = shell.run(&["app", "list", "--page-size", "1"]);
    assert_eq!(apps, [json!({"app_name": "desk"}), json!({"app_name": "shop"})]);
    let users = shell.run(&["user", "list", "--app", "shop", "--page-size", "1"]);
    let user = |id: &str| json!({"app_name": "shop", "user_id": id});
    assert_eq!(users, [user("alice"), user("bob")]);
    assert!(shell.run(&["user", "list", "--app", "desk"]).is_empty());
    assert_eq!(shell.run(&["app", "list", "--limit", "1"]).len(), 1);
    shell.stop();
}

#[test]
fn dropped_temp_keys_are_printed_by_every_command_that_writes() {
    let shell = Shell::new();
    let dropped = |arguments: &[&str]| {
        let output = shell.output(arguments);
        assert!(output.status.success(), "{arguments:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains("warning: temp:x: dropped"), "{arguments:?}: {errors}");
        assert!(errors.contains("--invocation"), "{errors}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let create = with(&["session", "create"], &["--set", "temp:x=1"]);
    assert_eq!(dropped(&create)["dropped_temp_keys"], json!(["temp:x"]));
    let append = with(&["event", "append"], &["--author", "a", "--set", "temp:x=1"]);
    assert_eq!(dropped(&append)["dropped_temp_keys"], json!(["temp:x"]));
    let file = shell.folder().join("events.jsonl");
    fs::write(&file, "{\"author\":\"a\",\"state_delta\":{\"set\":{\"temp:x\":1}}}\n").unwrap();
    let file = ["--file", file.to_str().unwrap()];
    let batch = with(&["event", "append-batch"], &file);
    assert_eq!(dropped(&batch)["dropped_temp_keys"], json!(["temp:x"]));
    let stream = with(&["event", "append-stream"], &file);
    assert_eq!(dropped(&stream)["appended"]["dropped_temp_keys"], json!(["temp:x"]));
    let held = [&append[..], &["--invocation", "turn"]].concat();
    assert!(shell.run(&held)[0].get("dropped_temp_keys").is_none_or(|keys| keys == &json!([])));
    shell.stop();
}

#[test]
fn conflicts_name_the_keys_that_conflict() {
    let shell = Shell::new();
    shell.run(&with(&["session", "create"], &["--set", "a=1", "--set", "b=1"]));
    let append = ["--author", "x", "--expect-value", "a=2", "--expect-value", "b=2"];
    let (code, says) = shell.fails(&with(&["event", "append"], &append));
    assert_eq!(code, Some(1));
    assert!(says.contains("keys 'a' and 'b' do not hold"), "{says}");
    assert!(says.contains(r#"keys: ["a","b"]"#), "{says}");
    shell.stop();
}

#[test]
fn exit_codes_tell_usage_from_refusals() {
    let shell = Shell::new();
    let (code, says) = shell.fails(&with(&["session", "create"], &["--set", "topic=tea"]));
    assert_eq!(code, Some(2), "{says}");
    assert!(says.contains("topic"), "{says}");
    assert_eq!(shell.fails(&["session", "get"]).0, Some(2));
    shell.run(&with(&["session", "create"], &[]));
    let (code, says) = shell.fails(&with(&["session", "create"], &[]));
    assert_eq!(code, Some(1));
    assert!(says.contains("SESSION_EXISTS"), "{says}");
    let (code, says) =
        shell.fails(&with(&["event", "append"], &["--author", "a", "--expect", "7"]));
    assert_eq!(code, Some(1));
    assert!(says.contains("SEQUENCE_CONFLICT"), "{says}");
    let (code, says) = shell.fails(&["health", "--server", "127.0.0.1:1"]);
    assert_eq!(code, Some(3), "no connection");
    assert_eq!(says.trim().lines().count(), 1, "one line: {says}");
    assert!(says.contains("sessiond serve"), "{says}");
    shell.stop();
}

#[test]
fn a_command_of_another_group_is_told_where_there_is_one() {
    let tips = [
        (&["append"][..], Some("tip: a similar subcommand exists: 'event append'")),
        (&["session", "append"], Some("tip: a similar subcommand exists: 'event append'")),
        (&["session", "watch"], Some("tip: a similar subcommand exists: 'watch'")),
        (
            &["get"],
            Some("tip: some similar subcommands exist: 'session get', 'event get', 'state get'"),
        ),
        (&["statte"], Some("tip: some similar subcommands exist: 'store', 'state'")),
        (&["qwerty"], None),
    ];
    for (arguments, tip) in tips {
        assert_eq!(tip_of(arguments).as_deref(), tip, "{arguments:?}");
    }
}

#[test]
fn a_name_without_its_option_is_told_of_it() {
    let tips = [
        (&["session", "list", "my_app"][..], Some("--app <NAME>")),
        (&["session", "delete", "s1"], Some("--app <NAME>, --user <ID>, --session <ID>")),
        (&["session", "delete", "--app", "a", "--user", "u", "s1"], Some("--session <ID>")),
        (&["show", "--session", "s1", "s2"], None),
        (&["show", "--session=s1", "s2"], None),
        (&["state", "get", "topic"], Some("--app <NAME>")),
        (&["serve", "my_app"], None),
        (&["show", "--qwerty"], None),
    ];
    for (arguments, options) in tips {
        let tip = options.map(|it| format!("tip: a name goes after its option: {it}"));
        assert_eq!(tip_of(arguments), tip, "{arguments:?}");
    }
}

fn tip_of(arguments: &[&str]) -> Option<String> {
    let output = Command::new(program()).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let says = String::from_utf8(output.stderr).unwrap();
    says.lines().find(|line| line.contains("tip")).map(|line| line.trim().to_owned())
}

/// Files of ADK for Python (snake case), for Java and TypeScript (camel case, milliseconds), and of an old version.
const FILES: [(&str, &str); 3] = [
    (
        "python.session.json",
        r#"{"id": "p", "app_name": "my_app", "user_id": "alice",
            "state": {"app:theme": "dark", "count": 2, "kept": [1, 2.50]},
            "events": [
              {"id": "1", "invocation_id": "t", "author": "user", "timestamp": 1733043686.8428597,
               "content": {"parts": [{"text": "hé \ud83d\ude00"}]}, "actions": {"state_delta": {}}},
              {"id": "2", "invocation_id": "t", "author": "agent", "timestamp": 1733043688.5, "big": 12345678901234567890,
               "actions": {"state_delta": {"count": 2, "app:theme": "dark"}, "escalate": true}}
            ], "last_update_time": 1733043688.5}"#,
    ),
    (
        "java.session.json",
        r#"{"id":"j","appName":"my_app","userId":"bob","state":{"a":1},
            "events":[{"id":"1","invocationId":"t","author":"user","timestamp":1733043686842,
            "actions":{"stateDelta":{"a":1}}}]}"#,
    ),
    (
        "old.session.json",
        r#"{"id":"o","context":{"_time":"now"},"events":[{"author":"user","timestamp":1.5}]}"#,
    ),
];

/// An exported file without its creation time: an import creates the session anew.
fn comparable(path: &Path) -> Value {
    let mut file: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let session = file["sessiond"]["session"].as_object_mut().unwrap();
    assert!(session.remove("create_time").is_some());
    // Nor the wider state at creation, which depends on the server.
    if let Some(initial) = file["sessiond"]["initial_state"].as_object_mut() {
        initial.retain(|key, _| !key.starts_with("app:") && !key.starts_with("user:"));
    }
    file
}

#[test]
fn an_import_run_twice_changes_nothing_and_an_export_restores_an_equal_session() {
    let shell = Shell::new();
    let mut import = vec!["import", "--app", "my_app", "--user", "carol", "--as-named"];
    for (name, text) in FILES {
        shell.write(name, text);
        import.push(name);
    }
    let first = shell.run(&import);
    let imported: Vec<_> = first.iter().map(|line| line["events_imported"].clone()).collect();
    assert_eq!(imported, [json!(2), json!(1), json!(1)]);
    let get =
        ["session", "get", "--app", "my_app", "--user", "alice", "--session", "p", "--events"];
    let before = shell.run(&get);
    assert_eq!(
        before[0]["session"]["state"],
        json!({"app:theme": "dark", "count": 2, "kept": [1, 2.5]})
    );
    let second = shell.run(&import);
    assert!(second.iter().all(|line| line["events_imported"] == json!(0)), "{second:?}");
    assert_eq!(shell.run(&get), before);

    // Also what the form of ADK cannot express: a removal, a rewind, labels.
    let p = ["--app", "my_app", "--user", "alice", "--session", "p"];
    let append = [&["event", "append"], &p[..], &["--author", "a", "--remove", "kept"]].concat();
    shell.run(&append);
    shell.run(&[&["session", "rewind"], &p[..], &["--to", "2"]].concat());
    shell.run(&append);
    shell.run(&[&["session", "update"], &p[..], &["--label", "tier=gold"]].concat());
    let export = ["export", "--app", "my_app", "--format", "sessiond", "--out", "one"];
    let exported = shell.run(&export);
    assert_eq!(exported.len(), 3);
    let files: Vec<String> =
        exported.iter().map(|line| line["file"].as_str().unwrap().to_owned()).collect();
    // Over the exported sessions themselves nothing is left to import.
    let mut again = vec!["import"];
    again.extend(files.iter().map(String::as_str));
    for line in shell.run(&again) {
        assert_eq!(line["events_imported"], json!(0), "{line}");
        assert_eq!(line["state_keys_corrected"], json!(0), "{line}");
    }
    // On another server, which gets the state that the sessions share as well.
    let other = Shell::new();
    let paths: Vec<_> = files.iter().map(|file| shell.folder().join(file)).collect();
    let mut restore = vec!["import", "--restore-shared"];
    restore.extend(paths.iter().map(|path| path.to_str().unwrap()));
    assert!(other.run(&restore).iter().all(|line| line["created"] == json!(true)));
    other.run(&export);
    for (file, path) in files.iter().zip(&paths) {
        let again = other.folder().join(file);
        assert_eq!(comparable(path), comparable(&again), "{file}");
    }
    other.stop();
    shell.stop();
}

#[test]
fn every_workload_of_the_benchmark_runs_without_errors() {
    let shell = Shell::new();
    for workload in [
        &["append", "--in-flight", "4"][..],
        &["hot", "--in-flight", "4"],
        &["stream", "--streams", "2", "--outstanding", "4"],
        &["read", "--in-flight", "2"],
    ] {
        let common = &["--app", "bench_app", "--count", "50", "--json"][..];
        let lines = shell.run(&[&["bench"], workload, common].concat());
        assert!(!lines.is_empty());
        for line in lines {
            assert_eq!(line["errors"], json!(0), "{line}");
            assert!(line["operations"].as_u64().unwrap() > 0, "{line}");
        }
        // The fixture is removed at the end.
        assert_eq!(shell.run(&["session", "list", "--app", "bench_app"]), [json!(null); 0]);
    }
    shell.stop();
}
