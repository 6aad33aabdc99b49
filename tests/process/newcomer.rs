//! What people type first, and what they see: bare ids, ids that are nearly right, ids that can be copied.

use serde_json::{Value, json};

use crate::{
    pty::Terminal,
    shell::{Shell, with},
};

const UUID: &str = "5185a7b3-ef3a-42dd-9a3b-0123456789ab";

fn on_terminal(shell: &Shell, arguments: &[&str], columns: u16) -> (String, String) {
    let (_, text, raw) = Terminal::run(&mut shell.command(arguments), columns).wait();
    (text, raw)
}

#[test]
fn ids_are_never_cut_and_labels_of_adapters_are_not_seen() {
    let shell = Shell::new();
    let session = ["--app", "adk", "--user", "test_user", "--session", UUID];
    let label =
        ["--label", "sessiond-adk/creation=d0e5045e", "--display-name", "A name for people"];
    shell.run(&[&["session", "create"], &session[..], &label].concat());
    shell.run(&["event", "append", UUID, "--text", "hello"]);
    let list = ["session", "list", "--app", "adk"];
    for columns in [40, 80, 100] {
        let (text, _) = on_terminal(&shell, &list, columns);
        assert!(text.contains(UUID), "{columns}: {text}");
        assert!(!text.contains("sessiond-adk") && !text.contains("LABELS"), "{columns}: {text}");
        let fits = text.lines().all(|line| line.chars().count() <= usize::from(columns));
        assert!(fits || columns < 47, "{columns}: {text}");
    }
    for command in [&["show", UUID][..], &["session", "get", UUID]] {
        let (text, _) = on_terminal(&shell, command, 100);
        assert!(text.contains(UUID) && !text.contains("sessiond-adk"), "{text}");
    }
    // Programs see it.
    let listed = shell.run(&list);
    assert_eq!(listed[0]["labels"]["sessiond-adk/creation"], "d0e5045e");
    shell.run(&["session", "update", UUID, "--display-name", "", "--label", "sessiond-adk/a=b"]);
    let exported = shell.output(&[&["export"], &session[..]].concat());
    assert!(exported.status.success());
    assert_eq!(String::from_utf8(exported.stderr).unwrap(), "", "no warning of it");
    // Reports of files have ids as well.
    let (text, _) = on_terminal(&shell, &["export", "--app", "adk", "--out", "files"], 80);
    assert!(text.lines().any(|line| line.contains(&format!("  {UUID}"))), "{text}");
    shell.stop();
}

#[test]
fn the_newest_session_comes_first() {
    let shell = Shell::new();
    for id in ["one", "two", "three"] {
        shell.run(&["session", "create", "--app", "a", "--user", "u", "--session", id]);
        shell.run(&["event", "append", id, "--text", "hi"]);
    }
    let ids = |more: &[&str]| -> Vec<Value> {
        let sessions = shell.run(&[&["session", "list", "--app", "a"], more].concat());
        sessions.into_iter().map(|it| it["key"]["session_id"].clone()).collect()
    };
    assert_eq!(ids(&[]), ["three", "two", "one"]);
    assert_eq!(ids(&["--order", "newest", "--limit", "1"]), ["three"]);
    assert_eq!(ids(&["--order", "oldest"]), ["one", "two", "three"]);
    shell.stop();
}

