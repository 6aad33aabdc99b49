//! `sessiond app list` and `sessiond user list`: what the store holds.

use clap::Subcommand;

use super::{
    args::PageArgs,
    connect::{Group, Server},
    failure::Failure,
    message::AsJson,
    output::{self, table::Column},
};
use crate::proto::v1::{ListApplicationsRequest, ListUsersRequest};

#[derive(Debug, Subcommand)]
pub enum AppAction {
    /// List the applications that have a session or state, one per line.
    #[command(after_help = "Examples:
  sessiond app list
  sessiond app list --limit 10 --output json")]
    List {
        #[command(flatten)]
        pages: PageArgs,
    },
}

#[derive(Debug, Subcommand)]
pub enum UserAction {
    /// List the users of an application that have a session or state, one per line.
    #[command(after_help = "Examples:
  sessiond user list --app shop
  sessiond user list --app shop --limit 10 --output json")]
    List {
        /// Application.
        #[arg(long, env = "SESSIOND_APP", value_name = "NAME")]
        app: String,
        #[command(flatten)]
        pages: PageArgs,
    },
}

const APPS: [Column; 1] = [Column::new("APP", "app_name")];
const USERS: [Column; 2] = [Column::new("APP", "app_name"), Column::new("USER", "user_id")];

pub async fn run_app(Group { connect, action }: Group<AppAction>) -> Result<(), Failure> {
    let AppAction::List { pages } = action;
    let admin = Server::connect(&connect).await?.admin();
    let fetch = async |page_size, page_token| {
        let request = ListApplicationsRequest { page_size, page_token };
        let page = admin.clone().list_applications(request).await?.into_inner();
        Ok((page.applications, page.next_page_token))
    };
    output::print_pages((connect.format(), &APPS), pages, AsJson, fetch).await
}

pub async fn run_user(Group { connect, action }: Group<UserAction>) -> Result<(), Failure> {
    let UserAction::List { app, pages } = action;
    let admin = Server::connect(&connect).await?.admin();
    let fetch = async |page_size, page_token| {
        let request = ListUsersRequest { app_name: app.clone(), page_size, page_token };
        let page = admin.clone().list_users(request).await?.into_inner();
        Ok((page.users, page.next_page_token))
    };
    output::print_pages((connect.format(), &USERS), pages, AsJson, fetch).await
}
