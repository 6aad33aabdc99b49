//! Why a command did not succeed, how that is printed, and the exit code that follows.

use std::{
    collections::BTreeMap,
    error::Error,
    fmt::Write as _,
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
    time::Duration,
};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::terminal::{columns, escape_lines, wrap_message};
use crate::proto::code_name;

/// The message of a status that the client's own timeout makes.
const CLIENT_TIMEOUT: &str = "Timeout expired";

#[derive(Debug)]
pub enum Failure {
    /// The arguments contradict each other; nothing was sent.
    Usage(String),
    /// The server answered with an error, or the call broke on the way.
    Refused(Box<Status>),
    /// There is no connection to the server.
    Unreachable(String),
    /// Anything else: an unreadable file, a full disk.
    Failed(String),
    /// Everything was reported already; only the exit code remains.
    Reported,
    /// The reader of our output has closed it.
    OutputClosed,
}

impl Failure {
    /// Writes the failure to standard error. Returns the exit code.
    pub fn report(&self) -> ExitCode {
        match self {
            Self::OutputClosed => return ExitCode::SUCCESS,
            Self::Reported => {}
            _ => tell(&format!("error: {}", self.text())),
        }
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Refused(status) if is_misunderstanding(status) => ExitCode::from(3),
            _ if self.is_lost() => ExitCode::from(3),
            _ => ExitCode::FAILURE,
        }
    }

    /// The text of [`Failure::report`], for messages that name the file or session.
    pub fn text(&self) -> String {
        match self {
            Self::Usage(text) | Self::Unreachable(text) | Self::Failed(text) => text.clone(),
            Self::Refused(status) => describe(status),
            Self::Reported => "see above".to_owned(),
            Self::OutputClosed => "the output was closed".to_owned(),
        }
    }

    /// Error details of a refusal; empty otherwise.
    fn details(&self) -> ErrorDetails {
        match self {
            Self::Refused(status) => status.get_error_details(),
            _ => ErrorDetails::new(),
        }
    }

    pub fn has_reason(&self, reason: &str) -> bool {
        self.details().error_info().is_some_and(|info| info.reason == reason)
    }

    pub fn metadata(&self, name: &str) -> Option<String> {
        self.details().error_info()?.metadata.get(name).cloned()
    }

    /// Whether the server found a fault in this field of the request.
    pub fn names_field(&self, field: &str) -> bool {
        let details = self.details();
        details
            .bad_request()
            .is_some_and(|it| it.field_violations.iter().any(|it| it.field == field))
    }

    /// The position of the event in a batch that the server names.
    pub fn event_index(&self) -> Option<usize> {
        let details = self.details();
        let mut violations = details.bad_request()?.field_violations.iter();
        let index = |field: &str| field.strip_prefix("events[")?.split(']').next()?.parse().ok();
        violations.find_map(|violation| index(&violation.field))
    }

    /// Whether the connection broke: UNAVAILABLE that no server has said.
    pub fn is_lost(&self) -> bool {
        let Self::Refused(status) = self else { return matches!(self, Self::Unreachable(_)) };
        status.code() == Code::Unavailable && status.get_details_error_info().is_none()
    }

    /// Whether the same call with the same event or request id may be sent again. Every error of the server says so.
    /// UNAVAILABLE without ErrorInfo comes from the transport, and the call may or may not have been applied.
    pub fn is_retryable(&self) -> bool {
        match (self.metadata("retryable"), self) {
            (Some(retryable), _) => matches!(retryable.as_str(), "yes" | "same_id"),
            (None, failure) => matches!(failure, Self::Refused(_)) && failure.is_lost(),
        }
    }

    /// The delay before a retry that the server asks for.
    pub fn retry_delay(&self) -> Option<Duration> {
        self.details().retry_info()?.retry_delay
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Failed(format!("the server answered with text that is not JSON: {error}"))
    }
}

/// Errors of standard output; files have messages of their own.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Failed(format!("cannot write the output: {error}")),
        }
    }
}

/// The innermost cause of an error, which is the specific one.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    error.source().map_or_else(|| error.to_string(), root_cause)
}

