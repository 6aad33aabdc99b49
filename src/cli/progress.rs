//! Progress bars on standard error. They show on a terminal only, and leave nothing behind.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often a spinner turns.
const TICK: Duration = Duration::from_millis(200);

/// A bar that disappears when it is dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// Of `total` items. The label may hold ids.
    pub fn new(label: &str, total: u64) -> Self {
        Self::with("{msg} [{bar:30}] {human_pos}/{human_len}, {eta} left", label, Some(total))
    }

    /// For work of unknown length.
    pub fn spinner(label: &str) -> Self {
        let spinner = Self::with("{spinner} {msg} {elapsed}", label, None);
        spinner.0.enable_steady_tick(TICK);
        spinner
    }

    fn with(template: &str, label: &str, total: Option<u64>) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(super::terminal::escape(label).into_owned());
        Self(bar)
    }

    pub fn step(&self) {
        self.0.inc(1);
    }

    /// Shows this many items as done.
    pub fn set(&self, done: u64) {
        self.0.set_position(done);
    }

    /// Hides the bar while something is printed.
    pub fn pause<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_valid() {
        for progress in [Progress::new("x", 3), Progress::spinner("y")] {
            progress.step();
            assert_eq!(progress.0.position(), 1);
        }
    }
}
