//! A disk in memory that can lose power. The ground of every crash test.
//!
//! What a sync has not covered is kept apart from what it has, sector by sector and name by name,
//! so that a test can ask for every state that a power loss may leave:
//!
//! ```text
//! let fs = SimFs::new();
//! let trace = fs.record();
//! …work on fs…; trace.mark(7);              // commit 7 was acknowledged here
//! for n in 0..=trace.len() {                // crash after every effect
//!     let disk = trace.at(n)?;              // a killed process: the cache survives
//!     for state in disk.crash_states(Profile::Hostile, 1000, seed) {
//!         let fs = SimFs::after_crash(&state);
//!         …recover on fs; all of trace.marks(n) must be there…
//!     }
//! }
//! ```
//!
//! Promises: the same calls give the same disk; results and kinds of errors are those of the
//! operating system (`engine/tests/simfs` holds it to that). Absent: permissions, links to folders,
//! time.

use crate::env::rng::Rng;
use crate::sync::Mutex;
use crate::vfs::api::{Access, File, LockGuard, Vfs};
use crate::vfs::sim::disk::{Disk, Ino};
use crate::vfs::sim::image::SECTOR_BYTES;
use crate::vfs::sim::inode::Stamp;
use crate::vfs::sim::trace::Log;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

pub use crate::vfs::sim::element::Profile;
pub use crate::vfs::sim::inode::SyncFailure;
pub use crate::vfs::sim::states::{CrashState, CrashStates};
pub use crate::vfs::sim::trace::Effect;

/// States that a loss of power may leave, of which one is taken.
const LOST_POWER_STATES: usize = 32;

/// What [`Vfs::bytes_available`] says; a full disk is played by [`crate::vfs::fault::FaultFs`].
const BYTES_AVAILABLE: u64 = 1 << 40;

/// Room is taken by so many bytes.
const HOLE_BYTES: u64 = 4 << 10;

/// A disk in memory. Clones are handles to the same disk.
#[derive(Clone, Debug)]
pub struct SimFs(Arc<Mutex<State>>, Option<u64>); // Of which process, if it ends with one.

/// Syncs of one kind.
#[derive(Debug, Default)]
struct Syncs {
    begun: u64,
    /// The number of the one that is to fail, and how.
    failure: Option<(u64, SyncFailure)>,
}

impl Syncs {
    fn fail(&mut self, skip: u64, how: SyncFailure) {
        self.failure = Some((self.begun + skip, how));
    }

    /// Counts the next one, and says how it fails if it does.
    fn begin(&mut self) -> Option<SyncFailure> {
        let number = self.begun;
        self.begun += 1;
        self.failure.filter(|(failing, _)| *failing == number).map(|(_, how)| how)
    }
}

#[derive(Debug)]
struct State {
    disk: Disk,
    /// Goes up when the process is killed; handles of an earlier one are dead.
    process: u64,
    locks: BTreeSet<Ino>,
    /// Open handles per file.
    open: BTreeMap<Ino, usize>,
    recording: Weak<Mutex<Log>>,
    syncs: Syncs, // Of files.
    dir_syncs: Syncs,
    shut_down: bool,
    direct: bool,
}

impl SimFs {
    /// An empty disk with the folders `/` and "" (where relative paths start).
    pub fn new() -> SimFs {
        SimFs::with(Disk::new())
    }

    /// Opens no file for direct writes from now on.
    pub fn refuse_direct(&self) {
        self.0.lock().direct = false;
    }

    /// Kills the process that uses the disk: its handles are dead, its locks free. What it wrote is
    /// still in the cache: the next process sees it, and a power loss may yet take it.
    pub fn kill(&self) {
        let mut state = self.0.lock();
        state.process += 1;
        state.locks.clear();
        state.open.clear();
        state.disk.collect(|_| false);
    }

    /// The same disk for the process that runs now: once it is killed, nothing can be done by this
    /// handle. A process with threads needs one, or those that a kill finds at work go on by path:
    /// they would make and delete files under the next process.
    pub fn process(&self) -> SimFs {
        SimFs(Arc::clone(&self.0), Some(self.0.lock().process))
    }

    /// The same disk, cache and all, for another process; this one goes on undisturbed.
    pub fn fork(&self) -> SimFs {
        SimFs::with(self.0.lock().disk.clone())
    }

