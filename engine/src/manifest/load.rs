//! Reads root and manifest: what exists, and what the next start has to put right.
//!
//! Every piece of metadata is there twice, and a piece counts where either copy of it verifies:
//! any single damage, and much double damage, is survived. What no copy has is refused with file
//! and offset, with one exception that a crash can cause: the last edit, whole in neither copy,
//! while copy B ends just before it. B is begun only when A is durable, so that edit was never
//! acknowledged; once B holds as much as a byte of it, it was.
//!
//! Absent: writing.

use crate::error::{Error, Kind, Result};
use crate::folder;
use crate::ids::{CommitTs, FileNo};
use crate::manifest::change::Changing;
use crate::manifest::edit::Edit;
use crate::manifest::frame::{self, FRAME_HEADER_BYTES, HEADER_BYTES};
use crate::manifest::root::{self, Root};
use crate::manifest::state::State;
use crate::names::{self, Copy, FileKind};
use crate::vfs::api::{Access, Vfs};
use std::path::{Path, PathBuf};

/// What the folder holds.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) state: State,
    pub(crate) generation: u64,
    /// Edits read, the first whole state included.
    pub(crate) edits: u64,
    /// Commits of this generation's edits whose rows went past the log, in their order.
    pub(crate) past_log: Vec<CommitTs>,
    /// Damage that another copy made up for, and copies that a crash left behind. The next start
    /// puts it right.
    pub(crate) repairs: Vec<Error>,
}

/// Reads the folder; `None` where a database may be made: there is nothing, or what a crash left
/// of making one.
///
/// Errors: `Corrupt` where no copy of something is whole, or files lie there without a root;
/// `Unsupported` where a later build wrote it; `Invalid` for a folder of other things.
pub(crate) fn load(vfs: &dyn Vfs, dir: &Path) -> Result<Option<Loaded>> {
    let mut repairs = Vec::new();
    let Some(root) = find_root(vfs, dir, &mut repairs)? else { return Ok(None) };
    let mut past_log = Vec::new();
    let mut note = |_, _, edit: &Edit| {
        past_log.extend(edit.last_ts.filter(|_| edit.log_floor.is_none()));
    };
    let (state, edits, cut) = read_edits(vfs, dir, &root, &mut repairs, &mut note)?;
    repairs.extend(cut);
    Ok(Some(Loaded { state, generation: root.generation, edits, past_log, repairs }))
}

/// What [`check`] found.
#[derive(Debug)]
pub(crate) struct ManifestReport {
    /// The state, if it can be had.
    pub(crate) state: Option<State>,
    /// Every place, in any copy, that is not as it was written.
    pub(crate) damage: Vec<Error>,
    /// Where a process ended between writing an edit to one copy and to the other. No damage:
    /// nobody was told of that edit, and the next start puts it right.
    pub(crate) cut: Option<Error>,
}

/// Reads all copies of everything and reports each damaged place.
pub(crate) fn check(vfs: &dyn Vfs, dir: &Path) -> ManifestReport {
    let (mut damage, mut cut) = (Vec::new(), None);
    let state = find_root(vfs, dir, &mut damage).and_then(|root| match root {
        Some(root) => {
            let read = read_edits(vfs, dir, &root, &mut damage, &mut |_, _, _| {})?;
            cut = read.2;
            Ok(Some(read.0))
        }
        None => Ok(None),
    });
    let state = state.unwrap_or_else(|error| {
        damage.push(error);
        None
    });
    ManifestReport { state, damage, cut }
}

/// Tells root and edits: one line each, and one for each thing that an edit changes.
pub(crate) fn dump(vfs: &dyn Vfs, dir: &Path, line: &mut dyn FnMut(String)) -> Result<()> {
    let Some(root) = find_root(vfs, dir, &mut Vec::new())? else {
        line("no database".to_owned());
        return Ok(());
    };
    line(root.dump());
    let told = read_edits(vfs, dir, &root, &mut Vec::new(), &mut |at, number, edit| {
        line(format!("{at:>10}  edit {number}"));
        edit.dump("            ").lines().for_each(|text| line(text.to_owned()));
    });
    told.map(|_| ())
}

