//! `overload`: what is left of the best throughput when many times as many calls are begun.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use sessiond::{
    cli::{Server, progress_bar},
    proto::v1::AppendEventRequest,
};
use tokio::time::interval;

use crate::{
    memory::Source,
    open_loop::{Offered, Rate, Refused, offer},
};

/// How often the server's memory is read under overload.
const MEMORY_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug, Args)]
pub struct OverloadArgs {
    /// overload: calls that are begun, as a multiple of the best throughput.
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    pub factor: f64,
    /// overload: HOST:PORT of the admin listener, to report the server's memory.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "pid")]
    admin: Option<String>,
    /// overload: process id of the server on this machine, to report its memory.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

impl OverloadArgs {
    /// Reads the server's memory before anything is measured.
    pub async fn memory(&self) -> Memory {
        let admin = self.admin.as_ref().map(|address| {
            Source::Admin(address.trim_start_matches("http://").trim_end_matches('/').to_owned())
        });
        let source = admin.or(self.pid.map(Source::Process));
        let mut memory = Memory { source, before: None, best: None };
        memory.before = memory.bytes().await;
        memory
    }
}

#[derive(Debug, Serialize)]
pub struct Report {
    workload: &'static str,
    best_per_second: f64,
    best_in_flight: usize,
    /// Calls that should have begun, and those that did: the client has its limits as well.
    offered_per_second: f64,
    begun_per_second: f64,
    goodput_per_second: f64,
    ratio: f64,
    p50_millis: f64,
    p99_millis: f64,
    refused: Refused,
    /// Calls that were not begun, because too many were in flight, or because the client was late.
    held_back: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_before_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_best_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_overload_bytes: Option<u64>,
}

impl Report {
    pub fn text(&self) -> String {
        let mib = |bytes: Option<u64>| match bytes {
            Some(bytes) => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
            None => "unknown".to_owned(),
        };
        let refused: Vec<_> =
            self.refused.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        format!(
            "overload: best {:.0}/s with {} in flight; offered {:.0}/s, begun {:.0}/s, held back {}\n\
             \x20 goodput {:.0}/s, ratio {:.2}; p50 {:.2} ms, p99 {:.2} ms\n\
             \x20 refused: {}\n\
             \x20 memory: {} before, {} at the best, {} at most under overload\n",
            self.best_per_second,
            self.best_in_flight,
            self.offered_per_second,
            self.begun_per_second,
            self.held_back,
            self.goodput_per_second,
            self.ratio,
            self.p50_millis,
            self.p99_millis,
            refused.join(", "),
            mib(self.memory_before_bytes),
            mib(self.memory_best_bytes),
            mib(self.memory_overload_bytes),
        )
    }
}

/// The best throughput, and the number of calls in flight that reached it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Best {
    pub per_second: f64,
    pub in_flight: usize,
}

/// Resident bytes of the server, as far as they can be read.
#[derive(Debug)]
pub struct Memory {
    source: Option<Source>,
    before: Option<u64>,
    /// After the best throughput was measured.
    best: Option<u64>,
}

impl Memory {
    pub async fn read_best(&mut self) {
        self.best = self.bytes().await;
    }

    async fn bytes(&self) -> Option<u64> {
        self.source.as_ref()?.bytes().await
    }

    /// The most that is read until the end of `work`.
    async fn most<T>(&self, work: impl Future<Output = T>) -> (T, Option<u64>) {
        let mut work = std::pin::pin!(work);
        let (mut ticks, mut most) = (interval(MEMORY_INTERVAL), None);
        loop {
            tokio::select! {
                done = &mut work => return (done, most.max(self.bytes().await)),
                _ = ticks.tick() => most = most.max(self.bytes().await),
            }
        }
    }
}

/// Begins the calls at the rate and reports what became of them.
pub async fn measure(
    servers: &[Server],
    calls: &[AppendEventRequest],
    rate: Rate,
    best: Best,
    memory: &Memory,
) -> Report {
    let progress = progress_bar("measuring overload", None);
    let (offered, memory_overload_bytes) = memory.most(offer(servers, calls, rate)).await;
    drop(progress);
    let (goodput, p50_millis, p99_millis) =
        (offered.goodput(), offered.millis_at(0.5), offered.millis_at(0.99));
    let Offered { begun, held_back, refused, seconds, results: _ } = offered;
    Report {
        workload: "overload",
        best_per_second: best.per_second,
        best_in_flight: best.in_flight,
        offered_per_second: rate.per_second,
        begun_per_second: begun as f64 / seconds,
        goodput_per_second: goodput,
        ratio: goodput / best.per_second.max(f64::EPSILON),
        p50_millis,
        p99_millis,
        refused,
        held_back,
        memory_before_bytes: memory.before,
        memory_best_bytes: memory.best,
        memory_overload_bytes,
    }
}
