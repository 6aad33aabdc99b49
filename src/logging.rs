//! The log on standard error.

use std::{
    io::{self, IsTerminal as _},
    sync::OnceLock,
};

use tracing_subscriber::{
    Registry,
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt as _,
    reload,
    util::SubscriberInitExt as _,
};

use crate::config::{Config, LogFormat};

/// The filter of the process's log, once there is one.
static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Replaces the filter of the running log. The previous filter decides whether the line about it appears, so that silencing
/// the log is itself logged.
pub fn set_filter(text: &str) -> Result<(), String> {
    let filter = filter(text)?;
    let Some(handle) = FILTER.get() else { return Err("This process has no log.".into()) };
    tracing::info!(filter = text, "replacing the filter of the log");
    handle.reload(filter).map_err(|error| format!("The filter cannot be replaced: {error}."))
}

/// Starts logging. Fails if the filter cannot be parsed.
pub fn init(config: &Config) -> Result<(), String> {
    let (filter, handle) = reload::Layer::new(filter(&config.log)?);
    let mut layer = fmt::layer().with_writer(io::stderr);
    if !io::stderr().is_terminal() {
        // No colours in files and collectors. On a terminal NO_COLOR turns them off.
        layer = layer.with_ansi(false);
    }
    let registry = tracing_subscriber::registry().with(filter);
    let outcome = match config.log_format {
        LogFormat::Text => registry.with(layer).try_init(),
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).try_init(),
    };
    outcome.map_err(|error| format!("Failed to set up the log: {error}."))?;
    // It is set nowhere else.
    let _ = FILTER.set(handle);
    Ok(())
}

/// The crate whose lines a level without a target is about.
const OWN_TARGET: &str = "sessiond";

/// Levels by target. A level alone is that of our own targets: beyond `info` those of libraries, such as each frame of HTTP/2, are logged
/// only if they are named. Filters by span or field would need regular expressions, which nothing else here does.
fn filter(text: &str) -> Result<Targets, String> {
    // The parser takes a word that is no level for a target, of which it shows everything, and of all others nothing.
    let is_level = |part: &str| !part.is_empty() && part.parse::<LevelFilter>().is_ok();
    if !text.split(',').all(|part| part.contains('=') || is_level(part.trim())) {
        return Err(format!("'{text}' is not a log filter. Pass a level like info."));
    }
    let named: Targets = text.parse().map_err(|error| {
        format!("'{text}' is not a log filter ({error}). Pass a level like info.")
    })?;
    let Some(level) = named.default_level() else { return Ok(named) };
    let libraries = level.min(LevelFilter::INFO);
    // What is named comes last and counts.
    let own = Targets::new().with_default(libraries).with_target(OWN_TARGET, level);
    Ok(own.with_targets(named))
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_log_filter_is_a_level_or_levels_by_target() {
        let enables = |text, target, level| filter(text).unwrap().would_enable(target, &level);
        assert!(enables("info", "sessiond::server", Level::INFO));
        assert!(!enables("info", "sessiond::server", Level::DEBUG));
        assert!(enables("warn,sessiond=debug", "sessiond::server", Level::DEBUG));
        assert!(!enables("warn,sessiond=debug", "h2", Level::INFO));
        assert!(!enables("off", "sessiond::server", Level::ERROR));
        for level in ["debug", "trace", "debug,sqlx=warn"] {
            for library in ["h2::codec::framed_read", "hyper_util", "rustls", "tonic"] {
                assert!(enables(level, library, Level::INFO), "{level} {library}");
                assert!(!enables(level, library, Level::DEBUG), "{level} {library}");
            }
            assert!(enables(level, "sessiond::server", Level::DEBUG), "{level}");
        }
        assert!(!enables("debug", "sessiond::server", Level::TRACE));
        assert!(enables("debug,h2=trace", "h2::codec", Level::TRACE));
        assert!(!enables("debug,h2=trace", "hyper", Level::DEBUG));
        assert!(enables("debug,sessiond::calls=off", "sessiond::server", Level::DEBUG));
        assert!(!enables("debug,sessiond::calls=off", "sessiond::calls", Level::ERROR));
        assert!(!enables("debug,sessiond=warn", "sessiond::server", Level::INFO));
        assert!(!enables("sessiond::calls=info", "h2", Level::ERROR));
        for text in ["", " ", "debgu", "sessiond", "info,"] {
            assert!(filter(text).is_err(), "{text}");
        }
        let refused = filter("sessiond=loud").unwrap_err();
        assert!(refused.contains("'sessiond=loud'") && refused.ends_with("info."), "{refused}");
    }
}
