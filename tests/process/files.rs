//! Import and export: whose state changes, what is refused, and what travels.

use std::{fs, thread};

use serde_json::{Value, json};

use crate::shell::{SESSION, Shell, with};

const USER: [&str; 4] = ["--app", "my_app", "--user", "alice"];

fn state(shell: &Shell) -> Value {
    shell.run(&[&["state", "get"], &USER[..]].concat())[0]["state"].clone()
}

/// A session whose log and state set keys of all scopes, as ADK writes it.
fn file(theme: &str) -> String {
    json!({"id": "s1", "appName": "my_app", "userId": "alice",
    "state": {"app:theme": theme, "app:new": 1, "user:lang": "en", "topic": "tea"},
    "events": [
        {"id": "e1", "author": "user", "timestamp": 1.0,
         "actions": {"stateDelta": {"app:theme": theme, "app:new": 0, "topic": "milk"}}},
        {"id": "e2", "author": "user", "timestamp": 2.0,
         "actions": {"stateDelta": {"app:new": 1, "user:lang": "en", "topic": "tea"}}},
    ]})
    .to_string()
}

#[test]
fn an_import_leaves_everybodys_state_as_it_is() {
    let shell = Shell::new();
    shell.write("s1.json", &file("dark"));
    let set = ["--set", "app:theme=\"light\"", "--set", "user:other=7"];
    shell.run(&[&["state", "set"], &USER[..], &set].concat());
    let report = &shell.run(&["import", "s1.json"])[0];
    assert_eq!(report["events_imported"], json!(2));
    let counts =
        |report: &Value| (report["shared_keys_set"].clone(), report["shared_keys_kept"].clone());
    assert_eq!(counts(report), (json!(2), json!(1)), "{report}");
    let kept = json!({"app:theme": "light", "app:new": 1, "user:lang": "en", "user:other": 7});
    assert_eq!(state(&shell), kept);
    assert_eq!(shell.run(&with(&["session", "get"], &[]))[0]["session"]["state"]["topic"], "tea");
    // The events are there without the keys that stayed.
    let events = shell.run(&with(&["event", "list"], &[]));
    assert_eq!(events[0]["state_delta"]["set"], json!({"app:new": 0, "topic": "milk"}));
    let history = shell.run(&[&["state", "history"], &USER[..], &["--key", "app:theme"]].concat());
    assert_eq!(history.len(), 1, "nobody wrote the key again: {history:?}");

    // No event is new: still no other session's state changes, and what is missing is set.
    shell.run(
        &[&["state", "set"], &USER[..], &["--set", "app:new=5", "--remove", "user:lang"]].concat(),
    );
    let report = &shell.run(&["import", "s1.json"])[0];
    assert_eq!(report["events_already_there"], json!(2), "{report}");
    assert_eq!(counts(report), (json!(1), json!(2)), "{report}");
    assert_eq!(
        state(&shell),
        json!({"app:theme": "light", "app:new": 5, "user:lang": "en", "user:other": 7})
    );

    let report = &shell.run(&["import", "s1.json", "--restore-shared"])[0];
    assert_eq!(counts(report), (json!(2), json!(1)), "{report}");
    assert_eq!(
        state(&shell),
        json!({"app:theme": "dark", "app:new": 1, "user:lang": "en", "user:other": 7}),
        "keys that the file does not have stay"
    );
    shell.stop();
}

#[test]
fn restore_shared_also_holds_for_the_events_that_an_import_brings() {
    let shell = Shell::new();
    shell.write("s1.json", &file("dark"));
    shell.run(&[&["state", "set"], &USER[..], &["--set", "app:theme=\"light\""]].concat());
    shell.run(&["import", "s1.json", "--restore-shared"]);
    assert_eq!(state(&shell)["app:theme"], json!("dark"));
    let events = shell.run(&with(&["event", "list"], &[]));
    assert_eq!(events[0]["state_delta"]["set"]["app:theme"], json!("dark"));
    shell.stop();
}

