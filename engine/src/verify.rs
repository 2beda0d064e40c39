//! `check`: walks every file of a database folder, cross-checks everything, and names each damage
//! by file and offset. Reads only; does not stop at the first damage.

use crate::batch::Commit;
use crate::blob::format::{BlobMeta, Link};
use crate::blob::reader::BlobFile;
use crate::budget::Budget;
use crate::env::clock::{Clock, SystemClock};
use crate::env::jobs::ByHand;
use crate::erasure::set::Erasures;
use crate::error::{Error, Kind, Result};
use crate::folder;
use crate::ids::{CommitTs, FileNo};
use crate::limits::BEGUN_NUMBER_MAX;
use crate::manifest::load;
use crate::manifest::log::used_up;
use crate::manifest::state::State;
use crate::names::{self, FileKind};
use crate::options::Options;
use crate::pool::Pool;
use crate::recovery;
use crate::sstable::format::FileMeta;
use crate::sstable::reader::{BlockCache, TableFile};
use crate::vfs::api::{Access, Vfs};
use crate::vfs::os::OsVfs;
use crate::wal::replay;
use crate::zstandard;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often a folder is looked at before what looks damaged is believed, though each time
/// something else does.
const LOOKS_MAX: usize = 8;

/// A writer is done with a step of its own by then.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// References to values that are held at a time, 32 bytes each.
const LINKS_MAX: usize = 1 << 17;

/// What a check found.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct Report {
    /// Table files and blob files read.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// Versions of rows in them, deletes included.
    pub versions: u64,
    /// Groups of commits in the log that are not yet in files.
    pub log_groups: u64,
    /// Commits in those groups.
    pub log_commits: u64,
    /// Bytes at the log's end that a crash cut short; no acknowledged commit is in them.
    pub tail_discarded_bytes: u64,
    /// The newest commit found anywhere.
    pub last_ts: CommitTs,
    /// Every damaged place.
    pub damage: Vec<Error>,
    /// What this build cannot read, [`Kind::Unsupported`]: the first such value of each file. The
    /// checksums of these files were found right, and no more was looked at.
    pub unread: Vec<Error>,
    /// What is odd and harmless: files that a crash left over, or that are not ours.
    pub notes: Vec<String>,
}

impl Report {
    /// Whether nothing is damaged, and nothing was left unread.
    pub fn is_clean(&self) -> bool {
        self.damage.is_empty() && self.unread.is_empty()
    }

    /// Takes note of what reading a file came upon.
    fn add(&mut self, error: Error) {
        match error.kind() {
            Kind::Unsupported => self.unread.push(error),
            _ => self.damage.push(error),
        }
    }
}

/// Checks the database in `dir`. Safe beside a process that writes: a file that it gives up
/// meanwhile is no damage, and what looks damaged is looked at again, until some of it is found
/// damaged in the same way twice in files of the same names.
///
/// Cost: reads every byte of every file, and of blob files the heads of values once more; where
/// they look damaged twice, and beside a writer up to eight times. However many large values there
/// are, 4 MiB hold what rows refer to.
///
/// Errors: `NotFound` where there is no database; `Io` where the folder cannot be read. Damage is
/// no error of the check: it is in the report.
pub fn check(dir: impl AsRef<Path>) -> Result<Report> {
    let (vfs, dir) = (Arc::new(OsVfs::new()) as Arc<dyn Vfs>, dir.as_ref());
    let mut names = list(&*vfs, dir)?;
    let mut report = look(&vfs, dir, &names)?;
    for _ in 1..LOOKS_MAX {
        if report.damage.is_empty() {
            break;
        }
        SystemClock::new().sleep(BETWEEN_LOOKS);
        let before = std::mem::replace(&mut names, list(&*vfs, dir)?);
        let seen: BTreeSet<_> = report.damage.iter().map(Error::to_string).collect();
        report = look(&vfs, dir, &names)?;
        // What a writer was about to change is not found damaged in the same way twice.
        let is_seen_again = report.damage.iter().any(|error| seen.contains(&error.to_string()));
        if before == names && is_seen_again {
            break;
        }
    }
    Ok(report)
}

/// One look of [`check`], on another disk.
pub fn check_with(vfs: Arc<dyn Vfs>, dir: &Path) -> Result<Report> {
    look(&vfs, dir, &list(&*vfs, dir)?)
}

