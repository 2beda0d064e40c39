//! Append side of the manifest: two equal copies, and the roots that name them.
//!
//! Promise: an edit is durable in both copies when `append` returns; A before B is begun. A new
//! generation is durable before a root names it, and the old one goes after both roots do.
//! After any failure no edit is taken until the state is written whole to fresh files. Until then a
//! crash may still leave the failed edit in force, so the files that it adds must stay.
//!
//! Absent: judgement of edits; callers try them on a `State` first.

use crate::error::{Error, Kind, Result};
use crate::folder;
use crate::ids::FileNo;
use crate::limits::{BEGUN_NUMBER_MAX, NUMBER_MAX};
use crate::manifest::edit::Edit;
use crate::manifest::frame::{self, EDIT_BYTES_MAX, STATE_BYTES_MAX};
use crate::manifest::load::{self, Loaded};
use crate::manifest::root::{self, Root, Unswitched};
use crate::manifest::state::State;
use crate::names::{self, Copy, FileKind, FileName};
use crate::vfs::api::{File, Vfs};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A copy with its path, for errors.
type OpenCopy = (PathBuf, Arc<dyn File>);

/// The open manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    generation: u64,
    copies: [OpenCopy; 2],
    /// Where the next edit goes, and its number.
    at: u64,
    number: u64,
    /// Where the first edit, the whole state, ends.
    state_end: u64,
    closed: Option<Error>,
}

impl Manifest {
    /// Makes a new database. `Exists` where there is one; refuses, like [`Manifest::load`], a
    /// folder of other things or of data without a root.
    pub(crate) fn create(vfs: Arc<dyn Vfs>, dir: &Path, db_id: u128) -> Result<(Manifest, State)> {
        if load::load(&*vfs, dir)?.is_some() {
            return Err(Error::new(Kind::Exists, format!("{} has a database", dir.display())));
        }
        let state = State::empty(db_id);
        Ok((Manifest::start(vfs, dir, &state)?, state))
    }

    /// Reads what exists and writes nothing; `None` where a database may be made.
    pub(crate) fn load(vfs: &dyn Vfs, dir: &Path) -> Result<Option<Loaded>> {
        load::load(vfs, dir)
    }

    /// The same for whoever makes none.
    ///
    /// Errors: `NotFound` where there is none, or no folder.
    pub(crate) fn load_existing(vfs: &dyn Vfs, dir: &Path) -> Result<Loaded> {
        let is_absent =
            || vfs.list(dir).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        let loaded = load::load(vfs, dir).map_err(|error| match error.kind() {
            Kind::Io if is_absent() => folder::no_database(dir),
            _ => error,
        })?;
        loaded.ok_or_else(|| folder::no_database(dir))
    }

    /// Writes `state` as a new generation, switches to it and removes the older ones. From here on
    /// `state` is what a crash leaves.
    pub(crate) fn start(vfs: Arc<dyn Vfs>, dir: &Path, state: &State) -> Result<Manifest> {
        Manifest::begin(vfs, dir, state).map_err(|unswitched| unswitched.error)
    }

    /// The same for whoever made files that only `state` names: errors say whether they may go.
    pub(crate) fn begin(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        state: &State,
    ) -> Result<Manifest, Unswitched> {
        let unwritten = |error| Unswitched { error, is_unnamed: true };
        let generation = next_generation(&*vfs, dir).map_err(unwritten)?;
        let root = Root { generation, db_id: state.db_id };
        let header = frame::encode_header(root.generation, root.db_id);
        let at = header.len() as u64;
        let edit = state.as_edit();
        if edit.largest_number() > BEGUN_NUMBER_MAX {
            return Err(unwritten(used_up(dir)));
        }
        let edit = edit.encode();
        if edit.len() > STATE_BYTES_MAX {
            let what = format!("a manifest of {} bytes for all files", edit.len());
            return Err(unwritten(Error::invalid(what)));
        }
        let first = frame::encode_frame(root.generation, at, 1, &edit);
        let bytes = [header, first].concat();
        // While no root can name them they go: each try would leave two more.
        let remove = || {
            for copy in Copy::BOTH {
                let _ = vfs.remove(&copy_path(dir, copy, &root));
            }
        };
        let written = write_copies(&*vfs, dir, &root, &bytes).map_err(unwritten);
        let [a, b] = written.inspect_err(|_| remove())?;
        root::switch(&*vfs, dir, &root).inspect_err(|unswitched| {
            if unswitched.is_unnamed {
                remove();
            }
        })?;
        remove_older(&*vfs, dir, root.generation);
        Ok(Manifest {
            vfs,
            dir: dir.to_owned(),
            generation: root.generation,
            copies: [a, b],
            at: bytes.len() as u64,
            number: 2,
            state_end: bytes.len() as u64,
            closed: None,
        })
    }