/// What every command with a bare id does.
fn bare_ids_are_enough(shell: &Shell) {
    let text = String::from_utf8(shell.output(&["show", "s1"]).stdout).unwrap();
    assert!(text.starts_with("my_app / alice / s1\n"), "{text}");
    assert_eq!(shell.run(&["session", "get", "s1"])[0]["session"]["key"]["user_id"], "alice");
    let body = &shell.run(&["event", "append", "s1", "--text", "hello"])[0]["event"];
    assert_eq!(
        (&body["author"], &body["body"]["content"]["parts"][0]["text"]),
        (&json!("user"), &json!("hello"))
    );
    shell.run(&["event", "append", "--session", "s1", "--author", "shop", "--text", "hi"]);
    assert!(shell.run(&["event", "list", "s1"]).len() >= 2);
    let rendered = shell.run(&["render", "s1", "--template", "{topic}"]);
    assert_eq!(rendered[0]["text"], "tea");
    shell.run(&["session", "update", "s1", "--display-name", "Tea"]);
    let fork = &shell.run(&["session", "fork", "s1", "--up-to", "1"])[0];
    assert_eq!(fork["session"]["key"]["user_id"], "alice");
    shell.run(&["session", "rewind", "s1", "--to", "1"]);
    shell.write("events", "{\"author\":\"a\"}\n");
    shell.run(&["event", "append-batch", "s1", "--file", "events"]);
    shell.run(&["event", "append-stream", "--session", "s1", "--file", "events"]);
}

#[test]
fn a_bare_id_is_enough_also_where_the_server_takes_whole_keys_only() {
    for arguments in [&[][..], &["--require-full-keys"]] {
        let shell = Shell::with(arguments);
        shell.run(&with(&["session", "create"], &["--set", "topic=\"tea\""]));
        bare_ids_are_enough(&shell);
        let (code, says) = shell.fails(&["session", "get", "none at all"]);
        assert_eq!(code, Some(1));
        assert!(says.contains("none at all"), "{says}");
        shell.run(&["session", "create", "--app", "other", "--user", "bob", "--session", "s1"]);
        let (code, says) = shell.fails(&["show", "s1"]);
        assert_eq!(code, Some(1));
        assert!(says.contains("Pass --app and --user") || says.contains("AMBIGUOUS"), "{says}");
        shell.stop();
    }
}

#[test]
fn a_session_that_is_missing_names_close_ids() {
    let shell = Shell::new();
    let told = String::from_utf8(shell.command(&["demo"]).output().unwrap().stdout).unwrap();
    assert!(told.contains("sessiond show --server http://127.0.0.1:"), "{told}");
    let says = |arguments: &[&str]| {
        let (code, says) = shell.fails(arguments);
        assert_eq!(code, Some(1), "{says}");
        assert!(says.contains("SESSION_NOT_FOUND"), "{says}");
        says
    };
    let of_alice = ["--app", "demo", "--user", "alice", "--session", "rain-shoe"];
    for command in [
        &["show"][..],
        &["session", "get"],
        &["session", "delete"],
        &["event", "list"],
        &["state", "get"],
        &["watch"],
        &["export"],
    ] {
        let says = says(&[command, &of_alice[..]].concat());
        assert!(says.ends_with("close ids: `rain-shoes`\n"), "{command:?}: {says}");
    }
    let bare = says(&["show", "rain-shoe"]);
    assert!(bare.ends_with("close ids: `rain-shoes` of demo / alice\n"), "{bare}");
    let others = says(&["show", "--app", "demo", "--user", "bob", "--session", "rain-shoes"]);
    assert!(others.ends_with("close ids: `rain-shoes` of demo / alice\n"), "{others}");
    let far = says(&["show", "--app", "demo", "--user", "bob", "--session", UUID]);
    assert!(!far.contains("close ids"), "{far}");
    shell.stop();
}

