//! Every `sslmode` against servers without TLS, with a certificate for their name, and with one for another name.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

use sessiond::{
    domain::token::StoreId,
    store::{
        Store,
        postgres::{self, PostgresOptions},
    },
};
use tempfile::TempDir;

use crate::{
    certificates::{Authority, Pair},
    cluster::{Cluster, Stop, query},
};

/// Starts the server again with a certificate, and with settings beyond.
async fn serve_with(cluster: &Cluster, certificate: &Pair, settings: &[&str]) {
    cluster.write("server.crt", &certificate.0);
    cluster.write("server.key", &certificate.1);
    let folder = cluster.folder().display();
    let files = [
        "ssl = on".to_owned(),
        format!("ssl_cert_file = '{folder}/server.crt'"),
        format!("ssl_key_file = '{folder}/server.key'"),
    ];
    for setting in files.iter().map(String::as_str).chain(settings.iter().copied()) {
        query(&cluster.socket_url(), &format!("ALTER SYSTEM SET {setting}")).await.unwrap();
    }
    cluster.stop(Stop::Fast);
    cluster.start_again();
}

/// Opens a store. `Ok` says whether its connections have TLS.
async fn connect(cluster: &Cluster, parameters: &str) -> Result<bool, String> {
    open(cluster, &format!("{}?{parameters}", cluster.url()), None).await
}

async fn open(cluster: &Cluster, url: &str, password_file: Option<&Path>) -> Result<bool, String> {
    // Connections of an earlier store may still be ending.
    static OPENED: AtomicU32 = AtomicU32::new(0);
    let name = format!("store{}", OPENED.fetch_add(1, Ordering::Relaxed));
    let url = format!("{url}&application_name={name}");
    let mut options = PostgresOptions::new(url, StoreId([7; 16]));
    options.settings.password_file = password_file.map(Path::to_owned);
    let store = postgres::open(options).await.map_err(|error| error.to_string())?;
    let store: &dyn Store = &store;
    // Connections are made when they are needed.
    store.sweep().await.unwrap();
    let sql = format!(
        "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
         WHERE application_name = '{name}'"
    );
    let answer = query(&cluster.socket_url(), &sql).await.unwrap().concat();
    store.close().await;
    assert!(["t", "f"].contains(&&*answer), "{answer}");
    Ok(answer == "t")
}

async fn assert_fails(cluster: &Cluster, parameters: &str, says: &str) {
    let error = connect(cluster, parameters).await.expect_err(parameters);
    assert!(error.contains(says), "{parameters}: {error}");
}

#[tokio::test]
async fn every_mode_takes_the_servers_that_it_may_trust() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let folder = TempDir::new().unwrap();
    let ours = Authority::new(folder.path(), "ours");
    let other = Authority::new(folder.path(), "other");
    let root = format!("sslrootcert={}", ours.file.display());
    let wrong_root = format!("sslrootcert={}", other.file.display());

    // Without a setting for TLS on the loopback address, or with TLS disabled.
    for parameters in ["", &format!("sslmode=disable&{root}")] {
        assert_eq!(connect(&cluster, parameters).await, Ok(false), "{parameters}");
    }
    for mode in ["require", "verify-ca", "verify-full"] {
        assert_fails(&cluster, &format!("sslmode={mode}&{root}"), "add sslmode=disable").await;
    }
    for mode in ["allow", "prefer"] {
        let known = "Use disable, require, verify-ca or verify-full.";
        assert_fails(&cluster, &format!("sslmode={mode}"), known).await;
    }

    serve_with(&cluster, &ours.issue("db", &["db.example", "127.0.0.1"]), &[]).await;
    assert_eq!(connect(&cluster, "sslmode=disable").await, Ok(false));
    assert_eq!(connect(&cluster, "sslmode=require").await, Ok(true));
    for mode in ["sslmode=require", "sslmode=verify-ca", "sslmode=verify-full", ""] {
        let parameters = format!("{mode}&{root}");
        assert_eq!(connect(&cluster, &parameters).await, Ok(true), "{parameters}");
    }
    for mode in ["sslmode=require", "sslmode=verify-ca", "sslmode=verify-full", ""] {
        assert_fails(&cluster, &format!("{mode}&{wrong_root}"), "UnknownIssuer").await;
    }
    for verified in ["sslmode=verify-full", "sslrootcert=system"] {
        assert_fails(&cluster, verified, "UnknownIssuer").await;
    }

    let older = ["ssl_max_protocol_version = 'TLSv1.2'"];
    serve_with(&cluster, &ours.issue("127.0.0.1", &["db.example"]), &older).await;
    for mode in ["require", "verify-ca"] {
        let parameters = format!("sslmode={mode}&{root}");
        assert_eq!(connect(&cluster, &parameters).await, Ok(true), "{parameters}");
    }
    assert_fails(&cluster, &format!("sslmode=verify-full&{root}"), "not valid for name").await;
    assert_fails(&cluster, &format!("sslmode=verify-ca&{wrong_root}"), "UnknownIssuer").await;
}

