//! Loads of a sessiond server that `sessiond bench` does not measure: floods, overloads, many sessions, long sessions.

mod fairness;
mod flood;
mod memory;
mod open_loop;
mod overload;

use std::{process::ExitCode, time::Duration};

use clap::{Parser, Subcommand, ValueEnum};
use mimalloc::MiMalloc;
use sessiond::{
    cli::{
        Failure,
        bench::{Bench, Call, KEYS, LoadArgs, Setting},
        parse_seconds, positive, tell,
    },
    proto::v1::{JsonForm, ListSessionsRequest, SessionOrder},
};

use self::{
    fairness::FairnessArgs,
    flood::{Flood, FloodArgs},
    open_loop::{LATEST, Rate},
    overload::{Best, OverloadArgs},
};

/// That of the server, so that the client takes as little of the machine as it can.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Measures a running sessiond server under loads that `sessiond bench` does not have.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:
  sessiond-bench length --events 100,1000000 --count 1000
  sessiond-bench sessions --sessions 100,100000
  sessiond-bench spread --active 10000 --existing 100000
  sessiond-bench overload --in-flight 16,64,256 --pid 4711
  sessiond-bench flood --token-file modest --flood-token-file flooding
  sessiond-bench fairness --only rewinds,labels",
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    load: LoadArgs,
    /// Workloads to measure.
    #[arg(value_enum, required = true, value_name = "WORKLOAD")]
    workloads: Vec<Workload>,
    /// length: events in the session.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "100,100000")]
    events: Vec<usize>,
    /// sessions: sessions in the application.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "100,10000", value_parser = positive)]
    sessions: Vec<usize>,
    /// spread: sessions in the application.
    #[arg(long, value_name = "N", default_value = "100000", value_parser = positive)]
    existing: usize,
    /// spread: sessions that are appended to, evenly distributed among the existing ones.
    #[arg(long, value_name = "N", default_value = "10000", value_parser = positive)]
    active: usize,
    #[command(flatten)]
    overload: OverloadArgs,
    #[command(flatten)]
    flood: FloodArgs,
    /// overload, flood: deadline of a call in seconds, such as 0.5.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    deadline: Duration,
    /// overload, flood: calls in flight at most. Calls beyond are not begun, and counted.
    #[arg(long, value_name = "N", default_value = "20000", value_parser = positive)]
    max_in_flight: usize,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Starts servers, and measures what expensive loads of one caller do to others.
    Fairness(FairnessArgs),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// AppendEvent: appends go round many active sessions among many more existing ones.
    Spread,
    /// Appends and reads, one at a time, in a short and in a long session.
    Length,
    /// Appends, reads and lists, one at a time, among few and among many sessions.
    Sessions,
    /// AppendEvent: the best throughput, then many times as many calls as that.
    Overload,
    /// AppendEvent: a caller of few appends alone, and beside another that floods the server.
    Flood,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let measured = match &arguments.command {
        Some(Command::Fairness(args)) => fairness::run(args, &arguments.load.connect).await,
        None => measure(&arguments).await,
    };
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

async fn measure(arguments: &Arguments) -> Result<(), Failure> {
    Bench::run(&arguments.load, async |bench| {
        for workload in &arguments.workloads {
            match workload {
                Workload::Spread => spread(bench, arguments).await?,
                Workload::Length => length(bench, &arguments.events).await?,
                Workload::Sessions => sessions(bench, &arguments.sessions).await?,
                Workload::Overload => overload(bench, arguments).await?,
                Workload::Flood => flood(bench, arguments).await?,
            }
        }
        Ok(())
    })
    .await
}

async fn spread(bench: &mut Bench<'_>, arguments: &Arguments) -> Result<(), Failure> {
    let (existing, active) = (arguments.existing, arguments.active.min(arguments.existing));
    tell(&format!("note: creating {existing} sessions"));
    let keys = bench.fixture.sessions("spread", 0..existing, 1).await?;
    let calls = bench.fixture.appends(keys.iter().step_by(existing / active).take(active));
    for &in_flight in &bench.args.in_flight {
        let others = [("sessions", existing), ("active", active)].into();
        bench.measure("spread", Setting { in_flight, others }, calls.clone()).await?;
    }
    Ok(())
}

