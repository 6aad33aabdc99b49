//! Verifying a file: its structure, dense logs, state that equals the fold of its log, and indexes and references that agree.
//!
//! It reads the file once or twice in the order of its indexes. In memory it holds the state of one scope at a time.

mod report;
mod rows;
mod scope;
mod serving;

use std::path::Path;

use super::{
    file::{OpenError, whole_path},
    lock::lock,
    migrate::open_checker,
    prelude::*,
};
use report::Report;
pub use report::{Check, Finding, Observer, Part, Progress, Summary};
pub(super) use serving::before_serving;
use sessiond_store::files::FileMode;

/// A part of the work. An error ends it: the file cannot be read there.
type Step = fn(&Tables, &mut Report<'_>) -> Result<(), Error>;

/// Verifies a file that no server has open.
pub fn verify(path: &Path, observer: &mut dyn Observer) -> Result<Summary, OpenError> {
    let path = whole_path(path)?;
    if !path.exists() {
        return Err(OpenError::failed(&path, "there is no such file"));
    }
    let _lock = lock(&path, FileMode::default())?;
    verify_locked(&path, observer)
}

/// Verifies a file that the caller has locked.
fn verify_locked(path: &Path, observer: &mut dyn Observer) -> Result<Summary, OpenError> {
    // An empty file has nothing that could be damaged.
    let Some(tables) = open_checker(path)? else { return Ok(Summary::default()) };
    let mut report = Report::new(observer);
    let steps: [Step; 5] =
        [rows::structure, scope::sessions, scope::shared_scopes, rows::references, rows::lists];
    for step in steps {
        // What cannot be read at all ends one step. The others may still find more.
        if let Err(error) = step(&tables, &mut report) {
            report.unreadable(None, &error);
        }
    }
    Ok(report.summary)
}