    /// What a power loss now may leave: at most `budget` states, all of them where that suffices,
    /// otherwise a choice that `seed` decides. The disk itself goes on undisturbed. A state costs
    /// a few microseconds, and [`SimFs::after_crash`] the pages that differ.
    pub fn crash_states(&self, profile: Profile, budget: usize, seed: u64) -> CrashStates {
        CrashStates::new(self.0.lock().disk.clone(), profile, budget, seed)
    }

    /// Loses the power now, and kills the process with it: the disk that is left, one of those that
    /// [`SimFs::crash_states`] has in either profile. The same `seed` leaves the same.
    pub fn lose_power(&self, seed: u64) -> SimFs {
        self.kill();
        let mut rng = Rng::seeded(seed);
        let profile = if rng.one_in(2) { Profile::Ordered } else { Profile::Hostile };
        let states = self.crash_states(profile, LOST_POWER_STATES, rng.next_u64());
        let mut seen = 0;
        let left = states.fold(None, |chosen, state| {
            seen += 1;
            if rng.one_in(seen) { Some(state) } else { chosen }
        });
        // There is always one: all that was written is there.
        left.map_or_else(|| self.fork(), |state| SimFs::after_crash(&state))
    }

    /// The machine comes up again with this on its disk, and an empty cache.
    pub fn after_crash(state: &CrashState) -> SimFs {
        SimFs::with(state.disk())
    }

    /// How many effects there have been.
    pub fn effects(&self) -> u64 {
        self.0.lock().disk.stamp()
    }

    /// How many times a file has been synced, or failed to be.
    pub fn syncs(&self) -> u64 {
        self.0.lock().syncs.begun
    }

    /// Lets the file sync that comes after `skip` more of them fail with EIO.
    pub fn fail_sync(&self, skip: u64, how: SyncFailure) {
        self.0.lock().syncs.fail(skip, how);
    }

    /// How many times a folder has been synced, or failed to be.
    pub fn dir_syncs(&self) -> u64 {
        self.0.lock().dir_syncs.begun
    }

    /// Lets the sync of a folder that comes after `skip` more of them fail with EIO.
    pub fn fail_sync_dir(&self, skip: u64, how: SyncFailure) {
        self.0.lock().dir_syncs.fail(skip, how);
    }

    /// Records every effect from now on, until the trace is dropped or another one starts.
    pub fn record(&self) -> Trace {
        let mut state = self.0.lock();
        let log = Arc::new(Mutex::new(Log::new(state.disk.clone())));
        state.recording = Arc::downgrade(&log);
        Trace(log)
    }

    fn check(&self, state: &State) -> io::Result<()> {
        state.check_up()?;
        match self.1.is_some_and(|process| process != state.process) {
            true => Err(io::Error::other("the process was killed")),
            false => Ok(()),
        }
    }

    fn with(disk: Disk) -> SimFs {
        let state = State {
            disk,
            process: 0,
            locks: BTreeSet::new(),
            open: BTreeMap::new(),
            recording: Weak::new(),
            syncs: Syncs::default(),
            dir_syncs: Syncs::default(),
            shut_down: false,
            direct: true,
        };
        SimFs(Arc::new(Mutex::new(state)), None)
    }

    /// Runs a call that changes the disk and records what it did, if anything.
    fn change<T>(
        &self,
        effect: impl FnOnce() -> Effect,
        call: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.0.lock();
        self.check(&state)?;
        let before = state.disk.stamp();
        let result = call(&mut state);
        state.record(before, effect);
        result
    }

    fn open_as(&self, file: &Path, access: Access, direct: bool) -> io::Result<Arc<dyn File>> {
        let mut state = self.0.lock();
        self.check(&state)?;
        let ino = state.disk.ino(file)?;
        Ok(self.handle(&mut state, file, ino, (access, direct)))
    }

    fn handle(
        &self,
        state: &mut State,
        path: &Path,
        ino: Ino,
        (access, direct): (Access, bool),
    ) -> Arc<dyn File> {
        *state.open.entry(ino).or_insert(0) += 1;
        let (fs, path, process) = (self.clone(), path.to_owned(), state.process);
        Arc::new(SimFile { fs, path, ino, access, direct, process })
    }
}

impl Default for SimFs {
    fn default() -> SimFs {
        SimFs::new()
    }
}

impl State {
    fn check_up(&self) -> io::Result<()> {
        if self.shut_down {
            return Err(io::Error::other("the file system shut down after a failed sync"));
        }
        Ok(())
    }

    fn record(&mut self, before: Stamp, effect: impl FnOnce() -> Effect) {
        if self.disk.stamp() == before {
            return;
        }
        if let Some(log) = self.recording.upgrade() {
            log.lock().push(effect(), self.disk.clone());
        }
    }