/// One call at a time, with one other parameter.
fn one_at_a_time(name: &'static str, value: usize) -> Setting {
    Setting { in_flight: 1, others: [(name, value)].into() }
}

async fn length(bench: &mut Bench<'_>, numbers: &[usize]) -> Result<(), Failure> {
    for &events in numbers {
        let name = format!("length-{events}");
        let keys = bench.fixture.sessions(&name, 0..1, KEYS).await?;
        tell(&format!("note: appending {events} events to a session"));
        bench.fixture.fill(&keys[0], events).await?;
        let setting = || one_at_a_time("events", events);
        bench.measure("append", setting(), bench.fixture.appends(&keys)).await?;
        bench.measure("read", setting(), vec![bench.fixture.read(&keys[0])]).await?;
    }
    Ok(())
}

async fn sessions(bench: &mut Bench<'_>, numbers: &[usize]) -> Result<(), Failure> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    let mut created = 0;
    for sessions in numbers {
        tell(&format!("note: creating {sessions} sessions"));
        bench.fixture.sessions("among", created..sessions, 1).await?;
        created = sessions;
        let key = bench.fixture.key("among", 0);
        let setting = || one_at_a_time("sessions", sessions);
        let list = list(&bench.fixture.app);
        bench.measure("append", setting(), bench.fixture.appends([&key])).await?;
        bench.measure("read", setting(), vec![bench.fixture.read(&key)]).await?;
        bench.measure("list", setting(), vec![list]).await?;
    }
    Ok(())
}

/// The first page of an application's sessions, most recently used first, as a user interface shows them.
fn list(app: &str) -> Call {
    Call::List(ListSessionsRequest {
        app_name: app.to_owned(),
        page_size: 50,
        order: SessionOrder::LastEventTimeDesc.into(),
        json_form: JsonForm::Text.into(),
        ..Default::default()
    })
}

async fn overload(bench: &mut Bench<'_>, arguments: &Arguments) -> Result<(), Failure> {
    let mut memory = arguments.overload.memory().await;
    let in_flight = &bench.args.in_flight;
    let sessions = in_flight.iter().copied().max().unwrap_or(1);
    let keys = bench.fixture.sessions("overload", 0..sessions, 1).await?;
    let appends: Vec<_> = keys.iter().map(|key| bench.fixture.append(key)).collect();
    let calls = bench.fixture.appends(&keys);
    let mut best = Best::default();
    for &in_flight in in_flight {
        let per_second =
            bench.measure("append", Setting::in_flight(in_flight), calls.clone()).await?;
        if per_second > best.per_second {
            best = Best { per_second, in_flight };
        }
    }
    memory.read_best().await;
    let rate = rate(arguments, best.per_second * arguments.overload.factor);
    let servers = &bench.fixture.servers;
    let report = overload::measure(servers, &appends, rate, best, &memory).await;
    bench.print(&report, report.text())
}

async fn flood(bench: &mut Bench<'_>, arguments: &Arguments) -> Result<(), Failure> {
    let flood = Flood {
        connect: arguments.flood.connect(&bench.args.connect),
        connections: bench.args.connections,
        app: format!("{}-flood", bench.fixture.app.as_str()),
        body_bytes: bench.args.body_bytes,
        rate: rate(arguments, arguments.flood.flood_rate as f64),
        keep: bench.args.keep,
    };
    let slow = Rate { latest: None, ..rate(arguments, arguments.flood.modest_rate as f64) };
    let report = flood::measure(&mut bench.fixture, flood, slow, bench.args.warmup).await?;
    bench.print(&report, report.text())
}

fn rate(arguments: &Arguments, per_second: f64) -> Rate {
    let Arguments { deadline, max_in_flight, .. } = *arguments;
    let seconds = arguments.load.seconds;
    Rate { per_second, seconds, deadline, max_in_flight, latest: Some(LATEST) }
}
