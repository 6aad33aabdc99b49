//! The session service.

use tonic::{Request, Response, Status};

use super::{
    Handlers,
    call::call,
    convert::{decode, encode},
};
use crate::proto::v1::{
    CreateSessionRequest, CreateSessionResponse, DeleteSessionRequest, DeleteSessionResponse,
    ForkSessionRequest, ForkSessionResponse, GetSessionRequest, GetSessionResponse,
    ListSessionsRequest, ListSessionsResponse, RewindSessionRequest, RewindSessionResponse,
    UpdateSessionRequest, UpdateSessionResponse, session_service_server::SessionService,
};

#[tonic::async_trait]
impl SessionService for Handlers {
    async fn create_session(
        &self,
        request: Request<CreateSessionRequest>,
    ) -> Result<Response<CreateSessionResponse>, Status> {
        call("CreateSession", async {
            let (new, form) = decode::create_session(request.into_inner())?;
            let created = self.engine.create_session(new).await?;
            Ok(encode::create_session(created, form))
        })
        .await
    }

    async fn get_session(
        &self,
        request: Request<GetSessionRequest>,
    ) -> Result<Response<GetSessionResponse>, Status> {
        call("GetSession", async {
            let (get, form) = decode::get_session(request.into_inner(), self.bare)?;
            let answer = self.engine.get_session(get).await?;
            encode::get_session(answer, form)
        })
        .await
    }

    async fn list_sessions(
        &self,
        request: Request<ListSessionsRequest>,
    ) -> Result<Response<ListSessionsResponse>, Status> {
        call("ListSessions", async {
            let (list, form) = decode::list_sessions(request.into_inner())?;
            let sessions = self.engine.list_sessions(list).await?;
            encode::list_sessions(sessions, form)
        })
        .await
    }

    async fn update_session(
        &self,
        request: Request<UpdateSessionRequest>,
    ) -> Result<Response<UpdateSessionResponse>, Status> {
        call("UpdateSession", async {
            let update = decode::update_session(request.into_inner())?;
            let info = self.engine.update_session(update).await?;
            Ok(encode::update_session(info))
        })
        .await
    }

    async fn delete_session(
        &self,
        request: Request<DeleteSessionRequest>,
    ) -> Result<Response<DeleteSessionResponse>, Status> {
        call("DeleteSession", async {
            let (key, allow_missing) = decode::delete_session(request.into_inner())?;
            self.engine.delete_session(key, allow_missing).await?;
            Ok(DeleteSessionResponse {})
        })
        .await
    }

    async fn fork_session(
        &self,
        request: Request<ForkSessionRequest>,
    ) -> Result<Response<ForkSessionResponse>, Status> {
        call("ForkSession", async {
            let (fork, form) = decode::fork_session(request.into_inner())?;
            let answer = self.engine.fork_session(fork).await?;
            Ok(encode::fork_session(answer, form))
        })
        .await
    }

    async fn rewind_session(
        &self,
        request: Request<RewindSessionRequest>,
    ) -> Result<Response<RewindSessionResponse>, Status> {
        call("RewindSession", async {
            let (rewind, form) = decode::rewind_session(request.into_inner())?;
            let answer = self.engine.rewind_session(rewind).await?;
            Ok(encode::rewind_session(answer, form))
        })
        .await
    }
}
