//! `sessiond bench`: throughput and latency of a running server.

mod fixture;
mod histogram;
mod load;
mod table;
mod workloads;

use std::sync::{Arc, atomic::Ordering};

use clap::Args;

use self::{
    fixture::Fixture,
    table::Table,
    workloads::{Bench, WorkloadArgs},
};
use super::{
    connect::{ConnectArgs, Server},
    failure::Failure,
    parse,
    system::{tell, unique_id},
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

Each run works in an application of its own and removes it at the end. The client takes its
share of the processor: a server without a client on its machine is faster.")]
pub struct BenchArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    workloads: WorkloadArgs,
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

pub async fn run(args: BenchArgs) -> Result<(), Failure> {
    let mut servers = Vec::new();
    for _ in 0..args.connections {
        servers.push(Server::connect_for_streams(&args.connect).await?);
    }
    let app = args.app.unwrap_or_else(|| format!("bench-{}", unique_id()));
    let fixture = Fixture::new(servers, app, args.body_bytes);
    let stop = Arc::clone(&fixture.stop);
    let interrupt = tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            tell("note: interrupted, removing the fixture");
            stop.store(true, Ordering::Relaxed);
        }
    });
    let mut bench =
        Bench { args: args.workloads, fixture, table: Table::new(args.json), failed: false };
    let measured = bench.measure().await;
    interrupt.abort();
    let removed = if args.keep { Ok(()) } else { bench.fixture.remove().await };
    measured.and(removed)?;
    if bench.failed { Err(Failure::Reported) } else { Ok(()) }
}
