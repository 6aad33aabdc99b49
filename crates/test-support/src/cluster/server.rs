//! A PostgreSQL server of a test's own, which ends with the test: started, stopped, killed, copied to a standby, promoted.

use std::{
    fs::{self, Permissions},
    hash::{BuildHasher as _, Hasher as _, RandomState},
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

use super::{shared_server, variable};

/// Ports below those that outgoing connections get, so that a server which is down keeps its port.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Tests run side by side, and a port can be taken between its choice and the start.
const ATTEMPTS: usize = 20;

/// Processes of a server that was killed end when they look for it, which they do not in the middle of a write to the disk. A start that
/// fails takes a tenth of a second, so these are a minute.
const RESTARTS: usize = 600;

/// How to stop a server.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    /// Ends its connections and writes a checkpoint.
    Fast,
    /// Exits at once, and recovers at the next start.
    Immediate,
}

/// A server on a port of its own, in a folder that goes with it.
pub struct Cluster {
    folder: TempDir,
    port: u16,
    settings: Vec<String>,
}

impl Cluster {
    /// Starts a new server with settings as `name=value`. `None`: there is no PostgreSQL, and a test that needs it is skipped.
    pub fn start(settings: &[&str]) -> Option<Self> {
        shared_server()?;
        let settings = settings.iter().map(|setting| (*setting).to_owned());
        let mut cluster = Self { folder: new_folder(), port: 0, settings: settings.collect() };
        run(program("initdb", cluster.folder.path())
            .arg("-D")
            .arg(cluster.data())
            .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"])
            .args(["--locale-provider=icu", "--icu-locale=en-US"]));
        cluster.start_on_free_port();
        Some(cluster)
    }

    /// Starts a server and a standby. Commits wait until they are on the disks of both.
    pub fn start_with_standby(settings: &[&str]) -> Option<(Self, Self)> {
        let settings = [settings, &["synchronous_standby_names=standby"]].concat();
        let primary = Self::start(&settings)?;
        let standby = primary.standby();
        Some((primary, standby))
    }

    /// Copies it to a standby, which its commits do not wait for.
    pub fn standby(&self) -> Self {
        let folder = new_folder();
        let socket = self.folder.path().display();
        let source =
            format!("host='{socket}' port={} user=postgres application_name=standby", self.port);
        let settings = ["wal_retrieve_retry_interval=100ms".to_owned()];
        let mut standby = Self { folder, port: 0, settings: settings.into() };
        run(program("pg_basebackup", standby.folder.path()).arg("-D").arg(standby.data()).args([
            "-d",
            &source,
            "-c",
            "fast",
            "-X",
            "stream",
            "-R",
            "--no-sync",
        ]));
        standby.start_on_free_port();
        standby
    }

    /// The URL of its first database, as a superuser.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// The same through its socket, which needs no TLS and no password.
    pub fn socket_url(&self) -> String {
        let folder = self.folder.path().to_string_lossy().replace('/', "%2F");
        format!("postgres://postgres@{folder}:{}/postgres", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Writes a file that the server can read, at a path in its folder.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::write(&path, text).unwrap();
        // It refuses keys that others can read.
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        give_to_owner(&path);
    }

    /// The folder of its files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn is_running(&self) -> bool {
        self.pg_ctl(&["status"]).output().unwrap().status.success()
    }

    /// Starts it again on the same port.
    pub fn start_again(&self) {
        // After a kill, processes of the old server may still be about to exit, and a new one refuses to start until then.
        let mut failures = (0..RESTARTS).map_while(|_| self.try_start().err());
        if let Some(failure) = failures.nth(RESTARTS - 1) {
            panic!("it did not start: {failure}");
        }
    }

    pub fn stop(&self, how: Stop) {
        let mode = match how {
            Stop::Fast => "fast",
            Stop::Immediate => "immediate",
        };
        run(&mut self.pg_ctl(&["stop", "-w", "-s", "-m", mode]));
    }

    /// Kills its main process, as the kernel does if memory runs out.
    pub fn kill(&self) {
        let pid_file = fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        let pid = pid_file.lines().next().and_then(|line| Pid::from_raw(line.parse().ok()?));
        kill_process(pid.expect("its first line is a process id"), Signal::KILL).unwrap();
        let mut connects = (0..100_000).map(|_| TcpStream::connect(("127.0.0.1", self.port)));
        assert!(connects.any(|connection| connection.is_err()), "it is still there");
    }

    /// Makes a standby a server that writes.
    pub fn promote(&self) {
        run(&mut self.pg_ctl(&["promote", "-w", "-s"]));
    }

    fn start_on_free_port(&mut self) {
        let failures: Vec<_> = (0..ATTEMPTS)
            .map_while(|_| {
                self.port = free_port();
                self.try_start().err()
            })
            .collect();
        assert!(failures.len() < ATTEMPTS, "it did not start: {}", failures.join("\n"));
    }

    /// Starts it and waits until it accepts connections. The error is what pg_ctl and its log say.
    fn try_start(&self) -> Result<(), String> {
        let log = self.folder.path().join("log");
        let mut options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories='{}'",
            self.port,
            self.folder.path().display()
        );
        for setting in &self.settings {
            options += &format!(" -c '{setting}'");
        }
        let mut start = self.pg_ctl(&["start", "-w", "-s", "-o", &options]);
        let started = start.arg("-l").arg(&log).output().unwrap();
        if started.status.success() {
            return Ok(());
        }
        let log = fs::read_to_string(&log).unwrap_or_default();
        Err(String::from_utf8_lossy(&started.stderr).into_owned() + &log)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn pg_ctl(&self, arguments: &[&str]) -> Command {
        let mut command = program("pg_ctl", self.folder.path());
        command.args(arguments).arg("-D").arg(self.data());
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Nothing to stop is no failure: the test may have ended it.
        let _ = self.pg_ctl(&["stop", "-w", "-s", "-m", "immediate"]).output();
    }
}

/// A folder of the user that servers run as.
fn new_folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("cluster").tempdir_in(home()).unwrap();
    give_to_owner(folder.path());
    folder
}

/// Gives a file to the user that servers run as.
fn give_to_owner(path: &Path) {
    let owner = fs::metadata(home()).unwrap();
    chown(path, Some(owner.uid()), Some(owner.gid())).unwrap();
}

fn home() -> PathBuf {
    variable("SESSIOND_TEST_POSTGRES_HOME").expect("tests/tools/postgres sets it").into()
}

/// A program of PostgreSQL, to run as the owner of the folder.
fn program(name: &str, folder: &Path) -> Command {
    let bin = variable("SESSIOND_TEST_POSTGRES_BIN").expect("tests/tools/postgres sets it");
    let owner = fs::metadata(folder).unwrap();
    let mut command = Command::new(Path::new(&bin).join(name));
    command.current_dir(folder).env_clear().env("HOME", folder);
    // PostgreSQL refuses to run as root.
    if geteuid().as_raw() != owner.uid() {
        command.uid(owner.uid()).gid(owner.gid());
    }
    command
}

fn free_port() -> u16 {
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let random = || RandomState::new().build_hasher().finish() % PORTS.len() as u64;
    let mut ports = std::iter::repeat_with(|| PORTS.start + random() as u16).take(1000);
    ports.find(free).expect("a port is free")
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&text));
}
