//! README.md and the pages of docs/, executed: the tutorial answers what it shows, and the command lines work.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;
use sessiond_test_support::{is_ci, pty::Terminal};
use tempfile::TempDir;

const README: &str = include_str!("../../README.md");
const TUTORIAL: &str = include_str!("../../docs/tutorial.md");
const ACCESS: &str = include_str!("../../docs/access.md");
const CLI: &str = include_str!("../../docs/cli.md");
const CONFIGURATION: &str = include_str!("../../docs/configuration.md");
const GUIDE: &str = include_str!("../../docs/guide.md");
const PROGRAM: &str = env!("CARGO_BIN_EXE_sessiond");

/// A server that ends with its test.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(folder: &Path) -> Self {
        Self::start_on("127.0.0.1:0", folder)
    }

    fn start_on(listen: &str, folder: &Path) -> Self {
        Self::start_with(folder, &["--listen", listen])
    }

    fn start_with(folder: &Path, arguments: &[&str]) -> Self {
        let store = format!("sqlite:{}", folder.join("readme.db").display());
        let mut child = Command::new(PROGRAM)
            .args(["serve", "--http-listen", "off", "--store", &store])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        let address = line.strip_prefix("sessiond listens on ").expect("where it listens");
        let address = address.split(' ').next().unwrap().to_owned();
        Self { child, address }
    }
}

/// Runs each command that a server on a terminal shows.
fn the_commands_to_try_work(folder: &Path, arguments: &[&str]) {
    let Some(grpcurl) = grpcurl() else { return };
    let store = format!("sqlite:{}", folder.join("try.db").display());
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--http-listen", "off", "--store", &store]).args(arguments);
    let mut terminal = Terminal::run(&mut command, 400);
    terminal.wait_for("/CreateSession\n");
    let program = Path::new(PROGRAM).parent().unwrap();
    let shown = terminal.text();
    let lines = shown.lines().skip_while(|line| !line.starts_with("Try these")).skip(1);
    let commands: Vec<_> = lines.take(3).collect();
    for command in &commands {
        let output = sh(command, folder, &[&grpcurl, program], "");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}\n{errors}");
    }
    assert!(commands[2].starts_with("grpcurl"), "{shown}");
    terminal.stop();
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, which its test has noticed then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The fenced blocks of a page: their language and their text.
fn blocks(page: &'static str) -> Vec<(&'static str, &'static str)> {
    page.split("\n```")
        .skip(1)
        .step_by(2)
        .map(|block| block.split_once('\n').expect("a block has lines"))
        .collect()
}