    /// Syncs a file as `sync` does, unless this sync is the one that is to fail.
    fn sync(&mut self, ino: Ino, sync: impl FnOnce(&mut Disk) -> io::Result<()>) -> io::Result<()> {
        let Some(how) = self.syncs.begin() else { return sync(&mut self.disk) };
        self.disk.fail_sync(ino, how)?;
        self.sync_failed(how)
    }

    /// The same of a folder.
    fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        let Some(how) = self.dir_syncs.begin() else { return self.disk.sync_dir(dir) };
        self.disk.fail_sync_dir(dir, how)?;
        self.sync_failed(how)
    }

    /// What whoever asked for a sync is told.
    fn sync_failed(&mut self, how: SyncFailure) -> io::Result<()> {
        self.shut_down = how == SyncFailure::ShutsDown;
        Err(os_error(Code::Eio))
    }

    fn close(&mut self, ino: Ino) {
        if let Some(handles) = self.open.get_mut(&ino) {
            *handles -= 1;
            if *handles == 0 {
                self.open.remove(&ino);
            }
        }
    }
}

impl Vfs for SimFs {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let effect = || Effect::CreateDir(dir.to_owned());
        self.change(effect, |state| state.disk.create_dir_all(dir))
    }

    fn create(&self, file: &Path) -> io::Result<Arc<dyn File>> {
        let effect = || Effect::Create(file.to_owned());
        self.change(effect, |state| {
            let ino = state.disk.create(file)?;
            Ok(self.handle(state, file, ino, (Access::ReadWrite, false)))
        })
    }

    fn open(&self, file: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        self.open_as(file, access, false)
    }

    fn open_direct(&self, file: &Path) -> io::Result<Option<Arc<dyn File>>> {
        let direct = self.0.lock().direct;
        match direct {
            true => self.open_as(file, Access::ReadWrite, true).map(Some),
            false => Ok(None),
        }
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        self.change(|| Effect::Remove(file.to_owned()), |state| state.disk.remove(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let effect = || Effect::Rename(from.to_owned(), to.to_owned());
        self.change(effect, |state| state.disk.rename(from, to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let effect = || Effect::HardLink(from.to_owned(), to.to_owned());
        self.change(effect, |state| state.disk.hard_link(from, to))
    }

    fn has_other_names(&self, file: &Path) -> io::Result<bool> {
        let state = self.0.lock();
        self.check(&state)?;
        Ok(state.disk.names_of(state.disk.ino(file)?) > 1)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.0.lock();
        self.check(&state)?;
        state.disk.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        self.check(&state)?;
        let before = state.disk.stamp();
        let result = state.sync_dir(dir);
        let State { disk, open, .. } = &mut *state;
        disk.collect(|ino| open.contains_key(&ino));
        let effect = if result.is_ok() { Effect::SyncDir } else { Effect::FailSync };
        state.record(before, || effect(dir.to_owned()));
        result
    }

    fn lock(&self, file: &Path) -> io::Result<Box<dyn LockGuard>> {
        let effect = || Effect::Create(file.to_owned());
        self.change(effect, |state| {
            let ino = match state.disk.ino(file) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => state.disk.create(file)?,
                found => found?,
            };
            if !state.locks.insert(ino) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            *state.open.entry(ino).or_insert(0) += 1;
            Ok(Box::new(SimLock { fs: self.clone(), ino, process: state.process }) as _)
        })
    }

    fn bytes_available(&self, dir: &Path) -> io::Result<u64> {
        self.list(dir).map(|_| BYTES_AVAILABLE)
    }

    fn chance(&self) -> u64 {
        Rng::seeded(self.effects()).next_u64()
    }
}

/// An open file of a [`SimFs`].
#[derive(Debug)]
struct SimFile {
    fs: SimFs,
    path: PathBuf,
    ino: Ino,
    access: Access,
    direct: bool, // Its synced writes are of whole sectors, from addresses of whole sectors.
    process: u64,
}

impl SimFile {
    fn change(
        &self,
        effect: impl FnOnce() -> Effect,
        call: impl FnOnce(&mut State) -> io::Result<()>,
    ) -> io::Result<()> {
        self.fs.change(effect, |state| {
            self.check_alive(state)?;
            call(state)
        })
    }

    fn sync_by(&self, sync: impl FnOnce(&mut Disk) -> io::Result<()>) -> io::Result<()> {
        let mut state = self.fs.0.lock();
        self.check_alive(&state)?;
        let before = state.disk.stamp();
        let result = state.sync(self.ino, sync);
        let effect = if result.is_ok() { Effect::Sync } else { Effect::FailSync };
        state.record(before, || effect(self.path.clone()));
        result
    }

    fn check_alive(&self, state: &State) -> io::Result<()> {
        state.check_up()?;
        if state.process != self.process {
            return Err(io::Error::other("the process that opened this file was killed"));
        }
        Ok(())
    }
}

impl File for SimFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let state = self.fs.0.lock();
        self.check_alive(&state)?;
        state.disk.read(self.ino, buf, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.access == Access::Read {
            return Err(os_error(Code::Ebadf));
        }
        let effect = || Effect::Write { file: self.path.clone(), offset, bytes: bytes.len() };
        self.change(effect, |state| state.disk.write(self.ino, bytes, offset))
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_by(|disk| disk.sync(self.ino))
    }

    // Two effects: the power may fail between the blocks of one write.
    fn write_synced_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let is_whole = |at: usize| at.is_multiple_of(SECTOR_BYTES);
        let place = [bytes.as_ptr() as usize, bytes.len(), offset as usize];
        if self.direct && !place.into_iter().all(is_whole) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.write_all_at(bytes, offset)?;
        self.sync_by(|disk| disk.sync_part(self.ino, offset, bytes.len() as u64))
    }

    fn len(&self) -> io::Result<u64> {
        let state = self.fs.0.lock();
        self.check_alive(&state)?;
        Ok(state.disk.file(self.ino)?.cache.len())
    }

    fn zeros_from(&self) -> io::Result<u64> {
        let state = self.fs.0.lock();
        self.check_alive(&state)?;
        let cache = &state.disk.file(self.ino)?.cache;
        let written = cache.written_sectors_from(0).last().map_or(0, |last| last + 1);
        let end = (written * SECTOR_BYTES as u64).next_multiple_of(HOLE_BYTES);
        Ok(end.min(cache.len()))
    }

    /// A copy of the bytes as they are now.
    fn map(&self) -> io::Result<Bytes> {
        let state = self.fs.0.lock();
        self.check_alive(&state)?;
        let mut bytes = vec![0; state.disk.file(self.ino)?.cache.len() as usize];
        state.disk.read(self.ino, &mut bytes, 0)?;
        Ok(Bytes::from(bytes))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.access == Access::Read {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let effect = || Effect::SetLen(self.path.clone(), len);
        self.change(effect, |state| state.disk.set_len(self.ino, len))
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        if len <= self.len()? {
            return Ok(());
        }
        if self.access == Access::Read {
            return Err(os_error(Code::Ebadf));
        }
        self.set_len(len) // There is always room.
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.fs.0.lock();
        if state.process == self.process {
            state.close(self.ino);
        }
    }
}

/// A held lock of a [`SimFs`].
#[derive(Debug)]
struct SimLock {
    fs: SimFs,
    ino: Ino,
    process: u64,
}

impl LockGuard for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.fs.0.lock();
        if state.process == self.process {
            state.locks.remove(&self.ino);
            state.close(self.ino);
        }
    }
}

