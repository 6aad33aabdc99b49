//! Names that most files of this folder use. `Result<T>` is the driver's, `Result<T, Error>` the domain's.

pub(super) use rusqlite::{Result, Row};

pub(super) use crate::domain::{
    Sequence, Version,
    error::{Bounded, Cause, Error},
    event::{Changes, Event, Fingerprint, ScopeVersions},
    id::{
        AppName, Author, Branch, DisplayName, EventId, InvocationId, RequestId, SessionId, UserId,
    },
    json::Json,
    limits::PAGE_SCANNED,
    page::{EventFilter, EventPage, EventSelection, Rest},
    scope::{Scope, ScopeKind, SessionKey, SessionRef, StateKey},
    session::{ForkOrigin, Incarnation, Labels, SessionInfo, State, StateEntry},
    time::Time,
    token::{Position, StoreId},
    visible::{Marker, Visible},
};

/// Number of an application, a user or a session.
pub(super) type NodeId = u64;
