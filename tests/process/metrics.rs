//! Metrics as a server shows them: their names, types and labels are those of docs/metrics.md, and what happens is counted.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use sessiond::{
    domain::error::Reason,
    proto::v1::{
        AppendEventRequest, Precondition, Scope, SessionKey, WatchRequest,
        event_service_client::EventServiceClient, watch_service_client::WatchServiceClient,
    },
};
use tempfile::TempDir;
use tonic::transport::Channel;

use crate::{
    admin::send,
    certificates::Authority,
    cluster::{Database, shared_server},
    harness::{Server, append, create, event, file_in, key, reason},
};

const DOCUMENT: &str = include_str!("../../docs/metrics.md");

/// Metrics of every server.
const COMMON: [&str; 5] =
    ["Calls", "Writes", "Reads and the store", "Watches and `temp:` state", "The server"];

/// Type and labels.
type Metrics<'t> = BTreeMap<&'t str, (&'t str, BTreeSet<&'t str>)>;

/// The rows of some sections of the document.
fn documented(sections: &[&str]) -> Metrics<'static> {
    let mut metrics = Metrics::new();
    for title in sections {
        let section = DOCUMENT.split("\n## ").find(|text| text.starts_with(title)).unwrap();
        for row in section.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [name, kind, labels, _] = cells[..] else { panic!("{row}") };
            let labels = labels.split(", ").filter(|label| !label.is_empty());
            let labels = labels.map(|label| label.trim_matches('`')).collect();
            metrics.insert(name.trim_matches('`'), (kind, labels));
        }
    }
    metrics
}

/// The metrics of a text. A bound of a histogram is no label of the metric.
fn served(text: &str) -> Metrics<'_> {
    let mut metrics = Metrics::new();
    let mut current = "";
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|it| it.split_once(' ')) {
            metrics.insert(name, (kind, BTreeSet::new()));
            current = name;
        } else if let Some((name, rest)) = line.split_once('{').filter(|_| !line.starts_with('#')) {
            assert!(name.starts_with(current), "{line}");
            let pairs = rest.rsplit_once('}').unwrap().0.split("\",");
            let labels = pairs.map(|pair| pair.split('=').next().unwrap());
            metrics.get_mut(current).unwrap().1.extend(labels.filter(|label| *label != "le"));
        }
    }
    metrics
}

/// The value of a sample.
fn value(text: &str, sample: &str) -> f64 {
    let found = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {sample}")).parse().unwrap()
}

fn scrape(socket: &Path) -> String {
    let (status, text) = send(socket, "GET", "/metrics");
    assert_eq!(status, 200, "{text}");
    text
}

fn admin(folder: &TempDir) -> (PathBuf, [String; 4]) {
    let socket = folder.path().join("admin.sock");
    let listen = format!("unix:{}", socket.display());
    (socket, ["--admin-listen".into(), listen, "--metrics-applications".into(), "3".into()])
}

