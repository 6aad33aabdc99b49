//! How much of a text is shown, and how times are.

use prost_types::Timestamp;

use crate::cli::{terminal, time};

/// How texts are shown.
#[derive(Debug, Clone, Copy)]
pub struct View {
    pub width: usize,
    /// Nothing is cut.
    pub full: bool,
    /// Times are relative to this one. `None`: absolute, for text that stays on the screen.
    pub now: Option<Timestamp>,
}

impl View {
    /// On the terminal, with times that stay true.
    pub fn live() -> Self {
        let width = terminal::columns().min(terminal::TEXT_COLUMNS);
        Self { width, full: false, now: None }
    }

    pub fn time(&self, time: Timestamp) -> String {
        self.now.map_or_else(|| time::clock(time), |now| time::ago(time, now))
    }

    /// One line of what `used` columns leave.
    pub fn cut(&self, text: &str, used: usize) -> String {
        let left = self.width.saturating_sub(used).max(10);
        if self.full { text.to_owned() } else { terminal::truncate(text, left).into_owned() }
    }
}
