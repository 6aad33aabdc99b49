//! The kinds of calls that are measured, and their latencies.

use std::{collections::HashMap, time::Instant};

use serde::Serialize;
use sessiond::cli::bench::{Results, instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// AppendEvent of the other tenant.
    Append,
    /// GetSession of the other tenant, with the newest 20 events.
    Read,
    /// From the answer to the other tenant's append until its watch has the event.
    Watch,
    /// AppendEvent of the attacking tenant to another session.
    SameTenant,
    /// `/livez` of the admin listener.
    Probe,
}

impl Kind {
    pub const ALL: [Self; 5] =
        [Self::Append, Self::Read, Self::Watch, Self::SameTenant, Self::Probe];

    pub fn name(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Read => "read",
            Self::Watch => "watch",
            Self::SameTenant => "append, same tenant",
            Self::Probe => "probe",
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct Latency {
    pub kind: Kind,
    pub calls: u64,
    pub p50_millis: f64,
    pub p99_millis: f64,
    pub worst_millis: f64,
    pub failed: u64,
    /// Calls that had no answer when the measurement ended. They count with the time that they had waited.
    pub unanswered: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
}

/// A call of the victim.
pub struct Call {
    pub kind: Kind,
    /// Of an append, by which the watch knows it.
    pub event_id: String,
    pub sent: Instant,
    pub outcome: Option<(Instant, Result<(), String>)>,
}

/// When an append of the watched session was answered.
pub fn acknowledged(call: &Call) -> Option<Instant> {
    match &call.outcome {
        Some((at, Ok(()))) if call.kind == Kind::Append => Some(*at),
        _ => None,
    }
}

pub fn latencies(
    calls: &[Call],
    delivered: &HashMap<String, Instant>,
    watch_error: Option<String>,
) -> Vec<Latency> {
    let now = instant();
    let of = |kind: Kind| {
        let (mut results, mut unanswered) = (Results::default(), 0);
        for call in calls {
            let (sent, end) = match (kind, acknowledged(call)) {
                (Kind::Watch, Some(sent)) => {
                    (sent, delivered.get(&call.event_id).map(|at| (*at, Ok(()))))
                }
                _ if call.kind == kind => (call.sent, call.outcome.clone()),
                _ => continue,
            };
            unanswered += u64::from(end.is_none());
            let (at, outcome) = end.unwrap_or((now, Ok(())));
            results.add(outcome.map(|()| at.saturating_duration_since(sent)));
        }
        let watch_error = watch_error.clone().filter(|_| kind == Kind::Watch);
        let millis = |quantile| results.latencies.value_at_quantile(quantile) as f64 / 1000.0;
        Latency {
            kind,
            calls: results.latencies.len() + results.errors,
            p50_millis: millis(0.5),
            p99_millis: millis(0.99),
            worst_millis: millis(1.0),
            failed: results.errors,
            unanswered,
            first_error: watch_error.or(results.first_error),
        }
    };
    Kind::ALL.map(of).to_vec()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn call(kind: Kind, event_id: &str, sent: Instant, outcome: Option<Result<(), &str>>) -> Call {
        let answered = sent + Duration::from_millis(20);
        let outcome = outcome.map(|it| (answered, it.map_err(str::to_owned)));
        Call { kind, event_id: event_id.to_owned(), sent, outcome }
    }

    fn of(kind: Kind, latencies: &[Latency]) -> Latency {
        latencies.iter().find(|it| it.kind == kind).unwrap().clone()
    }

    #[test]
    fn a_call_without_an_answer_counts_with_the_time_that_it_has_waited() {
        let sent = instant().checked_sub(Duration::from_secs(7)).unwrap();
        let calls = [
            call(Kind::Read, "", sent, Some(Ok(()))),
            call(Kind::Read, "", sent, None),
            call(Kind::Read, "", sent, Some(Err("refused"))),
        ];
        let read = of(Kind::Read, &latencies(&calls, &HashMap::new(), None));
        assert_eq!((read.calls, read.failed, read.unanswered), (3, 1, 1));
        assert!((19.0..21.0).contains(&read.p50_millis) && read.worst_millis >= 6990.0);
        assert_eq!(read.first_error.as_deref(), Some("refused"));
    }

    #[test]
    fn a_watch_is_measured_from_the_answer_to_the_append_until_the_delivery() {
        let sent = instant().checked_sub(Duration::from_secs(7)).unwrap();
        let calls = [
            call(Kind::Append, "delivered", sent, Some(Ok(()))),
            call(Kind::Append, "refused", sent, Some(Err("refused"))),
            call(Kind::SameTenant, "of another session", sent, Some(Ok(()))),
            call(Kind::Append, "missing", sent, Some(Ok(()))),
        ];
        let at = sent + Duration::from_millis(25);
        let delivered = [("delivered".to_owned(), at)].into();
        let watch = of(Kind::Watch, &latencies(&calls, &delivered, Some("ended".to_owned())));
        assert_eq!((watch.calls, watch.failed, watch.unanswered), (2, 0, 1));
        assert!((4.9..5.1).contains(&watch.p50_millis) && watch.worst_millis >= 6900.0);
        assert_eq!(watch.first_error.as_deref(), Some("ended"));
    }
}
