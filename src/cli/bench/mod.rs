//! `sessiond bench`: throughput and latency of a running server.

mod fixture;
mod flood;
mod load;
mod memory;
mod open_loop;
mod overload;
mod table;

use std::{mem, sync::Arc, time::Duration};

use clap::{Args, ValueEnum, value_parser};
use tokio::{signal, task::JoinSet};
use uuid::Uuid;

use self::{
    fixture::{Fixture, KEYS, connect},
    flood::{Flood, FloodArgs},
    load::{Call, Round},
    open_loop::{LATEST, Rate},
    overload::{Best, OverloadArgs},
    table::{HEADINGS, Row, Setting},
};
use super::{
    connect::ConnectArgs,
    failure::{Failure, tell},
    output, parse,
    progress::Progress,
    time,
};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond bench
  sessiond bench append --in-flight 1,16,64,256 --seconds 20
  sessiond bench hot --in-flight 1,64
  sessiond bench stream --streams 1,16 --outstanding 32 --json
  sessiond bench length --events 100,1000000 --count 1000
  sessiond bench sessions --sessions 100,100000
  sessiond bench spread --active 10000 --existing 100000
  sessiond bench overload --in-flight 16,64,256 --pid 4711
  sessiond bench flood --token-file modest --flood-token-file flooding

Each run works in an application of its own and removes it at the end. The
client competes with the server for CPU time if both run on one machine.")]
pub struct BenchArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// Workloads to measure; by default append, stream and read.
    #[arg(value_enum, value_name = "WORKLOAD", hide_default_value = true, default_values_t = [Workload::Append, Workload::Stream, Workload::Read])]
    workloads: Vec<Workload>,
    /// Duration of a measurement.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = value_parser!(u64).range(1..))]
    seconds: u64,
    /// Calls of a measurement, instead of its duration.
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Duration of the warm-up before each measurement.
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    warmup: u64,
    /// append, hot, spread, read, overload: calls in flight.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,16,64", value_parser = parse::positive)]
    in_flight: Vec<usize>,
    /// stream: concurrent streams.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "16", value_parser = parse::positive)]
    streams: Vec<usize>,
    /// stream: unanswered requests of each stream.
    #[arg(long, value_name = "N", default_value = "32", value_parser = parse::positive)]
    outstanding: usize,
    /// length: events in the session.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "100,100000")]
    events: Vec<usize>,
    /// sessions: sessions in the application.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "100,10000", value_parser = parse::positive)]
    sessions: Vec<usize>,
    /// spread: sessions in the application.
    #[arg(long, value_name = "N", default_value = "100000", value_parser = parse::positive)]
    existing: usize,
    /// spread: sessions that are appended to, evenly distributed among the existing ones.
    #[arg(long, value_name = "N", default_value = "10000", value_parser = parse::positive)]
    active: usize,
    #[command(flatten)]
    overload: OverloadArgs,
    #[command(flatten)]
    flood: FloodArgs,
    /// overload, flood: deadline of a call in seconds, such as 0.5.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = time::parse_seconds)]
    deadline: Duration,
    /// overload, flood: calls in flight at most. Calls beyond are not begun, and counted.
    #[arg(long, value_name = "N", default_value = "20000", value_parser = parse::positive)]
    max_in_flight: usize,
    /// Bytes of an event's body.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    body_bytes: usize,
    /// HTTP/2 connections that all calls share.
    #[arg(long, value_name = "N", default_value = "4", value_parser = parse::positive)]
    connections: usize,
    /// Application to work in; by default a new one.
    #[arg(long, value_name = "NAME")]
    app: Option<String>,
    /// Keep the sessions of the benchmark.
    #[arg(long)]
    keep: bool,
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
    /// AppendEvent: appends go round many active sessions among many more existing ones.
    Spread,
    /// AppendEventStream: as append, with many unanswered requests per stream.
    Stream,
    /// GetSession: 20 keys of each scope, the newest 20 of 10,000 events.
    Read,
    /// Appends and reads, one at a time, in a short and in a long session.
    Length,
    /// Appends, reads and lists, one at a time, among few and among many sessions.
    Sessions,
    /// AppendEvent: the best throughput, then many times as many calls as that.
    Overload,
    /// AppendEvent: a caller of few appends alone, and beside another that floods the server.
    Flood,
}

