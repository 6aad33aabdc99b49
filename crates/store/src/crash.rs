//! Points at which a store aborts its process, for tests of crashes.

use std::{num::NonZeroU64, str::FromStr};

/// A moment at which the process aborts itself as a power cut would end it. Tests of crashes use it; nothing else sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    pub point: CrashPoint,
    /// At the n-th commit since opening, from 1. Making the file does not count, nor does what only the sweep sees.
    pub at_commit: u64,
}

/// The moment of a [`Crash`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// Everything is written but the commit.
    BeforeCommit,
    /// The commit is durable and no caller has been answered.
    AfterCommitBeforeAck,
}

/// `before-commit:N` or `after-commit:N`: at the n-th commit since opening.
impl FromStr for Crash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "write before-commit:N or after-commit:N".to_owned();
        let (point, commit) = text.split_once(':').ok_or_else(form)?;
        let point = match point {
            "before-commit" => CrashPoint::BeforeCommit,
            "after-commit" => CrashPoint::AfterCommitBeforeAck,
            _ => return Err(form()),
        };
        let at_commit = commit.parse::<NonZeroU64>().map_err(|_| form())?.get();
        Ok(Self { point, at_commit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_point_has_a_place_and_a_number() {
        assert!("before-commit:1".parse::<Crash>().is_ok());
        assert!("after-commit:12".parse::<Crash>().is_ok());
        for text in ["", "before-commit", "before-commit:0", "before-commit:x", "later:1"] {
            assert!(text.parse::<Crash>().is_err(), "{text}");
        }
    }
}
