//! The session service.

use tonic::{Request, Response, Status};

use super::{
    Handlers,
    call::unary,
    convert::{decode, encode},
};
use crate::proto::v1::{self, session_service_server::SessionService};

#[tonic::async_trait]
impl SessionService for Handlers {
    async fn create_session(
        &self,
        request: Request<v1::CreateSessionRequest>,
    ) -> Result<Response<v1::CreateSessionResponse>, Status> {
        unary("CreateSession", request, decode::create_session, async |context, (new, form)| {
            let created = self.engine.create_session(&context, new).await?;
            Ok(encode::create_session(created, form))
        })
        .await
    }

    async fn get_session(
        &self,
        request: Request<v1::GetSessionRequest>,
    ) -> Result<Response<v1::GetSessionResponse>, Status> {
        unary(
            "GetSession",
            request,
            |request| decode::get_session(request, self.bare),
            async |context, (get, form)| {
                let answer = self.engine.get_session(&context, get).await?;
                encode::get_session(answer, form)
            },
        )
        .await
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsResponse>, Status> {
        unary("ListSessions", request, decode::list_sessions, async |context, (list, form)| {
            let sessions = self.engine.list_sessions(&context, list).await?;
            encode::list_sessions(sessions, form)
        })
        .await
    }

    async fn update_session(
        &self,
        request: Request<v1::UpdateSessionRequest>,
    ) -> Result<Response<v1::UpdateSessionResponse>, Status> {
        unary("UpdateSession", request, decode::update_session, async |context, update| {
            let info = self.engine.update_session(&context, update).await?;
            Ok(encode::update_session(info))
        })
        .await
    }

    async fn delete_session(
        &self,
        request: Request<v1::DeleteSessionRequest>,
    ) -> Result<Response<v1::DeleteSessionResponse>, Status> {
        unary(
            "DeleteSession",
            request,
            decode::delete_session,
            async |context, (key, allow_missing)| {
                self.engine.delete_session(&context, key, allow_missing).await?;
                Ok(v1::DeleteSessionResponse {})
            },
        )
        .await
    }

    async fn fork_session(
        &self,
        request: Request<v1::ForkSessionRequest>,
    ) -> Result<Response<v1::ForkSessionResponse>, Status> {
        unary("ForkSession", request, decode::fork_session, async |context, (fork, form)| {
            let answer = self.engine.fork_session(&context, fork).await?;
            Ok(encode::fork_session(answer, form))
        })
        .await
    }

    async fn rewind_session(
        &self,
        request: Request<v1::RewindSessionRequest>,
    ) -> Result<Response<v1::RewindSessionResponse>, Status> {
        unary("RewindSession", request, decode::rewind_session, async |context, (rewind, form)| {
            let answer = self.engine.rewind_session(&context, rewind).await?;
            Ok(encode::rewind_session(answer, form))
        })
        .await
    }
}
