//! What was measured of a load, for people and for programs.

use std::fmt::Write as _;

use serde::Serialize;

use super::{
    attacker::Counts,
    latency::{Kind, Latency},
};

#[derive(Debug, Serialize)]
pub struct Report {
    pub load: &'static str,
    pub about: &'static str,
    pub store: &'static str,
    pub set_up_seconds: f64,
    /// How long the load lasted.
    pub seconds: f64,
    pub attack: Counts,
    /// Calls of the load that had no answer at its limit of time.
    pub unanswered: u64,
    pub memory_before_bytes: Option<u64>,
    pub memory_peak_bytes: Option<u64>,
    pub buffered_peak_bytes: Option<u64>,
    pub sweep_backlog: Vec<u64>,
    pub alone: Vec<Latency>,
    pub beside: Vec<Latency>,
}

pub fn store_name(store: &str) -> &'static str {
    match store {
        "sqlite" => "SQLite",
        "memory:" => "memory",
        _ => "PostgreSQL",
    }
}

impl Report {
    pub fn text(&self) -> String {
        let Self { load, about, store, seconds, attack, unanswered, .. } = self;
        let mut text = format!("{load} ({store}): {about}, for {seconds:.1} s\n");
        let mut line = |of: String| text.extend(["  ", &of, "\n"]);
        line(format!(
            "{:20} {:>26} {:>28}",
            "milliseconds", "alone: p50, p99, worst", "beside: p50, p99, worst"
        ));
        for (alone, beside) in self.alone.iter().zip(&self.beside) {
            let of = |it: &Latency| {
                let worst = if it.unanswered > 0 { ">" } else { "" };
                format!("{:.1} {:.1} {worst}{:.1}", it.p50_millis, it.p99_millis, it.worst_millis)
            };
            let mut faults = String::new();
            if beside.unanswered > 0 {
                let _ = write!(faults, ", {} of {} unanswered", beside.unanswered, beside.calls);
            }
            if let (true, Some(error)) =
                (beside.failed > 0 || beside.kind == Kind::Watch, &beside.first_error)
            {
                let _ =
                    write!(faults, ", {} of {} failed: {error:.90}", beside.failed, beside.calls);
            }
            line(format!("{:20} {:>26} {:>28}{faults}", alone.kind.name(), of(alone), of(beside)));
        }
        line(format!(
            "memory {} before, {} at most{}",
            mib(self.memory_before_bytes),
            mib(self.memory_peak_bytes),
            self.buffered_peak_bytes
                .map(|it| format!(", buffered {}", mib(Some(it))))
                .unwrap_or_default(),
        ));
        line(self.attack_text(attack, *unanswered));
        if self.sweep_backlog.iter().any(|waiting| *waiting > 0) {
            line(format!(
                "sessions that wait for the sweep, each second: {:?}",
                self.sweep_backlog
            ));
        }
        text
    }

    fn attack_text(&self, attack: &Counts, unanswered: u64) -> String {
        let Counts { sent, answered, lost, first_loss, held, ended_connections, notes } = attack;
        let mut parts = notes.clone();
        if *sent > 0 {
            let codes: Vec<_> =
                answered.iter().map(|(code, count)| format!("{code} {count}")).collect();
            parts.push(format!(
                "{sent} calls: {}, lost {lost}, unanswered {unanswered}",
                codes.join(", ")
            ));
        }
        if *held > 0 {
            parts.push(format!("opened {held}"));
        }
        if *ended_connections > 0 {
            parts.push(format!("the server ended {ended_connections} connections"));
        }
        parts.extend(first_loss.as_ref().map(|error| format!("the first loss: {error}")));
        parts.join("; ")
    }
}

fn mib(bytes: Option<u64>) -> String {
    match bytes {
        Some(bytes) => format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20)),
        None => "unknown".to_owned(),
    }
}
