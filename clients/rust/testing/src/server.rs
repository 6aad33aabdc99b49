//! The real server on a free port or a Unix socket, with a temporary folder. Killed when the test ends.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failure here fails the calling test"
)]

use std::{
    env,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread::{self, JoinHandle},
};

use tempfile::TempDir;

use crate::client::TIMEOUT;

/// Names the program under test, if it is not the one that this checkout has built.
const PROGRAM: &str = "SESSIOND_TEST_PROGRAM";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    Memory,
    /// A file that outlives the process.
    Sqlite,
}

#[derive(Debug)]
pub struct Server {
    child: Child,
    address: String,
    arguments: Vec<String>,
    folder: TempDir,
    /// Collects its standard error until it exits.
    log: Option<JoinHandle<String>>,
}

impl Server {
    /// Starts a server on a free port.
    pub fn start(store: Store) -> Self {
        Self::start_with(store, &[])
    }

    pub fn start_with(store: Store, flags: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0".into(), store, flags, TempDir::new().unwrap())
    }

    /// Starts a server on a socket in its folder, so that a restart keeps the address.
    pub fn start_on_socket(store: Store) -> Self {
        let folder = TempDir::new().unwrap();
        let address = format!("unix:{}", folder.path().join("sessiond.sock").display());
        // As long as TIMEOUT, so that a slow machine does not fail the test.
        Self::start_at(address, store, &["--drain-timeout", "600"], folder)
    }

    fn start_at(listen: String, store: Store, flags: &[&str], folder: TempDir) -> Self {
        let store = match store {
            Store::Memory => "memory:".to_owned(),
            Store::Sqlite => format!("sqlite:{}", folder.path().join("test.db").display()),
        };
        let mut arguments: Vec<String> =
            ["serve", "--http-listen", "off", "--listen", &listen, "--store", &store]
                .map(Into::into)
                .into();
        arguments.extend(flags.iter().map(|&flag| flag.to_owned()));
        let (child, address, log) = run(&arguments);
        Self { child, address, arguments, folder, log: Some(log) }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// The bytes of the store's files, concatenated.
    pub fn stored_bytes(&self) -> Vec<u8> {
        let files = self.folder.path().read_dir().unwrap().map(|entry| entry.unwrap().path());
        let of_store = |path: &PathBuf| path.to_string_lossy().contains("test.db");
        files.filter(of_store).flat_map(|path| std::fs::read(path).unwrap()).collect()
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops it with SIGTERM and waits for a clean exit.
    pub fn stop(&mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
        let drained = self.child.wait().unwrap().success();
        let log = self.log.take().map(|log| log.join().unwrap());
        assert!(drained, "the server did not drain: {}", log.unwrap_or_default());
    }

    /// Restarts it at its address, which has to be a socket: a port may be taken by now.
    pub fn restart(&mut self) {
        let (child, address, log) = run(&self.arguments);
        self.child = child;
        self.address = address;
        self.log = Some(log);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if it has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the program and waits for its address.
fn run(arguments: &[String]) -> (Child, String, JoinHandle<String>) {
    let mut command = Command::new(program());
    for (name, _) in env::vars_os() {
        // Settings of a developer who also uses sessiond.
        if name.to_string_lossy().starts_with("SESSIOND_") {
            command.env_remove(name);
        }
    }
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|cause| panic!("{command:?}: {cause}"));
    let mut stderr = child.stderr.take().unwrap();
    let log = thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stderr.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel();
    // Keeps reading after the receiver is dropped, so that the pipe never blocks the server.
    thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let Ok(line) = lines.recv_timeout(TIMEOUT) else {
        let _ = child.kill();
        panic!("the server did not start: {}", log.join().unwrap());
    };
    let address = line.strip_prefix("sessiond listens on ").expect("where it listens");
    let address = address.split(' ').next().unwrap().to_owned();
    (child, address, log)
}

fn program() -> PathBuf {
    if let Some(program) = env::var_os(PROGRAM) {
        return program.into();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    // A relative target directory is relative to the root, where the server is built.
    let target =
        root.join(env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from));
    let built = ["release/sessiond", "debug/sessiond"].map(|program| target.join(program));
    let found = built.iter().find(|program| program.is_file());
    found.cloned().unwrap_or_else(|| {
        panic!(
            "No server to test, looked for {}. Run `cargo build` at the root of the checkout, or set {PROGRAM}.",
            built.map(|program| program.display().to_string()).join(" and ")
        )
    })
}
