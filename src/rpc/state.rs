//! The state service.

use tonic::{Request, Response, Status};

use super::{
    Handlers,
    call::unary,
    convert::{decode, encode},
};
use crate::proto::v1::{self, state_service_server::StateService};

#[tonic::async_trait]
impl StateService for Handlers {
    async fn get_state(
        &self,
        request: Request<v1::GetStateRequest>,
    ) -> Result<Response<v1::GetStateResponse>, Status> {
        unary(
            "GetState",
            request,
            decode::get_state,
            async |context, (get, with_versions, form)| {
                let answer = self.engine.get_state(&context, get).await?;
                encode::get_state(answer, with_versions, form)
            },
        )
        .await
    }

    async fn update_state(
        &self,
        request: Request<v1::UpdateStateRequest>,
    ) -> Result<Response<v1::UpdateStateResponse>, Status> {
        unary("UpdateState", request, decode::update_state, async |context, (update, form)| {
            let answer = self.engine.update_state(&context, update).await?;
            Ok(encode::update_state(answer, form))
        })
        .await
    }

    async fn list_key_changes(
        &self,
        request: Request<v1::ListKeyChangesRequest>,
    ) -> Result<Response<v1::ListKeyChangesResponse>, Status> {
        unary("ListKeyChanges", request, decode::list_key_changes, async |context, (list, form)| {
            let changes = self.engine.list_key_changes(&context, list).await?;
            encode::list_key_changes(changes, form)
        })
        .await
    }

    async fn render_template(
        &self,
        request: Request<v1::RenderTemplateRequest>,
    ) -> Result<Response<v1::RenderTemplateResponse>, Status> {
        unary("RenderTemplate", request, decode::render_template, async |context, template| {
            let text = self.engine.render_template(&context, template).await?;
            Ok(v1::RenderTemplateResponse { text })
        })
        .await
    }

    async fn end_invocation(
        &self,
        request: Request<v1::EndInvocationRequest>,
    ) -> Result<Response<v1::EndInvocationResponse>, Status> {
        unary(
            "EndInvocation",
            request,
            decode::end_invocation,
            async |context, (key, invocation)| {
                self.engine.end_invocation(&context, key, invocation).await?;
                Ok(v1::EndInvocationResponse {})
            },
        )
        .await
    }
}
