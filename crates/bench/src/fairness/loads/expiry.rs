//! Sessions that expire faster than they may be removed.

use std::{sync::Arc, time::Duration};

use sessiond::{
    cli::Failure,
    proto::v1::{CreateSessionRequest, JsonForm, Session, session::Expiration},
};
use tokio::time::sleep;

use crate::fairness::attacker::{Attacker, Call};

/// Sessions that are created in a second.
const RATE: usize = 2000;

/// How long the backlog is watched afterwards.
const AFTERWARDS: Duration = Duration::from_secs(5);

/// Sessions that live for a second. They are created for twice as long as other attacks last, because none expires in the first second.
pub async fn short_lives(it: Arc<Attacker>) -> Result<(), Failure> {
    let ttl = Expiration::Ttl(prost_types::Duration { seconds: 1, nanos: 0 });
    let request = CreateSessionRequest {
        app_name: it.app.clone(),
        user_id: "user-0".to_owned(),
        session: Some(Session { expiration: Some(ttl), ..Default::default() }),
        json_form: JsonForm::Text.into(),
        ..Default::default()
    };
    let sessions = RATE * 2 * it.lasts.as_secs() as usize;
    it.pace(RATE, sessions, |_| Call::new("SessionService/CreateSession", &request)).await;
    sleep(AFTERWARDS).await;
    Ok(())
}
