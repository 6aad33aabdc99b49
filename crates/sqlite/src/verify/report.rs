//! Findings, and the summary of a run.

use serde::Serialize;

use super::super::prelude::*;

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Pages, SQLite's own indexes, and the types of columns.
    Structure,
    /// A row cannot be read.
    Unreadable,
    /// Sequences of events and versions of changes are 1, 2, 3, … up to the last one.
    Sequence,
    /// State and snapshots are what the changes of the log add up to.
    State,
    /// The index of a log names its rows, and lists know when a session was last used.
    Index,
    /// Bodies and values are JSON.
    Json,
    /// Every row belongs to a scope that is there.
    Reference,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    pub check: Check,
    #[serde(flatten)]
    pub place: Option<Location>,
    /// The event's sequence or the change's version, if the finding is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// A sentence.
    pub message: String,
}

/// A scope by its names. A session that is deleted and not swept yet has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Location {
    pub app_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// What was read, and how much was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub sessions: u64,
    pub applications_and_users: u64,
    pub events: u64,
    pub findings: u64,
}

/// A part of a run. They follow in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    Structure,
    Sessions,
    ApplicationsAndUsers,
    References,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub part: Part,
    /// Rows of logs that this part has read.
    pub rows: u64,
    /// Rows that this part will read. A damaged file may have more or fewer. `None`: unknown.
    pub total: Option<u64>,
}

pub trait Observer {
    /// Takes a finding as soon as it is there.
    fn found(&mut self, finding: &Finding);

    /// Called at the beginning of each part and after each row of a log.
    fn progress(&mut self, progress: Progress);
}

/// Passes findings and progress on, and counts.
pub(super) struct Report<'o> {
    observer: &'o mut dyn Observer,
    progress: Progress,
    pub(super) summary: Summary,
}

impl<'o> Report<'o> {
    pub(super) fn new(observer: &'o mut dyn Observer) -> Self {
        let progress = Progress { part: Part::Structure, rows: 0, total: None };
        Self { observer, progress, summary: Summary::default() }
    }

    pub(super) fn begin(&mut self, part: Part, total: Option<u64>) {
        self.progress = Progress { part, rows: 0, total };
        self.observer.progress(self.progress);
    }

    pub(super) fn row(&mut self) {
        self.progress.rows += 1;
        self.observer.progress(self.progress);
    }

    pub(super) fn add(
        &mut self,
        check: Check,
        place: Option<&Location>,
        position: Option<u64>,
        message: impl Into<String>,
    ) {
        self.summary.findings += 1;
        let (place, message) = (place.cloned(), message.into());
        self.observer.found(&Finding { check, place, position, message });
    }

    pub(super) fn unreadable(&mut self, place: Option<&Location>, error: &Error) {
        let cause = match error {
            Error::Damaged(_, cause) | Error::Internal(cause) | Error::StoreUnavailable(cause) => {
                cause.0.clone()
            }
            other => other.to_string(),
        };
        self.add(Check::Unreadable, place, None, cause);
    }
}
