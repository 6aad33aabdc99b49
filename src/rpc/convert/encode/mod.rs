//! From the model to answers, each within the size that every client receives.

mod answers;
mod json;
mod messages;

pub use answers::*;
pub use json::Mode;
pub use messages::dropped_temp_keys;

#[cfg(test)]
mod tests;
