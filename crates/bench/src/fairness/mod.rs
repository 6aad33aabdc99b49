//! `fairness`: what one caller's load does to the calls of others, and to the server's memory.
//!
//! Each load has a server of its own with a new store, which this starts and ends. The calls of the victim are measured alone, then beside
//! the load.

mod attacker;
mod latency;
mod loads;
mod raw;
mod report;
mod server;
mod victim;

use std::{
    convert::Infallible,
    future::pending,
    io::{Write, stderr, stdout},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use sessiond::cli::{ConnectArgs, Failure, bench::instant, positive, print, progress_bar, tell};
use tokio::{
    sync::oneshot,
    task::spawn_blocking,
    time::{interval, timeout},
};

use self::{
    attacker::Attacker,
    loads::{LOADS, Load},
    report::Report,
    server::Process,
    victim::Plan,
};
use crate::memory::{get, in_metrics};

/// How often the server's metrics are read.
const METRICS_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug, Args)]
pub struct FairnessArgs {
    /// Loads to make; by default all.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// List the loads.
    #[arg(long)]
    list: bool,
    /// The program to measure.
    #[arg(long, value_name = "PATH", default_value = "target/release/sessiond")]
    program: PathBuf,
    /// Store of the server: memory:, the URL of an empty PostgreSQL database, or sqlite for a new file.
    #[arg(long, value_name = "STORE", default_value = "sqlite")]
    store: String,
    /// How long the victim is measured alone, and how long a load begins new calls.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = positive)]
    seconds: usize,
    /// How long a load may last until the last answer.
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = positive)]
    limit: usize,
    /// Calls of each kind that the victim begins in a second.
    #[arg(long, value_name = "N", default_value = "50", value_parser = positive)]
    rate: usize,
    /// Print a JSON object per load, and the tables on standard error.
    #[arg(long)]
    json: bool,
}

pub async fn run(args: &FairnessArgs, connect: &ConnectArgs) -> Result<(), Failure> {
    if let Some(name) = args.only.iter().find(|name| LOADS.iter().all(|it| it.name != **name)) {
        return Err(Failure::Failed(format!("no load is named `{name}`. See --list.")));
    }
    let is_chosen =
        |load: &&Load| args.only.is_empty() || args.only.iter().any(|it| it == load.name);
    let mut failed = false;
    for load in LOADS.iter().filter(is_chosen) {
        if args.list {
            write(stdout(), &format!("{:24} {}\n", load.name, load.about))?;
            continue;
        }
        let progress = progress_bar(&format!("measuring {}", load.name), None);
        let measured = measure(load, args, connect).await;
        drop(progress);
        match measured {
            Ok(report) if args.json => {
                write(stderr(), &report.text())?;
                print(&report)?;
            }
            Ok(report) => write(stdout(), &report.text())?,
            Err(failure) => {
                tell(&format!("error: {} was not measured", load.name));
                failure.report();
                failed = true;
            }
        }
    }
    if failed { Err(Failure::Reported) } else { Ok(()) }
}

async fn measure(
    load: &Load,
    args: &FairnessArgs,
    connect: &ConnectArgs,
) -> Result<Report, Failure> {
    let process = Arc::new(Process::start(&args.program, &args.store, load.flags)?);
    let (address, admin) = (process.address.clone(), process.admin.clone());
    let seconds = Duration::from_secs(args.seconds as u64);
    let attacker = Arc::new(Attacker::new(address, admin, format!("shop-{}", load.name), seconds));
    let began = instant();
    (load.set_up)(Arc::clone(&attacker)).await?;
    attacker.has_set_up()?;
    let set_up_seconds = began.elapsed().as_secs_f64();

    let (alone_is_done, is_done) = oneshot::channel();
    let (stop, stopped) = oneshot::channel();
    let plan = Plan { alone: seconds, rate: args.rate as u64, alone_is_done, stop: stopped };
    let victims = spawn_blocking({
        let (process, connect, name) = (Arc::clone(&process), connect.clone(), load.name);
        move || victim::measure(&process, &connect, name, plan)
    });
    let (mut memory_before, mut lasted, mut samples) = (None, Duration::ZERO, Samples::default());
    if is_done.await.is_ok() {
        process.forget_peak();
        memory_before = process.resident();
        let began = instant();
        let attack = (load.attack)(Arc::clone(&attacker));
        let limited = timeout(Duration::from_secs(args.limit as u64), attack);
        let ended = tokio::select! {
            ended = limited => ended,
            never = samples.read(&process) => match never {},
        };
        lasted = began.elapsed();
        ended.unwrap_or(Ok(()))?;
    }
    // Fails if the victim has failed.
    let _ = stop.send(());
    let victims = victims.await.map_err(|error| Failure::Failed(error.to_string()))?;
    let [alone, beside] = victims?;
    let counts = attacker.counts().clone();
    Ok(Report {
        load: load.name,
        about: load.about,
        store: report::store_name(&args.store),
        set_up_seconds,
        seconds: lasted.as_secs_f64(),
        unanswered: counts.unanswered(),
        attack: counts,
        memory_before_bytes: memory_before,
        memory_peak_bytes: process.peak(),
        buffered_peak_bytes: samples.buffered,
        sweep_backlog: samples.backlog,
        alone,
        beside,
    })
}

fn write(mut to: impl Write, text: &str) -> Result<(), Failure> {
    let written = to.write_all(text.as_bytes()).and_then(|()| to.flush());
    written.map_err(|error| Failure::Failed(error.to_string()))
}

/// What the metrics say during the load.
#[derive(Default)]
struct Samples {
    /// The most bytes that are buffered for clients, if the server accounts for them.
    buffered: Option<u64>,
    /// Sessions that wait for the sweep, each second: expired ones, and tombstones as far as they can be counted.
    backlog: Vec<u64>,
}

impl Samples {
    async fn read(&mut self, process: &Process) -> Infallible {
        let mut ticks = interval(METRICS_INTERVAL);
        for tick in 0_u64.. {
            ticks.tick().await;
            let Some(metrics) = get(&process.admin, "/metrics").await else { continue };
            self.buffered = self.buffered.max(in_metrics(&metrics, "sessiond_buffered_bytes"));
            if tick % 4 == 0 {
                let expired = in_metrics(&metrics, "sessiond_expired_sessions");
                self.backlog
                    .extend(expired.map(|it| it + process.tombstones().unwrap_or_default()));
            }
        }
        pending().await
    }
}
