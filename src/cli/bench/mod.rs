//! `sessiond bench`: how fast a running server is.

mod ground;
mod load;
mod raw;
mod tally;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use clap::{Args, ValueEnum};

use self::{
    ground::Ground,
    load::{Measure, Pace, gather, one_by_one, windowed},
    raw::Call,
    tally::{Row, Setting, Table},
};
use super::{
    ambient::{tell, unique_id},
    connect::{ConnectArgs, Server},
    failure::Failure,
};
use crate::proto::v1::SessionKey;

/// Events of the session that `read` reads from.
const READ_EVENTS: u64 = 10_000;
/// Keys of each scope that a measured session has.
const KEYS: usize = 20;

/// `sessiond bench`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond bench
  sessiond bench append --in-flight 1,16,64,256 --seconds 20
  sessiond bench stream --streams 1,16 --outstanding 32 --json
  sessiond bench length --events 100,1000000 --count 1000
  sessiond bench sessions --sessions 100,100000

Everything happens in an application of its own; what was made is removed at the end. The client
takes a share of the processor: on the server's machine the server alone would be faster.")]
pub struct BenchArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// What to measure; append, stream and read otherwise.
    #[arg(value_enum, value_name = "WORKLOAD")]
    workloads: Vec<Workload>,
    /// Measure for so long each time.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Measure so many calls each time instead.
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Run for so long before each measurement without counting.
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    warmup: u64,
    /// append, read: calls under way at the same time.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,16,64", value_parser = positive)]
    in_flight: Vec<usize>,
    /// stream: streams at the same time.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "16", value_parser = positive)]
    streams: Vec<usize>,
    /// stream: unanswered requests of each.
    #[arg(long, value_name = "N", default_value = "32", value_parser = positive)]
    outstanding: usize,
    /// length: events in the session.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [100, 100_000])]
    events: Vec<u64>,
    /// sessions: sessions in the application.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [100, 10_000], value_parser = clap::value_parser!(u64).range(1..))]
    sessions: Vec<u64>,
    /// Bytes of an event's body.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    body_bytes: usize,
    /// HTTP/2 connections that all calls share.
    #[arg(long, value_name = "N", default_value = "4", value_parser = positive)]
    connections: usize,
    /// Application to work in; one of its own otherwise.
    #[arg(long, value_name = "NAME")]
    app: Option<String>,
    /// Leave what was made.
    #[arg(long)]
    keep: bool,
    /// Print a JSON object per measurement rather than a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// AppendEvent: 1 KiB of body, one key of each scope, a session per writer.
    Append,
    /// AppendEventStream: the same, with many unanswered requests per stream.
    Stream,
    /// GetSession: 20 keys of each scope, the newest 20 of 10,000 events.
    Read,
    /// Appends and reads, one at a time, in a short and in a long session.
    Length,
    /// Appends, reads and lists, one at a time, among few and among many sessions.
    Sessions,
}

fn positive(text: &str) -> Result<usize, String> {
    let number = text.parse::<usize>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("`{text}` is no whole number from 1"))
}

/// Runs `sessiond bench`.
///
/// # Errors
///
/// When the server is not there or refuses, or any call of a measurement failed.
pub async fn run(args: BenchArgs) -> Result<(), Failure> {
    let mut servers = Vec::new();
    for _ in 0..args.connections {
        servers.push(Server::connect_for_streams(&args.connect).await?);
    }
    let app = args.app.clone().unwrap_or_else(|| format!("bench-{}", unique_id()));
    let mut bench = Bench {
        ground: Ground::new(servers, app, args.body_bytes),
        table: Table::new(args.json),
        failed: false,
        args,
    };
    let stop = Arc::clone(&bench.ground.stop);
    let interrupt = tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            tell("note: interrupted; what was made is being removed");
            stop.store(true, Ordering::Relaxed);
        }
    });
    let measured = bench.measure().await;
    interrupt.abort();
    let removed = if bench.args.keep { Ok(()) } else { bench.ground.remove().await };
    measured.and(removed)?;
    if bench.failed { Err(Failure::Reported) } else { Ok(()) }
}

struct Bench {
    args: BenchArgs,
    ground: Ground,
    table: Table,
    /// Some call failed.
    failed: bool,
}

impl Bench {
    async fn measure(&mut self) -> Result<(), Failure> {
        let workloads = match self.args.workloads.as_slice() {
            [] => vec![Workload::Append, Workload::Stream, Workload::Read],
            chosen => chosen.to_vec(),
        };
        for workload in workloads {
            match workload {
                Workload::Append => self.append().await?,
                Workload::Stream => self.stream().await?,
                Workload::Read => self.read().await?,
                Workload::Length => self.length().await?,
                Workload::Sessions => self.sessions().await?,
            }
        }
        Ok(())
    }