    /// Makes `edit` durable. What it adds is durable before, files and names; what it removes may
    /// be deleted after.
    pub(crate) fn append(&mut self, edit: &Edit) -> Result<()> {
        self.check_open()?;
        let edit = edit.encode();
        if edit.len() > EDIT_BYTES_MAX {
            return Err(Error::invalid(format!("an edit of {} bytes", edit.len())));
        }
        let mut bytes = frame::encode_frame(self.generation, self.at, self.number, &edit);
        if !self.has_room(bytes.len()) {
            let what = format!("{} bytes of edits, and one of {}", self.edits_bytes(), edit.len());
            return Err(Error::invalid(what));
        }
        for (path, file) in &self.copies {
            // Not both writes and then both syncs: recovery relies on A being whole before B.
            if let Err(error) = file.write_all_at(&bytes, self.at).and_then(|()| file.sync()) {
                let error = Error::io("writing the manifest", path, error);
                self.closed = Some(error.duplicate());
                return Err(error);
            }
            if crate::planted!("B36") {
                // Planted (`planted.rs`): whom it was lent changed it.
                bytes.iter_mut().for_each(|byte| *byte ^= 1);
            }
        }
        self.at += bytes.len() as u64;
        self.number += 1;
        Ok(())
    }

    /// Whether edits take so much room that [`Manifest::rewrite`] pays.
    pub(crate) fn wants_rewrite(&self) -> bool {
        self.edits_bytes() > frame::edits_bytes_max(self.state_end)
    }

    /// Whether a frame of `bytes` more leaves a file that is read.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let last_bytes = (frame::FRAME_HEADER_BYTES + EDIT_BYTES_MAX) as u64;
        self.edits_bytes() + bytes as u64 <= frame::edits_bytes_max(self.state_end) + last_bytes
    }

    fn edits_bytes(&self) -> u64 {
        self.at - self.state_end
    }

    /// Whether a failed write or sync has closed this manifest to edits.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Writes `state`, which must be what the edits that succeeded add up to, as a new generation
    /// in fresh files. Opens a closed manifest again: of an edit that failed nothing is taken over.
    /// Only when it returns `Ok` may the files that the failed edit was to add be deleted. Where it
    /// fails before any root was touched, an open one goes on as it was.
    pub(crate) fn rewrite(&mut self, state: &State) -> Result<()> {
        match Manifest::begin(self.vfs.clone(), &self.dir, state) {
            Ok(next) => *self = next,
            Err(Unswitched { error, is_unnamed }) => {
                // One root may name the new generation already: the old one must not go on.
                if !is_unnamed {
                    self.closed = Some(error.duplicate());
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn check_open(&self) -> Result<()> {
        match &self.closed {
            None => Ok(()),
            Some(cause) => Err(Error::closed_by("manifest", cause)),
        }
    }
}

/// A number of the database in `dir` is so near the last one that nobody could count on from it.
pub(crate) fn used_up(dir: &Path) -> Error {
    Error::corrupt(dir, 0, "a number is near the last one that there is")
}

/// Above every generation that a file or a root speaks of, so that no file is ever written twice.
fn next_generation(vfs: &dyn Vfs, dir: &Path) -> Result<u64> {
    let named = Copy::BOTH.map(|copy| root::load(vfs, dir, copy).ok().flatten());
    let named = named.into_iter().flatten().map(|root| root.generation);
    let present = generations(vfs, dir)?;
    let newest = named.chain(present.iter().map(|(_, no)| no.0)).max().unwrap_or(0);
    match newest < NUMBER_MAX {
        true => Ok(newest + 1),
        false => Err(Error::corrupt(dir, 0, "a manifest has the last number that there is")),
    }
}

/// The manifest files in the folder.
fn generations(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<FileName>> {
    let mut files = folder::files(vfs, dir)?;
    files.retain(|(kind, _)| matches!(kind, FileKind::Manifest(_)));
    Ok(files)
}

fn copy_path(dir: &Path, copy: Copy, root: &Root) -> PathBuf {
    names::path(dir, FileKind::Manifest(copy), FileNo(root.generation))
}

/// Both copies, durable.
fn write_copies(vfs: &dyn Vfs, dir: &Path, root: &Root, bytes: &[u8]) -> Result<[OpenCopy; 2]> {
    let a = write_copy(vfs, dir, Copy::A, root, bytes)?;
    let b = write_copy(vfs, dir, Copy::B, root, bytes)?;
    folder::sync(vfs, dir)?;
    Ok([a, b])
}

fn write_copy(
    vfs: &dyn Vfs,
    dir: &Path,
    copy: Copy,
    root: &Root,
    bytes: &[u8],
) -> Result<OpenCopy> {
    let path = copy_path(dir, copy, root);
    let written = vfs.create(&path).and_then(|file| {
        file.write_all_at(bytes, 0)?;
        file.sync()?;
        Ok(file)
    });
    match written {
        Ok(file) => Ok((path, file)),
        Err(error) => Err(Error::io("writing the manifest", &path, error)),
    }
}

/// Best effort: no root names them, and the next start tries again.
fn remove_older(vfs: &dyn Vfs, dir: &Path, generation: u64) {
    for (kind, no) in generations(vfs, dir).unwrap_or_default() {
        if no.0 < generation {
            let _ = vfs.remove(&names::path(dir, kind, no));
        }
    }
}
