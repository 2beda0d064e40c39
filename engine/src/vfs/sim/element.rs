//! The free elements of a disk: what is undecided when the power goes.
//!
//! ```text
//! element             may be
//! sector of a file    as synced; as written, now or earlier since the sync; zero; garbage;
//!                     left or right half written
//! length of a file    every length since the sync and its neighbours; every sector step between
//! names of a folder   ordered disk: the first n changes
//! one change of name  hostile disk: lost or landed; of a rename, both names
//! ```
//!
//! Variant 0 of an element is what the last sync promised.

use crate::env::rng::Rng;
use crate::vfs::sim::disk::{Disk, Folder, Ino, NameChange};
use crate::vfs::sim::image::{SECTOR_BYTES, Sector, ZERO_SECTOR, sector_sum};
use crate::vfs::sim::inode::{Inode, Stamp, Unsynced};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Lengths that are tried between the shortest and the longest, beside those that the run set.
const LENGTH_STEPS_MAX: u64 = 1024;

/// How far a power loss may disorder the names of a folder. Sectors and lengths are free in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Changes of one folder land in their order, as in a journal.
    Ordered,
    /// Any of them may be lost, and a rename may show both names.
    Hostile,
}

/// The number of a variant of an element.
pub(crate) type Variant = u16;

#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) subject: Subject,
    pub(crate) variants: Variant,
    /// The variant that holds everything the run did.
    pub(crate) new: Variant,
    /// Which variant the run stood at, from which effect on.
    timeline: Vec<(Stamp, Variant)>,
}

#[derive(Debug)]
pub(crate) enum Subject {
    /// The variant counts the changes that landed.
    Names {
        dir: Arc<str>,
    },
    Name {
        dir: Arc<str>,
        change: usize,
    },
    Length {
        ino: Ino,
        lengths: Vec<u64>,
    },
    Sector {
        ino: Ino,
        number: u64,
        edge: bool,
        contents: Vec<(Content, u128)>,
    },
}

/// Where the bytes of a sector come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Old,
    /// Written since the sync, and overwritten.
    Between(usize),
    New,
    Zero,
    LeftNew,
    RightNew,
    Garbage,
}

impl Element {
    /// The variant that the run stood at after effect `stamp`.
    pub(crate) fn at(&self, stamp: Stamp) -> Variant {
        let past = self.timeline.partition_point(|(from, _)| *from <= stamp);
        past.checked_sub(1).map_or(0, |last| self.timeline[last].1)
    }

    /// The effects that changed it.
    pub(crate) fn stamps(&self) -> impl Iterator<Item = Stamp> {
        self.timeline.iter().map(|(stamp, _)| *stamp)
    }

    pub(crate) fn is_sector(&self) -> bool {
        matches!(self.subject, Subject::Sector { .. })
    }

    pub(crate) fn is_edge(&self) -> bool {
        matches!(self.subject, Subject::Sector { edge: true, .. })
    }

    pub(crate) fn is_name(&self) -> bool {
        matches!(self.subject, Subject::Names { .. } | Subject::Name { .. })
    }

    pub(crate) fn first_stamp(&self) -> Stamp {
        self.timeline.first().map_or(0, |(stamp, _)| *stamp)
    }

    pub(crate) fn apply(
        &self,
        changes: &[(Stamp, NameChange)],
        choice: Variant,
        folder: &mut Folder,
    ) {
        match (&self.subject, choice) {
            (Subject::Names { .. }, landed) => {
                let landed = changes.iter().take(usize::from(landed));
                landed.for_each(|(_, change)| change.apply(&mut folder.now));
            }
            (Subject::Name { change, .. }, 1) => changes[*change].1.apply(&mut folder.now),
            (Subject::Name { change, .. }, 2) => changes[*change].1.apply_new_name(&mut folder.now),
            _ => {}
        }
    }

    pub(crate) fn describe(
        &self,
        choice: Variant,
        disk: &Disk,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        match &self.subject {
            Subject::Names { dir } => {
                let all = self.variants - 1;
                write!(f, "{dir}: first {choice} of {all} changes of names")
            }
            Subject::Name { dir, change } => {
                let changes = disk.folders.get(dir).and_then(|d| d.unsynced.get(*change));
                let how = if choice == 2 { "half landed" } else { "lost" };
                write!(f, "{dir}: {how}: {:?}", changes.map(|(_, change)| change))
            }
            Subject::Length { ino, lengths } => {
                write!(f, "{} has {} bytes", name_of(disk, *ino), lengths[usize::from(choice)])
            }
            Subject::Sector { ino, number, contents, .. } => {
                let content = contents[usize::from(choice)].0;
                write!(f, "{} sector {number}: {content:?}", name_of(disk, *ino))
            }
        }
    }
}

impl Content {
    pub(crate) fn bytes(self, ino: Ino, number: u64, inode: &Inode) -> Sector {
        let (old, new) = (inode.disk.sector(number), inode.cache.sector(number));
        let half = SECTOR_BYTES / 2;
        match self {
            Content::Old => *old,
            Content::New => *new,
            Content::Zero => ZERO_SECTOR,
            Content::Between(i) => {
                let unsynced = inode.dirty.get(number);
                unsynced.and_then(|u| u.between.get(i)).map_or(*old, |(_, bytes)| **bytes)
            }
            Content::LeftNew => joined(&new[..half], &old[half..]),
            Content::RightNew => joined(&old[..half], &new[half..]),
            Content::Garbage => garbage(ino, number),
        }
    }
}

