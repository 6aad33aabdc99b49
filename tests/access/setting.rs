//! A server with a policy and a static token for each of some callers.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use ring::digest::{SHA256, digest};
use sessiond::domain::permission::Right;
use tempfile::TempDir;

use crate::{
    calls::Client,
    cluster::database_of,
    harness::{Server, file_in, replace},
};

/// Runs a check on each store.
macro_rules! on_each_store {
    ($($check:ident)*) => {$(
        mod $check {
            use crate::setting::Setting;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn memory() {
                super::$check(Setting::in_memory()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                super::$check(Setting::on_sqlite()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                if crate::cluster::shared_server().is_some() {
                    super::$check(Setting::on_postgres()).await;
                }
            }
        }
    )*};
}
pub(crate) use on_each_store;

pub struct Setting {
    folder: TempDir,
    store: String,
}

impl Setting {
    pub fn in_memory() -> Self {
        Self { folder: TempDir::new().unwrap(), store: "memory:".into() }
    }

    pub fn on_sqlite() -> Self {
        let folder = TempDir::new().unwrap();
        Self { store: file_in(folder.path()), folder }
    }

    /// On a copy of the file of another, whose server has stopped.
    pub fn on_copy_of(other: &Self) -> Self {
        let copy = Self::on_sqlite();
        for file in fs::read_dir(other.folder()).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), copy.folder().join(file.file_name())).unwrap();
        }
        copy
    }

    pub fn on_postgres() -> Self {
        let folder = TempDir::new().unwrap();
        Self { store: database_of(folder.path()), folder }
    }

    pub fn is_on_postgres(&self) -> bool {
        self.store.starts_with("postgres")
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the policy, whole.
    pub fn set_policy(&self, policy: &str) {
        replace(&self.path("policy.toml"), policy);
    }

    /// Replaces the tokens by those of callers of these names.
    pub fn set_tokens(&self, names: &[&str]) {
        let entries: String = names.iter().copied().map(entry).collect();
        replace(&self.path("tokens.toml"), &entries);
    }

    /// Starts a server by the policy, without identities. Bare ids are looked up unless the flags say otherwise.
    pub fn start(&self, flags: &[&str]) -> Server {
        let policy = self.path("policy.toml").display().to_string();
        let own = ["--policy", &policy, "--require-full-keys=false"];
        let flags: Vec<_> = own.iter().chain(flags).copied().collect();
        Server::start_on(&self.store, &flags)
    }

    /// Starts a server that takes the tokens.
    pub fn start_with_tokens(&self, flags: &[&str]) -> Server {
        let tokens = self.path("tokens.toml").display().to_string();
        let own = ["--token-hashes", &tokens];
        let flags: Vec<_> = own.iter().chain(flags).copied().collect();
        self.start(&flags)
    }

    /// The same with no flag but those that the policy needs.
    pub fn start_by_default(&self) -> Server {
        let [policy, tokens] =
            ["policy.toml", "tokens.toml"].map(|name| self.path(name).display().to_string());
        Server::start_on(&self.store, &["--policy", &policy, "--token-hashes", &tokens])
    }

    /// Starts a server whose callers may do everything.
    pub fn start_open(&self) -> Server {
        Server::start_on(&self.store, &[])
    }
}

/// The static token of a name.
pub fn token(name: &str) -> String {
    format!("the-token-of-{name}")
}

fn entry(name: &str) -> String {
    let mut hash = String::new();
    for byte in digest(&SHA256, token(name).as_bytes()).as_ref() {
        write!(hash, "{byte:02x}").unwrap();
    }
    format!("[[token]]\nname = \"{name}\"\nsha256 = \"{hash}\"\n")
}

/// The caller with the static token of a name.
pub async fn caller(server: &Server, name: &str) -> Client {
    Client::new(server.channel().await).with_token(&token(name))
}

/// A rule of a policy; empty without rights.
pub fn rule(principal: &str, application: &str, users: &str, rights: &[Right]) -> String {
    if rights.is_empty() {
        return String::new();
    }
    let rights: Vec<_> = rights.iter().map(|right| right.as_str()).collect();
    format!(
        "[[rule]]\nprincipals = [\"{principal}\"]\napplications = [\"{application}\"]\n\
         users = {users}\nrights = {rights:?}\n"
    )
}
