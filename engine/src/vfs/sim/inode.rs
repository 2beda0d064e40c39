//! A simulated file: what readers see (the cache), what power loss cannot take (the disk), and
//! what lies between the two.

use crate::vfs::sim::image::{Image, SECTOR_BYTES, Sector};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of an effect on the disk; counts up from 1.
pub(crate) type Stamp = u64;

/// Contents of a rewritten sector that are remembered beside the first and the last. More add
/// states that differ only in the middle of a burst; fewer lose real ones.
const BETWEEN_MAX: usize = 4;

/// A file without its names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inode {
    pub(crate) cache: Image,
    pub(crate) disk: Image,
    pub(crate) dirty: Dirty,
    /// Every length since the last sync, with the effect that set it.
    pub(crate) lengths: Vec<(Stamp, u64)>,
}

/// A sector whose bytes in the cache may not be those on the disk.
#[derive(Clone, Debug)]
pub(crate) struct Unsynced {
    /// The effect that wrote what the cache holds.
    pub(crate) stamp: Stamp,
    /// Earlier contents since the last sync: written back perhaps, then overwritten.
    pub(crate) between: Vec<(Stamp, Box<Sector>)>,
    /// First or last of a write.
    pub(crate) edge: bool,
    /// A failed sync dropped it: no later sync writes it, only a new write does.
    pub(crate) lost: bool,
}

/// What a file system does to the unsynced bytes of a file whose sync fails (Rebello and others,
/// "Can Applications Recover from fsync Failures?", ATC 2020), and to the names of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncFailure {
    /// ext4: readers go on seeing the new bytes, but they count as written. The next sync
    /// succeeds without writing them.
    MarksClean,
    /// btrfs: the file goes back to what it was at its last sync.
    Reverts,
    /// xfs: every later call fails until the machine restarts.
    ShutsDown,
}

impl Inode {
    pub(crate) fn is_clean(&self) -> bool {
        self.dirty.is_empty() && self.lengths.is_empty()
    }

    pub(crate) fn write(&mut self, stamp: Stamp, bytes: &[u8], offset: u64) {
        let end = offset + bytes.len() as u64;
        let (first, last) = (offset / SECTOR_BYTES as u64, (end - 1) / SECTOR_BYTES as u64);
        for sector in first..=last {
            self.touch(stamp, sector, sector == first || sector == last);
        }
        if end > self.cache.len() {
            self.lengths.push((stamp, end));
        }
        self.cache.write(bytes, offset);
    }

    pub(crate) fn set_len(&mut self, stamp: Stamp, len: u64) {
        if len < self.cache.len() {
            for sector in self.cache.written_sectors_from(len / SECTOR_BYTES as u64) {
                self.touch(stamp, sector, true);
            }
        }
        self.cache.set_len(len);
        self.lengths.push((stamp, len));
    }

    pub(crate) fn sync(&mut self) {
        let mut disk = self.cache.clone();
        self.dirty.retain(|sector, unsynced| {
            if unsynced.lost {
                disk.put_sector(sector, self.disk.sector(sector));
            }
            unsynced.lost
        });
        self.disk = disk;
        self.lengths.clear();
    }

    /// Syncs the bytes of one write alone. Where the disk's length may not reach its end, the
    /// length goes along: one number, as it is now.
    pub(crate) fn sync_part(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        if end > self.disk.len() || self.lengths.iter().any(|(_, len)| *len < end) {
            self.disk.set_len(self.cache.len());
            self.lengths.clear();
        }
        for sector in offset / SECTOR_BYTES as u64..end.div_ceil(SECTOR_BYTES as u64) {
            if self.dirty.clean(sector) {
                self.disk.put_sector(sector, self.cache.sector(sector));
            }
        }
    }

    pub(crate) fn fail_sync(&mut self, how: SyncFailure) {
        match how {
            SyncFailure::MarksClean => self.dirty.for_each_mut(|unsynced| unsynced.lost = true),
            SyncFailure::Reverts => {
                self.cache = self.disk.clone();
                self.dirty = Dirty::default();
                self.lengths.clear();
            }
            SyncFailure::ShutsDown => {}
        }
    }

    fn touch(&mut self, stamp: Stamp, sector: u64, edge: bool) {
        let now = self.cache.sector(sector);
        self.dirty.touch(stamp, sector, edge, now);
    }
}

/// The unsynced sectors of a file, in groups that copies share: a table file of megabytes is
/// written without a sync, and a recorded run copies the file at each effect.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dirty(BTreeMap<u64, Arc<BTreeMap<u64, Unsynced>>>);

const SECTORS_PER_GROUP: u64 = 256;

impl Dirty {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Unsynced)> {
        self.0.values().flat_map(|group| group.iter()).map(|(sector, unsynced)| (*sector, unsynced))
    }

    pub(crate) fn get(&self, sector: u64) -> Option<&Unsynced> {
        self.0.get(&(sector / SECTORS_PER_GROUP))?.get(&sector)
    }

    fn touch(&mut self, stamp: Stamp, sector: u64, edge: bool, now: &Sector) {
        let group = Arc::make_mut(self.0.entry(sector / SECTORS_PER_GROUP).or_default());
        let fresh = || Unsynced { stamp, between: Vec::new(), edge, lost: false };
        let unsynced = group.entry(sector).and_modify(|u| u.overwrite(now)).or_insert_with(fresh);
        unsynced.stamp = stamp;
        unsynced.edge |= edge;
        unsynced.lost = false;
    }

    /// Takes a sector for written; false where it was already, or where no sync writes it.
    fn clean(&mut self, sector: u64) -> bool {
        let Some(group) = self.0.get_mut(&(sector / SECTORS_PER_GROUP)) else { return false };
        if group.get(&sector).is_none_or(|unsynced| unsynced.lost) {
            return false;
        }
        let group_now = Arc::make_mut(group);
        group_now.remove(&sector);
        if group_now.is_empty() {
            self.0.remove(&(sector / SECTORS_PER_GROUP));
        }
        true
    }

    fn retain(&mut self, mut keep: impl FnMut(u64, &Unsynced) -> bool) {
        self.0.retain(|_, group| {
            if group.iter().any(|(sector, unsynced)| keep(*sector, unsynced)) {
                Arc::make_mut(group).retain(|sector, unsynced| keep(*sector, unsynced));
                return true;
            }
            false
        });
    }

    fn for_each_mut(&mut self, mut change: impl FnMut(&mut Unsynced)) {
        for group in self.0.values_mut() {
            Arc::make_mut(group).values_mut().for_each(&mut change);
        }
    }
}

impl Unsynced {
    fn overwrite(&mut self, now: &Sector) {
        if self.between.len() == BETWEEN_MAX {
            self.between.remove(0);
        }
        self.between.push((self.stamp, Box::new(*now)));
    }
}