fn joined(left: &[u8], right: &[u8]) -> Sector {
    let mut sector = ZERO_SECTOR;
    sector[..left.len()].copy_from_slice(left);
    sector[left.len()..].copy_from_slice(right);
    sector
}

fn garbage(ino: Ino, number: u64) -> Sector {
    let mut rng = Rng::seeded(ino << 40 | number);
    let mut sector = ZERO_SECTOR;
    for word in sector.as_chunks_mut::<8>().0 {
        *word = rng.next_u64().to_le_bytes();
    }
    sector
}

/// The elements of one file.
pub(crate) fn file_elements(ino: Ino, inode: &Inode) -> Vec<Element> {
    let sectors = inode.dirty.iter();
    let sectors = sectors.filter_map(|(number, u)| sector_element(ino, number, u, inode));
    sectors.chain(length_element(ino, inode)).collect()
}

fn sector_element(ino: Ino, number: u64, unsynced: &Unsynced, inode: &Inode) -> Option<Element> {
    use Content::{Between, Garbage, LeftNew, New, Old, RightNew, Zero};
    let mut contents: Vec<(Content, u128)> = Vec::with_capacity(6);
    let mut variant_of = |content: Content| {
        let sum = sector_sum(number, &content.bytes(ino, number, inode));
        let known = contents.iter().position(|(_, known)| *known == sum);
        known.unwrap_or_else(|| {
            contents.push((content, sum));
            contents.len() - 1
        }) as Variant
    };
    variant_of(Old);
    let between = unsynced.between.iter().enumerate();
    let mut timeline: Vec<_> =
        between.map(|(i, (stamp, _))| (*stamp, variant_of(Between(i)))).collect();
    let new = variant_of(New);
    timeline.push((unsynced.stamp, new));
    for content in [Zero, LeftNew, RightNew, Garbage] {
        variant_of(content);
    }
    let variants = contents.len() as Variant;
    let subject = Subject::Sector { ino, number, edge: unsynced.edge, contents };
    (variants > 1).then_some(Element { subject, variants, new, timeline })
}

fn length_element(ino: Ino, inode: &Inode) -> Option<Element> {
    let synced = inode.disk.len();
    let set = inode.lengths.iter().map(|(_, len)| *len);
    let (low, high) = set.clone().fold((synced, synced), |(l, h), len| (l.min(len), h.max(len)));
    let mut lengths = vec![synced];
    let mut known = BTreeSet::from([synced]);
    let near = set.clone().flat_map(|len| [len.saturating_sub(1), len + 1]);
    let sector = SECTOR_BYTES as u64;
    let step = ((high - low) / LENGTH_STEPS_MAX).next_multiple_of(sector).max(sector);
    let steps = (low.next_multiple_of(sector)..high).step_by(step as usize);
    for len in set.chain(near).chain(steps).filter(|len| (low..=high).contains(len)) {
        if lengths.len() < usize::from(Variant::MAX) && known.insert(len) {
            lengths.push(len);
        }
    }
    let variant_of = |len| lengths.iter().position(|known| *known == len).unwrap_or(0) as Variant;
    let timeline: Vec<_> = inode.lengths.iter().map(|(at, len)| (*at, variant_of(*len))).collect();
    let new = timeline.last().map_or(0, |(_, variant)| *variant);
    let variants = lengths.len() as Variant;
    (variants > 1).then_some(Element {
        subject: Subject::Length { ino, lengths },
        variants,
        new,
        timeline,
    })
}

/// The elements of the names of one folder.
pub(crate) fn name_elements(dir: &Arc<str>, folder: &Folder, profile: Profile) -> Vec<Element> {
    let stamps = folder.unsynced.iter().map(|(stamp, _)| *stamp);
    if folder.unsynced.is_empty() {
        return Vec::new();
    }
    if profile == Profile::Ordered {
        let timeline: Vec<_> = stamps.zip(1..).collect();
        let new = timeline.len() as Variant;
        let subject = Subject::Names { dir: Arc::clone(dir) };
        return vec![Element { subject, variants: new + 1, new, timeline }];
    }
    let changes = folder.unsynced.iter().enumerate();
    let element = |(change, (stamp, what)): (usize, &(Stamp, NameChange))| Element {
        subject: Subject::Name { dir: Arc::clone(dir), change },
        variants: if matches!(what, NameChange::Rename { .. }) { 3 } else { 2 },
        new: 1,
        timeline: vec![(*stamp, 1)],
    };
    changes.map(element).collect()
}

fn name_of(disk: &Disk, ino: Ino) -> String {
    let mut names = disk.folders.iter().flat_map(|(dir, folder)| {
        folder.now.iter().map(move |(name, named)| (format!("{dir}/{name}"), *named))
    });
    let name = names.find(|(_, named)| *named == ino);
    name.map_or_else(|| format!("removed file {ino}"), |(path, _)| path)
}
