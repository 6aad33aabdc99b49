//! `sessiond render`: a template filled with state.

use clap::Args;

use super::{
    args::KeyArgs,
    connect::{ConnectArgs, Server},
    failure::Failure,
    output, parse,
};
use crate::proto::v1::RenderTemplateRequest;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond render --app shop --user alice --session s1 --template 'Speak {user:lang?}. Topic: {topic}'
  sessiond render --app shop --user alice --session s1 --template @instruction.txt --text

{key} becomes the key's value, and {key?} becomes nothing if the key has none.")]
pub struct RenderArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    key: KeyArgs,
    /// The template.
    #[arg(long, value_name = "TEXT|@FILE", value_parser = parse::text_or_file)]
    template: String,
    /// Also use the temp: keys of this invocation.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    invocation: String,
    /// Print the text instead of JSON.
    #[arg(long)]
    text: bool,
}

pub async fn run(args: RenderArgs) -> Result<(), Failure> {
    let server = Server::connect(&args.connect).await?;
    let request = RenderTemplateRequest {
        key: Some(args.key.key()),
        template: args.template,
        invocation_id: args.invocation,
    };
    let answer = server.state().render_template(request).await?;
    if args.text {
        return output::print_text(&answer.into_inner().text);
    }
    output::print_answer(answer)
}
