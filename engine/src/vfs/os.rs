//! The operating system's file system. Production runs on it.
//!
//! Promises: files belong to their owner alone (0600, folders 0700); the last part of a file's path
//! is never followed through a symbolic link; a sync that returned `Ok` reached the device.
//! Absent: retries of a failed sync. The kernel may have marked the lost pages clean, so that a
//! second call would succeed without having written anything.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the door itself")]

use crate::vfs::api::{Access, File, LockGuard, Vfs};
use crate::vfs::map;
use bytes::Bytes;
use std::fs::{self, DirBuilder, OpenOptions, TryLockError};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Files of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsVfs;

impl OsVfs {
    /// The operating system's files.
    pub fn new() -> OsVfs {
        OsVfs
    }
}

impl Vfs for OsVfs {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        make_dir(dir, &|parent| self.sync_dir(parent))
    }

    fn create(&self, file: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(OsFile(private_file().write(true).create_new(true).open(file)?)))
    }

    fn open(&self, file: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let opened = private_file().write(access == Access::ReadWrite).open(file)?;
        Ok(Arc::new(OsFile(opened)))
    }

    #[cfg(target_os = "linux")]
    fn open_direct(&self, file: &Path) -> io::Result<Option<Arc<dyn File>>> {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let flags = OFlags::NOFOLLOW | OFlags::DIRECT | OFlags::DSYNC;
        let mut options = OpenOptions::new();
        match options.write(true).custom_flags(flags.bits().cast_signed()).open(file) {
            Ok(opened) => Ok(Some(Arc::new(DirectFile(OsFile(opened))))),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        fs::remove_file(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    #[cfg(unix)]
    fn has_other_names(&self, file: &Path) -> io::Result<bool> {
        use std::os::unix::fs::MetadataExt as _;
        Ok(fs::metadata(file)?.nlink() > 1)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        // A name that is not UTF-8 is not one of ours; its replacement characters keep it so.
        fs::read_dir(dir)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let here = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        sync_names(here)
    }

    fn lock(&self, file: &Path) -> io::Result<Box<dyn LockGuard>> {
        let opened = private_file().write(true).create(true).truncate(false).open(file)?;
        // flock belongs to the open file, not to the process: a second open in this process is
        // refused like one in another, and closing an unrelated handle releases nothing.
        match opened.try_lock() {
            Ok(()) => Ok(Box::new(OsLock { file: opened })),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    fn bytes_available(&self, dir: &Path) -> io::Result<u64> {
        bytes_available(dir)
    }

    /// What the standard library keys its hash maps with, which it has from the system.
    fn chance(&self) -> u64 {
        RandomState::new().build_hasher().finish()
    }
}

/// An open file of the operating system.
#[derive(Debug)]
struct OsFile(fs::File);

impl File for OsFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        place::read_exact_at(&self.0, buf, offset)
    }

    #[cfg(unix)]
    fn read_vec_at(&self, len: usize, offset: u64) -> io::Result<Vec<u8>> {
        place::read_vec_at(&self.0, len, offset)
    }

    #[cfg(target_os = "linux")]
    fn begin_read(&self, offset: u64, len: u64) {
        use rustix::fs::{Advice, fadvise};
        // Asks the disk for those pages that the system's cache lacks; a failed read is told by
        // whoever reads.
        let _ = fadvise(&self.0, offset, std::num::NonZeroU64::new(len), Advice::WillNeed);
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        place::write_all_at(&self.0, bytes, offset)
    }

    #[cfg(target_os = "linux")]
    fn write_parts_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        place::write_parts_at(&self.0, parts, offset)
    }

    fn sync(&self) -> io::Result<()> {
        // fdatasync on Linux: data, and the metadata needed to read it back, which the length and
        // the block map are. Only times are left out, and with them, when space that was written
        // before is overwritten, a journal commit: 80 us instead of 200. On Apple's systems the
        // same call is F_FULLFSYNC, because fsync there stops at the drive's cache.
        self.0.sync_data()
    }

    #[cfg(target_os = "linux")]
    fn begin_sync(&self, offset: u64, len: u64) {
        use rustix::fs::{Advice, fadvise};
        // Begins the write-back of the range, and lets go of what of it is clean: nothing, since
        // all of it was just written. A failed write-back is told by the sync.
        let _ = fadvise(&self.0, offset, std::num::NonZeroU64::new(len), Advice::DontNeed);
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn map(&self) -> io::Result<Bytes> {
        map::read_only(&self.0)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    #[cfg(target_os = "linux")]
    fn zeros_from(&self) -> io::Result<u64> {
        use rustix::fs::{SeekFrom, seek};
        use rustix::io::Errno;
        let hole = seek(&self.0, SeekFrom::Hole(0));
        match hole.map(|hole| (hole, seek(&self.0, SeekFrom::Data(hole)))) {
            Ok((hole, Err(Errno::NXIO))) => Ok(hole), // No data behind it.
            _ => self.len(),
        }
    }

    #[cfg(target_os = "linux")]
    fn reserve(&self, len: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::retry_on_intr;
        let from = self.len()?;
        match len.checked_sub(from) {
            None | Some(0) => Ok(()),
            Some(more) => {
                let reserve = || fallocate(&self.0, FallocateFlags::empty(), from, more);
                retry_on_intr(reserve).map_err(io::Error::from)
            }
        }
    }
}

/// A file whose writes are on the device when they return.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct DirectFile(OsFile);

#[cfg(target_os = "linux")]
impl File for DirectFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn write_synced_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset) // O_DSYNC: the flush is part of the write.
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
}

/// Whether the process or the machine lacked handles or memory for a call: of the file that tells
/// nothing.
#[cfg(unix)]
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    code.is_some_and(|code| [Errno::MFILE, Errno::NFILE, Errno::NOMEM].contains(&code))
}

