//! From requests to the model. Everything at fault in a request is found, in the order of its fields.

mod delta;
mod event;
mod fields;
pub(in crate::rpc::convert) mod json;
mod request;
mod session;
mod state;

pub use event::{append_event, append_events, list_events};
pub use request::{BareIds, decode};
pub use session::{
    create_session, delete_session, fork_session, get_session, list_sessions, rewind_session,
    update_session,
};
pub use state::{
    end_invocation, get_state, list_key_changes, render_template, update_state, watch,
};

#[cfg(test)]
mod tests;