fn list(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<String>> {
    let mut names = folder::list(vfs, dir)?;
    names.sort_unstable();
    Ok(names)
}

fn look(vfs: &Arc<dyn Vfs>, dir: &Path, names: &[String]) -> Result<Report> {
    let (mut report, state) = check_metadata(&**vfs, dir)?;
    let Some(state) = state else {
        if report.is_clean() {
            return Err(folder::no_database(dir));
        }
        return Ok(report);
    };
    check_files(vfs, dir, &state, &mut report);
    if report.is_clean() {
        check_catalog(vfs, dir, &mut report)?;
    }
    for name in names {
        note_stranger(name, &state, &mut report);
    }
    Ok(report)
}

/// Checks root, manifest and log, and gives what the manifest says. The log comes before the files,
/// whose check may take hours: segments that a writer gives up are written anew. What looks damaged
/// in one counts where the manifest, read again, still says where the log begins.
fn check_metadata(vfs: &dyn Vfs, dir: &Path) -> Result<(Report, Option<State>)> {
    let mut looks = 0;
    loop {
        let manifest = load::check(vfs, dir);
        let mut report = Report::default();
        manifest.damage.into_iter().for_each(|error| report.add(error));
        let cut = manifest.cut.map(|cut| format!("{cut}; the next open puts that right"));
        report.notes.extend(cut);
        let Some(state) = manifest.state else { return Ok((report, None)) };
        let before = report.damage.len();
        let read = check_log(vfs, dir, &state, &mut report);
        looks += 1;
        let is_sound = read.is_ok() && report.damage.len() == before;
        let stands = || {
            let again = load::check(vfs, dir).state;
            again.is_none_or(|again| again.log_floor.segment == state.log_floor.segment)
        };
        if is_sound || looks == LOOKS_MAX || stands() {
            return read.map(|()| (report, Some(state)));
        }
    }
}

/// Checks the files that `state` names. One that a writer has given up by its turn is no damage:
/// what came in its place is checked instead.
fn check_files(vfs: &Arc<dyn Vfs>, dir: &Path, state: &State, report: &mut Report) {
    let mut checked = BTreeSet::new();
    let mut now: Option<State> = None;
    for _ in 0..LOOKS_MAX {
        let state = now.as_ref().unwrap_or(state);
        let (waiting, wrong) = (Vec::new(), BTreeMap::new());
        let mut links = Links { vfs, dir, blobs: &state.blobs, waiting, wrong };
        for (_, meta) in state.files().filter(|(_, meta)| !checked.contains(&meta.no)) {
            report.last_ts = report.last_ts.max(meta.max_ts);
            check_file(vfs, dir, (meta, &state.erasures), &mut links, report);
        }
        links.settle();
        let Links { mut wrong, .. } = links;
        for meta in state.blobs.values() {
            let wrong = wrong.remove(&meta.no);
            if wrong.is_some() || !checked.contains(&meta.no) {
                check_blob(vfs, dir, meta, wrong, report);
            }
        }
        checked.extend(state.names().map(|(_, no)| no));
        if !report.damage.iter().any(Error::is_missing_file) {
            return;
        }
        let Some(again) = load::check(&**vfs, dir).state else { return };
        let before = report.damage.len();
        let is_given_up = |error: &Error| {
            let name = error.place().and_then(|(file, _)| file.file_name()?.to_str());
            name.and_then(names::parse).is_some_and(|name| {
                matches!(name.0, FileKind::Table | FileKind::Blob)
                    && again.names().all(|named| named != name)
            })
        };
        report.damage.retain(|error| !error.is_missing_file() || !is_given_up(error));
        if report.damage.len() == before {
            return;
        }
        now = Some(again);
    }
    report
        .notes
        .push("files were given up faster than they were read, and not all read".to_owned());
}

/// What rows refer to, held against the heads of values.
struct Links<'a> {
    vfs: &'a Arc<dyn Vfs>,
    dir: &'a Path,
    blobs: &'a BTreeMap<FileNo, Arc<BlobMeta>>,
    /// Not looked at yet: many at a time, so that each blob file is read in its order.
    waiting: Vec<Link>,
    /// Of each blob file the first reference that was found wrong.
    wrong: BTreeMap<FileNo, Error>,
}

impl Links<'_> {
    fn add(&mut self, link: Link) {
        self.waiting.push(link);
        if self.waiting.len() == LINKS_MAX {
            self.settle();
        }
    }

    /// Looks at those that wait. That they name files of the manifest is proved where that is read.
    fn settle(&mut self) {
        self.waiting.sort_unstable_by_key(|link| (link.file, link.offset));
        for links in self.waiting.chunk_by(|a, b| a.file == b.file) {
            let meta = links.first().and_then(|link| self.blobs.get(&link.file));
            let Some(meta) = meta.filter(|meta| !self.wrong.contains_key(&meta.no)) else {
                continue;
            };
            let found = open_blob(self.vfs, self.dir, meta)
                .and_then(|blob| links.iter().try_for_each(|link| blob.check_head(link)));
            if let Err(error) = found {
                self.wrong.insert(meta.no, error);
            }
        }
        self.waiting.clear();
    }
}