/// The newer of the two copies of the root, as a crash between them leaves one behind.
pub(crate) fn find_root(
    vfs: &dyn Vfs,
    dir: &Path,
    repairs: &mut Vec<Error>,
) -> Result<Option<Root>> {
    let copies = Copy::BOTH.map(|copy| root::load(vfs, dir, copy));
    let is_later = |error: &&Error| error.kind() == Kind::Unsupported;
    if let Some(later) = copies.iter().filter_map(|copy| copy.as_ref().err()).find(is_later) {
        return Err(later.duplicate()); // The other copy, if it is older, no longer counts.
    }
    let newest = copies.iter().flatten().flatten().max_by_key(|root| root.generation).copied();
    let Some(newest) = newest else {
        // A bad copy is worse than an absent one: it says that there was a database.
        let mut bad = copies.into_iter().filter_map(Result::err);
        return bad.next().map_or_else(|| no_root(vfs, dir), Err);
    };
    for (copy, found) in Copy::BOTH.into_iter().zip(copies) {
        let path = names::path(dir, FileKind::Root(copy), FileNo(0));
        match found {
            Ok(Some(root)) if root.db_id != newest.db_id => {
                return Err(Error::corrupt(&path, 0, "the roots are of different databases"));
            }
            Ok(Some(root)) if root.generation < newest.generation => {
                repairs.push(Error::corrupt(&path, 0, "this copy of the root is an older one"));
            }
            Ok(Some(_)) => {}
            Ok(None) => repairs.push(Error::corrupt(&path, 0, "this copy of the root is missing")),
            Err(error) => repairs.push(error),
        }
    }
    Ok(Some(newest))
}

/// A folder without a root: new, or not to be touched.
fn no_root(vfs: &dyn Vfs, dir: &Path) -> Result<Option<Root>> {
    let listed = folder::list(vfs, dir)?;
    for name in listed {
        match names::parse(&name) {
            // Planted (`planted.rs`) with the condition: where there is no root, there was no
            // database.
            Some((FileKind::Table | FileKind::Blob | FileKind::Wal, _))
                if !crate::planted!("B32") =>
            {
                let root = names::path(dir, FileKind::Root(Copy::A), FileNo(0));
                let what = format!("both copies of the root are missing, yet there is {name}");
                return Err(Error::corrupt(&root, 0, what));
            }
            Some(_) => {}
            // Every fresh ext4 disk has it at its top.
            None if name == "lost+found" => {}
            None => {
                let dir = dir.display();
                return Err(Error::invalid(format!(
                    "{dir} is not a Tabulith folder: it has {name}"
                )));
            }
        }
    }
    Ok(None)
}

/// One copy of the manifest, in memory.
struct CopyBytes {
    path: PathBuf,
    bytes: Vec<u8>,
    /// Why it could not be read, which says nothing of what it holds.
    unread: Option<Error>,
}

impl CopyBytes {
    /// Reads the copy; one that cannot be read, or is longer than a manifest gets, counts as empty.
    fn read(
        vfs: &dyn Vfs,
        dir: &Path,
        copy: Copy,
        root: &Root,
        repairs: &mut Vec<Error>,
    ) -> CopyBytes {
        let path = names::path(dir, FileKind::Manifest(copy), FileNo(root.generation));
        let (bytes, unread) = match read_copy(vfs, &path) {
            Ok(bytes) => {
                if !bytes.starts_with(&frame::encode_header(root.generation, root.db_id)) {
                    let what = "the header of this copy of the manifest";
                    repairs.push(Error::corrupt(&path, 0, what));
                }
                (bytes, None)
            }
            Err(error) => {
                let is_damage = error.kind() == Kind::Corrupt || error.is_missing_file();
                let unread = (!is_damage).then(|| error.duplicate());
                repairs.push(error);
                (Vec::new(), unread)
            }
        };
        CopyBytes { path, bytes, unread }
    }

    fn edit(&self, generation: u64, at: usize, number: u64) -> Option<&[u8]> {
        frame::decode_frame(generation, at as u64, number, self.bytes.get(at..)?)
    }
}

