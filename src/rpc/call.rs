//! What every call has: an id for the log, and one way from an error to a status.

use std::{future::Future, panic::AssertUnwindSafe};

use futures_util::FutureExt as _;
use tonic::{Response, Status};
use tracing::{Instrument, Span};
use uuid::Uuid;

use super::status::{status, watch_status};
use crate::domain::error::Error;

/// One call. Everything that is logged during it carries its id.
#[derive(Clone, Debug)]
pub struct Call {
    id: Uuid,
    span: Span,
}

impl Call {
    /// A call of this method.
    pub fn new(method: &'static str) -> Self {
        let id = new_id();
        Self { id, span: tracing::error_span!("call", method, request_id = %id) }
    }

    /// Does the work of the call. One that panics is a defect that its caller hears of as of any other.
    pub async fn run<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<Response<T>, Status> {
        let work = AssertUnwindSafe(work.instrument(self.span.clone())).catch_unwind();
        let answer = work.await.unwrap_or_else(|_| Err(Error::Internal("a call panicked".into())));
        answer.map(Response::new).map_err(|error| self.status(error))
    }

    /// The status of an error within the call.
    pub fn status(&self, error: Error) -> Status {
        self.span.in_scope(|| status(error, self.id))
    }

    /// The status of an error that ends a watch behind this cursor.
    pub fn watch_status(&self, error: Error, cursor: Option<&str>) -> Status {
        self.span.in_scope(|| watch_status(error, self.id, cursor))
    }
}

/// Does the work of a call that is answered once.
pub async fn call<T>(
    method: &'static str,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<Response<T>, Status> {
    Call::new(method).run(work).await
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
    reason = "it names a call in the log and is no id of the model"
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