/// The same, where only memory has a kind of its own.
#[cfg(not(unix))]
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::OutOfMemory
}

/// The lock lasts until this is dropped.
#[derive(Debug)]
struct OsLock {
    file: fs::File,
}

impl LockGuard for OsLock {}

impl Drop for OsLock {
    fn drop(&mut self) {
        // To close it is not enough: a process that is being started has a copy of the handle until
        // it runs its program, and one that was forked for as long as it lives.
        let _ = self.file.unlock();
    }
}

/// Makes `dir` and those above it, and has `sync` see to the names.
fn make_dir(dir: &Path, sync: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    use io::ErrorKind::{
        AlreadyExists, InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported,
    };
    let Some(parent) = dir.parent() else { return Ok(()) };
    if dir.is_dir() {
        // Whoever made it may have been killed before its name was durable. Where that cannot be
        // synced it was none of ours.
        return sync(parent).or_else(|error| match error.kind() {
            PermissionDenied | ReadOnlyFilesystem | InvalidInput | Unsupported => Ok(()),
            _ => Err(error),
        });
    }
    make_dir(parent, sync)?;
    match private_dir().create(dir) {
        Err(e) if e.kind() == AlreadyExists && dir.is_dir() => {}
        made => made?,
    }
    sync(parent)
}

#[cfg(unix)]
fn private_dir() -> DirBuilder {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

#[cfg(unix)]
fn private_file() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits();
    options.read(true).mode(0o600).custom_flags(no_follow.cast_signed());
    options
}

#[cfg(not(unix))]
fn private_dir() -> DirBuilder {
    DirBuilder::new()
}

#[cfg(not(unix))]
fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    options
}

#[cfg(unix)]
fn sync_names(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let folder = rustix::fs::OFlags::DIRECTORY.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(folder).open(dir)?.sync_all()
}

/// Elsewhere a folder cannot be opened for syncing; NTFS logs changes of names in order.
#[cfg(not(unix))]
fn sync_names(dir: &Path) -> io::Result<()> {
    fs::metadata(dir).map(drop)
}

