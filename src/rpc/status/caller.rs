//! Messages for callers that lack a right or a credential, or exceed a limit.

use super::report::Report;
use crate::domain::{
    error::{CredentialFault, Limited, Reason, quoted},
    permission::Denial,
};

pub fn limited(what: Limited, limit: u32) -> String {
    match what {
        Limited::PrincipalAppends => {
            format!("The caller exceeds the limit of {limit} appends a second.")
        }
        Limited::ApplicationAppends => {
            format!("The application exceeds the limit of {limit} appends a second.")
        }
        Limited::PrincipalWatches => {
            format!("The caller exceeds the limit of {limit} open watches.")
        }
        Limited::ApplicationWatches => {
            format!("The application exceeds the limit of {limit} open watches.")
        }
    }
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

pub const fn invalid_credential(fault: CredentialFault) -> &'static str {
    match fault {
        CredentialFault::NotBearer => "The metadata `authorization` is not one bearer token",
        CredentialFault::TooLong => "The bearer token is too long",
        CredentialFault::UnknownToken => "The bearer token is not known to this server",
        CredentialFault::Malformed => "The bearer token is not a signed JWT",
        CredentialFault::Algorithm => "The JWT is not signed with RS256, ES256 or EdDSA",
        CredentialFault::UnknownKey => {
            "The JWT is signed with a key that this server does not have"
        }
        CredentialFault::Signature => "The signature of the JWT is wrong",
        CredentialFault::Issuer => "The JWT is of another issuer than this server trusts",
        CredentialFault::Audience => "The JWT is not meant for this server",
        CredentialFault::NotYetValid => "The JWT is not valid yet",
        CredentialFault::Claims => {
            "The JWT lacks a subject or a time of expiry, or has a wrong one"
        }
        CredentialFault::CertificateName => "The client certificate does not name its holder",
    }
}

pub const fn remedy(fault: CredentialFault) -> &'static str {
    match fault {
        CredentialFault::NotBearer => "Send it once, as Bearer TOKEN",
        CredentialFault::CertificateName => {
            "Connect with one that has a SPIFFE URI, a DNS name or a common name"
        }
        _ => "Send a valid token",
    }
}
