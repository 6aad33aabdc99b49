//! The dashboard and the alerts of packaging/grafana are over the metrics of docs/metrics.md, and the runbook has each alert.
//!
//! tests/process/metrics.rs holds that page against servers.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

const DOCUMENT: &str = include_str!("../../docs/metrics.md");
const RUNBOOK: &str = include_str!("../../docs/runbook.md");
const DASHBOARD: &str = include_str!("../../packaging/grafana/dashboard.json");
const ALERTS: &str = include_str!("../../packaging/grafana/alerts.yaml");

/// Names in expressions that are no metric of ours: Prometheus' own, and what it adds to samples.
const OTHERS: [&str; 5] = ["up", "instance", "ALERTS", "alertname", "alertstate"];

/// Name and type of each documented metric, with its labels.
fn documented() -> BTreeMap<&'static str, (&'static str, Vec<&'static str>)> {
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| `"));
    let metrics = rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let labels = cells[2].split(", ").map(|label| label.trim_matches('`')).collect();
        (cells[0].trim_matches('`'), (cells[1], labels))
    });
    metrics.collect()
}

/// The metrics that an expression names. It fails if a name or a label is not documented.
fn metrics_of(expression: &str) -> BTreeSet<&'static str> {
    let documented = documented();
    let is_name = |letter: char| letter.is_alphanumeric() || "_$".contains(letter);
    // Texts of labels may hold anything.
    let without_texts: String = expression.split('"').step_by(2).collect();
    let mut found = BTreeSet::new();
    for (at, name) in words(&without_texts, is_name) {
        let rest = without_texts[at + name.len()..].trim_start();
        let is_function = rest.starts_with('(') || name.starts_with(['$', '_']);
        let is_number = name.starts_with(|letter: char| letter.is_ascii_digit());
        let is_word = ["and", "or", "by", "le", "job", "sum", "max"].contains(&name);
        if is_function || is_number || is_word {
            continue;
        }
        let metric = ["", "_bucket", "_sum", "_count"].iter().find_map(|ending| {
            let (metric, (kind, _)) = documented.get_key_value(name.strip_suffix(ending)?)?;
            (ending.is_empty() != (*kind == "histogram")).then_some(*metric)
        });
        let is_label = documented.values().any(|(_, labels)| labels.contains(&name));
        found.extend(metric);
        assert!(metric.is_some() || is_label || OTHERS.contains(&name), "{name} in {expression}");
    }
    found
}

fn words(text: &str, is_name: impl Fn(char) -> bool) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(&is_name) {
        let word = &rest[start..];
        let end = word.find(|letter| !is_name(letter)).unwrap_or(word.len());
        found.push((text.len() - word.len(), &word[..end]));
        rest = &word[end..];
    }
    found
}

fn dashboard() -> Value {
    serde_json::from_str(DASHBOARD).unwrap()
}

/// All panels, with those inside collapsed rows.
fn panels(dashboard: &Value) -> Vec<&Value> {
    let outer = dashboard["panels"].as_array().unwrap();
    outer
        .iter()
        .flat_map(|it| iter::once(it).chain(it["panels"].as_array().unwrap_or(NO_PANELS)))
        .collect()
}

const NO_PANELS: &Vec<Value> = &Vec::new();

/// The panels that show a metric.
fn charts(dashboard: &Value) -> Vec<&Value> {
    let is_chart = |panel: &&Value| !["row", "text"].contains(&panel["type"].as_str().unwrap());
    panels(dashboard).into_iter().filter(is_chart).collect()
}

fn expressions(panel: &Value) -> Vec<&str> {
    let targets = panel["targets"].as_array().unwrap().iter();
    targets.map(|target| target["expr"].as_str().unwrap()).collect()
}

