//! `sessiond render`: state put into an instruction.

use clap::Args;

use super::{
    args::KeyArgs,
    connect::{ConnectArgs, Server},
    failure::Failure,
    output::{self, Output},
    parse,
};
use crate::proto::v1::RenderTemplateRequest;

/// `sessiond render`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond render --app shop --user alice --session s1 --template 'Speak {user:lang?}. Topic: {topic}'
  sessiond render --app shop --user alice --session s1 --template @instruction.txt --text

{key} is replaced by the key's value; {key?} by nothing where there is none.")]
pub struct RenderArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    key: KeyArgs,
    /// The template.
    #[arg(long, value_name = "TEXT|@FILE", value_parser = parse::text_or_file)]
    template: String,
    /// Use this invocation's temp: keys as well.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    invocation: String,
    /// Print the text itself rather than a JSON object with it.
    #[arg(long)]
    text: bool,
}

/// Runs `sessiond render`.
///
/// # Errors
///
/// When the server is not there or refuses.
pub async fn run(args: RenderArgs) -> Result<(), Failure> {
    let server = Server::connect(&args.connect).await?;
    let request = RenderTemplateRequest {
        key: Some(args.key.key()),
        template: args.template,
        invocation_id: args.invocation,
    };
    let answer = server.state().render_template(request).await?.into_inner();
    if args.text {
        let mut output = Output::stdout();
        output.text(&answer.text)?;
        return output.flush();
    }
    output::print(&serde_json::json!({ "text": answer.text }))
}
