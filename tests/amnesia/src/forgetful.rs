//! A FUSE file system of one folder, over any [`Vfs`]: every system call on a file below its mount
//! becomes a call of that.
//!
//! The kernel caches nothing that it has not handed on: writes come here before they return. A file
//! that is opened with O_DSYNC is written by [`File::write_synced_at`], and a sync through such a
//! handle covers nothing else, as the program may expect no more of it.

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tabulith::vfs::api::{Access, File, Vfs};

/// The kernel asks again each time.
const TTL: Duration = Duration::ZERO;
const BLOCK_BYTES: u32 = 4096;

/// What a handle was opened for.
const ORDINARY: FileHandle = FileHandle(1);
const SYNCED: FileHandle = FileHandle(2);

/// How often each call came, for whoever wants to know that they did.
#[derive(Debug, Default)]
pub struct Calls {
    pub writes: AtomicU64,
    pub synced_writes: AtomicU64,
    pub syncs: AtomicU64,
    pub folder_syncs: AtomicU64,
    pub failed: AtomicU64,
}

/// The file system.
pub struct Forgetful {
    vfs: Arc<dyn Vfs>,
    nodes: Mutex<Nodes>,
    calls: Arc<Calls>,
    lies: bool, // A synced write is none: what the run must find.
}

/// A file that the kernel knows.
#[derive(Clone)]
struct Node {
    no: u64,
    file: Arc<dyn File>,
    synced: Option<Arc<dyn File>>, // For writes that are durable when they return.
}

#[derive(Default)]
struct Nodes {
    by_name: BTreeMap<String, u64>,
    by_no: BTreeMap<u64, Node>,
}

impl Forgetful {
    pub fn new(vfs: Arc<dyn Vfs>, calls: Arc<Calls>, lies: bool) -> Forgetful {
        Forgetful { vfs, nodes: Mutex::default(), calls, lies }
    }

    /// The file of a name, opened where the kernel asks for it for the first time.
    fn named(&self, parent: INodeNo, name: &OsStr) -> io::Result<Node> {
        let (name, path) = place(parent, name)?;
        let mut nodes = self.nodes.lock();
        if let Some(node) = nodes.by_name.get(&name).and_then(|no| nodes.by_no.get(no)) {
            return Ok(node.clone());
        }
        let file = self.vfs.open(&path, Access::ReadWrite)?;
        self.enter(&mut nodes, name, &path, file)
    }

    fn enter(
        &self,
        nodes: &mut Nodes,
        name: String,
        path: &Path,
        file: Arc<dyn File>,
    ) -> io::Result<Node> {
        let no = nodes.by_no.last_key_value().map_or(INodeNo::ROOT.0, |(no, _)| *no) + 1;
        let node = Node { no, file, synced: self.vfs.open_direct(path)? };
        nodes.by_name.insert(name, no);
        nodes.by_no.insert(no, node.clone());
        Ok(node)
    }

    fn node(&self, no: INodeNo) -> io::Result<Node> {
        let nodes = self.nodes.lock();
        nodes.by_no.get(&no.0).cloned().ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
    }

    fn attr(&self, no: INodeNo) -> io::Result<FileAttr> {
        if no == INodeNo::ROOT {
            return Ok(attr(no.0, 0, FileType::Directory));
        }
        let node = self.node(no)?;
        node.attr()
    }

    fn rename_node(&self, from: String, to: String) {
        let mut nodes = self.nodes.lock();
        nodes.by_name.remove(&to);
        if let Some(no) = nodes.by_name.remove(&from) {
            nodes.by_name.insert(to, no);
        }
    }

    fn told<T>(&self, done: io::Result<T>) -> Result<T, Errno> {
        done.map_err(|error| {
            self.calls.failed.fetch_add(1, Ordering::Relaxed);
            errno(error)
        })
    }
}

impl Node {
    fn attr(&self) -> io::Result<FileAttr> {
        Ok(attr(self.no, self.file.len()?, FileType::RegularFile))
    }

    fn read(&self, offset: u64, size: u32) -> io::Result<Vec<u8>> {
        let left = self.file.len()?.saturating_sub(offset);
        self.file.read_vec_at(left.min(u64::from(size)) as usize, offset)
    }
}

/// The number that the system has for an error.
fn errno(error: io::Error) -> Errno {
    match (error.raw_os_error(), error.kind()) {
        (Some(code), _) => Errno::from_i32(code),
        (_, io::ErrorKind::NotFound) => Errno::ENOENT,
        (_, io::ErrorKind::AlreadyExists) => Errno::EEXIST,
        (_, io::ErrorKind::StorageFull) => Errno::ENOSPC,
        (_, io::ErrorKind::Unsupported) => Errno::EOPNOTSUPP,
        (_, io::ErrorKind::InvalidInput) => Errno::EINVAL,
        _ => Errno::EIO,
    }
}

/// Name and path of a file in the one folder there is.
fn place(parent: INodeNo, name: &OsStr) -> io::Result<(String, PathBuf)> {
    let name = name.to_str().filter(|_| parent == INodeNo::ROOT);
    let name = name.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
    Ok((name.to_owned(), Path::new("/").join(name)))
}