#[tokio::test]
async fn a_server_may_ask_for_a_certificate_or_refuse_tls() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let folder = TempDir::new().unwrap();
    let ours = Authority::new(folder.path(), "ours");
    cluster.write("ca.crt", &fs::read_to_string(&ours.file).unwrap());
    let authority = format!("ssl_ca_file = '{}/ca.crt'", cluster.folder().display());
    let rules =
        |tcp: &str| cluster.write("data/pg_hba.conf", &format!("local all all trust\n{tcp}\n"));
    rules("hostssl all all 127.0.0.1/32 cert");
    serve_with(&cluster, &ours.issue("db", &["127.0.0.1"]), &[&authority]).await;
    let identity = |name: &str| {
        let (certificate, key) = ours.issue(name, &[]);
        fs::write(folder.path().join("client.crt"), certificate).unwrap();
        fs::write(folder.path().join("client.key"), key).unwrap();
        let folder = folder.path().display();
        format!("sslmode=require&sslcert={folder}/client.crt&sslkey={folder}/client.key")
    };
    assert_eq!(connect(&cluster, &identity("postgres")).await, Ok(true));
    assert_fails(&cluster, &identity("somebody"), "certificate authentication failed").await;
    assert_fails(&cluster, "sslmode=require", "certificate").await;

    rules("hostnossl all all 127.0.0.1/32 trust");
    cluster.stop(Stop::Fast);
    cluster.start_again();
    assert_fails(&cluster, "sslmode=require", "no pg_hba.conf entry").await;
    assert_eq!(connect(&cluster, "sslmode=disable").await, Ok(false));
}

#[tokio::test]
async fn a_password_is_bound_to_the_channel_and_in_no_message() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    for sql in ["CREATE ROLE me LOGIN PASSWORD 'hidden'", "CREATE DATABASE mine OWNER me"] {
        query(&cluster.url(), sql).await.unwrap();
    }
    let folder = TempDir::new().unwrap();
    let ours = Authority::new(folder.path(), "ours");
    cluster.write("data/pg_hba.conf", "local all all trust\nhost all all all scram-sha-256\n");
    serve_with(&cluster, &ours.issue("db", &["127.0.0.1"]), &[]).await;

    let file = folder.path().join("password");
    let url = format!(
        "postgres://me@127.0.0.1:{}/mine?sslmode=require&channel_binding=require",
        cluster.port()
    );
    fs::write(&file, "hidden\n").unwrap();
    assert_eq!(open(&cluster, &url, Some(&file)).await, Ok(true));
    fs::write(&file, "mistaken\n").unwrap();
    let error = open(&cluster, &url, Some(&file)).await.unwrap_err();
    assert!(error.contains("password authentication failed"), "{error}");
    assert!(!error.contains("mistaken"), "{error}");
}
