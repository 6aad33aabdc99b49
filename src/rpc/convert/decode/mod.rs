//! From requests to the model. Everything at fault in a request is found, in the order of its fields.

mod address;
mod delta;
mod event;
mod fields;
mod json;
mod precondition;
mod request;
mod session;
mod state;
pub(in crate::rpc::convert) mod structs;
mod watch;

pub use address::BareIds;
pub use event::{append_event, append_events, list_events};
pub use session::{
    create_session, delete_session, fork_session, get_session, list_sessions, rewind_session,
    update_session,
};
pub use state::{end_invocation, get_state, list_key_changes, render_template, update_state};
pub use watch::watch;

#[cfg(test)]
mod tests;