/// Errors that have no portable kind; the numbers are the same on every Unix.
#[derive(Clone, Copy)]
enum Code {
    Eio = 5,
    Ebadf = 9,
}

fn os_error(code: Code) -> io::Error {
    io::Error::from_raw_os_error(code as i32)
}

/// A recorded run; see [`SimFs::record`]. Clones share the record.
#[derive(Clone, Debug)]
pub struct Trace(Arc<Mutex<Log>>);

impl Trace {
    /// Puts `value` into the record at this moment: an acknowledged commit, a timestamp that a
    /// reader has seen.
    pub fn mark(&self, value: u64) {
        self.0.lock().mark(value);
    }

    /// How many effects are in the record.
    #[expect(clippy::len_without_is_empty, reason = "a count of crash points, not a collection")]
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// The `n`-th effect, counted from 1.
    pub fn effect(&self, n: usize) -> Option<Effect> {
        self.0.lock().effect(n).cloned()
    }

    /// The disk after `n` effects, with its cache, as the next process finds it when this one is
    /// killed there; `None` where there were fewer. Costs a few microseconds.
    pub fn at(&self, n: usize) -> Option<SimFs> {
        self.0.lock().disk(n).cloned().map(SimFs::with)
    }

    /// The marks that were made before effect `n + 1`: a crash between the two effects may come
    /// after all of them.
    pub fn marks(&self, n: usize) -> Vec<u64> {
        self.0.lock().marks(n).collect()
    }
}