/// The first block of a page that contains a text.
fn block(page: &'static str, text: &str) -> &'static str {
    let found = blocks(page).into_iter().find(|(_, block)| block.contains(text));
    found.unwrap_or_else(|| panic!("no block contains {text}")).1
}

/// The folder of grpcurl: named by the environment, or of the tools that `tests/run` installs. `None`: the test is skipped, which CI
/// forbids.
fn grpcurl() -> Option<PathBuf> {
    let named = env::var_os("GRPCURL").map(PathBuf::from);
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join(".tools/bin/grpcurl");
    let found = named.into_iter().chain([installed]).find(|path| path.is_file());
    assert!(found.is_some() || !is_ci(), "no grpcurl. Run tests/tools/install grpcurl.");
    found.map(|program| program.parent().expect("a file is in a folder").to_owned())
}

fn sh(script: &str, folder: &Path, tools: &[&Path], server: &str) -> Output {
    let path = env::var_os("PATH").unwrap_or_default();
    let own = tools.iter().map(|tool| tool.to_path_buf());
    let path = env::join_paths(own.chain(env::split_paths(&path))).unwrap();
    Command::new("sh")
        .args(["-ec", script])
        .current_dir(folder)
        .env("PATH", path)
        .env("SESSIOND_SERVER", server)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Whether `found` is what the tutorial shows; `"…"` stands for anything.
fn same(shown: &Value, found: &Value) -> bool {
    match (shown, found) {
        (Value::String(text), _) if text == "…" => true,
        (Value::Object(shown), Value::Object(found)) => {
            shown.len() == found.len()
                && shown
                    .iter()
                    .all(|(key, value)| found.get(key).is_some_and(|other| same(value, other)))
        }
        (Value::Array(shown), Value::Array(found)) => {
            shown.len() == found.len() && shown.iter().zip(found).all(|(a, b)| same(a, b))
        }
        (shown, found) => shown == found,
    }
}

#[test]
fn the_commands_to_try_work_wherever_the_server_listens() {
    let folder = TempDir::new().unwrap();
    let socket = format!("unix:{}", folder.path().join("sessiond.sock").display());
    the_commands_to_try_work(folder.path(), &["--listen", "127.0.0.1:0"]);
    the_commands_to_try_work(folder.path(), &["--listen", &socket]);
    the_commands_to_try_work(folder.path(), &["--listen", "0.0.0.0:0", "--insecure"]);
}

#[test]
fn the_commands_with_tls_work() {
    let Some(grpcurl) = grpcurl() else { return };
    let folder = TempDir::new().unwrap();
    let made = sh(block(ACCESS, "openssl req"), folder.path(), &[], "");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let path = |name| folder.path().join(name).display().to_string();
    let [certificate, key] = ["server.pem", "server.key"].map(path);
    let authorities = path("ca.pem");
    let encrypted = ["--listen", "127.0.0.1:0", "--tls-cert", &certificate, "--tls-key", &key];
    let program = Path::new(PROGRAM).parent().unwrap();
    let run = |script: &str| {
        let output = sh(script, folder.path(), &[&grpcurl, program], "");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{errors}");
    };
    the_commands_to_try_work(folder.path(), &encrypted);
    let mutual = [&encrypted[..], &["--tls-client-ca", &authorities]].concat();
    the_commands_to_try_work(folder.path(), &mutual);
    let everywhere = [&["--listen", "0.0.0.0:0"], &mutual[2..]].concat();
    the_commands_to_try_work(folder.path(), &everywhere);

    let server = Server::start_with(folder.path(), &mutual);
    let address = server.address.strip_prefix("https://").unwrap();
    let calls = block(ACCESS, "-cacert");
    run(&calls.replace("127.0.0.1:50051", address));
    // Without its certificate the same commands are refused.
    let without = calls.replace(" -cert agent.pem -key agent.key", "");
    let first = without.lines().next().unwrap().replace("127.0.0.1:50051", address);
    assert!(!sh(&first, folder.path(), &[&grpcurl], "").status.success());
}

#[test]
fn the_commands_with_tokens_work() {
    let Some(grpcurl) = grpcurl() else { return };
    let folder = TempDir::new().unwrap();
    let program = Path::new(PROGRAM).parent().unwrap();
    let run = |script: &str| sh(script, folder.path(), &[&grpcurl, program], "");
    let works = |script: &str| {
        let output = run(script);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{errors}");
    };
    works(block(ACCESS, "sessiond token new"));
    works("ls -l ci.token | grep -q ^-rw-------");
    let entries = folder.path().join("tokens.toml");
    let shown = fs::read_to_string(&entries).unwrap() + block(ACCESS, "[[token]]");
    fs::write(&entries, shown).unwrap();
    let entries = entries.display().to_string();
    let tokens = ["--listen", "127.0.0.1:0", "--token-hashes", &entries];
    let server = Server::start_with(folder.path(), &tokens);
    let calls = block(ACCESS, "-H").replace("127.0.0.1:50051", &server.address);
    works(&calls);
    the_commands_to_try_work(folder.path(), &tokens);
    // Without its token each of the same commands is refused.
    for line in calls.lines() {
        let line = line.replace(" --token-file ci.token", "");
        let line = line.replace("-H \"authorization: Bearer $(cat ci.token)\"", "");
        let output = run(&line);
        let errors = String::from_utf8_lossy(&output.stderr);
        // The command names the reason; grpcurl is refused by reflection, and shows the message.
        let is_named =
            errors.contains("CREDENTIAL_MISSING") || errors.contains("The call has no credential");
        assert!(!output.status.success() && is_named, "{errors}");
    }
}

#[test]
fn the_commands_with_a_policy_work_and_keep_tenants_apart() {
    let Some(grpcurl) = grpcurl() else { return };
    let folder = TempDir::new().unwrap();
    let program = Path::new(PROGRAM).parent().unwrap();
    let run = |script: &str| {
        let output = sh(script, folder.path(), &[&grpcurl, program], "");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let path = |name| folder.path().join(name).display().to_string();
    fs::write(path("policy.toml"), block(ACCESS, "[[rule]]")).unwrap();
    for script in ["sessiond policy check", "--out shop.token"].map(|text| block(ACCESS, text)) {
        assert_eq!(run(script), (true, String::new()), "{script}");
    }
    let [tokens, policy] = ["tokens.toml", "policy.toml"].map(path);
    let flags = ["--listen", "127.0.0.1:0", "--token-hashes", &tokens, "--policy", &policy];
    let server = Server::start_with(folder.path(), &flags);
    let calls =
        block(ACCESS, "--token-file shop.token").replace("127.0.0.1:50051", &server.address);
    let calls: Vec<_> = calls.lines().collect();
    assert_eq!(calls.len(), 4, "two for each tenant");
    for call in &calls {
        assert_eq!(run(call), (true, String::new()), "{call}");
    }
    for call in calls {
        let swapped = call.replace("shop.token", "SHOP").replace("bank.token", "shop.token");
        let (succeeds, errors) = run(&swapped.replace("SHOP", "bank.token"));
        assert!(!succeeds && errors.contains("PERMISSION_DENIED"), "{call}: {errors}");
    }
}

#[test]
fn the_tutorial_answers_what_it_shows() {
    let Some(grpcurl) = grpcurl() else { return };
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let blocks = blocks(TUTORIAL);
    let mut executed = 0;
    for pair in blocks.windows(2) {
        let [("sh", script), ("json", shown)] = pair else { continue };
        let script = script.replace("127.0.0.1:50051", &server.address);
        let output = sh(&script, folder.path(), &[&grpcurl], &server.address);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{errors}");
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let shown: Value = serde_json::from_str(shown).unwrap();
        assert!(same(&shown, &found), "{script}\nshown: {shown:#}\nfound: {found:#}");
        executed += 1;
    }
    assert_eq!(executed, 5, "it has five calls");
    // The details of an error can be read, not only its message.
    let request = r#"{"app_name": "my_app"}"#;
    let call = "sessiond.v1.SessionService/CreateSession";
    let script = format!("grpcurl -plaintext -d '{request}' {} {call}", server.address);
    let output = sh(&script, folder.path(), &[&grpcurl], &server.address);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains(r#""reason": "MISSING_FIELD""#), "{errors}");
    assert!(errors.contains(r#""field": "user_id""#), "{errors}");
    // The second time the append is a replay, as the text says.
    let append = block(TUTORIAL, "EventService/AppendEvent");
    let script = append.replace("127.0.0.1:50051", &server.address);
    let output = sh(&script, folder.path(), &[&grpcurl], &server.address);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["replayed"], Value::Bool(true));
    // The client goes on with the same session.
    let programs = Path::new(PROGRAM).parent().unwrap();
    let client = block(TUTORIAL, "sessiond session get");
    let output = sh(client, folder.path(), &[programs], &server.address);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("And tomorrow?"));
    for line in ["list", "describe sessiond.v1.EventService"] {
        assert!(TUTORIAL.contains(line));
        let script = format!("grpcurl -plaintext {} {line}", server.address);
        let output = sh(&script, folder.path(), &[&grpcurl], &server.address);
        assert!(String::from_utf8_lossy(&output.stdout).contains("sessiond.v1.EventService"));
    }
}

#[test]
fn the_command_lines_work_in_their_order() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let file = r#"{"id":"from-adk","events":[{"id":"1","author":"user","timestamp":1733043686.5}],"state":{"a":1}}"#;
    fs::write(folder.path().join("one.session.json"), file).unwrap();
    let programs = Path::new(PROGRAM).parent().unwrap();
    for line in block(CLI, "sessiond session create").lines() {
        if line.starts_with("sessiond watch") {
            // Goes on until it is ended: its first lines are enough.
            let script = format!("{line} | head -n 2");
            let output = sh(&script, folder.path(), &[programs], &server.address);
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("snapshot") && text.contains("cursor"), "{text}");
            continue;
        }
        // The benchmark measures for a minute; that it works is tested where the time can be given.
        let line = line.split(" && sessiond bench").next().unwrap();
        let output = sh(line, folder.path(), &[programs], &server.address);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}\n{errors}");
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let _: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
        }
    }
    let written = fs::read_dir(folder.path().join("backup")).unwrap().count();
    assert_eq!(written, 2, "one file for each session");
}