    async fn append(&mut self) -> Result<(), Failure> {
        for in_flight in self.args.in_flight.clone() {
            let keys = self
                .ground
                .sessions(&format!("append-{in_flight}"), 0..in_flight as u64, 1)
                .await?;
            let calls: Vec<_> = keys.iter().map(|key| self.ground.append(key)).collect();
            let setting = Setting { in_flight, ..Setting::default() };
            self.calls("append", setting, &calls).await?;
        }
        Ok(())
    }

    async fn stream(&mut self) -> Result<(), Failure> {
        let outstanding = self.args.outstanding;
        for streams in self.args.streams.clone() {
            let keys =
                self.ground.sessions(&format!("stream-{streams}"), 0..streams as u64, 1).await?;
            let setting =
                Setting { in_flight: outstanding, streams: Some(streams), ..Setting::default() };
            for (measure, counts) in self.rounds() {
                let pace = Pace::start(measure, &self.ground.stop);
                let workers = keys.iter().enumerate().map(|(number, key)| {
                    let message = self.ground.stream_item(key).message;
                    windowed(Arc::clone(&pace), self.ground.client(number), message, outstanding)
                });
                let (elapsed, tally) = gather(&pace, workers).await;
                self.report("stream", setting, elapsed, &tally, counts)?;
            }
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<(), Failure> {
        let keys = self.ground.sessions("read", 0..1, KEYS).await?;
        let Some(key) = keys.first() else { return Ok(()) };
        self.ground.fill(key, READ_EVENTS).await?;
        for in_flight in self.args.in_flight.clone() {
            let calls = vec![self.ground.read(key); in_flight];
            let setting = Setting { in_flight, ..Setting::default() };
            self.calls("read", setting, &calls).await?;
        }
        Ok(())
    }

    async fn length(&mut self) -> Result<(), Failure> {
        for events in self.args.events.clone() {
            let keys = self.ground.sessions(&format!("length-{events}"), 0..1, KEYS).await?;
            let Some(key) = keys.first() else { return Ok(()) };
            tell(&format!("note: filling a session with {events} events"));
            self.ground.fill(key, events).await?;
            let setting = Setting { in_flight: 1, events: Some(events), ..Setting::default() };
            self.append_and_read(setting, key).await?;
        }
        Ok(())
    }

    async fn sessions(&mut self) -> Result<(), Failure> {
        let mut numbers = self.args.sessions.clone();
        numbers.sort_unstable();
        let mut made = 0;
        for sessions in numbers {
            tell(&format!("note: making {sessions} sessions"));
            self.ground.sessions("among", made..sessions, 1).await?;
            made = sessions;
            let key = &self.ground.key("among", 0);
            let setting = Setting { in_flight: 1, sessions: Some(sessions), ..Setting::default() };
            self.append_and_read(setting, key).await?;
            let list = [self.ground.list()];
            self.calls("list", setting, &list).await?;
        }
        Ok(())
    }

    async fn append_and_read(&mut self, setting: Setting, key: &SessionKey) -> Result<(), Failure> {
        let (append, read) = ([self.ground.append(key)], [self.ground.read(key)]);
        self.calls("append", setting, &append).await?;
        self.calls("read", setting, &read).await
    }

    /// One worker per call, each sending its own again and again.
    async fn calls(
        &mut self,
        workload: &'static str,
        setting: Setting,
        calls: &[Call],
    ) -> Result<(), Failure> {
        for (measure, counts) in self.rounds() {
            let pace = Pace::start(measure, &self.ground.stop);
            let workers = calls.iter().enumerate().map(|(number, call)| {
                one_by_one(Arc::clone(&pace), self.ground.client(number), call.clone())
            });
            let (elapsed, tally) = gather(&pace, workers).await;
            self.report(workload, setting, elapsed, &tally, counts)?;
        }
        Ok(())
    }

    /// What is run: a warm-up that does not count, and the measurement that does.
    fn rounds(&self) -> Vec<(Measure, bool)> {
        let measure = match self.args.count {
            Some(count) => Measure::Calls(count),
            None => Measure::For(Duration::from_secs(self.args.seconds)),
        };
        let warmup = Measure::For(Duration::from_secs(self.args.warmup));
        if self.args.warmup == 0 {
            vec![(measure, true)]
        } else {
            vec![(warmup, false), (measure, true)]
        }
    }

    fn report(
        &mut self,
        workload: &'static str,
        setting: Setting,
        elapsed: Duration,
        tally: &tally::Tally,
        counts: bool,
    ) -> Result<(), Failure> {
        if self.ground.stop.load(Ordering::Relaxed) {
            return Err(Failure::Failed("interrupted".to_owned()));
        }
        if !counts {
            return Ok(());
        }
        if let Some(error) = tally.first_error() {
            tell(&format!("error: some calls failed, the first with {error}"));
            self.failed = true;
        }
        self.table.row(&Row::new(workload, setting, elapsed, tally))
    }
}
