//! The state service.

use tonic::{Request, Response, Status};

use super::{
    Handlers,
    call::{call, renamed},
    convert::{decode, encode},
};
use crate::proto::v1::{
    EndInvocationRequest, EndInvocationResponse, GetStateRequest, GetStateResponse,
    ListKeyChangesRequest, ListKeyChangesResponse, RenderTemplateRequest, RenderTemplateResponse,
    UpdateStateRequest, UpdateStateResponse, state_service_server::StateService,
};

#[tonic::async_trait]
impl StateService for Handlers {
    async fn get_state(
        &self,
        request: Request<GetStateRequest>,
    ) -> Result<Response<GetStateResponse>, Status> {
        call("GetState", async {
            let (get, with_versions, form) = decode::get_state(request.into_inner())?;
            let answer = self.engine.get_state(get).await?;
            encode::get_state(answer, with_versions, form)
        })
        .await
    }

    async fn update_state(
        &self,
        request: Request<UpdateStateRequest>,
    ) -> Result<Response<UpdateStateResponse>, Status> {
        call("UpdateState", async {
            let (update, form) = decode::update_state(request.into_inner())?;
            let answer = self.engine.update_state(update).await;
            // Through a session a change of state is an event of its log.
            let answer = answer.map_err(|it| renamed(it, "events[0].state_delta", "delta"))?;
            Ok(encode::update_state(answer, form))
        })
        .await
    }

    async fn list_key_changes(
        &self,
        request: Request<ListKeyChangesRequest>,
    ) -> Result<Response<ListKeyChangesResponse>, Status> {
        call("ListKeyChanges", async {
            let (list, form) = decode::list_key_changes(request.into_inner())?;
            let changes = self.engine.list_key_changes(list).await?;
            encode::list_key_changes(changes, form)
        })
        .await
    }

    async fn render_template(
        &self,
        request: Request<RenderTemplateRequest>,
    ) -> Result<Response<RenderTemplateResponse>, Status> {
        call("RenderTemplate", async {
            let template = decode::render_template(request.into_inner())?;
            let text = self.engine.render_template(template).await?;
            Ok(RenderTemplateResponse { text })
        })
        .await
    }

    async fn end_invocation(
        &self,
        request: Request<EndInvocationRequest>,
    ) -> Result<Response<EndInvocationResponse>, Status> {
        call("EndInvocation", async {
            let (key, invocation) = decode::end_invocation(request.into_inner())?;
            self.engine.end_invocation(key, invocation).await?;
            Ok(EndInvocationResponse {})
        })
        .await
    }
}
