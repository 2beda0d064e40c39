//! A file that is written beside the place of its name, which it takes once it is whole.
//!
//! Links are followed: the file that they lead to is replaced. A pipe or a device has no such place
//! and is written to itself. So is what stdout or stderr go to, as `/dev/stdout` says it, though it
//! be a file: what went there before stays, and what comes later has its place behind.
//!
//! Promise: several processes may write one file at a time, and it is what one of them wrote. Each
//! holds a lock of its draft; one that nobody holds was left by a process that was killed, and the
//! next removes it.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the file is the user's, not the engine's"
)]

use crate::exit;
use anyhow::{Context, Result};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Links that lead to each other at most, as on Linux.
const LINKS_MAX: usize = 40;

/// Names of drafts that are tried.
const NAMES_MAX: u32 = 1_000;

/// Such a file. One that is given up is removed.
pub(crate) struct Draft {
    /// Where it is, and where it is to be; none where it is there already.
    places: Option<(PathBuf, PathBuf)>,
    /// Whether it is stdout or stderr.
    is_own_stream: bool,
    pub(crate) file: File,
}

impl Draft {
    /// For a file that is to be at `path`. Where there is one, it is as readable as that.
    pub(crate) fn create(path: &Path) -> Result<Draft> {
        let named = || format!("{}", path.display());
        let found = fs::metadata(path);
        if let Some(file) = found.as_ref().ok().and_then(own_stream) {
            return Ok(Draft { places: None, is_own_stream: true, file });
        }
        let old = match found {
            Ok(old) if !old.is_file() => {
                let file = File::options().write(true).open(path).with_context(named)?;
                return Ok(Draft { places: None, is_own_stream: false, file });
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(named);
            }
            old => old.ok(),
        };
        let place = behind_links(path);
        remove_left(&place);
        let (draft, file) = begin(&place, old.as_ref()).with_context(named)?;
        Ok(Draft { places: Some((draft, place)), is_own_stream: false, file })
    }

    /// Gives it its name, with all that was written to it.
    pub(crate) fn finish(mut self) -> Result<()> {
        let Some((draft, place)) = &self.places else { return Ok(()) };
        let named = || format!("{}", place.display());
        self.file.sync_data().with_context(named)?;
        fs::rename(draft, place).with_context(named)?;
        self.places = None;
        Ok(())
    }
}

/// Writes to the file.
impl Write for &Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = (&self.file).write(bytes);
        written.map_err(|error| if self.is_own_stream { exit::of_stdout(error) } else { error })
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.file).flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some((draft, _)) = &self.places {
            let _ = fs::remove_file(draft);
        }
    }
}

/// A share of stdout or stderr, where that is the file. Opened anew it would be written from its
/// beginning.
#[cfg(unix)]
fn own_stream(found: &Metadata) -> Option<File> {
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::MetadataExt as _;
    let (stdout, stderr) = (io::stdout(), io::stderr());
    [stdout.as_fd(), stderr.as_fd()].into_iter().find_map(|stream| {
        let share = File::from(stream.try_clone_to_owned().ok()?);
        let own = share.metadata().ok()?;
        ((own.dev(), own.ino()) == (found.dev(), found.ino())).then_some(share)
    })
}

#[cfg(not(unix))]
fn own_stream(_: &Metadata) -> Option<File> {
    None
}

/// Where the file lies, or is to lie, that `path` leads to.
fn behind_links(path: &Path) -> PathBuf {
    let mut place = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(link) = fs::read_link(&place) else { break };
        place.pop();
        place.push(link);
    }
    place
}

