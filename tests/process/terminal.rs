//! Output that appears on a terminal only, in a pseudo-terminal.

use std::{
    io::{BufRead as _, BufReader},
    process::Command,
};

use serde_json::json;

use crate::{
    harness::program,
    pty::Terminal,
    shell::{Shell, with},
};

fn shown(shell: &Shell, arguments: &[&str], columns: u16) -> (String, String) {
    let (status, text, raw) = Terminal::run(&mut shell.command(arguments), columns).wait();
    assert!(status.success(), "{arguments:?}: {text}");
    (text, raw)
}

#[test]
fn lists_are_tables_on_a_terminal_and_lines_of_json_in_a_pipe() {
    let shell = Shell::new();
    shell.command(&["demo"]).output().unwrap();
    let list = ["session", "list", "--app", "demo"];
    let (text, raw) = shown(&shell, &list, 90);
    assert!(text.starts_with("SESSION "), "{text}");
    assert!(text.contains("rain-shoes") && text.contains("hours ago"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 90), "{text}");
    assert!(raw.contains("\u{1b}[1m"), "headings are bold");
    assert_eq!(shell.run(&list).len(), 4, "a pipe gets JSON");
    let json = shown(&shell, &[&list[..], &["--output", "json"]].concat(), 90).0;
    assert!(json.starts_with("{\"key\":"), "{json}");
    let yaml = shell.output(&[&list[..], &["-o", "yaml", "--limit", "1"]].concat());
    assert!(yaml.stdout.starts_with(b"---\nkey:\n  app_name: demo\n"), "{yaml:?}");
    let table = shell.output(&[&list[..], &["-o", "table"]].concat());
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.starts_with("SESSION ") && !table.contains('\u{1b}'), "{table}");
    let mut plain = shell.command(&list);
    let (_, text, raw) = Terminal::run(plain.env("NO_COLOR", "1"), 90).wait();
    assert!(text.contains("rain-shoes") && !raw.contains("\u{1b}[1m"), "{raw:?}");
    shell.stop();
}

#[test]
fn show_prints_a_conversation() {
    let shell = Shell::new();
    shell.command(&["demo"]).output().unwrap();
    let session = ["--app", "demo", "--user", "alice", "--session", "rain-shoes"];
    let show = [&["show"], &session[..]].concat();
    let (text, raw) = shown(&shell, &show, 70);
    for part in [
        "demo / alice / rain-shoes  Shoes for the rain\n",
        "8 events",
        "#5 user",
        "    Puddles are the point. The boot, then.\n",
        "    → add_to_cart(sku: \"B-117\", quantity: 1)\n",
        "    ← add_to_cart ok\n    ~ cart = {\"B-117\":1}\n    ~ user:orders_started = 1\n    - candidates\n",
        "\nState\n  app:currency ",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 70), "{text}");
    assert!(raw.contains('\u{1b}'));
    let state = shown(&shell, &[&["state", "get"], &session[..]].concat(), 70).0;
    let state = state.strip_prefix("State of demo / alice / rain-shoes\n").unwrap();
    assert!(text.ends_with(&format!("State\n{state}")), "{state}");
    // In a pipe: the same without colours, so that a pager shows it.
    let piped = shell.output(&show);
    let piped = String::from_utf8(piped.stdout).unwrap();
    assert!(piped.contains("#5 user") && !piped.contains('\u{1b}'), "{piped}");
    let json = shell.run(&[&show[..], &["-o", "json"]].concat());
    assert_eq!(json.len(), 9, "the session and its events");

    let past = shown(&shell, &[&show[..], &["--as-of", "3"]].concat(), 80).0;
    assert!(past.contains("#3 ") && !past.contains("#4 "), "{past}");
    assert!(past.contains("candidates") && !past.contains("orders_started"), "{past}");
    let difference = shown(&shell, &[&show[..], &["--diff", "3..7"]].concat(), 80).0;
    let (events, state) = difference.split_once("State from #3 to #7\n").unwrap();
    assert!(
        events.contains("#4 ") && events.contains("#7 ") && !events.contains("#3 "),
        "{events}"
    );
    assert_eq!(
        state,
        "  - candidates: [\"B-117\",\"S-204\"]\n  + cart: {\"B-117\":1}\n  + user:orders_started: 1\n"
    );
    let trip = ["show", "--app", "demo", "--user", "bob", "--session", "trip"];
    assert!(!shown(&shell, &trip, 80).0.contains("Porto"));
    let rewound = shown(&shell, &[&trip[..], &["--include-rewound"]].concat(), 80).0;
    assert!(rewound.contains("Porto") && rewound.contains("« rewound to #2"), "{rewound}");
    shell.stop();
}

