//! A file system that fails on demand, around one that works.
//!
//! ```text
//! let fs = FaultFs::new(Arc::new(SimFs::new()));
//! fs.add(Rule::fail(Call::Sync).named("*.wal").skip(2));              // the third sync of a log
//! fs.add(Rule::fail(Call::Read).named("*.sst").forever());            // a dead disk region
//! fs.add(Rule::any().skip(n).with(Errno::Interrupted));               // call n, whatever it is
//! fs.set_room(Some(64 << 10));                                        // then the disk is full
//! fs.interrupt(Rule::fail(Call::Write).named("*.sst"), || …);         // before the next such call
//! ```
//!
//! A failed sync here leaves the inner file system as it was: what was unsynced may still be synced
//! later. Kernels do worse; [`crate::vfs::mem::SimFs::fail_sync`] plays that.

use crate::sync::{Mutex, MutexGuard};
use crate::vfs::api::{Access, File, LockGuard, Vfs};
use crate::vfs::rule::Landing;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::io;
use std::path::Path;
use std::sync::Arc;

pub use crate::vfs::rule::{Call, Errno, Rule};

/// A file system that fails by rules. Clones share rules and counts.
#[derive(Clone, Debug)]
pub struct FaultFs {
    inner: Arc<dyn Vfs>,
    state: Arc<Mutex<State>>,
}

/// What is done before a call, once.
type Interlude = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    interludes: Vec<(Rule, Interlude)>,
    counts: BTreeMap<(Call, String), u64>,
    /// Bytes by which files may still grow.
    room: Option<u64>,
    injected: BTreeMap<(Call, String), u64>,
    /// Reads that were begun ahead.
    begun: u64,
}

impl Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rules, interludes) = (&self.rules, self.interludes.len());
        write!(f, "State({rules:?}, {interludes} interludes)")
    }
}

impl FaultFs {
    /// Fails nothing yet.
    pub fn new(inner: Arc<dyn Vfs>) -> FaultFs {
        FaultFs { inner, state: Arc::default() }
    }

    /// Adds a rule; the first rule that fails a call decides how.
    pub fn add(&self, rule: Rule) {
        self.state.lock().rules.push(rule);
    }

    /// Drops all rules: the disk is well again.
    pub fn clear(&self) {
        self.state.lock().rules.clear();
    }

    /// Does `work` before the next call that `rule` speaks of, which then goes its way: whoever
    /// called is held up in the midst of it. `work` may use the file system.
    pub fn interrupt(&self, rule: Rule, work: impl FnOnce() + Send + 'static) {
        self.state.lock().interludes.push((rule, Box::new(work)));
    }

    /// Lets files grow by `bytes` more, then writes fail with ENOSPC after what fits. `None`: no
    /// limit. Overwriting needs no room; removing a file gives none back.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.state.lock().room = bytes;
    }

    /// How many calls there have been.
    pub fn calls(&self) -> u64 {
        self.state.lock().counts.values().sum()
    }

    /// How many calls there have been by kind and class of name: its digits become one `#`, so that
    /// `000012.sst` counts as `#.sst`.
    pub fn counts(&self) -> BTreeMap<(Call, String), u64> {
        self.state.lock().counts.clone()
    }

    /// How many calls failed because a rule or the room said so.
    pub fn injected(&self) -> u64 {
        self.state.lock().injected.values().sum()
    }

    /// The same by kind and class of name, as in [`FaultFs::counts`].
    pub fn injected_counts(&self) -> BTreeMap<(Call, String), u64> {
        self.state.lock().injected.clone()
    }

    /// How many reads were begun ahead of need. They are no calls: nobody is told whether they
    /// fail.
    pub fn begun_reads(&self) -> u64 {
        self.state.lock().begun
    }

    fn run<T>(
        &self,
        call: Call,
        paths: &[&Path],
        work: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let names = paths.iter().map(|path| name_of(path)).collect::<Vec<_>>();
        let names = names.iter().map(|name| &**name).collect::<Vec<_>>();
        match self.verdict(call, &names) {
            None => work(),
            Some((errno, Landing::All)) => work().and(Err(errno.into())),
            Some((errno, _)) => Err(errno.into()),
        }
    }

    /// Counts a call, and says whether and how it fails.
    fn verdict(&self, call: Call, names: &[&str]) -> Option<(Errno, Landing)> {
        let mut state = self.state.lock();
        let met = |(rule, _): &mut (Rule, Interlude)| rule.meets(call, names);
        if let Some(met) = state.interludes.iter_mut().position(met) {
            let (_, work) = state.interludes.remove(met);
            MutexGuard::unlocked(&mut state, work);
        }
        let class = class_of(names.last().unwrap_or(&""));
        *state.counts.entry((call, class.clone())).or_insert(0) += 1;
        // Each rule counts, also those behind the one that decides.
        let rules = state
            .rules
            .iter_mut()
            .filter_map(|rule| rule.meets(call, names).then(|| rule.verdict()));
        let verdict = rules.reduce(|first, _| first);
        if verdict.is_some() {
            *state.injected.entry((call, class)).or_insert(0) += 1;
        }
        verdict
    }

    fn wrap(&self, path: &Path, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FaultFile { fs: self.clone(), name: name_of(path), inner })
    }
}