fn attr(no: u64, size: u64, kind: FileType) -> FileAttr {
    FileAttr {
        ino: INodeNo(no),
        size,
        blocks: size.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: if kind == FileType::Directory { 0o700 } else { 0o600 },
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

fn is_synced(flags: i32) -> bool {
    flags & libc::O_DSYNC != 0 // O_SYNC has this bit, too.
}

fn handle(flags: i32) -> FileHandle {
    if is_synced(flags) { SYNCED } else { ORDINARY }
}

/// Answers `reply` with what `done` says, by `$ok` where that is a success.
macro_rules! answer {
    ($reply:ident, $done:expr, $ok:expr) => {
        match $done {
            Ok(value) =>
            {
                #[allow(clippy::redundant_closure_call)]
                $ok(value)
            }
            Err(error) => $reply.error(error),
        }
    };
}

impl Filesystem for Forgetful {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        // A name that is not there is no failure.
        let found = self.named(parent, name).and_then(|node| node.attr()).map_err(errno);
        answer!(reply, found, |attr| reply.entry(&TTL, &attr, Generation(0)));
    }

    fn getattr(&self, _: &Request, no: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        answer!(reply, self.told(self.attr(no)), |attr| reply.attr(&TTL, &attr));
    }

    fn setattr(
        &self,
        _: &Request,
        no: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let cut = match size {
            Some(len) => self.node(no).and_then(|node| node.file.set_len(len)),
            None => Ok(()),
        };
        let done = self.told(cut.and_then(|()| self.attr(no)));
        answer!(reply, done, |attr| reply.attr(&TTL, &attr));
    }

    fn open(&self, _: &Request, _no: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(handle(flags.0), FopenFlags::empty());
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let made = place(parent, name).and_then(|(name, path)| {
            let mut nodes = self.nodes.lock();
            let file = self.vfs.create(&path)?;
            self.enter(&mut nodes, name, &path, file)?.attr()
        });
        answer!(reply, self.told(made), |attr| reply.created(
            &TTL,
            &attr,
            Generation(0),
            handle(flags),
            FopenFlags::empty()
        ));
    }

    fn read(
        &self,
        _: &Request,
        no: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self.told(self.node(no).and_then(|node| node.read(offset, size)));
        answer!(reply, read, |bytes: Vec<u8>| reply.data(&bytes));
    }

    fn write(
        &self,
        _: &Request,
        no: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written =
            self.node(no).and_then(|node| match (fh == SYNCED && !self.lies, &node.synced) {
                (true, Some(synced)) => {
                    self.calls.synced_writes.fetch_add(1, Ordering::Relaxed);
                    // The simulated disk asks for the address that a real one asks for.
                    let mut block = vec![0; data.len() + BLOCK_BYTES as usize];
                    let from = block.as_ptr().align_offset(BLOCK_BYTES as usize);
                    block[from..from + data.len()].copy_from_slice(data);
                    synced.write_synced_at(&block[from..from + data.len()], offset)
                }
                (true, None) => Err(io::ErrorKind::InvalidInput.into()),
                (false, _) => {
                    self.calls.writes.fetch_add(1, Ordering::Relaxed);
                    node.file.write_all_at(data, offset)
                }
            });
        answer!(reply, self.told(written), |()| reply.written(data.len() as u32));
    }

    fn fsync(&self, _: &Request, no: INodeNo, fh: FileHandle, _: bool, reply: ReplyEmpty) {
        let synced = self.node(no).and_then(|node| match fh == SYNCED {
            true => Ok(()),
            false => {
                self.calls.syncs.fetch_add(1, Ordering::Relaxed);
                node.file.sync()
            }
        });
        answer!(reply, self.told(synced), |()| reply.ok());
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.calls.folder_syncs.fetch_add(1, Ordering::Relaxed);
        answer!(reply, self.told(self.vfs.sync_dir(Path::new("/"))), |()| reply.ok());
    }

    fn fallocate(
        &self,
        _: &Request,
        no: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let reserved = self.node(no).and_then(|node| match mode {
            0 if offset + length > node.file.len()? => node.file.reserve(offset + length),
            0 => Ok(()),
            _ => Err(io::ErrorKind::Unsupported.into()),
        });
        answer!(reply, self.told(reserved), |()| reply.ok());
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = place(parent, name).and_then(|(name, path)| {
            let mut nodes = self.nodes.lock();
            self.vfs.remove(&path)?;
            nodes.by_name.remove(&name); // Who has it open still has it.
            Ok(())
        });
        answer!(reply, self.told(removed), |()| reply.ok());
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = place(parent, name).and_then(|(from, from_path)| {
            let (to, to_path) = place(new_parent, new_name)?;
            self.vfs.rename(&from_path, &to_path)?;
            self.rename_node(from, to);
            Ok(())
        });
        answer!(reply, self.told(renamed), |()| reply.ok());
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.told(self.vfs.list(Path::new("/")));
        answer!(reply, listed, |mut names: Vec<String>| {
            names.sort();
            // Their numbers come with the lookup that follows.
            for (at, name) in names.iter().enumerate().skip(offset as usize) {
                if reply.add(INodeNo(u64::MAX), at as u64 + 1, FileType::RegularFile, name) {
                    break;
                }
            }
            reply.ok();
        });
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = 1 << 24;
        reply.statfs(blocks, blocks, blocks, 1 << 20, 1 << 20, BLOCK_BYTES, 255, BLOCK_BYTES);
    }
}
