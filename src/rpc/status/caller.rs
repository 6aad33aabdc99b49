//! Messages for callers that lack a right or a credential, or exceed a limit.

use super::report::Report;
use crate::domain::{
    error::{CredentialFault, Limited, Reason, quoted},
    permission::Denial,
};

pub fn rate_limited(what: Limited, limit: u32, millis: u64) -> Report {
    let (who, of) = match what {
        Limited::PrincipalAppends => ("caller", "appends a second"),
        Limited::ApplicationAppends => ("application", "appends a second"),
        Limited::PrincipalWatches => ("caller", "open watches"),
        Limited::ApplicationWatches => ("application", "open watches"),
    };
    let message = format!("The {who} exceeds the limit of {limit} {of}. Retry in {millis} ms.");
    Report::new(Reason::RateLimited, message)
        .with("what", what)
        .with("limit", limit)
        .retry_after(millis)
}

pub fn permission_denied(denial: &Denial) -> Report {
    let Denial { principal, right, app_name, user_id } = denial;
    let target = match (app_name, user_id) {
        (Some(app), Some(user)) => {
            format!("user '{}' of application '{}'", quoted(user.as_str()), quoted(app.as_str()))
        }
        (Some(app), None) => format!("application '{}'", quoted(app.as_str())),
        (None, _) => "any application".to_owned(),
    };
    let message = format!(
        "'{}' does not have the right {right} on {target}. Ask the operator of the server for a rule in its policy.",
        quoted(principal)
    );
    let report = Report::new(Reason::PermissionDenied, message)
        .with("principal", principal)
        .with("right", right);
    let report = app_name.iter().fold(report, |it, app| it.with("app_name", app));
    user_id.iter().fold(report, |it, user| it.with("user_id", user))
}

pub fn invalid_credential(fault: CredentialFault) -> Report {
    let cause = match fault {
        CredentialFault::NotBearer => "The metadata `authorization` is not one bearer token",
        CredentialFault::TooLong => "The bearer token is too long",
        CredentialFault::UnknownToken => "The bearer token is not known to this server",
        CredentialFault::Malformed => "The bearer token is not a signed JWT",
        CredentialFault::Algorithm => "The JWT is not signed with RS256, ES256 or EdDSA",
        CredentialFault::UnknownKey => {
            "The JWT is signed with a key that this server does not have"
        }
        CredentialFault::Signature => "The signature of the JWT is wrong",
        CredentialFault::Issuer => "Untrusted JWT issuer",
        CredentialFault::Audience => "The JWT is not meant for this server",
        CredentialFault::NotYetValid => "The JWT is not valid yet",
        CredentialFault::Claims => {
            "The JWT lacks a subject or a time of expiry, or has a wrong one"
        }
        CredentialFault::CertificateName => "The client certificate does not name its holder",
    };
    let remedy = match fault {
        CredentialFault::NotBearer => "Send it once, as Bearer TOKEN",
        CredentialFault::CertificateName => {
            "Connect with one that has a SPIFFE URI, a DNS name or a common name"
        }
        _ => "Send a valid token",
    };
    let message = format!("{cause}. {remedy}.");
    Report::new(Reason::CredentialInvalid, message).with("fault", fault)
}
