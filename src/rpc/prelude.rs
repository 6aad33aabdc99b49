//! Names that most files of this layer use: those of the model. The contract's are under `v1`.

pub use super::convert::{Form, Mode, decode, encode};
pub use crate::{
    domain::{
        delta::{Delta, Operation, ScopeDelta},
        error::{Error, Reason, quoted},
        event::{Changes, Event, Fingerprint, NewEvent},
        field::{FieldPath, Path},
        id::{
            AppName, Author, Branch, DisplayName, EventId, InvocationId, RequestId, SessionId,
            UserId,
        },
        json::Json,
        limits::MESSAGE_BYTES,
        page::{EventFilter, EventRef, EventSelection},
        scope::{Scope, ScopeKind, SessionKey, SessionRef, StateKey},
        session::{Expiration, ForkOrigin, Labels, SessionInfo, State, StateEntry},
        time::Time,
        token::{
            ChangeToken, EventToken, Life, NameToken, RefToken, SessionToken, StateToken, StoreId,
            Uid,
        },
    },
    engine::{new_event_id, new_session_id},
    proto::v1,
    store::{Append, Appended, AppendedEvent},
};
