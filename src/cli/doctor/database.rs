//! The database file and its disk, as far as this machine has them. Reads 100 bytes, and opens nothing.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use indicatif::BinaryBytes;
use rustix::fs::statvfs;

use super::finding::{Finding, Outcome};

/// Below this much free space writes may soon fail.
const LOW_BYTES: u64 = 256 << 20;
/// A WAL that is larger than this is not moved into the file any more, because a reader or a disk holds it up.
const LARGE_WAL_BYTES: u64 = 256 << 20;
/// Length of the header of an SQLite file.
const HEADER_BYTES: usize = 100;
/// The beginning of the header.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Looks at the file of a `sqlite:` store. No finding shows the URL of another store, which may have a password.
pub fn examine(store: &str) -> Vec<Finding> {
    let told = |outcome, detail: &str| vec![Finding::new("store", outcome, detail)];
    let path = match store.strip_prefix("sqlite:") {
        Some(path) => Path::new(path),
        None if store == "memory:" => return told(Outcome::Ok, "memory: stores nothing on disk"),
        None if store.starts_with("postgres://") || store.starts_with("postgresql://") => {
            let detail =
                "a PostgreSQL database. The health above tells whether the server reaches it";
            return told(Outcome::Ok, detail);
        }
        None => {
            let detail = "--store is not the URL of a store. Pass it as the server has it: sqlite:PATH, postgres://… or memory:";
            return told(Outcome::Error, detail);
        }
    };
    let Ok(metadata) = fs::metadata(path) else {
        let detail = format!(
            "there is no file '{}' here. Pass --store as the server has it, with the whole path",
            path.display()
        );
        return told(Outcome::Unknown, &detail);
    };
    let mut findings = vec![file(path, metadata.len())];
    let wal = PathBuf::from(format!("{}-wal", path.display()));
    let wal_bytes = fs::metadata(wal).map_or(0, |metadata| metadata.len());
    let outcome = if wal_bytes > LARGE_WAL_BYTES { Outcome::Warning } else { Outcome::Ok };
    findings.push(Finding::new("wal", outcome, BinaryBytes(wal_bytes).to_string()));
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    if let Ok(disk) = statvfs(folder) {
        findings.push(free_space(disk.f_bavail * disk.f_frsize));
    }
    findings
}

fn free_space(bytes: u64) -> Finding {
    let outcome = if bytes < LOW_BYTES { Outcome::Warning } else { Outcome::Ok };
    Finding::new("disk", outcome, format!("{} free", BinaryBytes(bytes)))
}

fn file(path: &Path, bytes: u64) -> Finding {
    let mut header = [0; HEADER_BYTES];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    let shown = path.display();
    match read {
        Err(error) => {
            Finding::new("store", Outcome::Error, format!("cannot read '{shown}': {error}"))
        }
        Ok(()) if !header.starts_with(MAGIC) => {
            Finding::new("store", Outcome::Error, format!("'{shown}' is not an SQLite file"))
        }
        Ok(()) => {
            // Bytes 60 to 63: the version of the tables, which the server sets.
            let version = u32::from_be_bytes([header[60], header[61], header[62], header[63]]);
            let version = match version {
                // Until the first checkpoint it is in the WAL.
                0 => String::new(),
                version => format!(", schema version {version}"),
            };
            let detail = format!("'{shown}', {}{version}", BinaryBytes(bytes));
            Finding::new("store", Outcome::Ok, detail)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_judged_by_its_header() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.db");
        let url = format!("sqlite:{}", path.display());
        let first = || examine(&url).remove(0);
        assert_eq!(first().result, Outcome::Unknown);
        fs::write(&path, "hello").unwrap();
        assert_eq!(first().result, Outcome::Error);
        fs::write(&path, [b'x'; 100]).unwrap();
        assert!(first().detail.contains("not an SQLite file"));
        let mut header = [0; 100];
        header[..MAGIC.len()].copy_from_slice(MAGIC);
        header[63] = 4;
        fs::write(&path, header).unwrap();
        let findings = examine(&url);
        assert!(findings[0].detail.ends_with("100 B, schema version 4"), "{findings:?}");
        assert_eq!(findings.len(), 3, "file, WAL and disk: {findings:?}");
    }

    #[test]
    fn a_store_without_a_file_is_named_by_its_kind_alone() {
        for (store, outcome) in [
            ("memory:", Outcome::Ok),
            ("postgres://me:secret@db/sessions", Outcome::Ok),
            ("postgre://me:secret@db/sessions", Outcome::Error),
            ("sessiond.db", Outcome::Error),
        ] {
            let findings = examine(store);
            assert_eq!((findings.len(), findings[0].result), (1, outcome), "{findings:?}");
            assert!(!findings[0].detail.contains("secret"), "{findings:?}");
        }
    }

    #[test]
    fn little_space_is_a_warning() {
        assert_eq!(free_space(LOW_BYTES - 1).result, Outcome::Warning);
        assert_eq!(free_space(LOW_BYTES).detail, "256.00 MiB free");
    }
}
