//! The README's picture of `sessiond show` is what the program prints today.
//!
//! `SESSIOND_UPDATE_PICTURE=1 cargo test --test picture` makes it anew from a real run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and looks around where the program must not"
)]

use std::{
    env,
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sessiond");
const PICTURE: &str = "docs/show.svg";
const COMMAND: &str = "sessiond show --app demo --user alice --session rain-shoes";

const COLUMNS: usize = 80;
const CHAR_WIDTH: f64 = 8.43;
const LINE_HEIGHT: usize = 19;
const MARGIN: usize = 16;

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, which its test has noticed then.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The output of `show` for a session of the demo, with colours.
fn printed() -> String {
    let mut child = Command::new(PROGRAM)
        .args(["serve", "--listen", "127.0.0.1:0", "--store", "memory:"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let _server = Server(child);
    let address = line.split_whitespace().nth(3).expect("where it listens").to_owned();
    let run = |arguments: &[&str]| {
        let output = Command::new(PROGRAM)
            .args(arguments)
            .args(["--server", &address])
            .env("CLICOLOR_FORCE", "1")
            .env_remove("NO_COLOR")
            .env_remove("SESSIOND_OUTPUT")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    run(&["demo"]);
    let arguments: Vec<_> = COMMAND.split(' ').skip(1).collect();
    let text = run(&[&arguments[..], &["--width", &COLUMNS.to_string()]].concat());
    // The one time that depends on how long this took.
    let (before, rest) = text.split_once("created ").expect("a header");
    let (_, after) = rest.split_once(" · ").expect("more facts");
    format!("{before}created now · {after}")
}

/// The text as a picture: a line of text per line, a span per colour.
fn picture(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    let width = (COLUMNS as f64 * CHAR_WIDTH) as usize + 2 * MARGIN;
    let height = (lines.len() + 1) * LINE_HEIGHT + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"14\" fill=\"#d4d4d4\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1e1e1e\"/>\n"
    );
    let prompt = format!("$ {COMMAND}");
    for (at, line) in std::iter::once(prompt.as_str()).chain(lines).enumerate() {
        let y = MARGIN + (at + 1) * LINE_HEIGHT - 4;
        writeln!(
            svg,
            "<text x=\"{MARGIN}\" y=\"{y}\" xml:space=\"preserve\">{}</text>",
            spans(line)
        )
        .unwrap();
    }
    svg + "</svg>\n"
}

fn spans(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let mut spans = escaped(parts.next().unwrap_or_default());
    let (mut weight, mut fill) = (false, None);
    for part in parts {
        let (code, text) = part.split_once('m').expect("only colours");
        match code {
            "0" => (weight, fill) = (false, None),
            "1" => weight = true,
            "2" => fill = Some("#8a8a8a"),
            "31" => fill = Some("#f48771"),
            "32" => fill = Some("#89d185"),
            "33" => fill = Some("#e5c07b"),
            "36" => fill = Some("#4ec9e0"),
            other => panic!("no colour for {other}"),
        }
        if text.is_empty() {
            continue;
        }
        let bold = if weight { " font-weight=\"bold\"" } else { "" };
        let fill = fill.map(|fill| format!(" fill=\"{fill}\"")).unwrap_or_default();
        write!(spans, "<tspan{bold}{fill}>{}</tspan>", escaped(text)).unwrap();
    }
    spans
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[test]
fn the_picture_of_show_is_what_it_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PICTURE);
    let picture = picture(&printed());
    if env::var_os("SESSIOND_UPDATE_PICTURE").is_some() {
        fs::write(&path, &picture).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let update = "make it anew with SESSIOND_UPDATE_PICTURE=1 cargo test --test picture";
    assert_eq!(kept, picture, "{PICTURE} is old; {update}");
    let readme = include_str!("../README.md");
    assert!(readme.contains(&format!("]({PICTURE})")), "the README shows it");
}

#[test]
fn colours_become_spans() {
    assert_eq!(
        spans("a <\u{1b}[1m\u{1b}[36muser\u{1b}[0m b"),
        "a &lt;<tspan font-weight=\"bold\" fill=\"#4ec9e0\">user</tspan><tspan> b</tspan>"
    );
}
