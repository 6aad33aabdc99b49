//! Where the content of a file goes: to the address that the file names, unless the arguments say another one.

use std::path::Path;

use clap::Args;

use crate::{
    cli::{adk_file::Address, failure::Failure},
    proto::v1,
};

#[derive(Debug, Default, Args)]
pub struct AddressArgs {
    /// Application of files that do not name one. A file that names another one is refused.
    #[arg(long, env = "SESSIOND_APP", value_name = "NAME")]
    app: Option<String>,
    /// User of files that do not name one. A file that names another one is refused.
    #[arg(long, env = "SESSIOND_USER", value_name = "ID")]
    user: Option<String>,
    /// Also import files that name another application or user than --app and --user, to where they say.
    #[arg(long)]
    as_named: bool,
    /// Import everything into this application, whatever the files say.
    #[arg(long, value_name = "NAME", conflicts_with = "as_named")]
    into_app: Option<String>,
    /// Import everything into this user, whatever the files say.
    #[arg(long, value_name = "ID", conflicts_with = "as_named")]
    into_user: Option<String>,
}

impl AddressArgs {
    /// The address of a session from a file's `own` ids.
    pub fn session(&self, own: &Address, path: &Path) -> Result<v1::SessionKey, Failure> {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let stem = name.strip_suffix(".json").unwrap_or(&name);
        let stem = stem.strip_suffix(".session").unwrap_or(stem);
        let stem = (path != Path::new("-")).then_some(stem);
        Ok(v1::SessionKey {
            app_name: self.application(&own.app_name)?,
            user_id: self.user(&own.user_id)?,
            session_id: pick(&own.session_id, stem, "session", "Give it a member `id`")?,
        })
    }

    /// The address of an application's or a user's state from a file's `own` ids.
    pub fn shared(&self, own: &Address) -> Result<v1::SessionKey, Failure> {
        let app_name = self.application(&own.app_name)?;
        // Without a user the state is the application's.
        let user_id = match own.user_id.as_str() {
            "" => String::new(),
            user_id => self.user(user_id)?,
        };
        Ok(v1::SessionKey { app_name, user_id, session_id: String::new() })
    }

    fn application(&self, own: &str) -> Result<String, Failure> {
        self.one_of(own, [&self.app, &self.into_app], ["application", "app"])
    }

    fn user(&self, own: &str) -> Result<String, Failure> {
        self.one_of(own, [&self.user, &self.into_user], ["user", "user"])
    }

    fn one_of(
        &self,
        own: &str,
        [default, into]: [&Option<String>; 2],
        [what, flag]: [&str; 2],
    ) -> Result<String, Failure> {
        let [default, into] = [default, into].map(|it| it.as_deref().filter(|it| !it.is_empty()));
        match (into, default) {
            (Some(into), _) => Ok(into.to_owned()),
            (None, Some(default)) if ![default, ""].contains(&own) && !self.as_named => {
                Err(Failure::Failed(format!(
                    "the file names the {what} `{own}`, and --{flag} is `{default}`. Pass --into-{flag} to copy it there, or --as-named to import it into `{own}`"
                )))
            }
            (None, default) => pick(own, default, what, &format!("Pass --{flag}")),
        }
    }
}

fn pick(own: &str, default: Option<&str>, what: &str, remedy: &str) -> Result<String, Failure> {
    let id = [Some(own), default].into_iter().flatten().find(|id| !id.is_empty());
    let missing = || Failure::Failed(format!("the file names no {what}. {remedy}"));
    id.map(str::to_owned).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::convert::address_of;

    fn args(app: &str, user: &str) -> AddressArgs {
        AddressArgs { app: Some(app.to_owned()), user: Some(user.to_owned()), ..Default::default() }
    }

    fn address(
        args: &AddressArgs,
        [app, user, session]: [&str; 3],
        path: &str,
    ) -> Result<String, String> {
        let [app_name, user_id, session_id] = [app, user, session].map(str::to_owned);
        let own = Address { app_name, user_id, session_id };
        let key = args.session(&own, Path::new(path)).map_err(|failure| failure.text())?;
        Ok([key.app_name, key.user_id, key.session_id].join(" "))
    }

    #[test]
    fn a_file_without_ids_takes_those_of_the_arguments_and_its_name() {
        for (path, session_id) in [
            ("dir/chat.session.json", "chat"),
            ("chat.json", "chat"),
            ("chat", "chat"),
            ("chat.session", "chat"),
            ("a.b.json", "a.b"),
        ] {
            let named = address(&args("b", "v"), ["", "", ""], path);
            assert_eq!(named, Ok(format!("b v {session_id}")));
        }
        assert_eq!(address(&args("", ""), ["a", "u", "s"], "x.json"), Ok("a u s".to_owned()));
    }

    #[test]
    fn a_missing_id_is_an_error_that_says_what_to_pass() {
        let missing = |app, user, path| address(&args(app, user), ["", "", ""], path).unwrap_err();
        assert!(missing("", "u", "x.json").contains("--app"));
        assert!(missing("a", "", "x.json").contains("--user"));
        assert!(missing("a", "u", "-").contains("`id`"));
    }

    #[test]
    fn a_file_of_somebody_else_is_refused_unless_it_is_meant() {
        let own = ["victim", "chief", "s"];
        for (app, user, part) in
            [("a", "chief", "--into-app"), ("victim", "me", "--into-user"), ("a", "", "--as-named")]
        {
            let error = address(&args(app, user), own, "x.json").unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(address(&args("victim", "chief"), own, "x"), Ok("victim chief s".to_owned()));
        let as_named = AddressArgs { as_named: true, ..args("a", "u") };
        assert_eq!(address(&as_named, own, "x"), Ok("victim chief s".to_owned()));
        let into = AddressArgs {
            into_app: Some("copy".to_owned()),
            into_user: Some("eve".to_owned()),
            ..args("a", "u")
        };
        assert_eq!(address(&into, own, "x"), Ok("copy eve s".to_owned()));
        let into = AddressArgs { into_app: Some("copy".to_owned()), ..Default::default() };
        assert_eq!(address(&into, own, "x"), Ok("copy chief s".to_owned()));
    }

    #[test]
    fn shared_state_goes_by_the_same_rule() {
        let own = |app: &str, user: &str| Address {
            app_name: app.to_owned(),
            user_id: user.to_owned(),
            session_id: String::new(),
        };
        let args = args("a", "u");
        assert_eq!(address_of(args.shared(&own("a", "u")).unwrap()), own("a", "u"));
        assert_eq!(address_of(args.shared(&own("", "")).unwrap()), own("a", ""));
        assert!(args.shared(&own("victim", "")).is_err());
        assert!(args.shared(&own("a", "chief")).is_err());
    }
}