fn describe(status: &Status) -> String {
    let (code, message) = (code_name(status.code()), status.message());
    if status.code() == Code::Cancelled && message == CLIENT_TIMEOUT {
        return "no answer within the timeout. A write may have been applied: look, or repeat it with the --event-id or --request-id that it had. Pass a longer --timeout".to_owned();
    }
    let details = status.get_error_details();
    let mut text = match (details.error_info(), status.source().map(root_cause)) {
        (Some(info), _) => format!("{}: {message} ({code})", info.reason),
        (None, Some(cause)) if !message.contains(&cause) => format!("{code}: {message}: {cause}"),
        (None, _) => format!("{code}: {message}"),
    };
    for violation in details.bad_request().iter().flat_map(|b| &b.field_violations) {
        // The message of a single violation is often the whole message.
        if !message.contains(&violation.description) || !message.contains(&violation.field) {
            let _ = write!(text, "\n  {}: {}", violation.field, violation.description);
        }
    }
    let info = details.error_info().map(|info| &info.metadata);
    for (name, value) in info.into_iter().flatten().collect::<BTreeMap<_, _>>() {
        // "no" and "yes" are also words of a message.
        if name == "retryable" || !says(message, value) {
            let _ = write!(text, "\n  {name}: {value}");
        }
    }
    if let Some(hint) = details.error_info().and_then(|info| hint(&info.reason)) {
        let _ = write!(text, "\n  hint: {hint}");
    }
    if is_misunderstanding(status) {
        text.push_str(
            "\n  If every call fails like this, the server may speak TLS (https://HOST:PORT), require a client certificate (--tls-cert, --tls-key), or have no place for another connection (its --max-connections).",
        );
    }
    if let Some(delay) = details.retry_info().and_then(|info| info.retry_delay) {
        let _ = write!(text, "\n  retry in {} ms", delay.as_millis());
    }
    text
}

/// What to change in the command, where the message names fields of the request.
fn hint(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "AMBIGUOUS_SESSION_ID" => "pass --app and --user",
        "CREDENTIAL_MISSING" => "pass --token-file, or --tls-cert and --tls-key",
        "KEY_OUTSIDE_SCOPE" => {
            "app: keys need --app, user: keys also --user, and all others also --session; temp: keys need `event append --invocation`"
        }
        "SESSION_EXISTS" => "`session create` takes --allow-existing",
        "SESSION_REPLACED" => {
            "the session with this uid was deleted, and another one has its id. `session get` prints the uid of that one"
        }
        "SESSION_NOT_FOUND" => "check --app, --user and --session",
        _ => return None,
    })
}

/// Whether the connection ended before the server understood a word of it.
fn is_misunderstanding(status: &Status) -> bool {
    let code = matches!(status.code(), Code::Unknown | Code::Cancelled | Code::Internal);
    code && status.source().is_some() && status.get_details_error_info().is_none()
}

/// Whether the message has the value already, as a word of its own.
fn says(message: &str, value: &str) -> bool {
    let joins = |near: Option<char>| near.is_some_and(char::is_alphanumeric);
    message.match_indices(value).any(|(at, _)| {
        let (before, after) = (&message[..at], &message[at + value.len()..]);
        !joins(before.chars().next_back()) && !joins(after.chars().next())
    })
}

/// Writes a line to standard error. A closed standard error is no reason to stop. Ids within the text may hold control
/// characters, which a terminal must not see.
pub fn tell(text: &str) {
    let text = escape_lines(text);
    let text = match io::stderr().is_terminal() {
        true => wrap_message(&text, columns()),
        false => text,
    };
    let _ = writeln!(io::stderr(), "{text}");
}

