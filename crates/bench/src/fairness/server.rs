//! A server of its own for each load, with two tenants that have a token each.

use std::{
    fs,
    io::{self, BufRead as _, BufReader},
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rusqlite::{Connection, OpenFlags};
use sessiond::cli::Failure;
use tempfile::TempDir;

use crate::memory;

/// Tokens: of the attacking tenant, of its caller that may read some users only, and of the tenant whose calls are measured.
pub const SHOP: &str = "shop-of-the-fairness-benchmark";
pub const READER: &str = "reader-of-the-fairness-benchmark";
pub const BANK: &str = "bank-of-the-fairness-benchmark";

/// Their hashes: the benchmark's server accepts them on loopback, for as long as a load lasts.
const HASHES: [(&str, &str); 3] = [
    ("shop", "3a856bc1332d03caada6963a15eea9353d76c9ae80fa56852d6a65122a6af4ed"),
    ("bank", "52a6ca79b63e8284e2c282c75af038bb39eb0405a23d80e514b85be316a19f94"),
    ("reader", "458afda003d4ed1a259bc92993753896c8e6e7b2e9e272517e71972976ba9de9"),
];

/// Users that the reader's rule names: as many as a rule may.
pub const NAMED_USERS: usize = 100;

/// Of a new store, in the server's folder.
const FILE: &str = "sessiond.db";

/// A running server. It is killed, and its files removed, when this is dropped.
pub struct Process {
    /// HOST:PORT of gRPC and of the admin listener.
    pub address: String,
    pub admin: String,
    folder: TempDir,
    child: Child,
}

impl Process {
    /// Starts `program`. The store `sqlite` is a new file; any other is the URL of an empty store.
    pub fn start(program: &Path, store: &str, flags: &[&str]) -> Result<Self, Failure> {
        let folder = tempfile::tempdir().map_err(failed("cannot make a folder"))?;
        write_identities(folder.path()).map_err(failed("cannot write the identities"))?;
        let file = format!("sqlite:{}", folder.path().join(FILE).display());
        let store = if store == "sqlite" { &file } else { store };
        let admin = free_address().map_err(failed("no free port"))?;
        let child = Command::new(program)
            .args(["serve", "--http-listen", "off", "--listen", "127.0.0.1:0", "--log", "error"])
            .args(["--admin-listen", &admin, "--store", store])
            .arg("--token-hashes")
            .arg(folder.path().join("tokens.toml"))
            .arg("--policy")
            .arg(folder.path().join("policy.toml"))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed(&format!("cannot start `{}`", program.display())))?;
        let mut process = Self { address: String::new(), admin, folder, child };
        let address = address_of(&mut process.child);
        process.address =
            address.ok_or_else(|| Failure::Failed("the server did not start".to_owned()))?;
        Ok(process)
    }

    /// A file with a token, for clients that read it from one.
    pub fn token_file(&self, token: &str) -> Result<PathBuf, Failure> {
        let path = self.folder.path().join(token);
        fs::write(&path, token).map_err(failed("cannot write a token"))?;
        Ok(path)
    }

    /// Resident bytes now.
    pub fn resident(&self) -> Option<u64> {
        self.status("VmRSS:")
    }

    /// The most resident bytes since [`Self::forget_peak`].
    pub fn peak(&self) -> Option<u64> {
        self.status("VmHWM:")
    }

    /// Without the right to do so, the peak is that since the start.
    pub fn forget_peak(&self) {
        let _ = fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5");
    }

    /// Tombstones in a file of SQLite: sessions that have gone, and whose rows the sweep has yet to remove.
    pub fn tombstones(&self) -> Option<u64> {
        let file = self.folder.path().join(FILE);
        let tables = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
        tables.query_row("SELECT count(*) FROM tombstone", [], |row| row.get(0)).ok()
    }

    fn status(&self, name: &str) -> Option<u64> {
        memory::in_status(
            &fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?,
            name,
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write_identities(folder: &Path) -> io::Result<()> {
    let tokens =
        HASHES.map(|(name, hash)| format!("[[token]]\nname = \"{name}\"\nsha256 = \"{hash}\"\n"));
    fs::write(folder.join("tokens.toml"), tokens.concat())?;
    let users: Vec<_> = (0..NAMED_USERS).map(|number| format!("\"user-{number}\"")).collect();
    let rule = |tenant: &str, application: &str, users: &str, rights: &str| {
        format!(
            "[[rule]]\nname = \"{tenant}\"\nprincipals = [\"token:{tenant}\"]\n\
             applications = [\"{application}-*\"]\nusers = {users}\nrights = [{rights}]\n"
        )
    };
    let all = "\"write\", \"write_app_state\"";
    let rules = [
        rule("shop", "shop", "\"*\"", all),
        rule("bank", "bank", "\"*\"", all),
        rule("reader", "shop", &format!("[{}]", users.join(", ")), "\"read\""),
    ];
    fs::write(folder.join("policy.toml"), rules.concat())
}

/// That of a port which was free a moment ago: unlike the main listener's, the admin listener's is not printed.
fn free_address() -> io::Result<String> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.to_string())
}

/// That of the line `sessiond listens on http://HOST:PORT and …`.
fn address_of(child: &mut Child) -> Option<String> {
    let mut line = String::new();
    BufReader::new(child.stdout.take()?).read_line(&mut line).ok()?;
    let (_, rest) = line.split_once(" listens on ")?;
    Some(rest.split(' ').next()?.trim_start_matches("http://").to_owned())
}

fn failed(what: &str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::Failed(format!("{what}: {error}"))
}