pub async fn run(args: BenchArgs) -> Result<(), Failure> {
    let servers = connect(args.connections, &args.connect).await?;
    #[expect(clippy::disallowed_methods, reason = "the client's one place that makes an id")]
    let app = args.app.clone().unwrap_or_else(|| format!("bench-{}", Uuid::now_v7()));
    let fixture = Fixture::new(servers, app, args.body_bytes);
    let mut bench = Bench { args: &args, fixture, begun: false, failed: false };
    let measure_all = async {
        for workload in &args.workloads {
            bench.measure(*workload).await?;
        }
        Ok(())
    };
    let measured = tokio::select! {
        measured = measure_all => measured,
        Ok(()) = signal::ctrl_c() => {
            tell("note: interrupted, removing the fixture");
            Err(Failure::Failed("interrupted".to_owned()))
        }
    };
    let removed = if args.keep { Ok(()) } else { bench.fixture.remove().await };
    measured.and(removed)?;
    if bench.failed { Err(Failure::Reported) } else { Ok(()) }
}

struct Bench<'a> {
    args: &'a BenchArgs,
    fixture: Fixture,
    /// The table has its headings.
    begun: bool,
    /// Some call failed.
    failed: bool,
}

impl Bench<'_> {
    async fn measure(&mut self, workload: Workload) -> Result<(), Failure> {
        let args = self.args;
        let at = |in_flight| Setting { in_flight, ..Setting::default() };
        match workload {
            Workload::Append | Workload::Hot => {
                for &in_flight in &args.in_flight {
                    let hot = workload == Workload::Hot;
                    let (name, sessions) = if hot { ("hot", 1) } else { ("append", in_flight) };
                    let group = format!("{name}-{in_flight}");
                    let keys = self.fixture.sessions(&group, 0..sessions, 1).await?;
                    self.run(name, at(in_flight), self.fixture.appends(&keys)).await?;
                }
            }
            Workload::Spread => {
                let (existing, active) = (args.existing, args.active.min(args.existing));
                tell(&format!("note: creating {existing} sessions"));
                let keys = self.fixture.sessions("spread", 0..existing, 1).await?;
                let active_keys = keys.iter().step_by(existing / active).take(active);
                let calls = self.fixture.appends(active_keys);
                for &in_flight in &args.in_flight {
                    let (sessions, active) = (Some(existing), Some(active));
                    let setting = Setting { sessions, active, ..at(in_flight) };
                    self.run("spread", setting, calls.clone()).await?;
                }
            }
            Workload::Stream => {
                for &streams in &args.streams {
                    let name = format!("stream-{streams}");
                    let keys = self.fixture.sessions(&name, 0..streams, 1).await?;
                    let setting = Setting { streams: Some(streams), ..at(args.outstanding) };
                    self.run("stream", setting, self.fixture.appends(&keys)).await?;
                }
            }
            Workload::Read => {
                let keys = self.fixture.sessions("read", 0..1, KEYS).await?;
                self.fixture.fill(&keys[0], READ_EVENTS).await?;
                for &in_flight in &args.in_flight {
                    let calls = vec![self.fixture.read(&keys[0])];
                    self.run("read", at(in_flight), calls).await?;
                }
            }
            Workload::Length => {
                for &events in &args.events {
                    let name = format!("length-{events}");
                    let keys = self.fixture.sessions(&name, 0..1, KEYS).await?;
                    tell(&format!("note: appending {events} events to a session"));
                    self.fixture.fill(&keys[0], events).await?;
                    let setting = Setting { events: Some(events), ..at(1) };
                    self.run("append", setting, self.fixture.appends(&keys)).await?;
                    self.run("read", setting, vec![self.fixture.read(&keys[0])]).await?;
                }
            }
            Workload::Sessions => {
                let mut numbers = args.sessions.clone();
                numbers.sort_unstable();
                let mut created = 0;
                for sessions in numbers {
                    tell(&format!("note: creating {sessions} sessions"));
                    self.fixture.sessions("among", created..sessions, 1).await?;
                    created = sessions;
                    let key = self.fixture.key("among", 0);
                    let setting = Setting { sessions: Some(sessions), ..at(1) };
                    self.run("append", setting, self.fixture.appends([&key])).await?;
                    self.run("read", setting, vec![self.fixture.read(&key)]).await?;
                    self.run("list", setting, vec![self.fixture.list()]).await?;
                }
            }
            Workload::Overload => {
                let mut memory = args.overload.memory().await;
                let sessions = args.in_flight.iter().copied().max().unwrap_or(1);
                let keys = self.fixture.sessions("overload", 0..sessions, 1).await?;
                let calls = self.fixture.appends(&keys);
                let mut best = Best::default();
                for &in_flight in &args.in_flight {
                    let per_second = self.run("append", at(in_flight), calls.clone()).await?;
                    if per_second > best.per_second {
                        best = Best { per_second, in_flight };
                    }
                }
                memory.read_best().await;
                let rate = self.rate(best.per_second * args.overload.factor);
                let servers = self.fixture.servers();
                let report = overload::measure(servers, &calls, rate, best, &memory).await;
                self.print(&report, report.text())?;
            }
            Workload::Flood => {
                let flood = Flood {
                    connect: args.flood.connect(&args.connect),
                    connections: args.connections,
                    app: format!("{}-flood", self.fixture.app()),
                    body_bytes: args.body_bytes,
                    rate: self.rate(args.flood.flood_rate as f64),
                    keep: args.keep,
                };
                let slow = Rate { latest: None, ..self.rate(args.flood.modest_rate as f64) };
                let report = flood::measure(&mut self.fixture, flood, slow, args.warmup).await?;
                self.print(&report, report.text())?;
            }
        }
        Ok(())
    }

    /// Warms up, measures and reports. The workers go through the calls together, or each sends its own over a stream. Returns the
    /// calls that succeeded in a second.
    async fn run(
        &mut self,
        workload: &'static str,
        setting: Setting,
        calls: Vec<Call>,
    ) -> Result<f64, Failure> {
        let calls: Arc<[Call]> = calls.into();
        let args = self.args;
        let progress = Progress::spinner(&format!("measuring {workload}"));
        if args.warmup > 0 {
            self.round(setting, &calls, Round::start(Some(args.warmup), None)).await;
        }
        let seconds = args.count.is_none().then_some(args.seconds);
        let round = self.round(setting, &calls, Round::start(seconds, args.count)).await;
        drop(progress);
        let row = Row::new(workload, setting, round.started.elapsed(), &round.results());
        if let Some(error) = &round.results().first_error {
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

    fn print(&self, report: &impl serde::Serialize, text: String) -> Result<(), Failure> {
        if self.prints_json() { output::print(report) } else { output::print_text(&text) }
    }

    fn rate(&self, per_second: f64) -> Rate {
        let BenchArgs { seconds, deadline, max_in_flight, .. } = *self.args;
        Rate { per_second, seconds, deadline, max_in_flight, latest: Some(LATEST) }
    }

    async fn round(&self, setting: Setting, calls: &Arc<[Call]>, round: Round) -> Arc<Round> {
        let workers = setting.streams.unwrap_or(setting.in_flight);
        let round = Arc::new(round);
        let mut running = JoinSet::new();
        for worker in 0..workers {
            let (round, calls) = (Arc::clone(&round), Arc::clone(calls));
            let server = self.fixture.server(worker).clone();
            match (&calls[worker % calls.len()], setting.streams) {
                (Call::Append(append), Some(_)) => {
                    let append = append.as_ref().clone();
                    running.spawn(round.pipelined(server, append, setting.in_flight))
                }
                _ => running.spawn(round.one_by_one(server, calls, worker, workers)),
            };
        }
        running.join_all().await;
        round
    }
}
