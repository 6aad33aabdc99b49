//! From the model to answers, each within the size that every client receives.

mod answers;
mod event;
mod fields;
mod json;
mod session;
mod size;
mod structs;
mod watch;
mod written;

pub use answers::{
    append_event, append_events, create_session, failure, fork_session, get_session, get_state,
    list_events, list_key_changes, list_sessions, rewind_session, update_session, update_state,
};
pub use watch::watch;

#[cfg(test)]
mod tests;
