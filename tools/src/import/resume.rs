//! How far an import has come, so that the same command goes on where it stopped.
//!
//! Recorded is the longest run of rows from the start of a file that are all acknowledged; rows
//! behind it are written again, which changes nothing: every write is insert-or-replace. The
//! record lies in the user's state folder (`$XDG_STATE_HOME/tabulith/imports`, else
//! `~/.local/state/…`), one small JSON file per input file, named after a digest of the file's
//! bytes, the target, the table, and all that decides what a row becomes. A changed file or another
//! template is another job.
//!
//! The record also names a witness: of the rows that were last in their batches the newest that
//! was acknowledged, and its ETag. Rows are skipped only where the witness is still there
//! unchanged. A table that was dropped, a folder that was wiped or restored, and a server that lost
//! its last commits (because it ran with less than full durability) lost the witness too, and the
//! import starts over.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the record lies in the user's state folder, not in a database"
)]

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tabulith::ids::CommitTs;
use tabulith::table::value::DateTime;

/// The rows that are acknowledged, in any order, and the run of them from the start.
#[derive(Debug)]
pub(crate) struct Prefix {
    done: u64,
    /// Whether row `done + i` is acknowledged. The first is always false.
    beyond: VecDeque<bool>,
}

impl Prefix {
    /// All rows below `done` are acknowledged.
    pub(crate) fn starting_at(done: u64) -> Prefix {
        Prefix { done, beyond: VecDeque::new() }
    }

    /// Row `number` is acknowledged (or reported as bad: there is nothing to come back for).
    pub(crate) fn acknowledge(&mut self, number: u64) {
        let Some(place) = number.checked_sub(self.done) else { return };
        let place = place as usize;
        if self.beyond.len() <= place {
            self.beyond.resize(place + 1, false);
        }
        self.beyond[place] = true;
        while self.beyond.front() == Some(&true) {
            self.beyond.pop_front();
            self.done += 1;
        }
    }

    /// Every row below this one is acknowledged.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }
}

/// The row whose presence proves that everything acknowledged is present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Witness {
    /// Its PartitionKey.
    pub(crate) partition_key: String,
    /// Its RowKey.
    pub(crate) row_key: String,
    /// The commit that wrote it.
    pub(crate) ts: CommitTs,
}

/// What is recorded of one file's import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Rows from the start of the file that need not be written again.
    pub(crate) rows_done: u64,
    /// Rows among them that were bad and skipped.
    pub(crate) rows_bad: u64,
    /// Proof that they are there.
    pub(crate) witness: Witness,
}

/// Where the progress of one file's import is kept.
#[derive(Debug)]
pub(crate) struct Record {
    path: PathBuf,
}

impl Record {
    /// The record of the job that `digest` stands for. None where there is no folder for it.
    pub(crate) fn of(digest: u128) -> Option<Record> {
        let variable = |name: &str| std::env::var_os(name);
        let folder = state_folder(variable("XDG_STATE_HOME"), variable("HOME"), "imports")?;
        Some(Record { path: folder.join(format!("{digest:032x}.json")) })
    }

    /// What it says; nothing where there is none. One that cannot be understood counts as none:
    /// starting over is always right.
    pub(crate) fn load(&self) -> Option<Progress> {
        let text = fs::read(&self.path).ok()?;
        let record: Value = serde_json::from_slice(&text).ok()?;
        let witness = record.get("witness")?;
        Some(Progress {
            rows_done: record.get("rows_done")?.as_u64()?,
            rows_bad: record.get("rows_bad")?.as_u64()?,
            witness: Witness {
                partition_key: witness.get("PartitionKey")?.as_str()?.to_owned(),
                row_key: witness.get("RowKey")?.as_str()?.to_owned(),
                ts: CommitTs(witness.get("commit")?.as_u64()?),
            },
        })
    }

    /// Replaces it as a whole: a reader sees the old text or the new one. `what`: for people.
    pub(crate) fn save(&self, progress: &Progress, what: &str) -> Result<()> {
        let witness = &progress.witness;
        let record = json!({
            "import": what,
            "rows_done": progress.rows_done,
            "rows_bad": progress.rows_bad,
            "witness": {
                "PartitionKey": witness.partition_key,
                "RowKey": witness.row_key,
                "Timestamp": DateTime::from(witness.ts).to_string(),
                "commit": witness.ts.0,
            },
        });
        write_whole(&self.path, format!("{record:#}\n").as_bytes())
            .with_context(|| format!("writing {}", self.path.display()))
    }

