//! Files that appear whole or not at all.

use std::{
    fs,
    io::{self, BufWriter},
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

use crate::{cli::failure::Failure, files::FileMode};

/// A directory, and the mode of new files in it.
pub struct Directory {
    path: PathBuf,
    mode: FileMode,
}

impl Directory {
    /// Creates it if it is missing.
    pub fn create(path: &Path, mode: FileMode) -> Result<Self, Failure> {
        fs::create_dir_all(path).map_err(|error| {
            Failure::Failed(format!("cannot create {}: {error}", path.display()))
        })?;
        Ok(Self { path: path.to_owned(), mode })
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// A file that is removed when it is dropped.
    fn temporary_file(&self) -> io::Result<NamedTempFile> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".export-").suffix(".tmp");
        let file = builder.tempfile_in(&self.path)?;
        // It is its owner's until then, whatever the mode of exports is.
        file.as_file().set_permissions(self.mode.permissions())?;
        Ok(file)
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("cannot write {}: {error}", path.display()))
}

pub fn new_file(directory: &Directory, path: &Path) -> Result<BufWriter<NamedTempFile>, Failure> {
    let file = directory.temporary_file().map_err(|error| cannot_write(path, &error))?;
    Ok(BufWriter::new(file))
}

pub fn finish(file: BufWriter<NamedTempFile>, path: &Path) -> Result<(), Failure> {
    commit(file, path).map_err(|error| cannot_write(path, &error))
}

/// Moves the file to `path` once its content is on the disk. A file that it replaces passes on its mode, and a link does not.
fn commit(file: BufWriter<NamedTempFile>, path: &Path) -> io::Result<()> {
    let file = file.into_inner()?;
    if let Ok(replaced) = fs::symlink_metadata(path)
        && replaced.is_file()
    {
        file.as_file().set_permissions(FileMode::of(&replaced).permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write as _,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use super::*;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let names = || {
            let entries = fs::read_dir(dir.path()).unwrap();
            entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect::<Vec<_>>()
        };
        let into = Directory::create(dir.path(), FileMode::default()).unwrap();
        let mut given_up = BufWriter::new(into.temporary_file().unwrap());
        given_up.write_all(b"half").unwrap();
        assert_ne!(names(), ["a.json"]);
        drop(given_up);
        assert_eq!(names(), [""; 0]);
        let path = dir.path().join("a.json");
        for text in ["one", "two"] {
            let mut file = BufWriter::new(into.temporary_file().unwrap());
            file.write_all(text.as_bytes()).unwrap();
            commit(file, &path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(names(), ["a.json"]);
    }

    #[test]
    fn a_new_file_is_its_owners_and_a_replaced_one_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        let export_by = |mode: &str| {
            let into = Directory::create(dir.path(), mode.parse().unwrap()).unwrap();
            commit(BufWriter::new(into.temporary_file().unwrap()), &path).unwrap();
            fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777
        };
        let export = || export_by("0600");
        assert_eq!(export_by("0640"), 0o640);
        fs::remove_file(&path).unwrap();
        assert_eq!(export(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(export(), 0o644);
        fs::remove_file(&path).unwrap();
        let target = dir.path().join("target");
        fs::write(&target, "kept").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o666)).unwrap();
        symlink(&target, &path).unwrap();
        assert_eq!(export(), 0o600);
        assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
    }
}