#[test]
fn the_dashboard_names_every_condition() {
    let dashboard = dashboard();
    let panel = charts(&dashboard)[0];
    assert_eq!(panel["title"], "Condition");
    let condition = expressions(panel)[0];
    let texts = &panel["fieldConfig"]["defaults"]["mappings"][0]["options"];
    let (_, labels) = condition.split_once("up{").unwrap();
    let named: Vec<_> =
        labels.split("condition=\"").skip(1).map(|it| it.split('"').next().unwrap()).collect();
    let names =
        ["ready", "starting", "draining", "disk_full", "unreachable", "file_lost", "behind"];
    assert_eq!(named, names);
    for (name, number) in named.iter().zip(1..) {
        let text = &texts[number.to_string()]["text"];
        assert_eq!(text.as_str().unwrap().replace(' ', "_"), *name);
        let factor = format!("{number} * (sessiond_condition{{condition=\"{name}\"");
        assert!(number == 1 || condition.contains(&factor), "{condition}");
    }
    assert_eq!(texts["0"]["text"], "down");
}

#[test]
fn the_dashboard_has_the_runbook() {
    let dashboard = dashboard();
    // The text without its links, which lead to files.
    let runbook = panels(&dashboard).into_iter().find(|it| it["type"] == "text").unwrap();
    let shown = runbook["options"]["content"].as_str().unwrap();
    let (mut plain, mut rest) = (String::new(), RUNBOOK);
    while let Some((before, after)) = rest.split_once("](") {
        let (text, link) = before.rsplit_once('[').unwrap();
        plain += text;
        plain += link;
        rest = after.split_once(')').unwrap().1;
    }
    plain += rest;
    assert_eq!(shown, plain, "it is docs/runbook.md");
    let restarts = dashboard["annotations"]["list"][0]["expr"].as_str().unwrap();
    assert_eq!(metrics_of(restarts), BTreeSet::from(["process_start_time_seconds"]));
}

#[test]
fn the_dashboard_shows_every_metric_and_no_other() {
    let dashboard = dashboard();
    let mut shown = BTreeSet::new();
    for panel in charts(&dashboard) {
        shown.extend(expressions(panel).into_iter().flat_map(metrics_of));
    }
    let documented: BTreeSet<_> = documented().into_keys().collect();
    assert!(documented.len() > 40, "the names were found");
    assert_eq!(shown, documented);
}

#[test]
fn alerts_are_over_metrics_and_have_a_runbook() {
    let alerts = YamlLoader::load_from_str(ALERTS).unwrap().remove(0);
    let rules = alerts["groups"][0]["rules"].as_vec().unwrap();
    let text = |rule: &Yaml, name: &str| rule[name].as_str().unwrap().to_owned();
    let mut names = BTreeSet::new();
    for rule in rules {
        let (name, expression) = (text(rule, "alert"), text(rule, "expr"));
        let metrics = metrics_of(&expression);
        assert!(!metrics.is_empty() || name == "SessiondDown", "{name}: {expression}");
        assert!(["critical", "warning"].contains(&&*text(&rule["labels"], "severity")), "{name}");
        assert!(text(&rule["annotations"], "summary").ends_with('.'), "{name}");
        // Relative until an external label of Prometheus says where the runbook is.
        let base = r#"{{ or $externalLabels.sessiond_runbook "docs/runbook.md" }}"#;
        let runbook = format!("{base}#{}", name.to_lowercase());
        assert_eq!(text(&rule["annotations"], "runbook_url"), runbook);
        names.insert(name);
    }
    let headings = RUNBOOK.lines().filter_map(|line| line.strip_prefix("### "));
    assert_eq!(headings.map(str::to_owned).collect::<BTreeSet<_>>(), names);
}

#[test]
fn an_expression_over_nothing_that_is_served_is_seen() {
    let expression =
        r#"sum by (le) (rate(sessiond_commit_duration_seconds_bucket{instance=~"$x"}[5m]))"#;
    assert_eq!(metrics_of(expression), BTreeSet::from(["sessiond_commit_duration_seconds"]));
    for wrong in [
        "sessiond_commits_total",
        "sessiond_commit_duration_seconds",
        "sessiond_watches_count",
        r#"sessiond_watches{invented="x"}"#,
    ] {
        assert!(std::panic::catch_unwind(|| metrics_of(wrong)).is_err(), "{wrong}");
    }
}
