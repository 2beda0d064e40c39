//! From a backup to a database: which backup shows a moment, its files brought back and proved,
//! what came later left out.
//!
//! Promise: the folder is no database until all of it is there: its manifest comes last.

use crate::backup::depot::{Sharing, copy_file};
use crate::backup::digest;
use crate::backup::folder::{Backups, Restored, Which};
use crate::backup::format::{Kept, Manifest};
use crate::backup::rewind::rewind;
use crate::backup::source;
use crate::error::{Error, Kind, Result};
use crate::ids::CommitTs;
use crate::names::{self, FileKind};
use crate::recovery;
use crate::vfs::api::Access;
use std::io;
use std::path::Path;

impl Backups {
    /// Makes a database in `dir`, which must be empty or absent. Every byte is held against its
    /// digest on the way. The result has an identity of its own: where it and the first one go on
    /// apart, their files are told from each other.
    ///
    /// Errors: `NotFound` where there is no such backup, or it is pruned meanwhile; `Invalid` for a
    /// `dir` in the folder of backups, and for a moment that no backup can show, with those that
    /// can be; `Exists` where `dir` is not empty; `Corrupt` where the backup is damaged.
    pub fn restore(
        &self,
        which: Which,
        dir: impl AsRef<Path>,
        sharing: Sharing,
    ) -> Result<Restored> {
        let (dir, vfs) = (dir.as_ref(), &self.depot.vfs);
        self.keep_apart(dir)?;
        let (manifest, at) = self.choose(which)?;
        vfs.create_dir_all(dir).map_err(|e| Error::io("making a folder", dir, e))?;
        let there = self.depot.list(dir)?;
        if !there.is_empty() {
            return Err(taken(dir, &there));
        }
        let mut state = self.state_of(&manifest)?;
        for kept in &manifest.files {
            let brought = self.bring_back(kept, dir, sharing);
            brought.map_err(|error| self.gone_or(manifest.number, error))?;
        }
        if at < manifest.to {
            rewind(vfs, dir, &mut state, at)?;
        }
        let sizes = || source::files(&state, state.next_file).into_iter().map(|file| file.bytes);
        let (files, bytes) = (sizes().count() as u64, sizes().sum());
        recovery::start_copy(vfs, dir, state, self.clock.seed() ^ at.0)?;
        Ok(Restored { number: manifest.number, at, files, bytes })
    }

    /// The next run clears away files of a database's names there. By names alone: links are for
    /// who knows them.
    fn keep_apart(&self, dir: &Path) -> Result<()> {
        let backups = &self.depot.dir;
        if dir.starts_with(backups) {
            let (dir, backups) = (dir.display(), backups.display());
            return Err(Error::invalid(format!("{dir} lies in the folder of backups {backups}")));
        }
        Ok(())
    }

    /// The backup to take, and the moment to show of it.
    fn choose(&self, which: Which) -> Result<(Manifest, CommitTs)> {
        let none = |what: String| Error::new(Kind::NotFound, what);
        let numbers = self.depot.numbers_of_any()?;
        let newest = numbers.last().copied().unwrap_or_default();
        let (number, moment) = match which {
            Which::At(moment) => return self.choose_at(&numbers, moment),
            Which::Newest => (newest, None),
            Which::Number(number) => (number, None),
            Which::NumberAt(number, moment) => (number, Some(moment)),
        };
        if !numbers.contains(&number) {
            return Err(none(format!("there is no backup {number}; the newest is {newest}")));
        }
        let manifest = self.manifest(number)?;
        let Some(moment) = moment else {
            let to = manifest.to;
            return Ok((manifest, to));
        };
        let at = shown_at(&manifest, moment).ok_or_else(|| {
            let Manifest { from, quiet, .. } = manifest;
            let what = format!("backup {number} shows {from} to {quiet}, and not {moment}");
            Error::invalid(what)
        })?;
        Ok((manifest, at))
    }

