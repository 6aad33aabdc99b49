//! No stored character controls a terminal: every command that prints what is stored, in every form, on a pseudo-terminal.

use serde_json::{Value, json};

use crate::{pty::Terminal, shell::Shell};

/// Of every kind: C0 without the line break, DEL, C1, bidirectional controls, separators, zero-width characters, tags. Not in
/// [`EVIL`]: NUL, which ids may not have.
const FORBIDDEN: [std::ops::RangeInclusive<char>; 9] = [
    '\u{0}'..='\u{9}',
    '\u{b}'..='\u{1f}',
    '\u{7f}'..='\u{9f}',
    '\u{61c}'..='\u{61c}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{feff}'..='\u{feff}',
    '\u{e0000}'..='\u{e007f}',
];
const EVIL: &str = "e\u{1b}[2J\u{1b}]0;t\u{7}\u{8}\r\u{7f}\u{85}\u{9b}31m\u{9d}\u{61c}\u{200b}\u{200d}\u{200e}\u{200f}\u{2028}\u{2029}\u{202e}\u{2060}\u{2066}\u{2069}\u{feff}\u{e0041}z";

/// What came without line ends and without the sequences that select a colour or move a progress bar's own line.
fn content(raw: &str) -> String {
    let raw = raw.replace("\r\n", "\n").replace("\r\u{1b}[2K", "");
    let mut parts = raw.split("\u{1b}[");
    let mut content = parts.next().unwrap().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|it: char| it.is_ascii_digit() || it == ';');
        match rest.strip_prefix('m') {
            Some(rest) => content.push_str(rest),
            None => content.push_str(&format!("\u{1b}[{part}")),
        }
    }
    content
}

fn forbidden(raw: &str) -> Option<char> {
    let is_forbidden = |letter: &char| FORBIDDEN.iter().any(|range| range.contains(letter));
    content(raw).chars().find(is_forbidden)
}

