//! Tests of what is counted, and of the text.

use std::future::pending;

use futures_util::FutureExt as _;
use tokio::time::pause;

use super::*;
use sessiond_core::domain::id::AppName;

/// The value of a sample, as it is written.
fn value<'t>(text: &'t str, sample: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '))
}

#[tokio::test]
async fn only_as_many_applications_as_asked_for_have_a_counter() {
    let metrics = Metrics::new(2);
    for name in ["a", "b\"\\\n", "c", "a", "d"] {
        metrics.writes.append_of(&AppName::new(name).unwrap());
    }
    let text = metrics.scrape().await.unwrap();
    let appends = |of: &str| format!("sessiond_application_appends_total{{application=\"{of}\"}}");
    assert_eq!(value(&text, &appends("a")), Some("2"));
    assert_eq!(value(&text, &appends("b\\\"\\\\\\n")), Some("1"));
    assert_eq!(value(&text, &appends("other")), Some("2"));
    assert_eq!(value(&text, &appends("c")), None);

    let none = Metrics::new(0);
    none.writes.append_of(&AppName::new("a").unwrap());
    assert!(!none.scrape().await.unwrap().contains("application_appends"));
}

#[tokio::test]
async fn a_probe_that_hangs_holds_up_no_scrape() {
    pause();
    let metrics = Metrics::default();
    metrics.probe("hangs", || pending().boxed());
    let store_bytes = metrics.reads.store_bytes.clone();
    metrics.probe("store", move || {
        store_bytes.set(7);
        async {}.boxed()
    });
    let text = metrics.scrape().await.unwrap();
    assert_eq!(value(&text, "sessiond_store_bytes"), Some("7"));
    assert_eq!(value(&text, "sessiond_scrape_timeouts_total"), Some("1"));
    metrics.probe("hangs", || async {}.boxed());
    let text = metrics.scrape().await.unwrap();
    assert_eq!(value(&text, "sessiond_scrape_timeouts_total"), Some("1"), "it was replaced");
}

#[tokio::test]
async fn unknown_paths_count_as_one_and_streams_have_no_duration() {
    let metrics = Metrics::default();
    let methods =
        [("/s/Get".to_owned(), MethodKind::Unary), ("/s/Watch".into(), MethodKind::Streaming)];
    let calls = metrics.calls(methods);
    calls.begin("/s/Get").end("OK", Duration::from_millis(2));
    calls.begin("/s/Get").end("NOT_FOUND", Duration::from_millis(2));
    for path in ["/nonsense/1", "/nonsense/2"] {
        calls.begin(path).end("UNIMPLEMENTED", Duration::ZERO);
    }
    let watch = calls.begin("/s/Watch");
    let text = metrics.scrape().await.unwrap();
    assert_eq!(value(&text, "rpc_server_streams{method=\"s/Watch\"}"), Some("1"));
    watch.end("CANCELLED", Duration::from_secs(3600));
    let text = metrics.scrape().await.unwrap();
    let count = |code, method| {
        let name = "rpc_server_call_duration_seconds_count";
        value(&text, &format!("{name}{{code=\"{code}\",method=\"{method}\"}}"))
    };
    assert_eq!(count("OK", "s/Get"), Some("1"));
    assert_eq!(count("NOT_FOUND", "s/Get"), Some("1"));
    assert_eq!(count("UNIMPLEMENTED", "other"), Some("2"));
    assert!(!text.contains("nonsense") && !text.contains("_bucket{method=\"s/Watch\""));
    assert_eq!(value(&text, "rpc_server_streams{method=\"s/Watch\"}"), Some("0"));
    let ended = "rpc_server_streams_total{code=\"CANCELLED\",method=\"s/Watch\"}";
    assert_eq!(value(&text, ended), Some("1"));
}

#[test]
fn a_share_of_a_gauge_ends_with_its_owner() {
    let metrics = Metrics::default();
    let bytes = &metrics.watches.temp_bytes;
    let mut first = GaugeShare::new(bytes, 10);
    let second = GaugeShare::new(bytes, 5);
    assert_eq!(bytes.get(), 15);
    first.set(2);
    assert_eq!(bytes.get(), 7);
    drop(first);
    assert_eq!(bytes.get(), 5);
    drop(second);
    assert_eq!(bytes.get(), 0);
}

#[tokio::test]
async fn refusals_are_counted_by_the_reasons_of_the_contract() {
    let metrics = Metrics::default();
    for reason in [Some("OVERLOADED"), Some("INVENTED"), None] {
        metrics.refusals.count(reason);
    }
    let text = metrics.scrape().await.unwrap();
    let count = |reason| value(&text, &format!("sessiond_refusals_total{{reason=\"{reason}\"}}"));
    assert_eq!((count("OVERLOADED"), count("none")), (Some("1"), Some("2")));
    assert_eq!((count("DAMAGED"), count("INVENTED")), (Some("0"), None));
}
