//! What every call has: one way from an error to a status, and an id where the log has something to say.

use std::{future::Future, panic::AssertUnwindSafe};

use futures_util::FutureExt as _;
use tonic::{Response, Status};
use uuid::Uuid;

use super::status::{status, watch_status};
use crate::domain::error::Error;

/// One call of this method.
#[derive(Clone, Copy, Debug)]
pub struct Call(pub &'static str);

impl Call {
    /// Does the work of the call. One that panics is a defect that its caller hears of as of any other.
    pub async fn run<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Status> {
        let answer = AssertUnwindSafe(work).catch_unwind().await;
        let answer = answer.unwrap_or_else(|_| Err(Error::Internal("a call panicked".into())));
        answer.map_err(|error| self.status(error))
    }

    /// The status of an error within the call.
    pub fn status(&self, error: Error) -> Status {
        self.watch_status(error, None)
    }

    /// The status of an error that ends a watch behind this cursor.
    pub fn watch_status(&self, error: Error, cursor: Option<&str>) -> Status {
        let Error::Internal(_) = error else { return watch_status(error, "", cursor) };
        // What the log says of it is found by what the caller is told.
        let span = tracing::error_span!("call", method = self.0);
        span.in_scope(|| status(error, new_id()))
    }
}

/// Does the work of a call that is answered once.
pub async fn call<T>(
    method: &'static str,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<Response<T>, Status> {
    Call(method).run(work).await.map(Response::new)
}

/// Puts the path of this request's own field in the place of the one that a store knows it by.
pub fn renamed(error: Error, store: &str, request: &str) -> Error {
    let Error::Invalid(mut violations) = error else { return error };
    for violation in &mut violations {
        if let Some(rest) = violation.field.strip_prefix(store) {
            violation.field = format!("{request}{rest}");
        }
    }
    Error::Invalid(violations)
}

#[expect(
    clippy::disallowed_methods,
    reason = "it names a failed call in the log and is no id of the model"
)]
fn new_id() -> Uuid {
    Uuid::now_v7()
}

#[cfg(test)]
mod tests {
    use tonic::Code;
    use tonic_types::StatusExt as _;

    use super::*;

    #[tokio::test]
    async fn a_call_that_panics_is_refused_like_any_other() {
        let status = call::<()>("Test", async { panic!("a defect") }).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal);
        assert_eq!(status.get_details_error_info().unwrap().reason, "INTERNAL");
    }
}
