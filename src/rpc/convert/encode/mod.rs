//! From the model to answers, each within the size that every client receives.

mod event;
mod room;
mod session;
mod shape;
mod state;
mod structs;
mod watch;

pub use event::{append_event, append_events, failure, list_events};
pub use session::{
    create_session, fork_session, get_session, list_sessions, rewind_session, update_session,
};
pub use state::{get_state, list_key_changes, update_state};
pub use watch::watch;

#[cfg(test)]
mod tests;