#[test]
fn no_stored_character_controls_a_terminal() {
    let shell = Shell::new();
    let session = ["--app", EVIL, "--user", EVIL, "--session", EVIL];
    let set = format!("{EVIL}={}", json!(EVIL));
    let user_set = format!("user:{EVIL}={}", json!(EVIL));
    let label = format!("{EVIL}={EVIL}");
    let body = json!({"content": {"parts": [
        {"text": EVIL},
        {"thought": true, "text": EVIL},
        {"functionCall": {"name": EVIL, "args": {EVIL: EVIL}}},
        {"functionResponse": {"name": EVIL, "response": {"result": EVIL}}},
        {"executableCode": {"code": EVIL}},
        {"fileData": {"fileUri": EVIL}},
    ]}, "errorMessage": EVIL, EVIL: EVIL});
    let body = body.to_string();
    let with = |command: &[&'static str], more: &[&str]| -> Vec<String> {
        [command, &session[..], more].concat().into_iter().map(str::to_owned).collect()
    };
    let event = ["--author", EVIL, "--branch", EVIL, "--invocation", EVIL, "--body", &body];
    let append = [&event[..], &["--set", &set, "--set", &user_set]].concat();
    shell.write("line", &json!({"author": EVIL, "body": {EVIL: EVIL}}).to_string());
    shell.write(
        "file.json",
        &json!({"id": EVIL, "app_name": EVIL, "user_id": EVIL, EVIL: 1, "state": {EVIL: 1},
            "events": [{"id": EVIL, "author": EVIL}]})
        .to_string(),
    );
    let stored = ["--display-name", EVIL, "--label", &label, "--set", &set];
    // Each in turn: a later one prints what those before have stored.
    let succeed = [
        with(&["session", "create"], &stored),
        with(&["session", "update"], &["--label", &label]),
        with(
            &["event", "append"],
            &[&append[..], &["--event-id", EVIL, "--return-state"]].concat(),
        ),
        with(&["event", "append-batch"], &["--file", "line"]),
        with(&["event", "append-stream"], &["--file", "line"]),
        with(&["event", "list"], &[]),
        with(&["session", "get"], &["--events", "--versions"]),
        with(&["session", "get"], &["--as-of", "1"]),
        with(&["show"], &[]),
        with(&["show"], &["--full", "--width", "300", "--include-rewound"]),
        with(&["show"], &["--diff", "0..1"]),
        with(&["state", "get"], &[]),
        with(&["state", "get"], &["--versions"]),
        with(&["state", "set"], &["--author", EVIL, "--set", &set]),
        with(&["state", "history"], &["--key", EVIL]),
        with(&["render"], &["--template", &format!("{{{EVIL}?}} {EVIL}\u{0}")]),
        with(&["render"], &["--text", "--template", &format!("{EVIL}\u{0}")]),
        with(&["watch"], &["--start", "beginning", "--until-caught-up", "--no-heartbeats"]),
        with(&["watch"], &["--until-caught-up", "--no-heartbeats"]),
        with(&["session", "fork"], &[]),
        with(&["session", "rewind"], &["--to", "1", "--author", EVIL]),
        with(&["export"], &[]),
        with(&["export"], &["--format", "sessiond"]),
        with(&["export"], &["--out", "files"]),
        ["export", "--state-only", "--app", EVIL, "--user", EVIL].map(str::to_owned).to_vec(),
        ["session", "list", "--state", "--app", EVIL].map(str::to_owned).to_vec(),
        ["app", "list"].map(str::to_owned).to_vec(),
        ["user", "list", "--app", EVIL].map(str::to_owned).to_vec(),
    ];
    let refused = [
        with(&["session", "create"], &[]),
        with(&["event", "append"], &["--author", "a", "--expect-value", &format!("{EVIL}=1")]),
        with(&["state", "get"], &["--session", "none", "--user", EVIL]),
        with(&["render"], &["--template", &format!("{{x{EVIL}}}")]),
        ["import", "file.json", "--app", "a", "--user", "b"].map(str::to_owned).to_vec(),
        ["session", "get", "--session", &format!("{EVIL}!")].map(str::to_owned).to_vec(),
    ];
    let cases = succeed.iter().map(|it| (it, true)).chain(refused.iter().map(|it| (it, false)));
    for (arguments, succeeds) in cases {
        for form in [None, Some("json"), Some("yaml"), Some("table")] {
            let mut line: Vec<&str> = arguments.iter().map(String::as_str).collect();
            // Of the same length, and without effect where the second run would be refused.
            if line[..2] == ["session", "create"] && succeeds {
                line.push("--allow-existing");
            }
            line.extend(form.map(|_| "-o"));
            line.extend(form);
            // NUL cannot stand in an argument of a process.
            let line: Vec<String> = line.iter().map(|it| it.replace('\0', "")).collect();
            let line: Vec<&str> = line.iter().map(String::as_str).collect();
            let (status, _, raw) = Terminal::run(&mut shell.command(&line), 120).wait();
            assert!(!succeeds || status.success(), "{line:?}: {raw}");
            assert!(!raw.is_empty(), "{line:?}");
            assert_eq!(forbidden(&raw), None, "{line:?}: {raw:?}");
        }
    }
    shell.stop();
}

#[test]
fn json_on_a_terminal_has_the_same_value_and_a_pipe_the_exact_bytes() {
    let shell = Shell::new();
    let set = format!("k={}", json!(EVIL));
    let session = ["--app", "a", "--user", "u", "--session", EVIL];
    shell.run(&[&["session", "create"], &session[..], &["--set", &set]].concat());
    for command in [&["session", "get"][..], &["state", "get"], &["export"]] {
        let command = [command, &session[..], &["-o", "json"]].concat();
        let piped = String::from_utf8(shell.output(&command).stdout).unwrap();
        assert!(piped.contains('\u{9b}') && piped.contains('\u{e0041}'), "{command:?}: {piped}");
        let (_, _, raw) = Terminal::run(&mut shell.command(&command), 100).wait();
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(value(&raw), value(&piped), "{command:?}");
    }
    let render = [&["render"], &session[..], &["--text", "--template", "{k}"]].concat();
    assert_eq!(shell.output(&render).stdout, EVIL.as_bytes());
    shell.stop();
}