/// Makes calls that end well and others, and looks for each of them.
async fn every_call_is_counted(channel: &Channel, socket: &Path) {
    create(channel, "s", "{}").await;
    for _ in 0..2 {
        append(channel, "s", event("e", "{}", "{}")).await.unwrap();
    }
    let reused = append(channel, "s", event("e", "{}", r#"{"other":1}"#)).await.unwrap_err();
    assert_eq!(reason(&reused), Reason::EventIdReused.as_str());
    append(channel, "absent", event("e", "{}", "{}")).await.unwrap_err();
    let conflict = AppendEventRequest {
        key: Some(key("s")),
        event: Some(event("f", "{}", "{}")),
        precondition: Some(Precondition { expected_sequence: Some(7), ..Precondition::default() }),
        ..AppendEventRequest::default()
    };
    let mut events = EventServiceClient::new(channel.clone());
    events.append_event(conflict).await.unwrap_err();
    let SessionKey { app_name, user_id, session_id } = key("s");
    let scope = Some(Scope { app_name, user_id, session_id });
    let watch = WatchRequest { scope, ..WatchRequest::default() };
    let watch = WatchServiceClient::new(channel.clone()).watch(watch).await.unwrap();

    let text = scrape(socket);
    for (sample, expected) in [
        ("sessiond_appends_total{outcome=\"committed\"}", 1.0),
        ("sessiond_appends_total{outcome=\"replayed\"}", 1.0),
        ("sessiond_appends_total{outcome=\"refused\"}", 3.0),
        ("sessiond_application_appends_total{application=\"app\"}", 2.0),
        ("sessiond_events_total", 1.0),
        ("sessiond_replays_total{kind=\"event\"}", 1.0),
        ("sessiond_conflicts_total{kind=\"sequence\"}", 1.0),
        ("sessiond_conflicts_total{kind=\"key\"}", 0.0),
        ("sessiond_refusals_total{reason=\"EVENT_ID_REUSED\"}", 1.0),
        ("sessiond_refusals_total{reason=\"SEQUENCE_CONFLICT\"}", 1.0),
        ("sessiond_refusals_total{reason=\"SESSION_NOT_FOUND\"}", 1.0),
        ("sessiond_condition{condition=\"ready\"}", 1.0),
        ("sessiond_watches", 1.0),
        ("rpc_server_streams{method=\"sessiond.v1.WatchService/Watch\"}", 1.0),
    ] {
        assert_eq!(value(&text, sample), expected, "{sample}");
    }
    let method = "sessiond.v1.EventService/AppendEvent";
    let codes = [("OK", 2.0), ("ALREADY_EXISTS", 1.0), ("NOT_FOUND", 1.0), ("ABORTED", 1.0)];
    for (code, expected) in codes {
        let count = format!(
            "rpc_server_call_duration_seconds_count{{code=\"{code}\",method=\"{method}\"}}"
        );
        assert_eq!(value(&text, &count), expected, "{code}");
    }
    assert!(value(&text, "sessiond_group_duration_seconds_sum") > 0.0);
    assert!(!text.contains("alice") && !text.contains("absent"), "no user and no session");
    drop(watch);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_serves_what_is_documented() {
    let folder = TempDir::new().unwrap();
    let (socket, arguments) = admin(&folder);
    let server = Server::start_on(&file_in(folder.path()), &arguments.each_ref().map(|it| &**it));
    every_call_is_counted(&server.channel().await, &socket).await;
    let text = scrape(&socket);
    assert_eq!(served(&text), documented(&[&COMMON[..], &["SQLite"]].concat()));
    assert!(value(&text, "sessiond_store_bytes") > 4096.0);
    assert!(value(&text, "sessiond_sqlite_log_uncheckpointed_bytes") > 4096.0);
    assert!(value(&text, "sessiond_cache_lookups_total{result=\"hit\"}") > 0.0);
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_serves_what_is_documented() {
    let folder = TempDir::new().unwrap();
    let (socket, arguments) = admin(&folder);
    let server = Server::start_on("memory:", &arguments.each_ref().map(|it| &**it));
    every_call_is_counted(&server.channel().await, &socket).await;
    assert_eq!(served(&scrape(&socket)), documented(&COMMON));
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_serves_what_is_documented() {
    if shared_server().is_none() {
        return;
    }
    let (database, folder) = (Database::create(), TempDir::new().unwrap());
    let (socket, arguments) = admin(&folder);
    let server = Server::start_on(&database.url, &arguments.each_ref().map(|it| &**it));
    every_call_is_counted(&server.channel().await, &socket).await;
    let text = scrape(&socket);
    assert_eq!(served(&text), documented(&[&COMMON[..], &["PostgreSQL"]].concat()));
    assert!(value(&text, "sessiond_store_bytes") > 8192.0);
    assert!(value(&text, "sessiond_postgres_statements_total") > 10.0);
    assert!(value(&text, "sessiond_postgres_connects_total{outcome=\"connected\"}") > 2.0);
    server.stop();
}

#[test]
fn the_expiry_of_certificates_is_served() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new(folder.path(), "ca.pem");
    let (certificate, private_key) =
        authority.issue_for_years("server", &["localhost"], 1975, 2100);
    let file = |name, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).display().to_string()
    };
    let (socket, arguments) = admin(&folder);
    let tls = ["--tls-cert".into(), file("server.pem", &certificate), "--tls-key".into()];
    let arguments: Vec<String> =
        arguments.into_iter().chain(tls).chain([file("server.key", &private_key)]).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let server = Server::start_with(folder.path(), &arguments);
    let text = scrape(&socket);
    assert_eq!(served(&text), documented(&[&COMMON[..], &["SQLite", "TLS"]].concat()));
    let expiry = "sessiond_tls_certificate_expiry_timestamp_seconds{file=\"certificate\"}";
    assert_eq!(value(&text, expiry), 4_102_444_800.0);
    server.stop();
}
