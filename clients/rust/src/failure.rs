//! A failed call: who failed it, why, and whether it may be repeated.

use std::{error::Error, io, time::Duration};

use tonic::{Code, Status, TimeoutExpired};
use tonic_types::{ErrorInfo, StatusExt as _};

/// `ErrorInfo.domain` of the server's statuses.
pub(crate) const DOMAIN: &str = "sessiond";

/// A call that failed, after its last attempt.
#[derive(Debug)]
pub(crate) struct Failure {
    pub status: Status,
    pub kind: Kind,
    /// With more than one, an earlier attempt may have been applied.
    pub attempts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The server answered with this status.
    Refused,
    /// No connection, or it broke. The call may have been applied.
    ConnectionLost,
    /// The call may have been applied.
    DeadlineExceeded,
}

impl Failure {
    pub fn new(status: Status, attempts: u32) -> Self {
        let kind = kind(&status);
        Self { status, kind, attempts }
    }

    /// The server's details, if it was sessiond that made the status.
    pub fn info(&self) -> Option<ErrorInfo> {
        error_info(&self.status)
    }

    /// Whether the server gave this reason.
    pub fn is(&self, reason: &str) -> bool {
        self.info().is_some_and(|info| info.reason == reason)
    }

    /// Whether the same request may be sent again.
    ///
    /// The server's `retryable` is `yes`, `same_id` or `no`. The first two are one to this crate: it repeats a request as it is,
    /// with the ids that it carries. A lost connection, and an UNAVAILABLE that the server did not make, count as `same_id`.
    pub fn is_retryable(&self) -> bool {
        match (self.kind, self.info()) {
            (Kind::ConnectionLost, _) => true,
            (Kind::DeadlineExceeded, _) => false,
            (Kind::Refused, Some(info)) => {
                let retryable = info.metadata.get("retryable").map(String::as_str);
                matches!(retryable, Some("yes" | "same_id"))
            }
            (Kind::Refused, None) => self.status.code() == Code::Unavailable,
        }
    }

    /// Whether nothing listens at the address.
    pub fn is_absent(&self) -> bool {
        let mut cause = self.status.source();
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<io::Error>() {
                return matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
                );
            }
            cause = error.source();
        }
        false
    }

    /// The delay that the server asks for before the next attempt.
    pub fn retry_delay(&self) -> Option<Duration> {
        self.status.get_details_retry_info()?.retry_delay
    }
}

fn error_info(status: &Status) -> Option<ErrorInfo> {
    status.get_details_error_info().filter(|info| info.domain == DOMAIN)
}

/// Who made a status. Statuses that tonic makes on this side carry their cause as source; those of the server cannot.
fn kind(status: &Status) -> Kind {
    let mut cause = status.source();
    if cause.is_some() {
        while let Some(error) = cause {
            if error.is::<TimeoutExpired>() {
                return Kind::DeadlineExceeded;
            }
            cause = error.source();
        }
        return Kind::ConnectionLost;
    }
    match status.code() {
        // The server's transport was told the deadline, and its clock may be the faster one. A status with details says itself
        // whether the call was applied.
        Code::DeadlineExceeded | Code::Cancelled if error_info(status).is_none() => {
            Kind::DeadlineExceeded
        }
        _ => Kind::Refused,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn a_status_of_the_server_is_a_refusal_whatever_its_code() {
        for code in [Code::NotFound, Code::Unavailable, Code::Unknown, Code::Internal] {
            assert_eq!(kind(&Status::new(code, "")), Kind::Refused);
        }
        assert_eq!(kind(&Status::deadline_exceeded("")), Kind::DeadlineExceeded);
        assert_eq!(kind(&Status::cancelled("")), Kind::DeadlineExceeded);
    }

    #[test]
    fn a_status_with_a_cause_was_made_on_this_side() {
        let broken = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert_eq!(kind(&Status::from_error(Box::new(broken))), Kind::ConnectionLost);
        assert_eq!(kind(&Status::from_error(Box::new(TimeoutExpired(())))), Kind::DeadlineExceeded);
    }

    #[test]
    fn the_server_decides_what_is_retryable() {
        let refusal = |code, domain: &str, retryable: Option<&str>| {
            let metadata: HashMap<_, _> =
                retryable.map(|value| ("retryable".into(), value.into())).into_iter().collect();
            let details = ErrorDetails::with_error_info("REASON", domain, metadata);
            Failure::new(Status::with_error_details(code, "", details), 1).is_retryable()
        };
        for code in [Code::Unavailable, Code::Unknown, Code::DeadlineExceeded, Code::Internal] {
            assert!(refusal(code, DOMAIN, Some("yes")), "{code:?}");
            assert!(refusal(code, DOMAIN, Some("same_id")), "{code:?}");
            for not in [Some("no"), Some("perhaps"), None] {
                assert!(!refusal(code, DOMAIN, not), "{code:?} {not:?}");
            }
        }
        assert!(!refusal(Code::Unknown, "another", Some("yes")));
        assert!(refusal(Code::Unavailable, "another", Some("no")));
    }

    #[test]
    fn without_details_only_a_lost_connection_and_unavailable_are_retryable() {
        for code in [Code::Unknown, Code::Internal, Code::ResourceExhausted, Code::Cancelled] {
            assert!(!Failure::new(Status::new(code, ""), 1).is_retryable(), "{code:?}");
        }
        assert!(Failure::new(Status::unavailable(""), 1).is_retryable());
        let broken = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert!(Failure::new(Status::from_error(Box::new(broken)), 1).is_retryable());
    }
}
