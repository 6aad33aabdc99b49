//! Names that most files of this layer use.

pub use std::sync::Arc;

pub use crate::{
    domain::{
        error::{Bounded, Error, Reason},
        event::{Changes, Event, Fingerprint, NewEvent, ScopeVersions},
        field::FieldPath,
        id::{AppName, Author, Branch, EventId, InvocationId, SessionId, UserId},
        limits::MESSAGE_BYTES,
        page::{EventFilter, EventPage, EventRef, EventSelection, Rest},
        scope::{Scope, ScopeKind, SessionKey, SessionRef, StateKey},
        session::{Incarnation, SessionInfo, State, StateEntry},
        time::Time,
        token::{
            ChangeToken, Cursor, Digest, EventToken, Field, Life, NamePlace, NameToken, PageToken,
            Position, RefToken, SessionToken, StateToken, StoreId,
        },
    },
    store::{Append, Appended, Clock, Gate, RequestContext, SessionQuery, SessionView, Store},
};