#[cfg(unix)]
fn bytes_available(dir: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(dir)?;
    // `f_bavail`, not `f_bfree`: the rest is kept for root.
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Not known here; a full disk still shows as the error of a write.
#[cfg(not(unix))]
fn bytes_available(dir: &Path) -> io::Result<u64> {
    fs::metadata(dir).map(|_| u64::MAX)
}

#[cfg(unix)]
mod place {
    use rustix::buffer::spare_capacity;
    use rustix::io::{Errno, pread};
    #[cfg(target_os = "linux")]
    use std::io::IoSlice;
    use std::os::unix::fs::FileExt;
    use std::{fs, io};

    /// Zeroing 64 KiB first would cost a fifth of reading them from the system's cache.
    pub(super) fn read_vec_at(file: &fs::File, len: usize, offset: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let at = offset + bytes.len() as u64;
            match pread(file, spare_capacity(&mut bytes), at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        bytes.truncate(len); // Its capacity may be more than was asked for.
        Ok(bytes)
    }

    /// In one call, so that the system fills whole pages: a page written in two goes would be read
    /// first.
    #[cfg(target_os = "linux")]
    pub(super) fn write_parts_at(
        file: &fs::File,
        parts: &[&[u8]],
        mut offset: u64,
    ) -> io::Result<()> {
        const PARTS_MAX: usize = 1024; // IOV_MAX of Linux.
        let some = parts.iter().filter(|part| !part.is_empty()); // None at all would write nothing.
        let mut slices: Vec<_> = some.map(|part| IoSlice::new(part)).collect();
        let mut rest = slices.as_mut_slice();
        while !rest.is_empty() {
            match rustix::io::pwritev(file, &rest[..rest.len().min(PARTS_MAX)], offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    offset += written as u64;
                    IoSlice::advance_slices(&mut rest, written);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    pub(super) fn read_exact_at(file: &fs::File, buf: &mut [u8], offset: u64) -> io::Result<()> {
        file.read_exact_at(buf, offset)
    }

    pub(super) fn write_all_at(file: &fs::File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }
}

#[cfg(windows)]
mod place {
    use std::os::windows::fs::FileExt;
    use std::{fs, io};

    pub(super) fn read_exact_at(
        file: &fs::File,
        mut buf: &mut [u8],
        mut offset: u64,
    ) -> io::Result<()> {
        while !buf.is_empty() {
            match file.seek_read(buf, offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => (buf, offset) = (&mut buf[n..], offset + n as u64),
            }
        }
        Ok(())
    }

    pub(super) fn write_all_at(
        file: &fs::File,
        mut bytes: &[u8],
        mut offset: u64,
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            match file.seek_write(bytes, offset)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => (bytes, offset) = (&bytes[n..], offset + n as u64),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{OsLock, OsVfs, make_dir, private_file};
    use crate::vfs::api::{Access, Vfs};
    use std::cell::RefCell;
    use std::io;
    use std::path::Path;

    #[test]
    fn bytes_come_back_and_the_end_is_an_error() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("a");
        let file = OsVfs.create(&path)?;
        file.write_all_at(b"hello", 3)?;
        file.sync()?;
        assert_eq!(file.len()?, 8);

        let again = OsVfs.open(&path, Access::Read)?;
        let mut buf = [1; 8];
        again.read_exact_at(&mut buf, 0)?;
        assert_eq!(&buf, b"\0\0\0hello");
        let past = again.read_exact_at(&mut buf, 1).map_err(|e| e.kind());
        assert_eq!(past, Err(io::ErrorKind::UnexpectedEof));
        assert!(again.write_all_at(b"x", 0).is_err());
        let twice = OsVfs.create(&path).map(drop).map_err(|e| e.kind());
        assert_eq!(twice, Err(io::ErrorKind::AlreadyExists));
        Ok(())
    }

    /// As a child has one between fork and exec.
    #[test]
    fn a_lock_that_is_let_go_is_free_though_a_copy_of_its_handle_is_open() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("LOCK");
        let lock = OsLock { file: private_file().write(true).create(true).open(&path)? };
        lock.file.try_lock()?;
        let copy = lock.file.try_clone()?;
        assert_eq!(
            OsVfs.lock(&path).map(drop).map_err(|e| e.kind()),
            Err(io::ErrorKind::WouldBlock)
        );
        drop(lock);
        OsVfs.lock(&path)?;
        drop(copy);
        Ok(())
    }

    #[test]
    fn a_folder_has_one_owner_even_in_one_process() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("LOCK");
        let first = OsVfs.lock(&path)?;
        let second = OsVfs.lock(&path).map(drop).map_err(|e| e.kind());
        assert_eq!(second, Err(io::ErrorKind::WouldBlock));
        drop(first);
        OsVfs.lock(&path).map(drop)
    }

    #[test]
    fn folders_names_and_links() -> io::Result<()> {
        let root = tempfile::tempdir()?;
        let dir = root.path().join("x/y");
        OsVfs.create_dir_all(&dir)?;
        OsVfs.create_dir_all(&dir)?;
        OsVfs.create(&dir.join("a"))?.write_all_at(b"1", 0)?;
        OsVfs.hard_link(&dir.join("a"), &dir.join("b"))?;
        OsVfs.rename(&dir.join("a"), &dir.join("c"))?;
        OsVfs.sync_dir(&dir)?;
        let mut names = OsVfs.list(&dir)?;
        names.sort();
        assert_eq!(names, ["b", "c"]);
        OsVfs.open(&dir.join("c"), Access::ReadWrite)?.write_all_at(b"2", 0)?;
        let mut byte = [0];
        OsVfs.open(&dir.join("b"), Access::Read)?.read_exact_at(&mut byte, 0)?;
        assert_eq!(byte, *b"2", "a link shares the bytes");
        assert!(OsVfs.bytes_available(&dir)? > 0);
        Ok(())
    }

    /// A folder that a process had made just before it was killed stayed in the cache, and a power
    /// cut took it with the database that the next process had made in it.
    #[test]
    fn the_name_of_a_folder_is_synced_whoever_made_it() -> io::Result<()> {
        let root = tempfile::tempdir()?;
        let (top, dir) = (root.path().join("x"), root.path().join("x/y"));
        let synced = |refusal: Option<io::ErrorKind>| {
            let all = RefCell::new(Vec::new());
            let made = make_dir(&dir, &|parent| {
                all.borrow_mut().push(parent.to_owned());
                refusal.map_or(Ok(()), |kind| Err(kind.into()))
            });
            (made.map_err(|e| e.kind()), all.into_inner())
        };
        let above = root.path().parent().map(Path::to_owned);
        let all = above.into_iter().chain([root.path().to_owned(), top.clone()]).collect();
        assert_eq!(synced(None), (Ok(()), all));
        assert_eq!(synced(None), (Ok(()), vec![top.clone()]));
        // Of a folder that is there nobody need be able to sync the parent; a failed disk is told.
        let denied = io::ErrorKind::PermissionDenied;
        assert_eq!(synced(Some(denied)), (Ok(()), vec![top.clone()]));
        let failed = io::ErrorKind::Other;
        assert_eq!(synced(Some(failed)), (Err(failed), vec![top.clone()]));
        std::fs::remove_dir(&dir)?;
        assert_eq!(synced(Some(denied)).0, Err(denied));
        Ok(())
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_direct_write_is_what_other_handles_read() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("a");
        let file = OsVfs.create(&path)?;
        file.write_all_at(&[1; 3 * 4096], 0)?;
        let Some(direct) = OsVfs.open_direct(&path)? else { return Ok(()) };
        let buffer = vec![2; 2 * 4096];
        let start = buffer.as_ptr().align_offset(4096);
        direct.write_synced_at(&buffer[start..start + 4096], 4096)?;
        let mut read = [0; 3 * 4096];
        file.read_exact_at(&mut read, 0)?;
        assert!(read[..4096] == [1; 4096] && read[4096..8192] == [2; 4096]);
        assert!(read[8192..] == [1; 4096]);
        Ok(())
    }

    #[cfg(unix)]
    #[test]
    fn files_are_private_and_links_are_not_followed() -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("a");
        OsVfs.create(&path)?;
        assert_eq!(std::fs::metadata(&path)?.permissions().mode() & 0o077, 0);
        std::os::unix::fs::symlink(&path, dir.path().join("link"))?;
        assert!(OsVfs.open(&dir.path().join("link"), Access::Read).is_err());
        Ok(())
    }
}
