//! Arguments that several commands share, with the same names everywhere.

use std::collections::HashMap;

use clap::{Args, builder::NonEmptyStringValueParser};

use super::{failure::Failure, parse, time};
use crate::proto::v1::{JsonForm, Scope, Session, SessionKey, session};

/// The form in which the client asks for JSON: exact numbers, embedded as they come.
pub const JSON_FORM: i32 = JsonForm::Text as i32;

/// One session, by its whole key.
#[derive(Debug, Clone, Args)]
pub struct KeyArgs {
    /// Application.
    #[arg(long, env = "SESSIOND_APP", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub app: String,
    /// User within the application.
    #[arg(long, env = "SESSIOND_USER", value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub user: String,
    /// Session of the user.
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub session: String,
}

impl KeyArgs {
    /// The key as the contract has it.
    pub fn key(&self) -> SessionKey {
        SessionKey {
            app_name: self.app.clone(),
            user_id: self.user.clone(),
            session_id: self.session.clone(),
        }
    }
}

/// One session, by its whole key or by its bare id.
#[derive(Debug, Clone, Args)]
pub struct AnyKeyArgs {
    /// Application; without it and --user the session is found by its id alone,
    /// if only one has it.
    #[arg(long, env = "SESSIOND_APP", value_name = "NAME")]
    pub app: Option<String>,
    /// User within the application.
    #[arg(long, env = "SESSIOND_USER", value_name = "ID")]
    pub user: Option<String>,
    /// Session.
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub session: String,
}

impl AnyKeyArgs {
    /// The key as the contract has it.
    ///
    /// # Errors
    ///
    /// When one of application and user is given without the other.
    pub fn key(&self) -> Result<SessionKey, Failure> {
        let app_name = self.app.clone().unwrap_or_default();
        let user_id = self.user.clone().unwrap_or_default();
        if app_name.is_empty() != user_id.is_empty() {
            return Err(Failure::Usage(
                "give --app and --user (or SESSIOND_APP and SESSIOND_USER) together, or neither: \
                 --app '' --user '' looks the session up by its id alone"
                    .to_owned(),
            ));
        }
        Ok(SessionKey { app_name, user_id, session_id: self.session.clone() })
    }
}

/// An application, one of its users, or one of that user's sessions.
#[derive(Debug, Clone, Args)]
pub struct ScopeArgs {
    /// Application.
    #[arg(long, env = "SESSIOND_APP", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub app: String,
    /// User within the application; without it the application itself is meant
    /// (--user '' where SESSIOND_USER is set).
    #[arg(long, env = "SESSIOND_USER", value_name = "ID")]
    pub user: Option<String>,
    /// Session of the user; without it the user is meant.
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
}

impl ScopeArgs {
    /// The scope as the contract has it.
    ///
    /// # Errors
    ///
    /// When there is a session without a user.
    pub fn scope(&self) -> Result<Scope, Failure> {
        let user_id = self.user.clone().unwrap_or_default();
        let session_id = self.session.clone().unwrap_or_default();
        if user_id.is_empty() && !session_id.is_empty() {
            return Err(Failure::Usage("--session needs --user".to_owned()));
        }
        Ok(Scope { app_name: self.app.clone(), user_id, session_id })
    }
}

/// What is said about a session beside its state.
#[derive(Debug, Clone, Default, Args)]
pub struct AboutArgs {
    /// Name for people.
    #[arg(long, value_name = "NAME")]
    pub display_name: Option<String>,
    /// Label for filters; may be repeated.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parse::label)]
    pub labels: Vec<(String, String)>,
    /// The session ceases to exist after this long: 90s, 15m, 1h30m, 7d.
    #[arg(long, value_name = "DURATION", value_parser = time::parse_duration, conflicts_with = "expire_time")]
    pub ttl: Option<prost_types::Duration>,
    /// The session ceases to exist at this time (RFC 3339).
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    pub expire_time: Option<prost_types::Timestamp>,
}

impl AboutArgs {
    /// A session that says this and nothing else.
    pub fn session(&self) -> Session {
        let ttl = self.ttl.map(session::Expiration::Ttl);
        let expire_time = self.expire_time.map(session::Expiration::ExpireTime);
        Session {
            display_name: self.display_name.clone().unwrap_or_default(),
            labels: label_map(&self.labels),
            expiration: ttl.or(expire_time),
            ..Session::default()
        }
    }
}

/// Labels as the contract has them; of equal names the last counts.
pub fn label_map(labels: &[(String, String)]) -> HashMap<String, String> {
    labels.iter().cloned().collect()
}

/// How much of a list to fetch, and in what portions.
#[derive(Debug, Clone, Copy, Args)]
pub struct PageArgs {
    /// Stop after so many items; all pages are fetched otherwise.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Items asked for at a time.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(i32).range(1..=1000))]
    pub page_size: i32,
}

impl PageArgs {
    /// The size of the next page when `seen` items have come; none when enough have.
    pub fn next(&self, seen: u64) -> Option<i32> {
        let Some(limit) = self.limit else {
            return Some(self.page_size);
        };
        let left = i32::try_from(limit.saturating_sub(seen)).unwrap_or(i32::MAX);
        (left > 0).then(|| left.min(self.page_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any_key(app: Option<&str>, user: Option<&str>) -> Result<SessionKey, Failure> {
        let args = AnyKeyArgs {
            app: app.map(str::to_owned),
            user: user.map(str::to_owned),
            session: "s".to_owned(),
        };
        args.key()
    }

    #[test]
    fn a_key_is_whole_or_bare() {
        assert_eq!(any_key(Some("a"), Some("u")).unwrap().user_id, "u");
        assert_eq!(any_key(None, Some("")).unwrap().app_name, "");
        for (app, user) in [(Some("a"), None), (None, Some("u")), (Some("a"), Some(""))] {
            assert!(matches!(any_key(app, user), Err(Failure::Usage(_))));
        }
    }

    #[test]
    fn an_empty_user_means_the_application() {
        let mut args = ScopeArgs { app: "a".to_owned(), user: Some(String::new()), session: None };
        assert_eq!(args.scope().unwrap().user_id, "");
        args.session = Some("s".to_owned());
        assert!(matches!(args.scope(), Err(Failure::Usage(_))));
    }

    #[test]
    fn pages_never_exceed_the_limit() {
        let pages = |limit, page_size| PageArgs { limit, page_size };
        assert_eq!(pages(None, 500).next(10_000), Some(500));
        assert_eq!(pages(Some(600), 500).next(0), Some(500));
        assert_eq!(pages(Some(600), 500).next(500), Some(100));
        assert_eq!(pages(Some(600), 500).next(600), None);
        assert_eq!(pages(Some(0), 500).next(0), None);
    }
}