#[test]
fn show_follows_a_session_across_a_restart() {
    let mut shell = Shell::on_socket();
    shell.run(&with(&["session", "create"], &[]));
    let append = |shell: &Shell, id: &str, more: &[&str]| {
        let body = json!({"text": format!("text of {id}")}).to_string();
        let event = ["--author", "user", "--event-id", id, "--body", &body];
        shell.run(&with(&["event", "append"], &[&event, more].concat()));
    };
    append(&shell, "one", &[]);
    let mut command = shell.command(&with(&["show"], &["--follow"]));
    let mut terminal = Terminal::run(&mut command, 80);
    terminal.wait_for("following; Ctrl-C ends");
    append(&shell, "two", &["--set", "topic=1"]);
    terminal.wait_for("text of two\n    ~ topic = 1\n");
    // State that another session changes.
    shell.run(&["state", "set", "--app", "my_app", "--set", "app:motd=\"hi\""]);
    terminal.wait_for("shared state");
    terminal.wait_for("~ app:motd = \"hi\"");
    shell = shell.restart();
    append(&shell, "three", &[]);
    terminal.wait_for("text of three");
    let text = terminal.stop();
    assert!(text.contains("connection lost") && text.contains("no changes were missed"), "{text}");
    for id in ["one", "two", "three"] {
        assert_eq!(text.matches(&format!("text of {id}")).count(), 1, "{text}");
    }
    shell.stop();
}

#[test]
fn a_watch_goes_on_by_its_cursor_after_a_restart() {
    let mut shell = Shell::on_socket();
    shell.run(&with(&["session", "create"], &[]));
    let append = |shell: &Shell, id: &str| {
        shell.run(&with(&["event", "append"], &["--author", "a", "--event-id", id]));
    };
    append(&shell, "e1");
    let arguments = with(&["watch"], &["--start", "beginning", "--no-heartbeats"]);
    let mut watch = shell.command(&arguments).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut lines = lines.map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()));
    assert_eq!(lines.next().unwrap().unwrap()["event"]["event_id"], "e1");
    shell = shell.restart();
    append(&shell, "e2");
    // It has caught up once more before the event or after it.
    let mut ids = Vec::new();
    while ids.is_empty() {
        let line = lines.next().unwrap().unwrap();
        ids.extend(line["event"]["event_id"].as_str().map(ToOwned::to_owned));
    }
    assert_eq!(ids, ["e2"]);
    watch.kill().unwrap();
    watch.wait().unwrap();
    shell.stop();
}

/// A server, and in its folder a session file with 3,000 events.
fn with_long_file() -> Shell {
    let shell = Shell::new();
    let events: Vec<_> = (0..3000)
        .map(|at| json!({"id": format!("e{at}"), "author": "a", "timestamp": at}))
        .collect();
    let file = json!({"id": "long", "appName": "a", "userId": "u", "state": {}, "events": events});
    shell.write("long.json", &file.to_string());
    shell
}

#[test]
fn progress_shows_on_a_terminal_and_leaves_nothing() {
    let shell = with_long_file();
    let (text, raw) = shown(&shell, &["import", "long.json"], 100);
    assert!(raw.contains("/3,000"), "a bar counts the events: {raw:?}");
    assert!(text.contains("SHARED KEYS SET"), "then the report: {text}");
    let piped = shell.output(&["import", "long.json"]);
    assert_eq!(String::from_utf8(piped.stderr).unwrap(), "", "no bar in a log");
    let (_, raw) = shown(&shell, &["bench", "append", "--in-flight", "2", "--count", "50"], 100);
    assert!(raw.contains("measuring append"), "{raw:?}");
    shell.stop();
}

#[test]
fn verify_shows_its_progress_on_a_terminal() {
    let shell = with_long_file();
    shell.run(&["import", "long.json"]);
    let folder = shell.stop();
    let verify = || {
        let mut verify = Command::new(program());
        verify.args(["verify", "test.db"]).current_dir(folder.path());
        verify
    };
    let (status, text, raw) = Terminal::run(&mut verify(), 100).wait();
    assert!(status.success(), "{text}");
    assert!(raw.contains("verifying the structure"), "{raw:?}");
    assert!(raw.contains("verifying sessions [") && raw.contains("/3,000"), "{raw:?}");
    assert!(text.ends_with("\"findings\":0}\n"), "then the summary: {text}");
    let piped = verify().output().unwrap();
    assert_eq!(String::from_utf8(piped.stderr).unwrap(), "", "no bar in a log");
    let tables = rusqlite::Connection::open(folder.path().join("test.db")).unwrap();
    tables.execute("DELETE FROM event WHERE event_id = 'e30'", ()).unwrap();
    drop(tables);
    let (status, _, raw) = Terminal::run(&mut verify(), 100).wait();
    assert!(!status.success());
    // Its line is cleared before a finding is printed.
    assert!(raw.contains("\u{1b}[2K{\"check\":\"sequence\""), "{raw:?}");
}

