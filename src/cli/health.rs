//! `sessiond health`: the health service of gRPC.

use clap::Args;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;

use super::{
    connect::{ConnectArgs, Server},
    doctor::check,
    failure::Failure,
    output,
};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond health && echo ready
  sessiond health --server unix:/run/sessiond.sock \\
      --service sessiond.v1.EventService

Exits with 0 if the server is SERVING, with 3 if it cannot be reached, and with
1 otherwise.")]
pub struct HealthArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// Check one service, such as sessiond.v1.EventService; by default the whole server.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    service: String,
}

pub async fn run(args: HealthArgs) -> Result<(), Failure> {
    let server = Server::connect(&args.connect).await?;
    let status = match check(&server, &args.service).await {
        Ok(answer) => answer.into_inner().status(),
        Err(Failure::Refused(status)) if status.code() == Code::NotFound => {
            return Err(Failure::Failed(format!("the server has no service `{}`", args.service)));
        }
        Err(failure) => return Err(failure),
    };
    output::print_as(
        args.connect.format(),
        &serde_json::json!({ "status": status.as_str_name() }),
    )?;
    match status {
        ServingStatus::Serving => Ok(()),
        _ => Err(Failure::Failed(format!("the server is {}", status.as_str_name()))),
    }
}
