//! `sessiond bench`: throughput and latency of a running server.
//!
//! The crate `sessiond-bench` measures other loads with the parts that are public here.

mod fixture;
mod load;
mod table;

use std::mem;

use clap::{Args, ValueEnum, value_parser};
use serde::Serialize;
use tokio::signal;
use uuid::Uuid;

use self::table::{HEADINGS, Row};
pub use self::{
    fixture::{Fixture, KEYS, connect},
    load::{Call, Results, Round, instant},
    table::Setting,
};
use super::{
    connect::ConnectArgs,
    failure::{Failure, tell},
    output, parse,
    progress::progress_bar,
};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond bench
  sessiond bench append --in-flight 1,16,64,256 --seconds 20
  sessiond bench hot --in-flight 1,64
  sessiond bench stream --streams 1,16 --outstanding 32 --json

Each run works in an application of its own and removes it at the end. The
client competes with the server for CPU time if both run on one machine.")]
pub struct BenchArgs {
    #[command(flatten)]
    load: LoadArgs,
    /// Workloads to measure; by default append, stream and read.
    #[arg(value_enum, value_name = "WORKLOAD", hide_default_value = true, default_values_t = [Workload::Append, Workload::Stream, Workload::Read])]
    workloads: Vec<Workload>,
    /// stream: concurrent streams.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "16", value_parser = parse::positive)]
    streams: Vec<usize>,
    /// stream: unanswered requests of each stream.
    #[arg(long, value_name = "N", default_value = "32", value_parser = parse::positive)]
    outstanding: usize,
}

/// Arguments of every benchmark.
#[derive(Debug, Args)]
pub struct LoadArgs {
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// Duration of a measurement.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = value_parser!(u64).range(1..))]
    pub seconds: u64,
    /// Calls of a measurement, instead of its duration.
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Duration of the load before each measurement.
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    pub warmup: u64,
    /// Calls in flight.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,16,64", value_parser = parse::positive)]
    pub in_flight: Vec<usize>,
    /// Bytes of an event's body.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub body_bytes: usize,
    /// HTTP/2 connections that all calls share.
    #[arg(long, value_name = "N", default_value = "4", value_parser = parse::positive)]
    pub connections: usize,
    /// Application to work in; by default a new one.
    #[arg(long, value_name = "NAME")]
    app: Option<String>,
    /// Keep the sessions of the benchmark.
    #[arg(long)]
    pub keep: bool,
    /// Print a JSON object per measurement instead of a table.
    #[arg(long)]
    json: bool,
}

/// Events of the session that `read` reads.
const READ_EVENTS: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// AppendEvent: 1 KiB of body, one key of each scope, a session per writer.
    Append,
    /// AppendEvent: all writers append to the same session.
    Hot,
    /// AppendEventStream: as append, with many unanswered requests per stream.
    Stream,
    /// GetSession: 20 keys of each scope, the newest 20 of 10,000 events.
    Read,
}

pub async fn run(
    BenchArgs { load, workloads, streams, outstanding }: BenchArgs,
) -> Result<(), Failure> {
    Bench::run(&load, async |bench| {
        for workload in workloads {
            match workload {
                Workload::Append => bench.appends("append", usize::MAX).await?,
                Workload::Hot => bench.appends("hot", 1).await?,
                Workload::Stream => bench.streams(&streams, outstanding).await?,
                Workload::Read => bench.reads().await?,
            }
        }
        Ok(())
    })
    .await
}

/// Measurements in an application of their own.
pub struct Bench<'a> {
    pub args: &'a LoadArgs,
    pub fixture: Fixture,
    /// The table has its headings.
    begun: bool,
    /// Some call failed.
    failed: bool,
}

impl<'a> Bench<'a> {
    /// Connects, measures, and removes what the measurements have made, also when they are interrupted.
    pub async fn run(
        args: &'a LoadArgs,
        measure: impl AsyncFnOnce(&mut Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let servers = connect(args.connections, &args.connect).await?;
        #[expect(clippy::disallowed_methods, reason = "the client's one place that makes an id")]
        let app = args.app.clone().unwrap_or_else(|| format!("bench-{}", Uuid::now_v7()));
        let fixture = Fixture::new(servers, app, args.body_bytes);
        let mut bench = Self { args, fixture, begun: false, failed: false };
        let measured = tokio::select! {
            measured = measure(&mut bench) => measured,
            Ok(()) = signal::ctrl_c() => {
                tell("note: interrupted, removing the fixture");
                Err(Failure::Failed("interrupted".to_owned()))
            }
        };
        let removed = if args.keep { Ok(()) } else { bench.fixture.remove().await };
        measured.and(removed)?;
        if bench.failed { Err(Failure::Reported) } else { Ok(()) }
    }

    /// Appends to as many sessions as there are writers, or to fewer.
    async fn appends(&mut self, name: &'static str, sessions: usize) -> Result<(), Failure> {
        for &in_flight in &self.args.in_flight {
            let group = format!("{name}-{in_flight}");
            let keys = self.fixture.sessions(&group, 0..sessions.min(in_flight), 1).await?;
            let calls = self.fixture.appends(&keys);
            self.measure(name, Setting::in_flight(in_flight), calls).await?;
        }
        Ok(())
    }

    async fn streams(&mut self, numbers: &[usize], in_flight: usize) -> Result<(), Failure> {
        for &streams in numbers {
            let keys = self.fixture.sessions(&format!("stream-{streams}"), 0..streams, 1).await?;
            let calls = keys.iter().map(|key| Call::Stream(Box::new(self.fixture.append(key))));
            let setting = Setting { in_flight, others: [("streams", streams)].into() };
            self.measure("stream", setting, calls.collect()).await?;
        }
        Ok(())
    }

    async fn reads(&mut self) -> Result<(), Failure> {
        let keys = self.fixture.sessions("read", 0..1, KEYS).await?;
        self.fixture.fill(&keys[0], READ_EVENTS).await?;
        for &in_flight in &self.args.in_flight {
            let calls = vec![self.fixture.read(&keys[0])];
            self.measure("read", Setting::in_flight(in_flight), calls).await?;
        }
        Ok(())
    }

    /// Warms up, measures and reports. Returns the calls that succeeded in a second.
    pub async fn measure(
        &mut self,
        workload: &'static str,
        setting: Setting,
        calls: Vec<Call>,
    ) -> Result<f64, Failure> {
        let (args, calls) = (self.args, calls.into());
        let round = |limits| Round::start(&self.fixture.servers, &calls, setting.in_flight, limits);
        let progress = progress_bar(&format!("measuring {workload}"), None);
        if args.warmup > 0 {
            round((Some(args.warmup), None)).finish().await;
        }
        let seconds = args.count.is_none().then_some(args.seconds);
        let (elapsed, results) = round((seconds, args.count)).finish().await;
        drop(progress);
        let row = Row::new(workload, setting, elapsed, &results);
        if let Some(error) = &results.first_error {
            tell(&format!("error: {} calls failed, the first with {error}", row.errors));
            self.failed = true;
        }
        // Each row is printed when it is measured.
        if !self.prints_json() && !mem::replace(&mut self.begun, true) {
            output::print_text(HEADINGS)?;
        }
        self.print(&row, row.line())?;
        Ok(row.per_second)
    }

    fn prints_json(&self) -> bool {
        self.args.json || self.args.connect.output == Some(output::Format::Json)
    }

    /// Prints a report for programs or as text.
    pub fn print(&self, report: &impl Serialize, text: String) -> Result<(), Failure> {
        if self.prints_json() { output::print(report) } else { output::print_text(&text) }
    }
}
