//! The log on standard error.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::{EnvFilter, fmt};

use crate::config::{Config, LogFormat};

/// Begins to log as the flags say. Errors: the filter is none.
pub fn init(config: &Config) -> Result<(), String> {
    let filter = EnvFilter::try_new(&config.log).map_err(|error| {
        format!("'{}' is no filter of the log ({error}); give a level like info.", config.log)
    })?;
    let mut builder = fmt().with_env_filter(filter).with_writer(io::stderr);
    if !io::stderr().is_terminal() {
        // Colours are for people, not for files and collectors; people may not want them either, and say so by NO_COLOR.
        builder = builder.with_ansi(false);
    }
    let outcome = match config.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    outcome.map_err(|error| format!("The log could not be set up: {error}."))
}