    /// Removes it: the job is done.
    pub(crate) fn remove(&self) {
        // Left behind it costs one look at the witness when the same file is imported again.
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes a folder of the user's state, for its owner alone.
pub(crate) fn make_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Writes a small file anew: a reader sees the old text or the new one. It is for its owner alone,
/// as it has keys of rows.
pub(crate) fn write_whole(path: &Path, text: &[u8]) -> std::io::Result<()> {
    make_folder(path.parent().unwrap_or(Path::new(".")))?;
    let draft = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut options = fs::File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    file.write_all(text)?;
    // Synced: a record that names rows beyond a power cut is checked by its witness, but an empty
    // file in the place of a good record would throw the progress away.
    file.sync_data()?;
    fs::rename(&draft, path)
}

/// The folder where this user's records of `jobs` are kept, by the values of XDG_STATE_HOME and
/// HOME.
pub(crate) fn state_folder(
    xdg: Option<OsString>,
    home: Option<OsString>,
    jobs: &str,
) -> Option<PathBuf> {
    let absolute = |text: OsString| Some(PathBuf::from(text)).filter(|path| path.is_absolute());
    let base = xdg
        .and_then(absolute)
        .or_else(|| Some(home.and_then(absolute)?.join(".local").join("state")))?;
    Some(base.join("tabulith").join(jobs))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn only_an_unbroken_run_counts() {
        let mut prefix = Prefix::starting_at(10);
        for (number, done) in [(12, 10), (11, 10), (3, 10), (10, 13), (20, 13), (13, 14)] {
            prefix.acknowledge(number);
            assert_eq!(prefix.done(), done, "after {number}");
        }
    }

    #[test]
    fn a_record_is_read_back_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let record = Record { path: folder.path().join("deep").join("1.json") };
        assert_eq!(record.load(), None);
        let progress = Progress {
            rows_done: 7,
            rows_bad: 1,
            witness: Witness {
                partition_key: "p\"".to_owned(),
                row_key: String::new(),
                ts: CommitTs(17_000_000_000_000_001),
            },
        };
        record.save(&progress, "flights.csv.gz into flights").unwrap();
        assert_eq!(record.load(), Some(progress));
        record.remove();
        assert_eq!(record.load(), None);
    }

    /// It has the keys of a row, and everybody of the machine could read it.
    #[cfg(unix)]
    #[test]
    fn a_record_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (deep, path) = (folder.path().join("deep"), folder.path().join("deep/er/1.json"));
        let mode = |path: &Path| {
            let mode = path.metadata().unwrap().permissions().mode();
            format!("{:o}", mode & 0o777)
        };
        write_whole(&path, b"first").unwrap();
        let modes = [&deep, &deep.join("er"), &path].map(|path| mode(path));
        assert_eq!(modes, ["700", "700", "600"]);
        // A folder that was there is as its owner made it; a record of before is not.
        fs::set_permissions(&deep, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        write_whole(&path, b"second").unwrap();
        assert_eq!([&deep, &path].map(|path| mode(path)), ["755", "600"]);
        assert_eq!(fs::read(&path).unwrap(), b"second");
    }

    #[test]
    fn a_damaged_record_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let record = Record { path: folder.path().join("1.json") };
        for text in ["", "{", "{\"rows_done\":1}", "[]"] {
            fs::write(&record.path, text).unwrap();
            assert_eq!(record.load(), None, "{text}");
        }
    }

    #[test]
    fn the_state_folder_follows_xdg() {
        let folder = |xdg: Option<&str>, home: Option<&str>| {
            state_folder(xdg.map(OsString::from), home.map(OsString::from), "imports")
                .map(|path| path.display().to_string())
        };
        assert_eq!(folder(Some("/s"), Some("/h")).unwrap(), "/s/tabulith/imports");
        assert_eq!(
            folder(Some("relative"), Some("/h")).unwrap(),
            "/h/.local/state/tabulith/imports"
        );
        assert_eq!(folder(None, None), None);
    }
}
