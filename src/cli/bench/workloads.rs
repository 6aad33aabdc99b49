//! The workloads: their fixtures, calls and reports.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use clap::{Args, ValueEnum, value_parser};

use super::{
    fixture::{Fixture, KEYS},
    histogram::Results,
    load::{Call, Limit, Round, gather, one_by_one, pipelined},
    table::{Row, Setting, Table},
};
use crate::{
    cli::{failure::Failure, parse, system::tell},
    proto::v1::SessionKey,
};

/// Events of the session that `read` reads.
const READ_EVENTS: u64 = 10_000;

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
}

#[derive(Debug, Args)]
pub struct WorkloadArgs {
    /// Workloads to measure; by default append, stream and read.
    #[arg(value_enum, value_name = "WORKLOAD")]
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
    /// append, hot, spread, read: calls in flight.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,16,64", value_parser = parse::positive)]
    in_flight: Vec<usize>,
    /// stream: concurrent streams.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "16", value_parser = parse::positive)]
    streams: Vec<usize>,
    /// stream: unanswered requests of each stream.
    #[arg(long, value_name = "N", default_value = "32", value_parser = parse::positive)]
    outstanding: usize,
    /// length: events in the session.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [100, 100_000])]
    events: Vec<u64>,
    /// sessions: sessions in the application.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [100, 10_000], value_parser = value_parser!(u64).range(1..))]
    sessions: Vec<u64>,
    /// spread: sessions in the application.
    #[arg(long, value_name = "N", default_value = "100000", value_parser = parse::positive)]
    existing: usize,
    /// spread: sessions that are appended to, evenly distributed among the existing ones.
    #[arg(long, value_name = "N", default_value = "10000", value_parser = parse::positive)]
    active: usize,
}

pub struct Bench {
    pub args: WorkloadArgs,
    pub fixture: Fixture,
    pub table: Table,
    /// Some call failed.
    pub failed: bool,
}