pub fn warn_of_dropped(keys: &[String]) {
    if !keys.is_empty() {
        let keys = keys.join(", ");
        tell(&format!(
            "warning: {keys}: dropped, only an event with --invocation can hold temp: keys"
        ));
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, time::Duration};

    use super::*;

    fn refused(code: Code, reason: &str, build: impl Fn(&mut ErrorDetails)) -> Failure {
        let mut details = ErrorDetails::new();
        details.set_error_info(reason, "sessiond", HashMap::new());
        build(&mut details);
        Status::with_error_details(code, "Pick another id.", details).into()
    }

    #[test]
    fn a_refusal_names_its_reason_its_code_and_every_field() {
        let failure = refused(Code::InvalidArgument, "BAD_ID", |details| {
            details.add_bad_request_violation("key.app_name", "is too long");
            details.add_bad_request_violation("events[2].event_id", "holds a NUL");
        });
        assert_eq!(
            failure.text(),
            "BAD_ID: Pick another id. (INVALID_ARGUMENT)\n  key.app_name: is too long\n  \
             events[2].event_id: holds a NUL"
        );
    }

    #[test]
    fn metadata_is_shown_unless_the_message_has_it() {
        let metadata =
            [("retryable", "no"), ("keys", "[\"a\",\"b\"]"), ("id", "another"), ("n", "1")];
        let metadata = metadata.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let details = ErrorDetails::with_error_info("KEY_CONFLICT", "sessiond", metadata);
        let message = "Keys differ at 10, and there is no other way. Pick another id.";
        let failure: Failure = Status::with_error_details(Code::Aborted, message, details).into();
        assert_eq!(
            failure.text(),
            "KEY_CONFLICT: Keys differ at 10, and there is no other way. Pick another id. (ABORTED)\n  keys: [\"a\",\"b\"]\n  n: 1\n  retryable: no"
        );
    }

    #[test]
    fn a_refusal_tells_what_to_change_in_the_command() {
        let exists = refused(Code::AlreadyExists, "SESSION_EXISTS", |_| ());
        assert!(exists.text().contains("\n  hint: `session create` takes --allow-existing"));
    }

    #[test]
    fn a_timeout_of_the_client_says_what_to_do() {
        let failure: Failure = Status::cancelled(CLIENT_TIMEOUT).into();
        assert!(failure.text().contains("--timeout"), "{}", failure.text());
    }

    #[test]
    fn exit_codes_tell_a_lost_server_from_a_refusal() {
        let code = |failure: Failure| format!("{:?}", failure.report());
        let lost: Failure = Status::unavailable("broken pipe").into();
        let refused = refused(Code::Unavailable, "DRAINING", |_| ());
        assert_eq!(code(lost), format!("{:?}", ExitCode::from(3)));
        assert_eq!(code(Failure::Unreachable(String::new())), format!("{:?}", ExitCode::from(3)));
        assert_eq!(code(refused), format!("{:?}", ExitCode::FAILURE));
        assert_eq!(code(Failure::Usage(String::new())), format!("{:?}", ExitCode::from(2)));
    }

    #[test]
    fn a_status_of_the_transport_shows_its_code() {
        let failure: Failure = Status::unavailable("gone").into();
        assert_eq!(failure.text(), "UNAVAILABLE: gone");
    }

    #[test]
    fn the_server_says_what_may_be_sent_again() {
        let says = |code, reason: &str, retryable: &str| {
            let metadata = HashMap::from([("retryable".to_owned(), retryable.to_owned())]);
            let details = ErrorDetails::with_error_info(reason, "sessiond", metadata);
            Failure::from(Status::with_error_details(code, "Retry later.", details))
        };
        assert!(says(Code::ResourceExhausted, "OVERLOADED", "yes").is_retryable());
        assert!(says(Code::Unknown, "OUTCOME_UNKNOWN", "same_id").is_retryable());
        assert!(!says(Code::ResourceExhausted, "STATE_TOO_LARGE", "no").is_retryable());
        assert!(!says(Code::Unavailable, "STORE_UNAVAILABLE", "no").is_retryable());
        assert!(Failure::from(Status::unavailable("gone")).is_retryable());
        assert!(!Failure::from(Status::aborted("conflict")).is_retryable());
        assert!(!Failure::Failed("disk full".to_owned()).is_retryable());
    }

    #[test]
    fn the_delay_that_the_server_asks_for_is_shown() {
        let busy = refused(Code::ResourceExhausted, "OVERLOADED", |details| {
            details.set_retry_info(Some(Duration::from_millis(250)));
        });
        assert!(busy.text().ends_with("\n  retry in 250 ms"), "{}", busy.text());
    }

    #[test]
    fn a_closed_pipe_is_no_failure_of_the_command() {
        let closed = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(matches!(Failure::from(closed), Failure::OutputClosed));
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert!(matches!(Failure::from(full), Failure::Failed(_)));
    }
}
