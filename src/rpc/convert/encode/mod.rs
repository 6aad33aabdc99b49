//! From the model to answers, each within the size that every client receives.

mod answers;
mod json;
mod messages;
mod size;

pub use answers::*;

#[cfg(test)]
mod tests;
