//! `sessiond policy check`: what a policy allows, and by which rule.

use std::{collections::BTreeMap, fs, path::PathBuf, process::ExitCode, sync::Arc};

use clap::{Args, Subcommand, builder::PossibleValuesParser};
use serde_json::json;

use super::print;
use crate::{
    access::{Identity, Policy, Principal, SUBJECT, parse},
    cli::tell,
    domain::{
        id::{AppName, UserId},
        permission::{Pattern, Right},
    },
};

/// What the names of callers begin with.
const KINDS: [&str; 7] = ["spiffe://", "dns:", "cn:", "jwt:", "token:", "uid:", "gid:"];

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Say what a caller may do by a policy file, and by which rules.
    Check(CheckArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond policy check policy.toml                      # only whether it can be read
  sessiond policy check policy.toml --as jwt:alice --app shop --user alice
  sessiond policy check policy.toml --as uid:1000 --alias gid:100 --app shop
  sessiond policy check policy.toml --as token:ci --app shop --user bob --right write

Prints a JSON object per right. Without --user it is about the application's own state.

Exit codes: 0 the file can be used and the right of --right is given, 1 otherwise, 2 usage error.")]
pub struct CheckArgs {
    /// The policy: a TOML file.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The caller, as the log of calls names it: spiffe://…, dns:…, cn:…, jwt:…, token:… or uid:…
    #[arg(long = "as", value_name = "PRINCIPAL", requires = "app", value_parser = principal_name)]
    principal: Option<String>,

    /// Another name of the caller, such as gid:100
    #[arg(long, value_name = "NAME", requires = "principal")]
    alias: Vec<String>,

    /// A claim of the caller's token; sub is by default what follows jwt: or token: in its name
    #[arg(long, value_name = "NAME=VALUE", requires = "principal", value_parser = claim)]
    claim: Vec<(String, String)>,

    /// Application
    #[arg(long, value_name = "NAME", requires = "principal", value_parser = app_name)]
    app: Option<AppName>,

    /// User of the application
    #[arg(long, value_name = "ID", requires = "app", value_parser = user_id)]
    user: Option<UserId>,

    /// Only this right
    #[arg(long, value_name = "RIGHT", requires = "principal",
          value_parser = PossibleValuesParser::new(Right::ALL.map(Right::as_str)))]
    right: Option<String>,
}

fn claim(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// A name without a kind would be one that no rule gives anything to.
fn principal_name(text: &str) -> Result<String, String> {
    let is_of = |kind| text.strip_prefix(kind).is_some_and(|rest| !rest.is_empty());
    match KINDS.into_iter().any(is_of) {
        true => Ok(text.to_owned()),
        false => Err(format!("must begin with one of {}", KINDS.join(" "))),
    }
}

fn app_name(text: &str) -> Result<AppName, String> {
    AppName::new(text).map_err(|_| "must be 1 to 512 bytes".to_owned())
}

fn user_id(text: &str) -> Result<UserId, String> {
    UserId::new(text).map_err(|_| "must be 1 to 512 bytes".to_owned())
}

pub fn run(command: &PolicyCommand) -> Result<ExitCode, String> {
    let PolicyCommand::Check(args) = command;
    let file = args.file.display();
    let text = fs::read_to_string(&args.file)
        .map_err(|error| format!("The policy '{file}' cannot be read ({error}). Pass its path."))?;
    let policy = parse(&text).map_err(|fault| format!("'{file}': {fault}"))?;
    for (rule, principal) in unknown_kinds(&policy) {
        tell(&format!(
            "warning: '{rule}' names '{principal}', and no caller has a name like that: names begin with one of {}",
            KINDS.join(" ")
        ));
    }
    let (Some(name), Some(app)) = (&args.principal, &args.app) else {
        print(&json!({ "rules": policy.rules.len() }))?;
        return Ok(ExitCode::SUCCESS);
    };
    let principal = principal(name, args);
    let mut all = true;
    for right in Right::ALL {
        if args.right.as_ref().is_some_and(|only| only != right.as_str()) {
            continue;
        }
        let rule = giving(&policy, &principal, right, app, args.user.as_ref());
        all &= rule.is_some();
        print(&json!({ "right": right.as_str(), "allowed": rule.is_some(), "rule": rule }))?;
    }
    Ok(if all || args.right.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Names that no caller can have, with the names of their rules.
fn unknown_kinds(policy: &Policy) -> impl Iterator<Item = (&str, String)> {
    policy.rules.iter().flat_map(|rule| {
        let unknown = rule.principals.iter().filter_map(|pattern| match pattern {
            Pattern::Exact(name) => principal_name(name).is_err().then(|| name.clone()),
            Pattern::Prefix(begin) => {
                let may = |kind: &str| kind.starts_with(begin.as_str()) || begin.starts_with(kind);
                (!KINDS.into_iter().any(may)).then(|| format!("{begin}*"))
            }
        });
        unknown.map(|principal| (rule.name.as_str(), principal))
    })
}

/// The first rule that gives a right.
fn giving<'p>(
    policy: &'p Policy,
    principal: &Principal,
    right: Right,
    app: &AppName,
    user: Option<&UserId>,
) -> Option<&'p str> {
    // The state of an application belongs to none of its users.
    let user = user.filter(|_| right != Right::WriteAppState);
    let mut rules = policy.rules.iter();
    let rule = rules.find(|rule| {
        let permission = rule.permission(principal);
        permission.is_some_and(|it| it.rights.has(right) && it.covers(app, user))
    });
    rule.map(|rule| rule.name.as_str())
}

fn principal(name: &str, args: &CheckArgs) -> Principal {
    let subject = name.strip_prefix("jwt:").or_else(|| name.strip_prefix("token:"));
    let mut claims: BTreeMap<_, _> =
        subject.map(|subject| (SUBJECT.to_owned(), subject.to_owned())).into_iter().collect();
    claims.extend(args.claim.iter().cloned());
    let (name, aliases) = (name.to_owned(), args.alias.clone());
    Principal::Identified(Arc::new(Identity { aliases, claims, ..Identity::new(name) }))
}