    /// The same of a moment that any backup may show.
    fn choose_at(&self, numbers: &[u64], moment: CommitTs) -> Result<(Manifest, CommitTs)> {
        let (mut spans, mut found) = (Vec::new(), Vec::new());
        for number in numbers {
            let Ok(manifest) = self.depot.manifest(*number) else { continue };
            spans.push(format!("{} to {}", manifest.from, manifest.quiet));
            found.extend(shown_at(&manifest, moment).map(|at| (manifest.db_id, *number, at)));
        }
        if found.iter().any(|(db_id, ..)| *db_id != found[0].0) {
            let numbers: Vec<_> = found.iter().map(|(_, number, _)| number.to_string()).collect();
            return Err(Error::invalid(format!(
                "backups of several databases show the moment {moment}, and it has to be said which: {}",
                numbers.join(", ")
            )));
        }
        // Rather by its commits than by a quiet time after the last; of those by the newest.
        let by_commits = found.iter().find(|(.., at)| *at == moment);
        let Some((_, number, at)) = by_commits.or(found.last()) else {
            return Err(Error::invalid(format!(
                "no backup shows the moment {moment}; those that do: {}",
                spans.join(", ")
            )));
        };
        Ok((self.manifest(*number)?, *at))
    }

    fn manifest(&self, number: u64) -> Result<Manifest> {
        self.depot.manifest(number).map_err(|error| self.gone_or(number, error))
    }

    /// Why a backup cannot be read: rather than by `error`, because it is not there any more.
    fn gone_or(&self, number: u64, error: Error) -> Error {
        match self.depot.has_any(&[number]) {
            true => error,
            false => {
                let what = format!("backup {number} was pruned while it was read");
                Error::new(Kind::NotFound, what)
            }
        }
    }

    /// Brings one file to `dir`, proved.
    fn bring_back(&self, kept: &Kept, dir: &Path, sharing: Sharing) -> Result<()> {
        let (vfs, from) = (&self.depot.vfs, self.depot.file(&kept.hash));
        let to = names::path(dir, kept.kind, kept.no);
        let file = vfs.open(&from, Access::Read);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Error::corrupt(&from, 0, "this file is missing, and the backup names it")
            }
            _ => Error::io("opening a file of a backup", &from, error),
        })?;
        let linked = sharing == Sharing::Link && self.linked(&from, &to)?;
        let digest = match linked {
            true => digest::read(&*file, &from, &mut |_, _| Ok(()))?,
            false => copy_file(&**vfs, &*file, &from, &to)?,
        };
        match digest.hash == kept.hash {
            true => Ok(()),
            false => {
                let what = "the file differs from its digest; `backup verify` tells where";
                Err(Error::corrupt(&from, 0, what))
            }
        }
    }

    /// Gives a file a second name, where that is to be had.
    fn linked(&self, from: &Path, to: &Path) -> Result<bool> {
        match self.depot.vfs.hard_link(from, to) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Error::io("linking a file", from, error))
            }
            Err(_) => Ok(false),
        }
    }
}

/// Why nothing is restored to a folder that has `names` in it.
fn taken(dir: &Path, names: &[String]) -> Error {
    // A database that has lost its root has a manifest and a log, and may be salvaged.
    let is_brought =
        |name: &String| matches!(names::parse(name), Some((FileKind::Table | FileKind::Blob, _)));
    let what = match names.iter().all(is_brought) {
        true => {
            "holds table files without a manifest, as a restore that was cut leaves: if it is one, delete the \
             folder and restore again"
        }
        false => "is not empty",
    };
    Error::new(Kind::Exists, format!("{} {what}", dir.display()))
}

/// As of which moment a backup has all that was visible at `moment`; `None` where it has not.
fn shown_at(manifest: &Manifest, moment: CommitTs) -> Option<CommitTs> {
    let Manifest { from, to, quiet, .. } = *manifest;
    (from..=quiet).contains(&moment).then(|| moment.min(to))
}
