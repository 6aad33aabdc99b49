//! Files that appear whole or not at all.

use std::{
    fs::{self, Permissions},
    io::{self, BufWriter},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

/// A file that is removed unless it is finished.
pub struct NewFile {
    pub to: BufWriter<NamedTempFile>,
    path: PathBuf,
}

impl NewFile {
    /// In a directory that is created if it is missing.
    pub fn create(directory: &Path, permissions: &Permissions, name: &str) -> Result<Self, String> {
        let path = directory.join(name);
        let mut builder = tempfile::Builder::new();
        let file = fs::create_dir_all(directory)
            .and_then(|()| builder.prefix(".export-").suffix(".tmp").tempfile_in(directory));
        // It is its owner's until then, whatever the mode of exports is.
        let file = file
            .and_then(|file| file.as_file().set_permissions(permissions.clone()).map(|()| file));
        let to = BufWriter::new(file.map_err(|error| cannot_write(&path, &error))?);
        Ok(Self { to, path })
    }

    /// Moves the file to its place once its content is on the disk. A file that it replaces passes on its mode, and a link does not.
    pub fn finish(self) -> Result<PathBuf, String> {
        let Self { to, path } = self;
        let moved = to.into_inner().map_err(io::Error::from).and_then(|file| {
            if let Ok(replaced) = fs::symlink_metadata(&path)
                && replaced.is_file()
            {
                let mode = replaced.permissions().mode() & 0o777;
                file.as_file().set_permissions(Permissions::from_mode(mode))?;
            }
            file.as_file().sync_all()?;
            Ok(file.persist(&path)?)
        });
        moved.map_err(|error| cannot_write(&path, &error))?;
        Ok(path)
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, os::unix::fs::symlink};

    use super::*;

    fn new_file(directory: &Path, mode: u32) -> NewFile {
        NewFile::create(directory, &Permissions::from_mode(mode), "a.json").unwrap()
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let names = || {
            let entries = fs::read_dir(dir.path()).unwrap();
            entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect::<Vec<_>>()
        };
        let mut given_up = new_file(dir.path(), 0o600);
        given_up.to.write_all(b"half").unwrap();
        assert_ne!(names(), ["a.json"]);
        drop(given_up);
        assert_eq!(names(), [""; 0]);
        for text in ["one", "two"] {
            let mut file = new_file(dir.path(), 0o600);
            file.to.write_all(text.as_bytes()).unwrap();
            let path = file.finish().unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(names(), ["a.json"]);
    }

    #[test]
    fn a_new_file_is_its_owners_and_a_replaced_one_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        let export_by = |mode| {
            new_file(dir.path(), mode).finish().unwrap();
            fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777
        };
        let export = || export_by(0o600);
        assert_eq!(export_by(0o640), 0o640);
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
