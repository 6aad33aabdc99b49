//! A server with the commands that talk to it.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Server, program};

/// A server with the commands that talk to it.
pub struct Shell {
    folder: TempDir,
    server: Server,
}

impl Shell {
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// With more arguments of the server.
    pub fn with(arguments: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let server = Server::start_with(folder.path(), arguments);
        Self { folder, server }
    }

    /// On a socket in its folder, which nobody else takes while the server is away.
    pub fn on_socket() -> Self {
        let folder = TempDir::new().unwrap();
        let listen = format!("unix:{}", folder.path().join("s").display());
        let server = Server::start_with(folder.path(), &["--listen", &listen]);
        Self { folder, server }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The server's address.
    pub fn address(&self) -> &str {
        self.server.address()
    }

    /// A command that is not yet running.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(arguments)
            .env("SESSIOND_SERVER", self.server.address())
            .env_remove("SESSIOND_APP")
            .env_remove("SESSIOND_USER")
            .env_remove("SESSIOND_OUTPUT")
            .current_dir(self.folder.path());
        command
    }

    pub fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Stops the server, and starts it again on the same address and file.
    pub fn restart(self) -> Self {
        let Self { folder, server } = self;
        let address = server.address().to_owned();
        assert!(server.stop().status.success());
        let server = Server::start_with(folder.path(), &["--listen", &address]);
        Self { folder, server }
    }

    /// Runs a command that succeeds. Returns the lines that it prints.
    pub fn run(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.output(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}\n{errors}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Runs a command that fails. Returns its exit code and its errors.
    pub fn fails(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.output(arguments);
        assert!(output.stdout.is_empty(), "{arguments:?} prints an answer");
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// Stops the server. Its files go with the folder.
    pub fn stop(self) -> TempDir {
        assert!(self.server.stop().status.success());
        self.folder
    }
}

pub const SESSION: [&str; 6] = ["--app", "my_app", "--user", "alice", "--session", "s1"];

pub fn with<'a>(command: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [command, &SESSION[..], more].concat()
}