impl Vfs for FaultFs {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.run(Call::CreateDir, &[dir], || self.inner.create_dir_all(dir))
    }

    fn create(&self, file: &Path) -> io::Result<Arc<dyn File>> {
        let created = self.run(Call::Create, &[file], || self.inner.create(file))?;
        Ok(self.wrap(file, created))
    }

    fn open(&self, file: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let opened = self.run(Call::Open, &[file], || self.inner.open(file, access))?;
        Ok(self.wrap(file, opened))
    }

    fn open_direct(&self, file: &Path) -> io::Result<Option<Arc<dyn File>>> {
        let opened = self.run(Call::Open, &[file], || self.inner.open_direct(file))?;
        Ok(opened.map(|opened| self.wrap(file, opened)))
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        self.run(Call::Remove, &[file], || self.inner.remove(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.run(Call::Rename, &[from, to], || self.inner.rename(from, to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.run(Call::HardLink, &[from, to], || self.inner.hard_link(from, to))
    }

    fn has_other_names(&self, file: &Path) -> io::Result<bool> {
        self.run(Call::HasOtherNames, &[file], || self.inner.has_other_names(file))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.run(Call::List, &[dir], || self.inner.list(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.run(Call::SyncDir, &[dir], || self.inner.sync_dir(dir))
    }

    fn lock(&self, file: &Path) -> io::Result<Box<dyn LockGuard>> {
        self.run(Call::Lock, &[file], || self.inner.lock(file))
    }

    fn bytes_available(&self, dir: &Path) -> io::Result<u64> {
        let inner = self.run(Call::BytesAvailable, &[dir], || self.inner.bytes_available(dir))?;
        Ok(self.state.lock().room.map_or(inner, |room| room.min(inner)))
    }

    fn chance(&self) -> u64 {
        self.inner.chance()
    }
}

/// An open file of a [`FaultFs`].
#[derive(Debug)]
struct FaultFile {
    fs: FaultFs,
    name: String,
    inner: Arc<dyn File>,
}

impl FaultFile {
    fn run<T>(&self, call: Call, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.fs.run(call, &[Path::new(&self.name)], work)
    }

    /// Of a write: what of it lands, and what its caller is told then.
    fn begin_write<'a>(
        &self,
        bytes: &'a [u8],
        offset: u64,
    ) -> io::Result<(&'a [u8], io::Result<()>)> {
        let (len, refusal) = match self.fs.verdict(Call::Write, &[&self.name]) {
            Some((errno, Landing::Nothing)) => return Err(errno.into()),
            Some((errno, Landing::Half)) => (bytes.len() / 2, Some(errno)),
            Some((errno, Landing::All)) => (bytes.len(), Some(errno)),
            None => (bytes.len(), None),
        };
        let fits = self.take_room(offset, len as u64)? as usize;
        let refusal = refusal.or((fits < len).then_some(Errno::NoSpace));
        Ok((&bytes[..fits], refusal.map_or(Ok(()), |errno| Err(errno.into()))))
    }

    /// How many of `bytes` more the file may have from `offset` on; takes them from the room.
    fn take_room(&self, offset: u64, bytes: u64) -> io::Result<u64> {
        let len = self.inner.len()?;
        let mut state = self.fs.state.lock();
        let Some(room) = &mut state.room else {
            return Ok(bytes);
        };
        let growth = offset.saturating_add(bytes).saturating_sub(len);
        let granted = growth.min(*room);
        *room -= granted;
        if granted < growth {
            *state.injected.entry((Call::Write, class_of(&self.name))).or_insert(0) += 1;
        }
        Ok(bytes.saturating_sub(growth - granted))
    }
}

impl File for FaultFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.run(Call::Read, || self.inner.read_exact_at(buf, offset))
    }

    fn begin_read(&self, offset: u64, len: u64) {
        self.fs.state.lock().begun += 1;
        self.inner.begin_read(offset, len);
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (landed, outcome) = self.begin_write(bytes, offset)?;
        self.inner.write_all_at(landed, offset).and(outcome)
    }

    // A write and a sync to the rules, so that what has landed may not be durable. What a rule has
    // done before the sync is done before either.
    fn write_synced_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (landed, written) = self.begin_write(bytes, offset)?;
        let sync = match written {
            Ok(()) => self.fs.verdict(Call::Sync, &[&self.name]),
            Err(error) => return self.inner.write_all_at(landed, offset).and(Err(error)),
        };
        match sync {
            None => self.inner.write_synced_at(landed, offset),
            Some((errno, Landing::All)) => {
                self.inner.write_synced_at(landed, offset).and(Err(errno.into()))
            }
            Some((errno, _)) => self.inner.write_all_at(landed, offset).and(Err(errno.into())),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.run(Call::Sync, || self.inner.sync())
    }

    fn len(&self) -> io::Result<u64> {
        self.run(Call::Len, || self.inner.len())
    }

    fn zeros_from(&self) -> io::Result<u64> {
        self.run(Call::Len, || self.inner.zeros_from())
    }

    fn map(&self) -> io::Result<Bytes> {
        self.run(Call::Read, || self.inner.map())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.run(Call::SetLen, || self.inner.set_len(len))
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.run(Call::Reserve, || {
            let from = self.inner.len()?;
            let fits = from + self.take_room(from, len.saturating_sub(from))?;
            self.inner.reserve(fits)?;
            if fits < len.max(from) { Err(Errno::NoSpace.into()) } else { Ok(()) }
        })
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn class_of(name: &str) -> String {
    let mut class = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '0'..='9' if class.ends_with('#') => {}
            '0'..='9' => class.push('#'),
            c => class.push(c),
        }
    }
    class
}

#[cfg(test)]
mod tests {
    use super::{Call, Errno, FaultFs, Rule};
    use crate::vfs::api::Vfs;
    use crate::vfs::mem::SimFs;
    use std::io;
    use std::path::Path;
    use std::sync::Arc;

    fn fault_fs() -> FaultFs {
        FaultFs::new(Arc::new(SimFs::new()))
    }

    #[test]
    fn the_third_sync_of_a_log_fails_once() -> io::Result<()> {
        let fs = fault_fs();
        fs.add(Rule::fail(Call::Sync).named("*.wal").skip(2));
        let log = fs.create(Path::new("/000001.wal"))?;
        let other = fs.create(Path::new("/000001.sst"))?;
        let synced: Vec<bool> = (0..5)
            .map(|_| {
                assert!(other.sync().is_ok());
                log.sync().is_ok()
            })
            .collect();
        assert_eq!(synced, [true, true, false, true, true]);
        assert_eq!(fs.injected(), 1);
        assert_eq!(fs.counts()[&(Call::Sync, "#.wal".to_owned())], 5);
        assert_eq!(fs.calls(), 12);
        Ok(())
    }

    #[test]
    fn every_call_can_fail_heal_and_fail_for_good() -> io::Result<()> {
        let fs = fault_fs();
        let file = fs.create(Path::new("/f"))?;
        for call in Call::ALL {
            fs.clear();
            let run = || match call {
                Call::CreateDir => fs.create_dir_all(Path::new("/f")),
                Call::Create => fs.create(Path::new("/f")).map(drop),
                Call::Open => fs.open(Path::new("/f"), crate::vfs::api::Access::Read).map(drop),
                Call::Remove => fs.remove(Path::new("/f")),
                Call::Rename => fs.rename(Path::new("/x"), Path::new("/f")),
                Call::HardLink => fs.hard_link(Path::new("/f"), Path::new("/x")),
                Call::HasOtherNames => fs.has_other_names(Path::new("/f")).map(drop),
                Call::List => fs.list(Path::new("/f")).map(drop),
                Call::SyncDir => fs.sync_dir(Path::new("/f")),
                Call::Lock => fs.lock(Path::new("/f")).map(drop),
                Call::BytesAvailable => fs.bytes_available(Path::new("/f")).map(drop),
                Call::Read => file.read_exact_at(&mut [], 0),
                Call::Write => file.write_all_at(b"", 0),
                Call::Sync => file.sync(),
                Call::Len => file.len().map(drop),
                Call::SetLen => file.set_len(0),
                Call::Reserve => file.reserve(0),
            };
            let before = fs.injected();
            fs.add(Rule::fail(call).named("f").times(2).with(Errno::Quota));
            for failed in [true, true, false] {
                let quota = run().is_err_and(|e| e.kind() == io::ErrorKind::QuotaExceeded);
                assert_eq!(quota, failed, "{call:?}");
            }
            assert_eq!(fs.injected(), before + 2, "{call:?}");
            // The remove was let through.
            if call == Call::Remove {
                fs.create(Path::new("/f"))?;
            }
        }
        fs.clear();
        fs.add(Rule::any().forever());
        assert!((0..10).all(|_| file.len().is_err()));
        Ok(())
    }

    #[test]
    fn a_failing_write_may_leave_a_half_or_all() -> io::Result<()> {
        for (rule, left) in [
            (Rule::fail(Call::Write), 0),
            (Rule::fail(Call::Write).half_done(), 2),
            (Rule::fail(Call::Write).done(), 4),
        ] {
            let fs = fault_fs();
            fs.add(rule);
            let file = fs.create(Path::new("/a"))?;
            assert!(file.write_all_at(b"1234", 0).is_err());
            assert_eq!(file.len()?, left);
        }
        Ok(())
    }

    #[test]
    fn a_full_disk_takes_what_fits_and_overwrites() -> io::Result<()> {
        let fs = fault_fs();
        let file = fs.create(Path::new("/a"))?;
        fs.set_room(Some(10));
        file.write_all_at(&[1; 8], 0)?;
        assert_eq!(fs.bytes_available(Path::new("/"))?, 2);
        let full = file.write_all_at(&[2; 8], 4).map_err(|e| e.kind());
        assert_eq!(full, Err(io::ErrorKind::StorageFull));
        assert_eq!(file.len()?, 10);
        file.write_all_at(&[3; 10], 0)?;
        fs.set_room(None);
        file.write_all_at(&[4; 10], 10)
    }
}