/// Makes a draft that nobody else has, and locks it.
fn begin(place: &Path, old: Option<&Metadata>) -> io::Result<(PathBuf, File)> {
    for number in 0..NAMES_MAX {
        let mut name = OsString::from(place);
        name.push(format!(".{}.part", std::process::id().wrapping_add(number)));
        let draft = PathBuf::from(name);
        let file = match make(&draft, old) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            file => file?,
        };
        // Where there are no locks nobody finds out that a draft was left, and none is removed.
        let _ = file.lock();
        // Before the lock somebody may have taken it for one that was left.
        if is_at(&file, &draft) {
            return Ok((draft, file));
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Makes the file, from the beginning with the permissions of the one that it is to replace.
#[cfg(unix)]
fn make(draft: &Path, old: Option<&Metadata>) -> io::Result<File> {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    let Some(old) = old else { return File::create_new(draft) };
    let mut options = File::options();
    options.write(true).create_new(true).mode(old.permissions().mode() & 0o777);
    let file = options.open(draft)?;
    // The umask has taken some away.
    file.set_permissions(old.permissions())?;
    Ok(file)
}

#[cfg(not(unix))]
fn make(draft: &Path, _: Option<&Metadata>) -> io::Result<File> {
    File::create_new(draft)
}

/// Removes the drafts of a file that nobody writes any more.
fn remove_left(place: &Path) {
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Some(name) = place.file_name().and_then(OsStr::to_str) else { return };
    let there = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    for entry in there.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())) {
        let draft = entry.path();
        if entry.file_name().to_str().is_some_and(|other| is_draft(other, name))
            && let Ok(file) = File::open(&draft)
            && file.try_lock().is_ok()
            && is_at(&file, &draft)
        {
            let _ = fs::remove_file(&draft);
        }
    }
}

/// Whether a draft of the file `name` may be called so.
fn is_draft(draft: &str, name: &str) -> bool {
    let rest = draft.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
    let number = rest.and_then(|rest| rest.strip_suffix(".part"));
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    })
}

/// Whether the open file is what lies at `path`.
#[cfg(unix)]
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let id = |found: io::Result<Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
    let open = id(file.metadata());
    open.is_some() && open == id(fs::symlink_metadata(path))
}

#[cfg(not(unix))]
pub(crate) fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    /// Writes the file at `path` by a draft of it.
    fn write(path: &Path, text: &str) {
        let mut draft = Draft::create(path).unwrap();
        draft.file.write_all(text.as_bytes()).unwrap();
        draft.finish().unwrap();
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_that_is_replaced_stays_as_readable_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("file"), folder.path().join("other"));
        for mode in [0o600, 0o666, 0o444] {
            let _ = fs::remove_file(&path);
            write(&path, "old");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let draft = Draft::create(&path).unwrap();
            let of_draft = draft.file.metadata().unwrap().permissions().mode();
            assert_eq!(of_draft & 0o777, mode, "{of_draft:o} while it is written");
            draft.finish().unwrap();
            let after = path.metadata().unwrap().permissions().mode();
            assert_eq!(after & 0o777, mode, "{after:o}");
        }
        // A new one is as the umask has it.
        write(&path.with_extension("new"), "");
        File::create(&other).unwrap();
        let modes = [path.with_extension("new"), other].map(|path| path.metadata().unwrap());
        assert_eq!(modes[0].permissions(), modes[1].permissions());
    }

    #[test]
    fn what_links_lead_to_is_replaced_and_they_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("deep")).unwrap();
        fs::write(path("deep/file"), "old").unwrap();
        for (link, to) in [
            ("deep/near", PathBuf::from("file")),
            ("far", path("deep/near")),
            ("deep/up", PathBuf::from("../new")),
            ("a", PathBuf::from("b")),
            ("b", PathBuf::from("a")),
        ] {
            symlink(to, path(link)).unwrap();
        }
        for (link, file) in [("far", "deep/file"), ("deep/near", "deep/file"), ("deep/up", "new")] {
            write(&path(link), link);
            assert!(path(link).is_symlink());
            assert_eq!(fs::read_to_string(path(file)).unwrap(), link);
        }
        assert!(path("deep/near").is_symlink());
        assert!(Draft::create(&path("a")).is_err(), "links that lead nowhere");
        assert!(Draft::create(&path("deep")).is_err(), "a folder");
        assert_eq!(names(&path("deep")), ["file", "near", "up"], "and no draft");
    }

    #[test]
    fn a_draft_that_was_left_is_removed_and_one_that_is_written_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let others = ["file.12.parts", "file.x.part", "file..part", "filed.12.part", "file.12"];
        for name in ["file.1.part", "file.4294967295.part"].iter().chain(&others) {
            fs::write(folder.path().join(name), "left").unwrap();
        }
        let mut first = Draft::create(&path).unwrap();
        assert_eq!(names(folder.path()).len(), others.len() + 1, "{:?}", names(folder.path()));
        first.file.write_all(b"first").unwrap();
        // As by another process: its lock is as good as that.
        let mut second = Draft::create(&path).unwrap();
        second.file.write_all(b"second").unwrap();
        first.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        drop(Draft::create(&path).unwrap());
        second.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        let mut expected = [&others[..], &["file"]].concat();
        expected.sort_unstable();
        assert_eq!(names(folder.path()), expected);
    }
}
