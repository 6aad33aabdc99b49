//! Arguments that several commands share, with the same names everywhere.

use clap::{Args, builder::NonEmptyStringValueParser};

use super::{failure::Failure, parse, time};
use crate::{
    domain::limits::PAGE_ITEMS,
    proto::v1::{self, session},
};

/// The client asks for JSON as text, which keeps every number exact.
pub const JSON_FORM: i32 = v1::JsonForm::Text as i32;
/// Heading of the options of every command that calls the server.
pub const CONNECTION: &str = "Connection";

pub const MAX_PAGE: i32 = PAGE_ITEMS as i32;

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
    pub fn key(&self) -> v1::SessionKey {
        v1::SessionKey {
            app_name: self.app.clone(),
            user_id: self.user.clone(),
            session_id: self.session.clone(),
        }
    }
}

/// A session's id, with or without its option.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
struct NamedSession {
    /// Session.
    #[arg(value_name = "SESSION", value_parser = NonEmptyStringValueParser::new())]
    id: Option<String>,
    /// Session.
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    session: Option<String>,
}

/// One session, by its whole key or by its bare id.
#[derive(Debug, Clone, Args)]
pub struct AnyKeyArgs {
    #[command(flatten)]
    named: NamedSession,
    /// Application. Without it and --user the session is looked up by its id, which must be unique.
    #[arg(long, env = "SESSIOND_APP", value_name = "NAME")]
    pub app: Option<String>,
    /// User within the application.
    #[arg(long, env = "SESSIOND_USER", value_name = "ID")]
    pub user: Option<String>,
}

impl AnyKeyArgs {
    /// Fails if one of application and user is given without the other.
    pub fn key(&self) -> Result<v1::SessionKey, Failure> {
        let app_name = self.app.clone().unwrap_or_default();
        let user_id = self.user.clone().unwrap_or_default();
        if app_name.is_empty() != user_id.is_empty() {
            return Err(Failure::Usage(
                "--app and --user go together. Give both (or SESSIOND_APP and SESSIOND_USER), or \
                 --app '' --user '' to look the session up by its id alone"
                    .to_owned(),
            ));
        }
        let NamedSession { id, session } = &self.named;
        let session_id = id.as_ref().or(session.as_ref()).cloned().unwrap_or_default();
        Ok(v1::SessionKey { app_name, user_id, session_id })
    }
}

/// An application, one of its users, or one of that user's sessions.
#[derive(Debug, Clone, Args)]
pub struct ScopeArgs {
    /// Application.
    #[arg(long, env = "SESSIOND_APP", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub app: String,
    /// User within the application. Without it the scope is the application
    /// (--user '' if SESSIOND_USER is set).
    #[arg(long, env = "SESSIOND_USER", value_name = "ID")]
    pub user: Option<String>,
    /// Session of the user. Without it the scope is the user.
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
}

impl ScopeArgs {
    /// Fails if there is a session without a user.
    pub fn scope(&self) -> Result<v1::Scope, Failure> {
        let user_id = self.user.clone().unwrap_or_default();
        let session_id = self.session.clone().unwrap_or_default();
        if user_id.is_empty() && !session_id.is_empty() {
            return Err(Failure::Usage("--session needs --user. Give both".to_owned()));
        }
        Ok(v1::Scope { app_name: self.app.clone(), user_id, session_id })
    }
}

/// Session metadata.
#[derive(Debug, Clone, Default, Args)]
pub struct MetadataArgs {
    /// Name for people.
    #[arg(long, value_name = "NAME")]
    pub display_name: Option<String>,
    /// Label to filter by; may be repeated.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parse::label)]
    pub labels: Vec<(String, String)>,
    /// The session expires after this time: 90s, 15m, 1h30m, 7d.
    #[arg(long, value_name = "DURATION", value_parser = time::parse_duration, conflicts_with = "expire_time")]
    pub ttl: Option<prost_types::Duration>,
    /// The session expires at this time (RFC 3339).
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    pub expire_time: Option<prost_types::Timestamp>,
}

impl MetadataArgs {
    /// A session with this metadata and nothing else.
    pub fn session(self) -> v1::Session {
        let ttl = self.ttl.map(session::Expiration::Ttl);
        let expire_time = self.expire_time.map(session::Expiration::ExpireTime);
        v1::Session {
            display_name: self.display_name.unwrap_or_default(),
            labels: self.labels.into_iter().collect(),
            expiration: ttl.or(expire_time),
            ..Default::default()
        }
    }
}

/// Which events to read. Filters add up.
#[derive(Debug, Clone, Default, Args)]
pub struct SelectionArgs {
    /// Only the newest N events of those that pass the other filters.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    recent: Option<i32>,
    /// Only events after this sequence.
    #[arg(long, value_name = "SEQUENCE", value_parser = parse::sequence)]
    after_sequence: Option<i64>,
    /// Only events whose own time is at or after this one (RFC 3339).
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    after_time: Option<prost_types::Timestamp>,
    /// Also events that a rewind has hidden, and the markers of rewinds.
    #[arg(long)]
    include_rewound: bool,
}

impl SelectionArgs {
    pub fn selection(&self) -> v1::EventSelection {
        v1::EventSelection {
            recent: self.recent,
            after_time: self.after_time,
            after_sequence: self.after_sequence.unwrap_or_default(),
            include_rewound: self.include_rewound,
        }
    }
}

/// How much of a list to fetch.
#[derive(Debug, Clone, Copy, Args)]
pub struct PageArgs {
    /// Stop after N items; by default all pages are fetched.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Items per page.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(i32).range(1..=1000))]
    pub page_size: i32,
}

impl PageArgs {
    /// The size of the next page after `seen` items; `None` after the last one.
    pub fn next(&self, seen: u64) -> Option<i32> {
        let left = self.limit.unwrap_or(u64::MAX).saturating_sub(seen);
        let size = i32::try_from(left).unwrap_or(i32::MAX).min(self.page_size);
        (size > 0).then_some(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any_key(app: Option<&str>, user: Option<&str>) -> Result<v1::SessionKey, Failure> {
        let args = AnyKeyArgs {
            app: app.map(str::to_owned),
            user: user.map(str::to_owned),
            named: NamedSession { id: None, session: Some("s".to_owned()) },
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
