//! Whether a file of the database may have been removed, moved or replaced since the last look.

use std::{
    mem::MaybeUninit,
    path::Path,
    sync::{Mutex, PoisonError},
    time::Duration,
};

#[cfg(target_os = "linux")]
use rustix::{
    fd::OwnedFd,
    fs::inotify::{self, CreateFlags, WatchFlags},
    io::{self, Errno, read},
};
use tokio::time::Instant;

use crate::store::instant;

/// After so long somebody looks without an event: a file system that is mounted over the folder makes none. A sweep looks as often.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What the kernel tells of the names in a folder, and of the folder's own.
pub(super) struct FolderEvents(Mutex<Looks>);

struct Looks {
    queue: Queue,
    /// When somebody looked last, and could tell.
    looked: Option<Instant>,
}

impl FolderEvents {
    /// The events from now on.
    pub(super) fn of(folder: &Path) -> Self {
        Self(Mutex::new(Looks { queue: Queue::of(folder), looked: None }))
    }

    /// Calls `look` if there were events since the last look that could tell, or if that was a while ago. Other callers wait until it has
    /// looked. It returns whether it could tell.
    pub(super) fn look_if_any(&self, look: impl FnOnce() -> bool) {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = instant();
        let is_recent = looks.looked.is_some_and(|looked| now.duration_since(looked) < LOOK_AGAIN);
        if looks.queue.has_events() || !is_recent {
            looks.looked = look().then_some(now);
        }
    }
}

/// A queue of events; `None` if the kernel has none to give.
#[cfg(target_os = "linux")]
struct Queue(Option<OwnedFd>);

#[cfg(target_os = "linux")]
impl Queue {
    fn of(folder: &Path) -> Self {
        let queue = || -> io::Result<OwnedFd> {
            let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            let events = WatchFlags::DELETE
                | WatchFlags::DELETE_SELF
                | WatchFlags::MOVE
                | WatchFlags::MOVE_SELF;
            inotify::add_watch(&queue, folder, events)?;
            Ok(queue)
        };
        Self(queue().ok())
    }

    /// Without a queue there always may have been some.
    fn has_events(&self) -> bool {
        // What they are does not matter, nor that some may be left.
        let mut events = [MaybeUninit::uninit(); 4096];
        let are_none = |queue| matches!(read(queue, &mut events), Err(Errno::WOULDBLOCK));
        !self.0.as_ref().is_some_and(are_none)
    }
}

#[cfg(not(target_os = "linux"))]
struct Queue;

#[cfg(not(target_os = "linux"))]
impl Queue {
    fn of(_: &Path) -> Self {
        Self
    }

    fn has_events(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_name_that_is_removed_moved_or_replaced_is_an_event() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        fs::write(path("a"), "").unwrap();
        let events = FolderEvents::of(folder.path());
        let look = |tells| {
            let mut looked = false;
            events.look_if_any(|| {
                looked = true;
                tells
            });
            looked
        };
        let looked = || look(true);
        let is_linux = cfg!(target_os = "linux");
        assert!(looked(), "the first time");
        assert_eq!(looked(), !is_linux);
        // Writing changes no name.
        fs::write(path("a"), "more").unwrap();
        fs::write(path("b"), "").unwrap();
        assert_eq!(looked(), !is_linux);
        fs::rename(path("b"), path("a")).unwrap();
        assert!(looked());
        assert_eq!(looked(), !is_linux);
        fs::remove_file(path("a")).unwrap();
        // A look that cannot tell is made again.
        assert!(look(false) && look(false) && looked());
        assert_eq!(looked(), !is_linux);
        events.0.lock().unwrap().looked = Some(instant() - LOOK_AGAIN);
        assert!(looked(), "after a while");
        assert_eq!(looked(), !is_linux);
    }

    #[test]
    fn without_a_queue_every_look_finds_events() {
        let events = FolderEvents::of(Path::new("/no such folder"));
        for _ in 0..2 {
            let mut looked = false;
            events.look_if_any(|| {
                looked = true;
                true
            });
            assert!(looked);
        }
    }
}