#[test]
fn another_session_under_the_same_id_is_not_meant() {
    let shell = Shell::new();
    let create = with(&["session", "create"], &[]);
    let uid = |shell: &Shell| {
        let found = shell.run(&with(&["session", "get"], &[]));
        found[0]["session"]["uid"].as_str().unwrap().to_owned()
    };
    shell.run(&create);
    let first = uid(&shell);
    shell.run(&with(&["session", "delete"], &["--uid", &first]));
    shell.run(&create);
    let second = uid(&shell);
    assert_ne!(first, second);
    for (command, more) in [
        (&["session", "delete"][..], &[][..]),
        (&["session", "update"], &["--display-name", "x"]),
        (&["session", "fork"], &[]),
        (&["session", "rewind"], &["--to", "0"]),
        (&["event", "append"], &["--text", "late"]),
        (&["state", "set"], &["--set", "k=1"]),
    ] {
        let line = with(command, &[more, &["--uid", &first]].concat());
        let (code, says) = shell.fails(&line);
        assert_eq!(code, Some(1), "{says}");
        assert!(says.contains("SESSION_REPLACED"), "{says}");
        assert!(says.contains("hint: the session with this uid was deleted"), "{says}");
    }
    assert_eq!(shell.run(&with(&["event", "list"], &[])).len(), 0);
    shell.run(&with(&["event", "append"], &["--text", "now", "--uid", &second]));
    // A retried deletion deletes nothing else, and a watch says which session is gone.
    let gone = ["--allow-missing", "--uid", &first];
    shell.run(&with(&["session", "delete"], &gone));
    assert_eq!(uid(&shell), second);
    let mut watch = shell.command(&with(&["watch"], &["--no-heartbeats"]));
    let mut watch = watch.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(watch.stdout.take().unwrap()));
    let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    assert_eq!(lines.next().unwrap()["snapshot"]["uid"], json!(second));
    shell.run(&with(&["session", "delete"], &["--uid", &second]));
    let deleted = lines.find(|line| line.get("session_deleted").is_some()).unwrap();
    assert_eq!(deleted["session_deleted"]["uid"], json!(second));
    watch.wait().unwrap();
    shell.stop();
}

#[test]
fn a_conversation_marks_what_a_reader_needs() {
    let shell = Shell::new();
    shell.run(&with(
        &["session", "create"],
        &["--set", "state={\"return\":\"requested\"}", "--set", "k=\"EUR\""],
    ));
    let error = r#"{"errorCode":"TIMEOUT","errorMessage":"no answer"}"#;
    shell.run(&["event", "append", "s1", "--author", "shop", "--body", error]);
    shell.run(&["event", "append", "s1", "--text", "hidden"]);
    shell.run(&["session", "rewind", "s1", "--to", "1"]);
    let (text, raw) = on_terminal(&shell, &["show", "s1", "--include-rewound"], 80);
    let header = |number: &str| text.lines().find(|it| it.starts_with(number)).unwrap().to_owned();
    assert!(header("#2 ").contains("hidden by a rewind"), "{text}");
    assert!(!header("#3 ").contains("hidden by a rewind"), "{text}");
    assert!(
        raw.contains("\u{1b}[31m[error TIMEOUT: no answer]"),
        "an error has its colour: {raw:?}"
    );
    // A key, whatever its value, is one line, and a string has its quotes.
    let (text, _) = on_terminal(&shell, &["session", "get", "s1"], 80);
    assert!(
        text.contains("state.state  ") && text.contains("{\"return\":\"requested\"}"),
        "{text}"
    );
    assert!(text.contains("\"EUR\""), "{text}");
    let (text, _) = on_terminal(&shell, &with(&["state", "get"], &[]), 80);
    assert!(text.starts_with("State of my_app / alice / s1\n  k      \"EUR\"\n"), "{text}");
    shell.stop();
}

#[test]
fn results_and_warnings_fit_a_usual_terminal() {
    let shell = Shell::new();
    let bench = ["bench", "append", "hot", "--in-flight", "2", "--count", "20"];
    let text = String::from_utf8(shell.output(&bench).stdout).unwrap();
    assert!(text.contains("workload") && text.contains("hot"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    shell.run(&with(
        &["session", "create"],
        &["--label", "tier=gold", "--display-name", "n", "--ttl", "1h"],
    ));
    let (_, _, raw) = Terminal::run(&mut shell.command(&with(&["export"], &[])), 60).wait();
    let warning: Vec<_> = raw.lines().skip_while(|line| !line.starts_with("warning")).collect();
    assert!(warning.len() > 1 && warning[1].starts_with("  "), "{raw}");
    assert!(warning.iter().all(|line| line.trim_end().chars().count() <= 60), "{raw}");
    shell.stop();
}
