//! Backups in a folder: made, listed, proved, restored, given up.

use crate::backup::depot::{Brought, Depot, Known, Run, Sharing, Wanted};
use crate::backup::digest::{self, Hash, PIECE_BYTES};
use crate::backup::format::{Kept, Manifest};
use crate::backup::source::{self, Taken};
use crate::beside;
use crate::env::clock::{Clock, SystemClock};
use crate::error::{Error, Kind, Result};
use crate::folder;
use crate::ids::CommitTs;
use crate::manifest::edit::Edit;
use crate::manifest::state::State;
use crate::names;
use crate::version::shelf::Shelf;
use crate::vfs::api::{Access, Vfs};
use crate::vfs::os::OsVfs;
use crate::wal::format::LogFloor;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A folder of backups. Nothing is held open between two calls.
#[derive(Clone, Debug)]
pub struct Backups {
    pub(super) depot: Depot,
    pub(super) clock: Arc<dyn Clock>,
}

/// One backup.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Its number: 1 for the first, higher for each later one.
    pub number: u64,
    /// The identity of the database that it is of.
    pub database: u128,
    /// When it was made.
    pub made: CommitTs,
    /// Every commit up to here is in it, and none later.
    pub to: CommitTs,
    /// It can be restored as of every moment from here to `to`.
    pub from: CommitTs,
    /// And of those from `to` to here, in which nothing was committed. Later than `to` only where
    /// the database made it itself: beside another process nobody knows.
    pub quiet: CommitTs,
    /// Files of the database.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of those that no earlier backup of the folder has.
    pub own_bytes: u64,
}

/// What a backup has brought.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The backup.
    pub backup: Backup,
    /// What had to be brought for it.
    pub brought: Brought,
}

/// Which backup to restore.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The newest.
    Newest,
    /// The one of that number.
    Number(u64),
    /// Whichever has all that was visible at that moment, without what came later. Those that have
    /// it must be of one database.
    At(CommitTs),
    /// The one of that number, as of that moment.
    NumberAt(u64, CommitTs),
}

/// What was restored.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The backup that it comes from.
    pub number: u64,
    /// The moment that it is of: every commit up to here, and none later.
    pub at: CommitTs,
    /// Its files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a look at every byte has found.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct Report {
    /// Backups whose manifests read.
    pub backups: u64,
    /// Files read.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Every damaged place.
    pub damage: Vec<Error>,
    /// Files that no backup needs: what a run that was cut has left. The next one uses them.
    pub unused: u64,
}

