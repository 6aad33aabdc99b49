//! Progress bars on standard error. They show on a terminal only, and disappear when they are dropped.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

use super::terminal::escape;

/// How often a spinner turns.
const TICK: Duration = Duration::from_millis(200);

/// A bar of `total` items, or a spinner for work of unknown size. The label may hold ids.
pub fn progress_bar(label: &str, total: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr())
        .with_message(escape(label).into_owned())
        .with_finish(ProgressFinish::AndClear);
    let template = match total {
        Some(_) => "{msg} [{bar:30}] {human_pos}/{human_len}, {eta} left",
        None => "{spinner} {msg} {elapsed}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    if total.is_none() {
        // Also shows work that ends before the first tick.
        bar.tick();
        bar.enable_steady_tick(TICK);
    }
    bar
}
