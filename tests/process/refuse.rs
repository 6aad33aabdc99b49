//! What must not start, and says why in one sentence.

use std::{net::TcpListener, process::Command};

use tempfile::TempDir;

use crate::harness::{Ended, Server, append, create, event, program, read, serve, serve_on};

/// Runs a command that must not become a server; its sentence.
fn refused(command: &mut Command) -> String {
    match Server::run(command) {
        Ok(server) => {
            let address = server.address().to_owned();
            server.kill();
            panic!("it serves on {address}");
        }
        Err(Ended { status, log }) => {
            assert_eq!(status.code(), Some(1), "{log}");
            let sentences: Vec<_> =
                log.lines().filter_map(|line| line.strip_prefix("sessiond: ")).collect();
            assert_eq!(sentences.len(), 1, "one sentence: {log}");
            sentences[0].to_owned()
        }
    }
}

#[test]
fn a_port_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = TempDir::new().unwrap();
    for flag in ["--listen", "--admin-listen"] {
        let sentence = refused(serve(folder.path()).args([flag, &address]));
        assert!(sentence.contains(&address) && sentence.contains("in use"), "{sentence}");
        assert!(sentence.contains(&format!(" {flag} ")), "{sentence}");
    }
    assert!(!folder.path().join("test.db").exists(), "a refused start makes no file");
}

#[test]
fn what_is_wrong_is_json_if_the_log_is() {
    let folder = TempDir::new().unwrap();
    let store = format!("sqlite:{}", folder.path().join("missing/test.db").display());
    let arguments = ["--store", &store, "--log-format", "json"];
    let Err(ended) = Server::run(serve(folder.path()).args(arguments)) else { panic!("it serves") };
    assert_eq!(ended.status.code(), Some(1));
    let last: serde_json::Value = serde_json::from_str(ended.log.lines().last().unwrap()).unwrap();
    assert_eq!(last["level"], "ERROR");
    assert!(last["message"].as_str().unwrap().contains("missing"), "{last}");
}

#[test]
fn a_store_with_a_mistyped_scheme_is_named_without_its_password() {
    let sentence = refused(&mut serve_on("postgre://h/d?user=me&password=secret"));
    assert!(sentence.contains("'postgre:…'") && sentence.contains("postgres://"), "{sentence}");
    assert!(!sentence.contains("secret"), "{sentence}");
}

#[test]
fn an_address_beyond_loopback() {
    let folder = TempDir::new().unwrap();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let sentence = refused(serve(folder.path()).args(["--listen", address]));
        assert!(sentence.contains("--insecure"), "{sentence}");
    }
    assert!(!folder.path().join("test.db").exists());
}

#[test]
fn an_address_or_a_store_that_is_none() {
    let folder = TempDir::new().unwrap();
    let sentence = refused(serve(folder.path()).args(["--listen", "host.invalid:1"]));
    assert!(sentence.contains("host.invalid"), "{sentence}");
    let sentence = refused(serve(folder.path()).args(["--store", "mysql://localhost/x"]));
    assert!(sentence.contains("sqlite:") && sentence.contains("memory:"), "{sentence}");
    let usage = Command::new(program()).args(["serve", "--listen", "nonsense"]).output().unwrap();
    assert_eq!(usage.status.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_process_on_the_same_file() {
    let folder = TempDir::new().unwrap();
    let first = Server::start(folder.path());
    let channel = first.channel().await;
    create(&channel, "s", "{}").await;
    let sentence = refused(&mut serve(folder.path()));
    assert!(sentence.contains("in use by"), "{sentence}");
    // By another name of the same file as well.
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(folder.path().join("test.db"), &link).unwrap();
    let store = format!("sqlite:{}", link.display());
    let sentence = refused(serve(folder.path()).args(["--store", &store]));
    assert!(sentence.contains("in use by"), "{sentence}");
    // The first one is not affected, and the file is free after its end.
    append(&channel, "s", event("one", "{}", "{}")).await.unwrap();
    drop(channel);
    first.kill();
    let second = Server::start(folder.path());
    assert_eq!(read(&second.channel().await, "s").await.events.len(), 1);
    assert!(second.stop().status.success());
}