fn check_file(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    (meta, erasures): (&FileMeta, &Erasures),
    links: &mut Links<'_>,
    report: &mut Report,
) {
    let path = names::path(dir, FileKind::Table, meta.no);
    let checked = vfs
        .open(&path, Access::Read)
        .map_err(|e| Error::io("opening a table file", &path, e))
        .and_then(|file| TableFile::open(file, path, meta, Arc::new(BlockCache::new(0))))
        .and_then(|table| table.verify_with(meta, erasures, &mut |link| links.add(link)));
    report.files += 1;
    report.file_bytes += meta.bytes;
    report.versions += meta.rows;
    if let Err(error) = checked {
        report.add(error);
    }
}

fn open_blob(vfs: &Arc<dyn Vfs>, dir: &Path, meta: &BlobMeta) -> Result<BlobFile> {
    let path = names::path(dir, FileKind::Blob, meta.no);
    let file = vfs.open(&path, Access::Read);
    let file = file.map_err(|e| Error::io("opening a blob file", &path, e))?;
    BlobFile::open(file, path, meta)
}

/// Proves the blob file, and tells of the reference to it that found no value. That the references
/// add up to what the manifest says is proved where the table files are.
fn check_blob(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    meta: &BlobMeta,
    wrong: Option<Error>,
    report: &mut Report,
) {
    report.files += 1;
    report.file_bytes += meta.bytes;
    let mut unread = None;
    let checked = open_blob(vfs, dir, meta).and_then(|blob| {
        blob.walk(&mut |link| {
            if link.codec.is_lacking() && unread.is_none() {
                let what = zstandard::LACKING;
                unread = Some(Error::unsupported(blob.path(), link.offset, what));
            }
            Ok(())
        })
    });
    // Where the file itself is damaged, that is why.
    match checked.and(wrong.map_or(Ok(()), Err)) {
        Ok(()) => report.unread.extend(unread),
        Err(error) => report.damage.push(error),
    }
}

fn check_log(vfs: &dyn Vfs, dir: &Path, state: &State, report: &mut Report) -> Result<()> {
    let (mut commits, mut last_ts) = (0, report.last_ts);
    let mut unreadable = Vec::new();
    let log = replay::check(vfs, dir, state.log_floor, &mut |first, last, payload| {
        last_ts = last_ts.max(last);
        match Commit::read_group(&Bytes::copy_from_slice(payload.bytes)) {
            Some(group) if group.iter().all(|commit| (first..=last).contains(&commit.ts)) => {
                commits += group.len() as u64;
            }
            _ => {
                let what = format!("the group of commits {first} to {last} is no list of them");
                unreadable.push(Error::corrupt(payload.path, payload.at, what));
            }
        }
        Ok(())
    })?;
    report.damage.extend(log.damage);
    report.damage.extend(unreadable);
    let numbers = [log.replay.next_segment.0, log.replay.seen_ts.0, state.largest_number()];
    if numbers.into_iter().any(|number| number > BEGUN_NUMBER_MAX) {
        report.damage.push(used_up(dir)); // No start would go on from there.
    }
    report.log_groups = log.replay.groups;
    report.log_commits = commits;
    report.tail_discarded_bytes = log.replay.tail_discarded_bytes;
    report.last_ts = last_ts;
    Ok(())
}

/// Reads the catalogue as an open would; what is damaged otherwise would only be told twice.
///
/// Errors: `NotFound` where the database has gone meanwhile.
fn check_catalog(vfs: &Arc<dyn Vfs>, dir: &Path, report: &mut Report) -> Result<()> {
    let options = Options { read_only: true, ..Options::default() };
    let pool = Pool::new(Budget::without_caches());
    let opened = recovery::open(Arc::clone(vfs), dir, &options, pool, 0, CommitTs::ZERO, &ByHand);
    let read = opened.and_then(|opened| recovery::load_tables(&opened.view, opened.last_ts));
    match read {
        Err(error) if error.kind() == Kind::Busy => {
            report.notes.push(format!("the tables' names were not read: {error}"));
        }
        Err(error) if error.kind() == Kind::NotFound => return Err(error),
        read => report.damage.extend(read.err()),
    }
    Ok(())
}

fn note_stranger(name: &str, state: &State, report: &mut Report) {
    let note = match names::parse(name) {
        None => "is not a file of ours",
        Some((FileKind::Table, no)) if !state.files().any(|(_, file)| file.no == no) => {
            "belongs to no level; the next open deletes it"
        }
        Some((FileKind::Blob, no)) if !state.blobs.contains_key(&no) => {
            "holds no row's value; the next open deletes it"
        }
        Some((FileKind::Temp | FileKind::Spare, _)) => "is unfinished; the next open deletes it",
        Some(_) => return,
    };
    report.notes.push(format!("{name} {note}"));
}