/// The bytes of the manifest file at `path`, whose length may be damaged and more than memory
/// holds.
fn read_copy(vfs: &dyn Vfs, path: &Path) -> Result<Vec<u8>> {
    let failed = |error| Error::io("reading a copy of the manifest", path, error);
    let file = vfs.open(path, Access::Read).map_err(failed)?;
    let len = file.len().map_err(failed)?;
    // Those that are longer have a state that makes up for it.
    if len > frame::file_bytes_max(&[]) {
        let head = file.read_vec_at(HEADER_BYTES + FRAME_HEADER_BYTES, 0).map_err(failed)?;
        let max = frame::file_bytes_max(&head);
        if len > max {
            let what = format!("this copy of the manifest has {len} bytes");
            return Err(Error::corrupt(path, max, what));
        }
    }
    file.read_vec_at(len as usize, 0).map_err(failed)
}

/// Adds up the edits of `root`'s manifest, each from whichever copy has it whole. Gives their
/// number, and whether copy B ends cleanly before the last one, which is what a killed process
/// leaves.
pub(crate) fn read_edits(
    vfs: &dyn Vfs,
    dir: &Path,
    root: &Root,
    repairs: &mut Vec<Error>,
    show: &mut dyn FnMut(usize, u64, &Edit),
) -> Result<(State, u64, Option<Error>)> {
    let [mut a, mut b] = Copy::BOTH.map(|copy| CopyBytes::read(vfs, dir, copy, root, repairs));
    let mut changing = Changing::new(State::empty(root.db_id));
    let (mut at, mut number) = (HEADER_BYTES, 1);
    let mut cut: Option<Error> = None;
    loop {
        let found = [&a, &b].map(|copy| copy.edit(root.generation, at, number));
        let Some(edit) = found[0].or(found[1]) else { break };
        let lacking = [&a, &b].into_iter().zip(found).filter(|(_, found)| found.is_none());
        repairs.extend(cut.take()); // Another edit follows, so that one was acknowledged.
        // A copy that has ended before was reported where it ends.
        for (copy, _) in lacking.filter(|(copy, _)| copy.bytes.len() >= at) {
            let what = format!("edit {number} is not whole in this copy of the manifest");
            let error = Error::corrupt(&copy.path, at as u64, what);
            match number > 1 && copy.bytes.len() == at && std::ptr::eq(copy, &b) {
                true => cut = Some(error),
                false => repairs.push(error),
            }
        }
        let length = FRAME_HEADER_BYTES + edit.len();
        let nonsense = |what: String| Error::corrupt(&a.path, at as u64, what);
        let edit = Edit::decode(edit).ok_or_else(|| nonsense(format!("edit {number}")))?;
        changing.apply(&edit).map_err(|error| nonsense(error.to_string()))?;
        show(at, number, &edit);
        at += length;
        number += 1;
    }
    let at_end = a.bytes.len() <= at && b.bytes.len() <= at;
    // Nobody was told of an edit that copy B has no byte of; copy B then ends exactly here.
    let unfinished = !at_end && b.bytes.len() == at;
    // Copy A is begun first, so what only B has behind the last edit never was one; unless it says
    // that it is the next: then both copies are damaged.
    let padded = !at_end && a.bytes.len() == at && !frame::claims(number, &b.bytes[at..]);
    // The first edit was durable before the root.
    if number == 1 || !(at_end || unfinished || padded) {
        if let Some(error) = a.unread.take().or(b.unread.take()) {
            return Err(error); // It may have the edit.
        }
        let what = format!("edit {number} is whole in neither copy of the manifest");
        return Err(Error::corrupt(&a.path, at as u64, what));
    }
    if padded {
        repairs.push(Error::corrupt(&b.path, at as u64, "bytes after the last edit"));
    }
    if unfinished {
        let what = format!("edit {number} was begun and never acknowledged");
        repairs.push(Error::corrupt(&a.path, at as u64, what));
    }
    Ok((changing.into_state(), number - 1, cut))
}
