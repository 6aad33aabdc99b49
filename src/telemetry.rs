//! The log on standard error.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::{EnvFilter, fmt};

use crate::config::{Config, LogFormat};

/// Starts logging. Fails if the filter cannot be parsed.
pub fn init(config: &Config) -> Result<(), String> {
    let filter = EnvFilter::try_new(&config.log).map_err(|error| {
        format!("'{}' is not a log filter ({error}). Pass a level like info.", config.log)
    })?;
    let mut builder = fmt().with_env_filter(filter).with_writer(io::stderr);
    if !io::stderr().is_terminal() {
        // No colours in files and collectors. On a terminal NO_COLOR turns them off.
        builder = builder.with_ansi(false);
    }
    let outcome = match config.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    outcome.map_err(|error| format!("Failed to set up the log: {error}."))
}
