//! Files of this program and of those who run it: the mode of what is made, links that are not followed, and what others may do.

use std::{
    fmt,
    fs::{self, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    str::FromStr,
};

use rustix::fs::OFlags;

/// The mode of a file that is made.
///
/// * The owner may read and write it.
/// * It has no right to execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMode(u32);

/// The owner alone may open the file.
impl Default for FileMode {
    fn default() -> Self {
        Self(OWNER)
    }
}

/// Reading and writing by the owner.
const OWNER: u32 = 0o600;

/// Reading and writing by everybody.
const EVERYBODY: u32 = 0o666;

impl FromStr for FileMode {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match u32::from_str_radix(text, 8) {
            Ok(mode) if mode & OWNER == OWNER && mode & !EVERYBODY == 0 => Ok(Self(mode)),
            _ => Err("a mode is octal, readable and writable by the owner, and not executable. \
                      Pass 0600, or 0640 for a group that reads"),
        }
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl FileMode {
    /// The mode of a file that is there, without what no file of this program has.
    pub fn of(found: &fs::Metadata) -> Self {
        Self(found.mode() & EVERYBODY | OWNER)
    }

    pub fn permissions(self) -> Permissions {
        Permissions::from_mode(self.0)
    }
}

/// Makes a file with exactly this mode, whatever the umask is. Errors: [`io::ErrorKind::AlreadyExists`], also for a link to nothing.
pub fn create_new(path: &Path, mode: FileMode) -> io::Result<File> {
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(mode.0).open(path)?;
    // The umask may have taken something from it. Some file systems have one mode for all of their files.
    drop(file.set_permissions(mode.permissions()));
    Ok(file)
}

/// Opens a file, or makes it with this mode. Refuses a link: somebody else may have put it there. See [`is_link_error`].
pub fn open_or_create(path: &Path, mode: FileMode) -> io::Result<File> {
    let open = || {
        let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
        OpenOptions::new().read(true).write(true).custom_flags(no_link).open(path)
    };
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match create_new(path, mode) {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open(),
            created => created,
        },
        opened => opened,
    }
}

/// Whether a file was not opened for being a link.
pub fn is_link_error(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

pub fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It is secret: others neither read nor change it.
    Secret,
    /// It decides who may do what: others do not change it.
    Decisive,
}

/// What other users can do with a file against its purpose, in a word. Links are followed, as Kubernetes mounts secrets. The group counts
/// as meant: its members were chosen.
pub fn exposure(path: &Path, purpose: Purpose) -> Option<&'static str> {
    let found = fs::metadata(path).ok()?;
    let may = |bits| found.mode() & bits != 0;
    if may(0o002) || is_replaceable(path) {
        return Some("change");
    }
    (purpose == Purpose::Secret && may(0o004)).then_some("read")
}

/// Whether others may put another file in a file's place.
fn is_replaceable(path: &Path) -> bool {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    // The folder of a link counts as well as that of its target.
    [path.to_owned(), real].iter().any(|path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.map_or_else(|| PathBuf::from("."), Path::to_owned);
        // In a sticky folder, such as /tmp, only its owner may replace a file.
        fs::metadata(folder).is_ok_and(|found| found.mode() & 0o1002 == 0o002)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_octal_and_keeps_the_owner() {
        for (text, shown) in [("0600", "0600"), ("640", "0640"), ("0666", "0666")] {
            assert_eq!(text.parse::<FileMode>().unwrap().to_string(), shown);
        }
        for text in ["", "0400", "0700", "0644x", "-600", "888", "01600", "600 ", "0o600"] {
            assert!(text.parse::<FileMode>().is_err(), "{text}");
        }
        assert_eq!(FileMode::default().to_string(), "0600");
    }

    #[test]
    fn a_new_file_has_its_mode_and_an_old_one_keeps_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        for wanted in ["0600", "0640", "0660", "0666"] {
            let path = folder.path().join(wanted);
            open_or_create(&path, wanted.parse().unwrap()).unwrap();
            assert_eq!(format!("{:04o}", mode(&path)), wanted);
            open_or_create(&path, FileMode::default()).unwrap();
            assert_eq!(format!("{:04o}", mode(&path)), wanted);
            let error = create_new(&path, FileMode::default()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        }
    }

    #[test]
    fn a_link_is_not_opened_and_not_made_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(is_link(&link) && !is_link(&target));
        for _ in 0..2 {
            assert!(is_link_error(&open_or_create(&link, FileMode::default()).unwrap_err()));
            assert!(create_new(&link, FileMode::default()).is_err());
            assert!(!target.exists() || fs::read(&target).unwrap() == b"kept");
            fs::write(&target, "kept").unwrap();
        }
    }

    #[test]
    fn what_others_may_do_with_a_file_depends_on_its_mode_and_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        for (of_file, of_folder, secret, decisive) in [
            (0o600, 0o755, None, None),
            (0o640, 0o775, None, None),
            (0o660, 0o755, None, None),
            (0o644, 0o755, Some("read"), None),
            (0o604, 0o755, Some("read"), None),
            (0o666, 0o755, Some("change"), Some("change")),
            (0o602, 0o755, Some("change"), Some("change")),
            (0o600, 0o777, Some("change"), Some("change")),
            (0o600, 0o1777, None, None),
        ] {
            set(&path, of_file);
            set(folder.path(), of_folder);
            for path in [&path, &link] {
                assert_eq!(exposure(path, Purpose::Secret), secret, "{of_file:o} {of_folder:o}");
                assert_eq!(
                    exposure(path, Purpose::Decisive),
                    decisive,
                    "{of_file:o} {of_folder:o}"
                );
            }
        }
        assert_eq!(exposure(&folder.path().join("missing"), Purpose::Secret), None);
    }
}
