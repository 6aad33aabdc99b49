//! Why a command did not succeed, how it is told, and the exit code that follows.

use std::{error::Error, fmt::Write as _, io, process::ExitCode};

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::ambient::tell;

/// Exit code of a command line that cannot be meant.
const USAGE: u8 = 2;
/// Exit code of everything else that went wrong.
const FAILED: u8 = 1;

/// Why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// The command line says something that cannot be done; nothing was sent.
    Usage(String),
    /// The server answered with an error, or the call broke on the way.
    Refused(Box<Status>),
    /// Anything else: no connection, an unreadable file, a full disk.
    Failed(String),
    /// Everything was reported already; only the exit code remains.
    Reported,
    /// Whoever read our output has stopped reading: nobody is left to tell.
    OutputClosed,
}

impl Failure {
    /// Tells standard error what went wrong, and says how to exit.
    pub fn report(&self) -> ExitCode {
        let (text, code) = match self {
            Self::Usage(text) => (text.clone(), USAGE),
            Self::Refused(status) => (describe(status), FAILED),
            Self::Failed(text) => (text.clone(), FAILED),
            Self::Reported => return ExitCode::from(FAILED),
            Self::OutputClosed => return ExitCode::SUCCESS,
        };
        tell(&format!("error: {text}"));
        ExitCode::from(code)
    }

    /// The text of [`Failure::report`], for messages that name what failed.
    pub fn text(&self) -> String {
        match self {
            Self::Usage(text) | Self::Failed(text) => text.clone(),
            Self::Refused(status) => describe(status),
            Self::Reported => "see above".to_owned(),
            Self::OutputClosed => "the output was closed".to_owned(),
        }
    }

    /// Whether the same call may be sent again: the server is away, busy, or
    /// does not know how the call ended.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Refused(status) => {
                status.code() == Code::Unavailable
                    || matches!(reason_of(status).as_str(), "OVERLOADED" | "OUTCOME_UNKNOWN")
            }
            _ => false,
        }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

/// Failures of standard output; files have their own messages.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::OutputClosed
        } else {
            Self::Failed(format!("cannot write the output: {error}"))
        }
    }
}

/// The innermost cause of an error, which is the one that says something.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

fn reason_of(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

fn describe(status: &Status) -> String {
    let code = code_name(status.code());
    let reason = reason_of(status);
    let mut text = if reason.is_empty() {
        format!("{code}: {}", status.message())
    } else {
        format!("{reason}: {} ({code})", status.message())
    };
    if reason.is_empty()
        && let Some(source) = status.source()
    {
        let cause = root_cause(source);
        if !status.message().contains(&cause) {
            let _ = write!(text, ": {cause}");
        }
    }
    let details = status.get_error_details();
    for violation in details.bad_request().iter().flat_map(|b| &b.field_violations) {
        let _ = write!(text, "\n  {}: {}", violation.field, violation.description);
    }
    if let Some(delay) = details.retry_info().and_then(|info| info.retry_delay) {
        let _ = write!(text, "\n  retry in {} ms", delay.as_millis());
    }
    text
}

/// The code as gRPC spells it: `NOT_FOUND`, not `NotFound`.
fn code_name(code: Code) -> String {
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, time::Duration};

    use tonic_types::ErrorDetails;

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
    fn a_status_of_the_transport_shows_its_code() {
        let failure: Failure = Status::unavailable("gone").into();
        assert_eq!(failure.text(), "UNAVAILABLE: gone");
    }

    #[test]
    fn only_what_may_be_sent_again_is_transient() {
        assert!(Failure::from(Status::unavailable("gone")).is_transient());
        assert!(refused(Code::Unknown, "OUTCOME_UNKNOWN", |_| ()).is_transient());
        let busy = refused(Code::ResourceExhausted, "OVERLOADED", |details| {
            details.set_retry_info(Some(Duration::from_millis(250)));
        });
        assert!(busy.is_transient());
        assert!(busy.text().ends_with("\n  retry in 250 ms"), "{}", busy.text());
        assert!(!refused(Code::ResourceExhausted, "STATE_TOO_LARGE", |_| ()).is_transient());
        assert!(!Failure::from(Status::aborted("conflict")).is_transient());
    }

    #[test]
    fn a_closed_pipe_is_no_failure_of_the_command() {
        let closed = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(matches!(Failure::from(closed), Failure::OutputClosed));
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert!(matches!(Failure::from(full), Failure::Failed(_)));
    }
}
