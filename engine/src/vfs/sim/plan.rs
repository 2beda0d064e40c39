//! All free elements of a disk, and the disk that one decision about each of them makes.
//!
//! A decision ("choices") is a variant for each element. Elements stand in the order in which the
//! run touched them.

use crate::vfs::sim::disk::{Disk, Folder, Folders, Ino};
use crate::vfs::sim::element::{
    Content, Element, Profile, Subject, Variant, file_elements, name_elements,
};
use crate::vfs::sim::image::SECTOR_BYTES;
use crate::vfs::sim::inode::{Inode, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// All free elements of a disk.
#[derive(Debug)]
pub(crate) struct Plan {
    disk: Disk,
    pub(crate) elements: Vec<Element>,
    /// The effects that touched any element, in order.
    pub(crate) stamps: Vec<Stamp>,
    files: BTreeMap<Ino, FilePlan>,
    name_elements: Vec<usize>,
    /// The names, where nothing about them is free.
    names: Option<Arc<NamesState>>,
}

/// The elements of one file, and the sum of its bytes as synced.
#[derive(Debug, Default)]
struct FilePlan {
    sum: u128,
    length: Option<usize>,
    sectors: Vec<usize>,
}

/// The folders as a crash leaves them, and the files that have a name there.
#[derive(Debug)]
pub(crate) struct NamesState {
    folders: Folders,
    inos: BTreeSet<Ino>,
    sum: u128,
}

impl Plan {
    pub(crate) fn new(disk: Disk, profile: Profile) -> Plan {
        let named: BTreeSet<Ino> = disk.folders.values().flat_map(|f| f.inos()).collect();
        let files = named.iter().filter_map(|ino| Some((*ino, &**disk.inodes.get(ino)?)));
        let mut elements: Vec<_> =
            files.flat_map(|(ino, inode)| file_elements(ino, inode)).collect();
        for (dir, folder) in &disk.folders {
            elements.extend(name_elements(dir, folder, profile));
        }
        elements.sort_by_key(Element::first_stamp);
        let stamps: BTreeSet<Stamp> = elements.iter().flat_map(Element::stamps).collect();
        let mut plan = Plan {
            files: file_plans(&named, &disk, &elements),
            name_elements: (0..elements.len()).filter(|e| elements[*e].is_name()).collect(),
            stamps: stamps.into_iter().collect(),
            names: None,
            disk,
            elements,
        };
        if plan.name_elements.is_empty() {
            plan.names = Some(plan.names(&[]));
        }
        plan
    }

    /// The names that `choices` (a variant for each element) leave.
    pub(crate) fn names(&self, choices: &[Variant]) -> Arc<NamesState> {
        if let Some(names) = &self.names {
            return names.clone();
        }
        let mut folders = self.disk.folders.clone();
        for (dir, folder) in &self.disk.folders {
            // What a failed sync was to write nothing writes any more.
            if !folder.unsynced.is_empty() || folder.now != folder.durable {
                folders.insert(dir.clone(), Arc::new(Folder::settled(folder.durable.clone())));
            }
        }
        for element in &self.name_elements {
            let (Subject::Names { dir } | Subject::Name { dir, .. }) =
                &self.elements[*element].subject
            else {
                continue;
            };
            if let Some(folder) = folders.get_mut(dir).map(Arc::make_mut) {
                let changes = &self.disk.folders[dir].unsynced;
                self.elements[*element].apply(changes, choices[*element], folder);
            }
        }
        for folder in folders.values_mut() {
            if folder.now != folder.durable {
                *folder = Arc::new(Folder::settled(folder.now.clone()));
            }
        }
        Arc::new(NamesState::new(folders))
    }

    /// A number for the disk that `choices` make: equal for equal disks, otherwise different but
    /// for chances of 1 in 2^128.
    pub(crate) fn hash(&self, choices: &[Variant], names: &NamesState) -> u128 {
        let files = names.inos.iter().filter_map(|ino| Some((*ino, self.files.get(ino)?)));
        files.fold(names.sum, |hash, (ino, file)| {
            let len = self.len_of(ino, file, choices);
            let mut sum = file.sum;
            for (contents, variant, _) in self.sectors_of(file, choices, len) {
                let (old, new) = (contents[0].1, contents[usize::from(variant)].1);
                sum = sum.wrapping_sub(old).wrapping_add(new);
            }
            let mut bytes = [0; 24];
            bytes[..16].copy_from_slice(&sum.to_le_bytes());
            bytes[16..].copy_from_slice(&len.to_le_bytes());
            hash.wrapping_add(xxh3_128_with_seed(&bytes, ino))
        })
    }

    /// The disk that `choices` make.
    pub(crate) fn build(&self, choices: &[Variant], names: &NamesState) -> Disk {
        let mut disk = self.disk.restarted(names.folders.clone());
        for ino in &names.inos {
            let (Some(inode), Some(file)) = (self.disk.inodes.get(ino), self.files.get(ino)) else {
                continue;
            };
            let settled = if inode.is_clean() {
                inode.clone()
            } else {
                Arc::new(self.build_file(*ino, inode, file, choices))
            };
            disk.inodes.insert(*ino, settled);
        }
        disk
    }

    fn build_file(&self, ino: Ino, inode: &Inode, file: &FilePlan, choices: &[Variant]) -> Inode {
        let mut image = inode.disk.clone();
        let len = self.len_of(ino, file, choices);
        image.set_len(len);
        for (contents, variant, number) in self.sectors_of(file, choices, len) {
            if variant != 0 {
                let content = contents[usize::from(variant)].0;
                image.put_sector(number, &content.bytes(ino, number, inode));
            }
        }
        Inode { cache: image.clone(), disk: image, ..Inode::default() }
    }

    fn len_of(&self, ino: Ino, file: &FilePlan, choices: &[Variant]) -> u64 {
        match file.length.map(|e| (&self.elements[e].subject, choices[e])) {
            Some((Subject::Length { lengths, .. }, variant)) => lengths[usize::from(variant)],
            _ => self.disk.inodes.get(&ino).map_or(0, |inode| inode.disk.len()),
        }
    }

    /// The free sectors of a file that start before `len`: contents, choice, number.
    fn sectors_of<'a>(
        &'a self,
        file: &'a FilePlan,
        choices: &'a [Variant],
        len: u64,
    ) -> impl Iterator<Item = (&'a [(Content, u128)], Variant, u64)> {
        file.sectors.iter().filter_map(move |element| match &self.elements[*element].subject {
            Subject::Sector { number, contents, .. } if number * (SECTOR_BYTES as u64) < len => {
                Some((&contents[..], choices[*element], *number))
            }
            _ => None,
        })
    }

    /// What `choices` take from the run, for a person.
    pub(crate) fn describe(&self, choices: &[Variant], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (element, choice) in self.elements.iter().zip(choices) {
            if *choice != element.new {
                element.describe(*choice, &self.disk, f)?;
                f.write_str("; ")?;
            }
        }
        f.write_str("all else as written")
    }
}

