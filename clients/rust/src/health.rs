//! Readiness of the server, asked of its health service.

use adk_core::Result;
use tonic::Status;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::{call::Caller, failure::Failure};

/// Waits for a server that is starting, as long as the call policy allows.
pub(crate) async fn wait_until_ready(caller: &Caller) -> Result<()> {
    let check = |channel, request| async move {
        let response = HealthClient::new(channel).check(request).await?;
        readiness(response.get_ref().status())?;
        Ok(response)
    };
    caller.call(&HealthCheckRequest::default(), check).await?;
    Ok(())
}

/// Asks once: a server that answers that it is not ready is not asked again.
pub(crate) async fn check(caller: &Caller) -> Result<()> {
    let check = |channel, request| async move { HealthClient::new(channel).check(request).await };
    let response = caller.call(&HealthCheckRequest::default(), check).await?;
    readiness(response.status()).map_err(|status| Failure::new(status, 1).into())
}

fn readiness(health: ServingStatus) -> std::result::Result<(), Status> {
    match health {
        ServingStatus::Serving => Ok(()),
        ServingStatus::NotServing | ServingStatus::Unknown | ServingStatus::ServiceUnknown => {
            Err(Status::unavailable("sessiond is starting or stopping"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_serves_is_ready() {
        readiness(ServingStatus::Serving).unwrap();
        for health in
            [ServingStatus::NotServing, ServingStatus::Unknown, ServingStatus::ServiceUnknown]
        {
            let status = readiness(health).unwrap_err();
            let error = adk_core::AdkError::from(Failure::new(status, 1));
            assert_eq!(error.category, adk_core::ErrorCategory::Unavailable);
            assert!(error.is_retryable() && error.code == "session.unavailable");
        }
    }
}
