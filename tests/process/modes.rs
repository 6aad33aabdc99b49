//! Modes of what a server makes, and what it says of files that other users may read or change.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::Command,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    certificates::Authority,
    harness::{Server, program, serve_on},
    jwt::{AUDIENCE, ISSUER, Issuer},
};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A command with the widest umask that there is.
fn open_handed(arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "umask 000; exec \"$0\" \"$@\"", program()]).args(arguments);
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_makes_is_its_owners_unless_the_flags_say_otherwise() {
    for (flags, file, socket) in
        [(&[][..], 0o600, 0o600), (&["--file-mode", "0640", "--socket-mode", "0660"], 0o640, 0o660)]
    {
        let folder = TempDir::new().unwrap();
        let path = |name| folder.path().join(name);
        let [calls, admin] =
            ["calls", "admin"].map(|name| format!("unix:{}", path(name).display()));
        let store = format!("sqlite:{}", path("test.db").display());
        let own = [
            "serve",
            "--http-listen",
            "off",
            "--listen",
            &calls,
            "--admin-listen",
            &admin,
            "--store",
            &store,
        ];
        let mut command = open_handed(&[&own, flags].concat());
        let server = Server::run(&mut command).unwrap_or_else(|ended| panic!("{}", ended.log));
        let session = ["session", "create", "--server", &calls, "--app", "a", "--user", "u"];
        let session = [&session[..], &["--state", "{\"app:a\":1}"]].concat();
        assert!(open_handed(&session).output().unwrap().status.success());
        for name in ["test.db", "test.db-wal", "test.db-shm", "test.db-lock", "test.db-reserve"] {
            assert_eq!(mode(&path(name)), file, "{name}");
        }
        for name in ["calls", "admin"] {
            assert_eq!(mode(&path(name)), socket, "{name}");
        }
        let exports = path("exports").display().to_string();
        let export = ["export", "--server", &calls, "--app", "a", "--out", &exports];
        let file_mode = &flags[..flags.len().min(2)];
        for more in [&[][..], &["--state-only"]] {
            let export = [&export, file_mode, more].concat();
            assert!(open_handed(&export).output().unwrap().status.success());
        }
        let exported: Vec<_> = fs::read_dir(path("exports")).unwrap().map(Result::unwrap).collect();
        assert_eq!(exported.len(), 2, "a session, and the state of its application");
        for export in exported {
            assert_eq!(mode(&export.path()), file);
        }
        let token = path("token").display().to_string();
        let new = [&["token", "new", "--out", &token], file_mode].concat();
        let new = || open_handed(&new).output().unwrap();
        assert!(new().status.success());
        assert_eq!(mode(&path("token")), file);
        let before = fs::read(path("token")).unwrap();
        let again = new();
        assert_eq!(again.status.code(), Some(1), "it replaces no token");
        assert_eq!(fs::read(path("token")).unwrap(), before);
        server.stop();
    }
}

#[test]
fn a_link_beside_the_database_is_refused_with_its_name() {
    let folder = TempDir::new().unwrap();
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let store = format!("sqlite:{}", folder.path().join("test.db").display());
    for suffix in ["-lock", "-reserve", "-wal", "-shm", "-journal"] {
        let link = folder.path().join(format!("test.db{suffix}"));
        symlink(&victim, &link).unwrap();
        let log = Server::run(&mut serve_on(&store)).err().expect("it does not start").log;
        let name = format!("test.db{suffix}' is a symbolic link");
        assert!(log.contains(&name), "{log}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert!(!folder.path().join("test.db").exists());
        fs::remove_file(link).unwrap();
    }
}

/// All files that a server takes, each in a folder of its own, with the flag that names it.
struct Guarded {
    folder: TempDir,
    flags: Vec<String>,
}

const SECRETS: [&str; 2] = ["--tls-key", "--token-hashes"];
const DECISIVE: [&str; 4] = ["--tls-cert", "--tls-client-ca", "--jwt-keys", "--policy"];

impl Guarded {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let authority = Authority::new(folder.path(), "authority");
        let (certificate, key) = authority.issue("localhost", &["localhost"]);
        let keys = folder.path().join("keys");
        Issuer::new().publish(&keys);
        let content = |flag| match flag {
            "--tls-key" => key.clone(),
            "--tls-cert" | "--tls-client-ca" => certificate.clone(),
            "--jwt-keys" => fs::read_to_string(&keys).unwrap(),
            _ => String::new(),
        };
        let mut flags: Vec<_> =
            ["--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE].map(str::to_owned).into();
        for flag in SECRETS.into_iter().chain(DECISIVE) {
            let file = folder.path().join(format!("of{flag}")).join("file");
            fs::create_dir(file.parent().unwrap()).unwrap();
            fs::write(&file, content(flag)).unwrap();
            set_mode(&file, 0o640);
            flags.extend([flag.to_owned(), file.display().to_string()]);
        }
        Self { folder, flags }
    }

    fn set_mode(&self, flag: &str, mode: u32) {
        set_mode(&self.folder.path().join(format!("of{flag}")).join("file"), mode);
    }

    /// The flags that a start warns of, with what others may do.
    fn warned(&self) -> Vec<(String, String)> {
        let flags: Vec<_> = self.flags.iter().map(String::as_str).collect();
        let mut command = serve_on("memory:");
        let server = Server::run(command.args(flags)).unwrap_or_else(|it| panic!("{}", it.log));
        let log = server.stop().log;
        let lines =
            log.lines().filter(|line| line.contains("WARN") && line.contains("other users may"));
        let warned = lines.map(|line| {
            let flag = line.split("flag=\"").nth(1).unwrap().split('"').next().unwrap();
            let may = line.split("other users may ").nth(1).unwrap().split(' ').next().unwrap();
            (flag.to_owned(), may.to_owned())
        });
        warned.collect()
    }

    /// The same, as a doctor finds it.
    fn found(&self) -> Vec<(String, String)> {
        let mut command = Command::new(program());
        command.args(["doctor", "--store", "memory:", "--server", "127.0.0.1:1", "-o", "json"]);
        let named =
            self.flags.chunks(2).filter(|it| !it[0].starts_with("--jwt-") || it[0] == "--jwt-keys");
        for pair in named {
            command.args([pair[0].replace("--tls-", "--server-tls-"), pair[1].clone()]);
        }
        let output = command.output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let lines = printed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let found = lines.filter(|it| it["check"] == "files" && it["result"] == "warning");
        let found = found.map(|it| {
            let detail = it["detail"].as_str().unwrap();
            let may = detail.split("other users may ").nth(1).unwrap().split(' ').next().unwrap();
            let flag = detail.split("/of").nth(1).unwrap().split('/').next().unwrap();
            (flag.to_owned(), may.to_owned())
        });
        found.collect()
    }
}

#[test]
fn a_file_that_others_may_read_or_change_is_warned_of_by_its_purpose() {
    let guarded = Guarded::new();
    assert_eq!((guarded.warned(), guarded.found()), (vec![], vec![]));
    for flag in SECRETS.into_iter().chain(DECISIVE) {
        for mode in [0o644, 0o646] {
            guarded.set_mode(flag, mode);
            let expected = match mode {
                0o646 => vec![(flag.to_owned(), "change".to_owned())],
                _ if SECRETS.contains(&flag) => vec![(flag.to_owned(), "read".to_owned())],
                _ => vec![],
            };
            assert_eq!(guarded.warned(), expected, "{flag} {mode:o}");
            assert_eq!(guarded.found(), expected, "{flag} {mode:o}");
        }
        guarded.set_mode(flag, 0o640);
    }
}