impl NamesState {
    fn new(folders: Folders) -> NamesState {
        let (mut inos, mut sum, mut path) = (BTreeSet::new(), 0u128, String::new());
        for (dir, folder) in &folders {
            for (name, ino) in &folder.now {
                inos.insert(*ino);
                path.clear();
                [dir, "/", name].iter().for_each(|part| path.push_str(part));
                sum = sum.wrapping_add(xxh3_128_with_seed(path.as_bytes(), *ino));
            }
        }
        NamesState { folders, inos, sum }
    }
}

fn file_plans(named: &BTreeSet<Ino>, disk: &Disk, elements: &[Element]) -> BTreeMap<Ino, FilePlan> {
    let synced = |ino: &Ino| disk.inodes.get(ino).map_or(0, |inode| inode.disk.sum());
    let empty =
        named.iter().map(|ino| (*ino, FilePlan { sum: synced(ino), ..FilePlan::default() }));
    let mut files: BTreeMap<Ino, FilePlan> = empty.collect();
    for (at, element) in elements.iter().enumerate() {
        match &element.subject {
            Subject::Length { ino, .. } => files.entry(*ino).or_default().length = Some(at),
            Subject::Sector { ino, .. } => files.entry(*ino).or_default().sectors.push(at),
            Subject::Names { .. } | Subject::Name { .. } => {}
        }
    }
    files
}