/// What was given up.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Numbers of the backups that are gone.
    pub backups: Vec<u64>,
    /// Files that no other one needs.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Backups {
    /// The backups in `dir`. Looks at nothing yet.
    pub fn at(dir: impl AsRef<Path>) -> Backups {
        Backups::with(Arc::new(OsVfs::new()), Arc::new(SystemClock::new()), dir.as_ref())
    }

    /// The same on another disk, under another clock.
    pub fn with(vfs: Arc<dyn Vfs>, clock: Arc<dyn Clock>, dir: &Path) -> Backups {
        Backups { depot: Depot { vfs, dir: dir.to_owned() }, clock }
    }

    /// Makes a backup of the database in `source`, of which files that are here already are not
    /// copied again. Only reads it; another process may write to it meanwhile, and the backup then
    /// holds some moment of the run, with everything that was acknowledged before the run began
    /// and, of `Buffered` commits, had reached the log.
    ///
    /// Errors: `NotFound` where there is no database; `Io` where it may not be read; `Invalid`
    /// where the backups would lie in `source`, or in a folder of other things, which is left as it
    /// is; `Corrupt` where a file is not what the database's manifest says; `Locked` where another
    /// run is under way; `Busy` where the log is given up faster than it is read,
    /// [`Db::backup`](crate::Db::backup) being the way then.
    pub fn create(&self, source: impl AsRef<Path>, sharing: Sharing) -> Result<Created> {
        let folder = source.as_ref();
        self.keep_out_of(folder)?;
        // Others may be a writer's doing, and pass.
        if let Err(error) = source::load(&*self.depot.vfs, folder)
            && (error.kind() == Kind::NotFound || is_denied(&error))
        {
            return Err(error);
        }
        let _lock = self.depot.begin()?;
        let from = source::shelf(&self.depot.vfs, folder);
        let lengths = self.depot.lengths()?;
        let mut run = Run { sharing, lengths, ..Run::default() };
        let (all, files, made) = beside::settled(|| self.round(&from, &mut run))?;
        // Others may have commits that are not in the log yet: no quiet time is known to have
        // followed.
        let backup = self.finish(&all, files, made, all.last_ts)?;
        let _ = self.depot.clear_staging(); // Else the next run does; the backup counts.
        Ok(Created { backup, brought: run.brought })
    }

    /// Backups are not to go with the folder that they are of. By names alone: links are for who
    /// knows them.
    fn keep_out_of(&self, source: &Path) -> Result<()> {
        let dest = &self.depot.dir;
        if dest.starts_with(source) {
            let what = format!("{} lies in the data folder {}", dest.display(), source.display());
            return Err(Error::invalid(what));
        }
        Ok(())
    }

    /// Tries to copy what the folder holds, and says when it began; `None` where it has changed too
    /// much meanwhile.
    fn round(
        &self,
        from: &Arc<Shelf>,
        run: &mut Run,
    ) -> Result<Option<(State, Vec<Kept>, CommitTs)>> {
        let depot = &self.depot;
        let made = CommitTs(self.clock.wall_ticks());
        let Some(Taken { named, all, staging }) = source::take(from, depot)? else {
            return Ok(None);
        };
        if run.db_id != Some(named.db_id) {
            (run.db_id, run.known) = (Some(named.db_id), self.known(named.db_id)?);
        }
        let passing = named.next_file;
        let mut files = Vec::new();
        for wanted in source::files(&all, passing) {
            let from = if wanted.is_passing { &staging } else { from };
            files.push(depot.keep(from, wanted, run)?);
        }
        Ok(Some((all, files, made)))
    }

    /// Makes a backup of files that nobody deletes meanwhile and that hold all of `state`, to which
    /// nothing that may still come will be added up to `made`.
    pub(crate) fn create_of(
        &self,
        state: &State,
        dir: &Path,
        made: CommitTs,
        sharing: Sharing,
    ) -> Result<Created> {
        let depot = &self.depot;
        self.keep_out_of(dir)?;
        let _lock = depot.begin()?;
        let known = self.known(state.db_id)?;
        let (db_id, lengths) = (Some(state.db_id), depot.lengths()?);
        let mut run = Run { sharing, db_id, known, lengths, ..Run::default() };
        let from = source::shelf(&depot.vfs, dir);
        let mut files = Vec::new();
        for wanted in source::files(state, state.next_file) {
            files.push(depot.keep(&from, wanted, &mut run)?);
        }
        Ok(Created { backup: self.finish(state, files, made, made)?, brought: run.brought })
    }

    fn finish(
        &self,
        state: &State,
        files: Vec<Kept>,
        made: CommitTs,
        quiet: CommitTs,
    ) -> Result<Backup> {
        let numbers = self.depot.numbers()?;
        let state = State { log_floor: LogFloor::default(), ..state.clone() };
        let manifest = Manifest {
            number: numbers.last().map_or(1, |last| last + 1),
            db_id: state.db_id,
            made,
            from: state.history_floor.min(state.last_ts),
            to: state.last_ts,
            quiet: quiet.max(state.last_ts),
            files,
            state: state.as_edit().encode(),
        };
        self.depot.finish(&manifest)?;
        let earlier = self.hashes(numbers.iter().copied());
        Ok(about(&manifest, &earlier))
    }

    /// Files that earlier backups of the database have. One that does not read costs time alone.
    fn known(&self, db_id: u128) -> Result<Known> {
        let manifests = self.depot.numbers()?.into_iter().map(|no| self.depot.manifest(no));
        let ours = manifests.filter_map(Result::ok).filter(|manifest| manifest.db_id == db_id);
        let files = ours.flat_map(|manifest| manifest.files).filter(|kept| kept.mark != 0);
        Ok(files.map(|kept| ((kept.no, kept.bytes, kept.mark), kept)).collect())
    }

    fn hashes(&self, numbers: impl Iterator<Item = u64>) -> BTreeSet<Hash> {
        let manifests = numbers.filter_map(|number| self.depot.manifest(number).ok());
        manifests.flat_map(|manifest| manifest.files).map(|kept| kept.hash).collect()
    }

    /// The backups, oldest first, without those that are pruned meanwhile.
    ///
    /// Errors: `NotFound` where there is no such folder; `Corrupt` for a manifest that does not
    /// read.
    pub fn list(&self) -> Result<Vec<Backup>> {
        let (mut backups, mut earlier) = (Vec::new(), BTreeSet::new());
        for number in self.depot.numbers()? {
            let manifest = match self.depot.manifest(number) {
                Err(_) if !self.depot.has_any(&[number]) => continue,
                manifest => manifest?,
            };
            backups.push(about(&manifest, &earlier));
            earlier.extend(manifest.files.iter().map(|kept| kept.hash));
        }
        Ok(backups)
    }

    /// Reads every byte of every backup and holds it against its digest. Damage is no error of the
    /// call: it is in the report, with file and offset. What is pruned meanwhile is no damage.
    pub fn verify(&self) -> Result<Report> {
        let mut report = Report::default();
        let mut files: BTreeMap<Hash, (Kept, Vec<(u64, String)>)> = BTreeMap::new();
        for number in self.depot.numbers()? {
            let manifest = match self.depot.manifest(number) {
                Ok(manifest) => manifest,
                Err(_) if !self.depot.has_any(&[number]) => continue,
                Err(error) => {
                    report.damage.push(error);
                    continue;
                }
            };
            report.backups += 1;
            if let Err(error) = self.state_of(&manifest) {
                report.damage.push(error);
            }
            for kept in manifest.files {
                let what = format!("{} of backup {number}", names::file_name(kept.kind, kept.no));
                files.entry(kept.hash).or_insert_with(|| (kept, Vec::new())).1.push((number, what));
            }
        }
        for (kept, users) in files.values() {
            let (numbers, users): (Vec<u64>, Vec<&str>) =
                users.iter().map(|(number, what)| (*number, what.as_str())).unzip();
            let damage = self.prove(kept, &users.join(", "));
            if damage.is_empty() || self.depot.has_any(&numbers) {
                report.files += 1;
                report.bytes += kept.bytes;
                report.damage.extend(damage);
            }
        }
        let there = self.depot.list(&self.depot.files_dir()).unwrap_or_default();
        let unused = there.iter().filter_map(|name| Hash::parse(name));
        report.unused = unused.filter(|hash| !files.contains_key(hash)).count() as u64;
        Ok(report)
    }

    /// Reads one file, and tells every MiB of it that differs.
    fn prove(&self, kept: &Kept, users: &str) -> Vec<Error> {
        let path = self.depot.file(&kept.hash);
        let opened = self.depot.vfs.open(&path, Access::Read);
        let read = opened.map_err(|e| Error::io("opening a file of a backup", &path, e));
        let digest = match read.and_then(|file| digest::read(&*file, &path, &mut |_, _| Ok(()))) {
            Ok(digest) => digest,
            Err(error) => return vec![error],
        };
        let mut damage = Vec::new();
        if digest.bytes != kept.bytes {
            let what = format!("the file has {} bytes, not {}: {users}", digest.bytes, kept.bytes);
            damage.push(Error::corrupt(&path, digest.bytes.min(kept.bytes), what));
        }
        for (at, _) in
            digest.pieces.iter().zip(&kept.pieces).enumerate().filter(|(_, (is, was))| is != was)
        {
            let what = format!("differs within the MiB from here: {users}");
            damage.push(Error::corrupt(&path, at as u64 * PIECE_BYTES as u64, what));
        }
        if damage.is_empty() && digest.hash != kept.hash {
            damage.push(Error::corrupt(&path, 0, format!("differs somewhere: {users}")));
        }
        damage
    }

    /// Gives up all backups but the newest `keep`, and the files that only they have.
    ///
    /// Errors: `Invalid` for none to keep; `NotFound` where there is no backup, of which files may
    /// be left all the same; `Corrupt` where a manifest does not read, because nobody knows then
    /// which files are needed.
    pub fn prune(&self, keep: usize) -> Result<Pruned> {
        if keep == 0 {
            return Err(Error::invalid("one backup at least is to be kept"));
        }
        self.depot.check_ours()?;
        self.depot.numbers_of_any()?; // Before anything is made there.
        let _lock = self.depot.begin()?;
        let numbers = self.depot.numbers_of_any()?;
        let (old, kept) = numbers.split_at(numbers.len().saturating_sub(keep));
        let mut needed = BTreeSet::new();
        for number in kept {
            needed.extend(self.depot.manifest(*number)?.files.iter().map(|kept| kept.hash));
        }
        for number in old {
            self.depot.remove(&self.depot.manifest_path(*number))?;
        }
        // A file may go only once nothing can name it, whatever happens to the machine.
        folder::sync(&*self.depot.vfs, &self.depot.dir)?;
        let (files, bytes) = self.depot.sweep(&needed)?;
        Ok(Pruned { backups: old.to_vec(), files, bytes })
    }

    /// The set of files that a backup is of, as far as it agrees with the files it lists.
    pub(super) fn state_of(&self, manifest: &Manifest) -> Result<State> {
        let path = self.depot.manifest_path(manifest.number);
        let damaged = |what: String| Error::corrupt(&path, 0, what);
        let mut state = State::empty(manifest.db_id);
        let edit = Edit::decode(&manifest.state);
        let edit = edit.ok_or_else(|| damaged("its set of files does not read".to_owned()))?;
        state.apply(&edit).map_err(|error| damaged(error.to_string()))?;
        let named = source::files(&state, state.next_file);
        let same = |(kept, wanted): (&Kept, &Wanted)| {
            (kept.kind, kept.no, kept.bytes) == (wanted.kind, wanted.no, wanted.bytes)
        };
        let agrees = named.len() == manifest.files.len()
            && manifest.files.iter().zip(&named).all(same)
            && state.last_ts == manifest.to;
        match agrees {
            true => Ok(state),
            false => Err(damaged("it lists other files than it is of".to_owned())),
        }
    }
}

/// Whether the system lets nobody like us read there.
fn is_denied(error: &Error) -> bool {
    let cause =
        std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::PermissionDenied)
}

fn about(manifest: &Manifest, earlier: &BTreeSet<Hash>) -> Backup {
    let own = manifest.files.iter().filter(|kept| !earlier.contains(&kept.hash));
    Backup {
        number: manifest.number,
        database: manifest.db_id,
        made: manifest.made,
        to: manifest.to,
        from: manifest.from,
        quiet: manifest.quiet,
        files: manifest.files.len() as u64,
        bytes: manifest.files.iter().map(|kept| kept.bytes).sum(),
        own_bytes: own.map(|kept| kept.bytes).sum(),
    }
}
