//! A full disk: what it refuses, what goes on, and how it ends. The disk is a small file system in memory, in a mount namespace of its
//! own.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use sessiond::proto::v1::{DeleteSessionRequest, session_service_client::SessionServiceClient};
use tempfile::TempDir;
use tonic::{Code, Status, transport::Channel};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_types::StatusExt as _;

use crate::harness::{
    Server, append, create, event, key, list, program, read, reason, wait_for_health,
};

/// A file system of the given size in MiB, and the process that keeps it mounted.
struct SmallDisk {
    folder: TempDir,
    holder: Child,
}

impl SmallDisk {
    /// Mounts it. `None`, with the reason on standard error, where the machine does not let a test mount anything.
    fn mount(mebibytes: u32) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let script = format!(
            "mount -t tmpfs -o size={mebibytes}m tmpfs {} && echo mounted && exec sleep 600",
            folder.path().display()
        );
        let mut holder = Command::new("unshare")
            .args(["-rm", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.trim() == "mounted" {
            return Some(Self { folder, holder });
        }
        holder.wait().unwrap();
        let why = b"skipped: this machine does not allow mounts in a user namespace\n";
        io::stderr().write_all(why).unwrap();
        None
    }

    /// Starts a server whose database is on it.
    fn start(&self) -> Server {
        let holder = self.holder.id().to_string();
        let store = format!("sqlite:{}", self.folder.path().join("test.db").display());
        let enter = ["-U", "-m", "-t", &holder, program()];
        let serve = ["serve", "--http-listen", "off", "--listen", "127.0.0.1:0", "--store", &store];
        let mut command = Command::new("nsenter");
        command.args(enter).args(serve).env_remove("SESSIOND_SERVER");
        Server::run(&mut command).unwrap_or_else(|ended| panic!("{}", ended.log))
    }

    /// A file on it, seen from outside.
    fn path(&self, name: &str) -> PathBuf {
        let folder = self.folder.path().strip_prefix("/").unwrap();
        PathBuf::from(format!("/proc/{}/root", self.holder.id())).join(folder).join(name)
    }

    /// Fills what is left of it with a file.
    fn fill(&self) {
        let mut filler = File::create(self.path("filler")).unwrap();
        for size in [65536, 4096] {
            while filler.write_all(&vec![1; size]).is_ok() {}
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn body() -> String {
    format!("{{\"padding\":\"{}\"}}", "x".repeat(200_000))
}

/// Appends events of 200 kB until one is refused. The number of those that were acknowledged, and the refusal.
async fn fill_session(channel: &Channel, session: &str) -> (usize, Status) {
    for number in 1..1000 {
        let event = event(&format!("event-{number}"), "{}", &body());
        if let Err(status) = append(channel, session, event).await {
            return (number - 1, status);
        }
    }
    panic!("the disk did not become full")
}

fn assert_full(status: &Status) {
    assert_eq!(
        (status.code(), &*reason(status)),
        (Code::ResourceExhausted, "DISK_FULL"),
        "{status}"
    );
    let details = status.get_error_details();
    assert!(details.retry_info().unwrap().retry_delay.is_some());
    assert_eq!(details.error_info().unwrap().metadata["retryable"], "yes");
}

async fn delete(channel: &Channel, session: &str) {
    let request = DeleteSessionRequest { key: Some(key(session)), ..Default::default() };
    SessionServiceClient::new(channel.clone()).delete_session(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_named_and_told_once_while_reads_and_deletions_go_on() {
    let Some(disk) = SmallDisk::mount(40) else { return };
    let server = disk.start();
    let channel = server.channel().await;
    create(&channel, "kept", "{}").await;
    create(&channel, "deleted", "{}").await;
    append(&channel, "deleted", event("one", "{}", &body())).await.unwrap();
    append(&channel, "kept", event("one", "{}", "{}")).await.unwrap();
    assert_eq!(disk.path("test.db-reserve").metadata().unwrap().len(), 16 << 20);
    disk.fill();
    let (acknowledged, status) = fill_session(&channel, "kept").await;
    assert_full(&status);
    wait_for_health(&channel, "sessiond.writes", ServingStatus::NotServing).await;
    for service in ["", "sessiond.v1.EventService"] {
        wait_for_health(&channel, service, ServingStatus::Serving).await;
    }
    for number in 0..300 {
        let event = event(&format!("refused-{number}"), "{}", "{}");
        assert_full(&append(&channel, "kept", event).await.unwrap_err());
    }
    assert_eq!(read(&channel, "kept").await.events.len(), acknowledged + 1);
    assert_eq!(list(&channel).await, ["deleted", "kept"], "as they were last used");
    // The reserve is kept for deletions.
    assert!(disk.path("test.db-reserve").exists());
    delete(&channel, "deleted").await;
    assert!(!disk.path("test.db-reserve").exists());
    // Space that is freed from outside is found without a write.
    fs::remove_file(disk.path("filler")).unwrap();
    wait_for_health(&channel, "sessiond.writes", ServingStatus::Serving).await;
    assert!(disk.path("test.db-reserve").exists());
    let id = format!("event-{}", acknowledged + 1);
    let answer = append(&channel, "kept", event(&id, "{}", &body())).await.unwrap();
    assert!(!answer.replayed, "it was refused as certainly not applied");
    drop(channel);
    let log = server.stop().log;
    let told = log.matches("the disk is full").count();
    assert!((1..=3).contains(&told), "once a minute, and the test takes seconds: {log}");
    assert_eq!(log.matches("ERROR").count(), told, "nothing else is an error: {log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletions_free_a_full_disk_also_after_a_restart() {
    let Some(disk) = SmallDisk::mount(48) else { return };
    let server = disk.start();
    let channel = server.channel().await;
    for session in ["a", "b"] {
        create(&channel, session, "{}").await;
        for number in 1..20 {
            append(&channel, session, event(&format!("{number}"), "{}", &body())).await.unwrap();
        }
    }
    create(&channel, "c", "{}").await;
    let (acknowledged, status) = fill_session(&channel, "c").await;
    assert_full(&status);
    drop(channel);
    server.kill();

    // There is less space than before: opening the database takes some.
    fs::remove_file(disk.path("test.db-shm")).unwrap();
    disk.fill();
    let server = disk.start();
    let channel = server.channel().await;
    assert_eq!(read(&channel, "a").await.events.len(), 19);
    let event = || event("more", "{}", &body());
    assert_full(&append(&channel, "a", event()).await.unwrap_err());
    assert!(!disk.path("test.db-reserve").exists());
    fs::remove_file(disk.path("filler")).unwrap();
    for session in ["b", "c"] {
        delete(&channel, session).await;
    }
    assert!(acknowledged > 0);
    wait_for_health(&channel, "sessiond.writes", ServingStatus::Serving).await;
    append(&channel, "a", event()).await.unwrap();
    assert_eq!(read(&channel, "a").await.events.len(), 20);
    drop(channel);
    assert!(server.stop().status.success());
}
