//! The names of the model that decisions and stores use.

pub use super::{
    Sequence, Version,
    delta::{Changes, Delta, KeyResult, ScopeDelta},
    error::{Bounded, Cause, Error},
    event::{Event, Fingerprint, NewEvent, ScopeVersions},
    id::{
        AppName, Author, Branch, DisplayName, EventId, InvocationId, RequestId, SessionId, UserId,
    },
    json::Json,
    limits::{PAGE_MILLIS, PAGE_SCANNED},
    page::{EventFilter, EventPage, EventRef, EventSelection, Rest, Uncounted, narrow},
    permission::Visibility,
    precondition::Precondition,
    scope::{Scope, ScopeKind, SessionKey, SessionRef, StateKey},
    session::{
        ENTRY_BYTES, Expiration, ForkOrigin, Incarnation, Labels, SessionInfo, State, StateEntry,
    },
    time::Time,
    token::{Life, Position, StoreId},
    trace::TraceId,
    visible::{Marker, Visible},
};