impl Bench {
    pub async fn measure(&mut self) -> Result<(), Failure> {
        let workloads = match self.args.workloads.as_slice() {
            [] => vec![Workload::Append, Workload::Stream, Workload::Read],
            chosen => chosen.to_vec(),
        };
        for workload in workloads {
            match workload {
                Workload::Append => self.append().await?,
                Workload::Hot => self.hot().await?,
                Workload::Spread => self.spread().await?,
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
            let name = format!("append-{in_flight}");
            let keys = self.fixture.sessions(&name, 0..in_flight as u64, 1).await?;
            let calls = keys.iter().map(|key| self.append_call(key)).collect();
            let setting = Setting { in_flight, ..Default::default() };
            self.calls("append", setting, calls).await?;
        }
        Ok(())
    }

    async fn hot(&mut self) -> Result<(), Failure> {
        for in_flight in self.args.in_flight.clone() {
            let key = self.session(&format!("hot-{in_flight}"), 1).await?;
            let setting = Setting { in_flight, ..Default::default() };
            self.calls("hot", setting, vec![self.append_call(&key)]).await?;
        }
        Ok(())
    }

    async fn spread(&mut self) -> Result<(), Failure> {
        let existing = self.args.existing;
        let active = self.args.active.min(existing);
        tell(&format!("note: creating {existing} sessions"));
        let keys = self.fixture.sessions("spread", 0..existing as u64, 1).await?;
        let active_keys = keys.iter().step_by(existing / active).take(active);
        let calls: Vec<_> = active_keys.map(|key| self.append_call(key)).collect();
        for in_flight in self.args.in_flight.clone() {
            let (sessions, active) = (Some(existing as u64), Some(active as u64));
            let setting = Setting { in_flight, sessions, active, ..Default::default() };
            self.calls("spread", setting, calls.clone()).await?;
        }
        Ok(())
    }

    async fn stream(&mut self) -> Result<(), Failure> {
        let outstanding = self.args.outstanding;
        for streams in self.args.streams.clone() {
            let name = format!("stream-{streams}");
            let keys = self.fixture.sessions(&name, 0..streams as u64, 1).await?;
            let setting =
                Setting { in_flight: outstanding, streams: Some(streams), ..Default::default() };
            for (limit, counts) in self.rounds() {
                let round = Round::start(limit, &self.fixture.stop);
                let workers = keys.iter().enumerate().map(|(number, key)| {
                    let server = self.fixture.server(number).clone();
                    pipelined(Arc::clone(&round), server, self.fixture.append(key), outstanding)
                });
                let (elapsed, results) = gather(&round, workers).await;
                self.report("stream", setting, elapsed, &results, counts)?;
            }
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<(), Failure> {
        let key = self.session("read", KEYS).await?;
        self.fixture.fill(&key, READ_EVENTS).await?;
        for in_flight in self.args.in_flight.clone() {
            let setting = Setting { in_flight, ..Default::default() };
            self.calls("read", setting, vec![self.fixture.read(&key)]).await?;
        }
        Ok(())
    }

    async fn length(&mut self) -> Result<(), Failure> {
        for events in self.args.events.clone() {
            let key = self.session(&format!("length-{events}"), KEYS).await?;
            tell(&format!("note: appending {events} events to a session"));
            self.fixture.fill(&key, events).await?;
            let setting = Setting { in_flight: 1, events: Some(events), ..Default::default() };
            self.append_and_read(setting, &key).await?;
        }
        Ok(())
    }

    async fn sessions(&mut self) -> Result<(), Failure> {
        let mut numbers = self.args.sessions.clone();
        numbers.sort_unstable();
        let mut created = 0;
        for sessions in numbers {
            tell(&format!("note: creating {sessions} sessions"));
            self.fixture.sessions("among", created..sessions, 1).await?;
            created = sessions;
            let key = self.fixture.key("among", 0);
            let setting = Setting { in_flight: 1, sessions: Some(sessions), ..Default::default() };
            self.append_and_read(setting, &key).await?;
            self.calls("list", setting, vec![self.fixture.list()]).await?;
        }
        Ok(())
    }

    fn append_call(&self, key: &SessionKey) -> Call {
        Call::Append(Box::new(self.fixture.append(key)))
    }

    /// Creates one session.
    async fn session(&mut self, name: &str, keys: usize) -> Result<SessionKey, Failure> {
        self.fixture.sessions(name, 0..1, keys).await?;
        Ok(self.fixture.key(name, 0))
    }

    async fn append_and_read(&mut self, setting: Setting, key: &SessionKey) -> Result<(), Failure> {
        self.calls("append", setting, vec![self.append_call(key)]).await?;
        self.calls("read", setting, vec![self.fixture.read(key)]).await
    }

    /// Measures `setting.in_flight` workers that go through the calls together.
    async fn calls(
        &mut self,
        workload: &'static str,
        setting: Setting,
        calls: Vec<Call>,
    ) -> Result<(), Failure> {
        let calls: Arc<[Call]> = calls.into();
        let workers = setting.in_flight;
        for (limit, counts) in self.rounds() {
            let round = Round::start(limit, &self.fixture.stop);
            let running = (0..workers).map(|worker| {
                let (round, server) = (Arc::clone(&round), self.fixture.server(worker).clone());
                one_by_one(round, server, Arc::clone(&calls), worker, workers)
            });
            let (elapsed, results) = gather(&round, running).await;
            self.report(workload, setting, elapsed, &results, counts)?;
        }
        Ok(())
    }

    /// The warm-up, which is not reported, and the measurement.
    fn rounds(&self) -> Vec<(Limit, bool)> {
        let WorkloadArgs { warmup, seconds, count, .. } = self.args;
        let measurement = count.map_or(Limit::Time(Duration::from_secs(seconds)), Limit::Calls);
        let warmup = (warmup > 0).then_some((Limit::Time(Duration::from_secs(warmup)), false));
        warmup.into_iter().chain([(measurement, true)]).collect()
    }

    fn report(
        &mut self,
        workload: &'static str,
        setting: Setting,
        elapsed: Duration,
        results: &Results,
        counts: bool,
    ) -> Result<(), Failure> {
        if self.fixture.stop.load(Ordering::Relaxed) {
            return Err(Failure::Failed("interrupted".to_owned()));
        }
        if !counts {
            return Ok(());
        }
        if let Some(error) = &results.first_error {
            tell(&format!("error: {} calls failed, the first with {error}", results.errors));
            self.failed = true;
        }
        self.table.row(&Row::new(workload, setting, elapsed, results))
    }
}