#[test]
fn of_imports_at_the_same_time_one_gives_a_key_its_value() {
    let shell = Shell::new();
    const FILES: usize = 8;
    for at in 0..FILES {
        let text =
            file(&format!("theme {at}")).replace("\"id\":\"s1\"", &format!("\"id\":\"s{at}\""));
        shell.write(&format!("s{at}.json"), &text);
    }
    let reports: Vec<Value> = thread::scope(|scope| {
        let import = |at: usize| {
            let shell = &shell;
            scope.spawn(move || shell.run(&["import", &format!("s{at}.json")]).remove(0))
        };
        let running: Vec<_> = (0..FILES).map(import).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let history = shell.run(&[&["state", "history"], &USER[..], &["--key", "app:theme"]].concat());
    assert_eq!(history.len(), 1, "written once: {history:?}");
    assert_eq!(history[0]["value"], state(&shell)["app:theme"]);
    let winner = history[0]["value"].as_str().unwrap().strip_prefix("theme ").unwrap();
    for (at, report) in reports.iter().enumerate() {
        let theirs = at.to_string() == winner;
        assert_eq!(report["shared_keys_set"] == json!(3), theirs, "{winner} wrote it: {reports:?}");
    }
    shell.stop();
}

#[test]
fn state_of_an_application_and_its_users_travels_without_sessions() {
    let shell = Shell::new();
    let set = ["--set", "app:theme=\"dark\"", "--set", "user:lang=\"de\""];
    shell.run(&[&["state", "set"], &USER[..], &set].concat());
    let export = |arguments: &[&str], name: &str| {
        let output = shell.output(&[&["export", "--state-only"], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        shell.write(name, &String::from_utf8(output.stdout).unwrap());
        shell.folder().join(name).to_str().unwrap().to_owned()
    };
    let files = [export(&["--app", "my_app"], "app.json"), export(&USER, "user.json")];
    let other = Shell::new();
    other.run(&[&["state", "set"], &USER[..], &["--set", "user:lang=\"en\""]].concat());
    let import = ["import", &files[0], &files[1]];
    let reports = other.run(&import);
    assert_eq!(reports[0]["shared_keys_set"], json!(1));
    assert_eq!(reports[1]["shared_keys_kept"], json!(1));
    assert_eq!(state(&other), json!({"app:theme": "dark", "user:lang": "en"}));
    other.run(&[&import[..], &["--restore-shared"]].concat());
    assert_eq!(state(&other), json!({"app:theme": "dark", "user:lang": "de"}));
    assert_eq!(other.run(&["session", "list", "--app", "my_app"]), [json!(null); 0]);
    shell.stop();
    other.stop();
}

#[test]
fn every_user_with_state_is_exported_with_its_application() {
    let shell = Shell::new();
    // Bob has state and no session, alice a session and no state.
    let set = ["--set", "user:lang=\"de\"", "--set", "app:theme=\"dark\""];
    shell.run(&[&["state", "set", "--app", "my_app", "--user", "bob"], &set[..]].concat());
    shell.run(&with(&["session", "create"], &[]));
    let written = shell.run(&["export", "--app", "my_app", "--state-only", "--out", "states"]);
    let owners: Vec<_> = written.iter().map(|line| line["user_id"].as_str().unwrap()).collect();
    assert_eq!(owners, ["", "bob"]);
    for arguments in [&[][..], &["--out", "nothing"]] {
        let command = ["export", "--app", "other", "--state-only"];
        let (code, says) = shell.fails(&[&command, arguments].concat());
        assert_eq!(code, Some(1));
        assert!(says.contains("no state"), "{says}");
    }
    assert!(!shell.folder().join("nothing").exists(), "no directory for nothing");
    shell.stop();
}

#[test]
fn a_file_that_is_no_session_is_refused_with_its_members() {
    let shell = Shell::new();
    shell.write("chat.json", r#"{"id":"x","messages":[{"role":"user"}]}"#);
    let (code, says) = shell.fails(&["import", "chat.json", "--app", "a", "--user", "u"]);
    assert_eq!(code, Some(1));
    assert!(says.contains("chat.json") && says.contains("messages"), "{says}");
    assert_eq!(
        shell.run(&["session", "list", "--app", "a"]),
        [json!(null); 0],
        "nothing is created"
    );
    shell.write("more.json", r#"{"id":"x","events":[],"messages":[]}"#);
    let output = shell.output(&["import", "more.json", "--app", "a", "--user", "u"]);
    assert!(output.status.success());
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(notes.contains("not imported: messages"), "{notes}");
    shell.stop();
}

#[test]
fn an_export_that_finds_nothing_says_so() {
    let shell = Shell::new();
    for more in [&[][..], &["--out", "backup"]] {
        let (code, says) = shell.fails(&[&["export", "--app", "my_app"], more].concat());
        assert_eq!(code, Some(1));
        assert!(says.contains("no sessions in application `my_app`"), "{says}");
    }
    assert!(!shell.folder().join("backup").exists(), "no directory for nothing");
    let (code, says) = shell.fails(&[&["export"], &SESSION[..]].concat());
    assert_eq!(code, Some(1));
    assert!(says.contains("SESSION_NOT_FOUND"), "{says}");
    shell.stop();
}

#[test]
fn one_session_needs_no_directory_and_has_exactly_adks_form() {
    let shell = Shell::new();
    shell.run(&with(&["session", "create"], &["--label", "tier=gold", "--set", "topic=1"]));
    let body = r#"{"content":{"parts":[{"function_call":{"name":"f"}}]}}"#;
    shell.run(&with(&["event", "append"], &["--author", "a", "--body", body, "--set", "k=1.50"]));
    let output = shell.output(&[&["export"], &USER[..]].concat());
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let names: Vec<_> = file.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["appName", "events", "id", "lastUpdateTime", "state", "userId"]);
    assert!(
        text.contains(r#""functionCall":{"name":"f"}"#)
            && text.contains(r#""stateDelta":{"k":1.50}"#)
    );
    let warnings = String::from_utf8(output.stderr).unwrap();
    assert_eq!(warnings.lines().count(), 1, "{warnings}");
    assert!(warnings.contains("labels") && warnings.contains("--format sessiond"), "{warnings}");
    // Its own file brings nothing new.
    shell.write("s1.json", &text);
    let report = &shell.run(&["import", "s1.json"])[0];
    assert_eq!(report["events_already_there"], json!(1), "{report}");
    assert_eq!(report["state_keys_corrected"], json!(0), "{report}");
    shell.run(&[&["session", "create"], &USER[..], &["--session", "s2"]].concat());
    let (code, says) = shell.fails(&[&["export"], &USER[..]].concat());
    assert_eq!(code, Some(2));
    assert!(says.contains("2 sessions") && says.contains("--out"), "{says}");
    shell.stop();
}

#[test]
fn events_are_appended_as_a_batch_and_as_a_stream() {
    let shell = Shell::new();
    shell.run(&with(&["session", "create"], &[]));
    let lines = "{\"author\":\"a\",\"body\":{\"n\":1.00},\"state_delta\":{\"set\":{\"k\":1.0}}}\n\n{\"author\":\"b\",\"state_delta\":{\"operations\":[{\"key\":\"k\",\"increment\":{\"by\":2}}]}}\n";
    shell.write("events.jsonl", lines);
    let answer = &shell.run(&with(&["event", "append-batch"], &["--file", "events.jsonl"]))[0];
    assert_eq!(answer["events"][1]["state_delta"]["set"], json!({"k": 3.0}));
    // A batch takes the lines that a list prints.
    let listed = shell.output(&with(&["event", "list"], &[]));
    shell.write("copy.jsonl", &String::from_utf8(listed.stdout).unwrap());
    shell.run(&[&["session", "create"], &USER[..], &["--session", "copy"]].concat());
    let copy =
        [&["event", "append-batch"], &USER[..], &["--session", "copy", "--file", "copy.jsonl"]];
    shell.run(&copy.concat());
    let file = shell.folder().join("stream.jsonl");
    let key =
        |session: &str| json!({"app_name": "my_app", "user_id": "alice", "session_id": session});
    let lines = [
        json!({"author": "c"}),
        json!({"key": key("copy"), "event": {"author": "d"}}),
        json!({"key": key("none"), "event": {"author": "e"}}),
        json!({"author": "f"}),
    ];
    fs::write(&file, lines.map(|line| line.to_string() + "\n").concat()).unwrap();
    let output = shell.output(&with(&["event", "append-stream"], &["--file", "stream.jsonl"]));
    assert_eq!(output.status.code(), Some(1), "one was refused");
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Value> =
        answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let indexes: Vec<_> = answers.iter().map(|it| it["index"].as_i64().unwrap()).collect();
    assert_eq!(indexes, [0, 1, 2, 3]);
    assert_eq!(answers[2]["failure"]["reason"], json!("SESSION_NOT_FOUND"));
    assert_eq!(answers[3]["appended"]["event"]["sequence"], json!(4));
    // A line that cannot be read ends the stream after those before it.
    fs::write(&file, "{\"author\":\"g\"}\n{\"autor\":\"h\"}\n{\"author\":\"i\"}\n").unwrap();
    let output = shell.output(&with(&["event", "append-stream"], &["--file", "stream.jsonl"]));
    let says = String::from_utf8(output.stderr).unwrap();
    assert!(says.contains("line 2: unknown member `autor`"), "{says}");
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1);
    let (code, says) = shell.fails(&with(&["event", "append-batch"], &["--file", "stream.jsonl"]));
    assert_eq!(code, Some(1));
    assert!(says.contains("line 2"), "{says}");
    let (code, says) = shell.fails(&with(&["event", "append"], &[]));
    assert_eq!(code, Some(2), "an event of nothing: {says}");
    let ended = shell.run(&with(&["state", "end-invocation"], &["--invocation", "i"]));
    assert_eq!(ended, [json!({})]);
    shell.stop();
}

/// A value may be as deep as JSON may, and the object of keys around it is one level more.
#[test]
fn the_deepest_values_come_back_and_what_the_session_began_with() {
    let shell = Shell::new();
    let deepest = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let (own, shared) = (format!("deep={deepest}"), format!("app:deep={deepest}"));
    shell.run(&[&["state", "set"], &USER[..], &["--default", &shared]].concat());
    let began = ["--set", "app:x=1", "--set", "user:y=2", "--set", "k=3"];
    shell.run(&with(&["session", "create"], &began));
    let append = ["--author", "a", "--default", &own, "--set", "other=7", "--set", "app:x=5"];
    shell.run(&with(&["event", "append"], &append));
    shell.run(&with(&["event", "append"], &["--author", "a", "--remove", "deep"]));
    let of = |shell: &Shell| {
        let as_of = |at: &str| {
            let mut session = shell.run(&with(&["session", "get"], &["--as-of", at]))[0].take();
            session["session"]["state"].take()
        };
        ["0", "1", "2"].map(as_of)
    };
    let before = of(&shell);
    assert_eq!(before[0]["user:y"], json!(2));
    assert_eq!(before[1]["deep"], serde_json::from_str::<Value>(&deepest).unwrap());

    let file = shell.output(&with(&["export"], &["--format", "sessiond"]));
    let file = String::from_utf8(file.stdout).unwrap();
    let other = Shell::new();
    other.write("s.json", &file);
    let report = &other.run(&["import", "s.json"])[0];
    assert_eq!(report["events_imported"], json!(2), "{report}");
    assert_eq!(report["state_keys_corrected"], json!(0), "{report}");
    assert_eq!(of(&other), before);
    let report = &other.run(&["import", "s.json"])[0];
    assert_eq!(report["events_already_there"], json!(2), "{report}");
}

#[test]
fn events_that_were_edited_are_named() {
    let shell = Shell::new();
    let address = ["--app", "a", "--user", "u", "--session", "s"];
    let append = ["event", "append", "--author", "m", "--set", "k=1", "--remove", "l"];
    shell.run(&[&["session", "create"], &address[..]].concat());
    for id in ["e1", "e2"] {
        shell.run(&[&append[..], &address[..], &["--event-id", id]].concat());
    }
    let export = [&["export", "--format", "sessiond"], &address[..]].concat();
    let text = String::from_utf8(shell.output(&export).stdout).unwrap();
    assert_eq!(text.matches("\"fingerprint\"").count(), 2, "{text}");
    shell.write("s.json", &text.replacen("\"author\":\"m\"", "\"author\":\"n\"", 1));
    let output = shell.output(&["import", "s.json", "--into-app", "copy"]);
    let says = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{says}");
    let warning = "edited, so only ADK's form of these events counts: e1\n";
    assert_eq!(says, format!("warning: s.json: {warning}"));
    shell.stop();
}