#[test]
fn ids_cannot_control_the_terminal() {
    let shell = Shell::new();
    let evil = "e\u{1b}[2J\u{7}\u{9b}31m";
    let session = ["--app", evil, "--user", evil, "--session", evil];
    let set = format!("{evil}={}", json!(evil));
    shell.run(
        &[&["session", "create"], &session[..], &["--display-name", evil, "--set", &set]].concat(),
    );
    let append = [&["event", "append"], &session[..], &["--author", evil, "--set", &set]].concat();
    shell.run(&append);
    let allowed = |raw: &str| {
        raw.split('\u{1b}').skip(1).all(|code| {
            let code = code.trim_start_matches(|it: char| it.is_ascii_digit() || "[;".contains(it));
            code.starts_with('m')
        }) && !raw.contains(['\u{7}', '\u{9b}'])
    };
    for command in [
        &["session", "list", "--app", evil][..],
        &[&["session", "get"], &session[..], &["--events"]].concat(),
        &[&["event", "list"], &session[..]].concat(),
        &[&["show"], &session[..]].concat(),
        &[&["state", "get"], &session[..]].concat(),
    ] {
        let (text, raw) = shown(&shell, command, 100);
        assert!(allowed(&raw), "{command:?}: {raw:?}");
        assert!(text.contains("e\\u{1b}[2J"), "{command:?}: {text}");
    }
    let refused = [&["session", "create"], &session[..]].concat();
    let (status, text, raw) = Terminal::run(&mut shell.command(&refused), 100).wait();
    assert!(!status.success() && allowed(&raw) && text.contains("\\u{1b}"), "{raw:?}");
    shell.stop();
}

#[test]
fn a_server_on_a_terminal_shows_what_to_try() {
    let folder = tempfile::TempDir::new().unwrap();
    let store = format!("sqlite:{}", folder.path().join("x.db").display());
    let mut command = Command::new(program());
    let command = command.args([
        "serve",
        "--http-listen",
        "off",
        "--listen",
        "127.0.0.1:0",
        "--store",
        &store,
    ]);
    let mut terminal = Terminal::run(command, 200);
    terminal.wait_for("/CreateSession");
    let text = terminal.stop();
    let lines: Vec<_> = text.lines().skip_while(|line| !line.starts_with("Try these")).collect();
    assert!(lines[1].starts_with("sessiond demo --server 127.0.0.1:"), "{text}");
    assert!(lines[2].starts_with("sessiond show --app demo"), "{text}");
    assert!(lines[3].starts_with("grpcurl -plaintext -d '"), "{text}");
}

#[test]
fn a_doctor_tells_what_is_wrong() {
    let shell = Shell::new();
    let findings = shell.run(&["doctor", "--store", "sqlite:test.db"]);
    let result = |check: &str| {
        let found = findings.iter().find(|finding| finding["check"] == check);
        found.unwrap_or_else(|| panic!("no {check} in {findings:?}"))["result"].clone()
    };
    for check in [
        "client",
        "server",
        "health",
        "credential",
        "version",
        "contract",
        "clock",
        "store",
        "wal",
        "limits",
    ] {
        assert_eq!(result(check), "ok", "{check}: {findings:?}");
    }
    let (text, _) = shown(&shell, &["doctor", "--store", "memory:"], 100);
    assert!(text.contains("health     ok") && text.contains("nothing looks wrong"), "{text}");
    shell.write("broken.db", "this is no database, but long enough to have a header of one hundred bytes if one looks at it ......");
    let output = shell.output(&["doctor", "--store", "sqlite:broken.db"]);
    assert_eq!(output.status.code(), Some(1));
    let output = shell.output(&["doctor", "--server", "127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(3));
    shell.stop();
}

#[test]
fn completions_name_commands_and_flags() {
    for (shell, mark) in
        [("bash", "complete -F"), ("zsh", "#compdef sessiond"), ("fish", "complete -c sessiond")]
    {
        let output = Command::new(program()).args(["completions", shell]).output().unwrap();
        assert!(output.status.success());
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains(mark), "{shell}");
        for word in ["append-stream", "restore-shared", "end-invocation", "completions"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        // After an option for an id a shell has nothing to offer, least of all files.
        let files = match shell {
            "zsh" => script.contains("--session=[Session]:ID:_default"),
            "bash" => {
                let after = script.split("--session)\n").nth(1).unwrap();
                after.lines().next().unwrap().contains("compgen")
            }
            _ => !script.contains("-l session -d 'Session' -r -f"),
        };
        assert!(!files, "{shell} offers files for an id");
    }
}

#[test]
fn a_timeout_may_be_a_fraction_and_the_help_keeps_its_examples() {
    let shell = Shell::new();
    shell.run(&["health", "--timeout", "0.5"]);
    let (code, says) = shell.fails(&["health", "--timeout", "soon"]);
    assert_eq!(code, Some(2));
    assert!(says.contains("0.5"), "{says}");
    let (help, _) = shown(&shell, &["event", "append", "--help"], 80);
    assert!(
        help.contains(
            "--body '{\"content\": {\"role\": \"user\", \"parts\": [{\"text\": \"hi\"}]}}'\n"
        ),
        "{help}"
    );
    let (help, _) = shown(&shell, &["serve", "--help"], 80);
    let example = "  sessiond serve --listen unix:/run/sessiond.sock \\\n      --store sqlite:/var/lib/sessiond/sessiond.db\n";
    assert!(help.contains(example), "{help}");
    shell.stop();
}