#[test]
fn what_is_for_people_works_in_its_order() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let programs = Path::new(PROGRAM).parent().unwrap();
    let run = |script: &str, shown: &str| {
        let output = sh(script, folder.path(), &[programs], &server.address);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{errors}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(shown), "{script}\n{text}");
    };
    // The README expects the program in the folder of a release build.
    run(block(README, "sessiond demo"), "Shoes for the rain");
    let shown = block(README, "State from #3 to #7");
    run(block(README, "--diff 3..7"), shown);
    run(block(CLI, "sessiond demo"), shown);
    let session =
        "sessiond session create --app my_app --user alice --session s1 --set app:theme='\"dark\"'";
    run(session, "");
    run(block(GUIDE, "sessiond session update"), "");
    run(block(GUIDE, "sessiond state history"), "");
    run(block(GUIDE, "sessiond export"), "\"shared_keys_kept\":");
    run(block(GUIDE, "sessiond session delete"), "");
}

#[test]
fn the_page_of_flags_has_those_of_serve() {
    let output = Command::new(PROGRAM).args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let words = help.split_whitespace().filter(|word| word.starts_with("--"));
    let flags: Vec<_> = words.filter(|word| !matches!(*word, "--help" | "--version")).collect();
    for flag in &flags {
        assert!(CONFIGURATION.contains(&format!("`{flag}`")), "{flag} is not in the page");
    }
    let rows =
        CONFIGURATION.lines().filter_map(|line| line.strip_prefix("| `--")?.split(" |").next());
    let listed: Vec<_> = rows.flat_map(|names| names.split("`, `--")).collect();
    for name in &listed {
        let flag = format!("--{}", name.trim_end_matches('`'));
        assert!(flags.contains(&flag.as_str()), "`serve` has no {flag}");
    }
    assert!(listed.len() >= 10, "the tables were found: {listed:?}");
}
