//! Files that appear whole or not at all.

use std::{
    fs::{self, Permissions},
    io::{self, BufWriter},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

/// A directory, and the mode of new files in it.
pub struct Directory {
    path: PathBuf,
    permissions: Permissions,
}

/// A file that is removed unless it is finished.
pub struct NewFile {
    pub to: BufWriter<NamedTempFile>,
    path: PathBuf,
}

impl Directory {
    /// Creates it if it is missing.
    pub fn create(path: &Path, permissions: Permissions) -> Result<Self, String> {
        fs::create_dir_all(path)
            .map_err(|error| format!("cannot create {}: {error}", path.display()))?;
        Ok(Self { path: path.to_owned(), permissions })
    }

    pub fn new_file(&self, name: &str) -> Result<NewFile, String> {
        let path = self.path.join(name);
        let mut builder = tempfile::Builder::new();
        let file = builder.prefix(".export-").suffix(".tmp").tempfile_in(&self.path);
        // It is its owner's until then, whatever the mode of exports is.
        let file = file.and_then(|file| {
            file.as_file().set_permissions(self.permissions.clone()).map(|()| file)
        });
        let to = BufWriter::new(file.map_err(|error| cannot_write(&path, &error))?);
        Ok(NewFile { to, path })
    }
}

impl NewFile {
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

    fn directory(path: &Path, mode: u32) -> Directory {
        Directory::create(path, Permissions::from_mode(mode)).unwrap()
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
        let into = directory(dir.path(), 0o600);
        let mut given_up = into.new_file("a.json").unwrap();
        given_up.to.write_all(b"half").unwrap();
        assert_ne!(names(), ["a.json"]);
        drop(given_up);
        assert_eq!(names(), [""; 0]);
        for text in ["one", "two"] {
            let mut file = into.new_file("a.json").unwrap();
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
            directory(dir.path(), mode).new_file("a.json").unwrap().finish().unwrap();
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
