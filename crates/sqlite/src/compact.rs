//! Making a file as small as it can be.

use std::{fs, path::Path};

use rusqlite::ffi::SQLITE_IOERR_GETTEMPPATH;

use super::{
    file::{OpenError, whole_path},
    lock::lock,
    migrate::open_checker,
};
use sessiond_store::files::FileMode;

/// Rewrites a file that no server has open without its free space. Returns its bytes before and after. The file stays as it is if
/// this fails or is interrupted.
pub fn compact(path: &Path) -> Result<(u64, u64), OpenError> {
    let path = whole_path(path)?;
    if !path.exists() {
        return Err(OpenError::failed(&path, "there is no such file"));
    }
    let _lock = lock(&path, FileMode::default())?;
    let of = |error: rusqlite::Error| OpenError::of(&path, &error);
    let bytes = || fs::metadata(&path).map(|found| found.len());
    let before = bytes().map_err(|error| OpenError::failed(&path, error))?;
    let Some(tables) = open_checker(&path)? else { return Ok((before, before)) };
    let rewrite = "PRAGMA secure_delete = ON; VACUUM; PRAGMA wal_checkpoint(TRUNCATE);";
    tables.0.execute_batch(rewrite).map_err(|error| match error.sqlite_error() {
        Some(failure) if failure.extended_code == SQLITE_IOERR_GETTEMPPATH => {
            OpenError::failed(&path, "no folder for temporary files is writable: set SQLITE_TMPDIR")
        }
        _ => of(error),
    })?;
    drop(tables);
    Ok((before, bytes().map_err(|error| OpenError::failed(&path, error))?))
}
