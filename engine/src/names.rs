//! File name ↔ what the file is. One place knows how files of a database folder are called.
//!
//! Promise: a name has one meaning and a meaning one name, so a name that does not come back
//! unchanged from [`parse`] and [`file_name`] is not ours.

use crate::ids::{FileNo, SegmentId};
use crate::limits::NUMBER_MAX;
use std::path::{Path, PathBuf};

/// Which of two equal copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Copy {
    A,
    B,
}

impl Copy {
    /// Both, in the order in which they are written.
    pub(crate) const BOTH: [Copy; 2] = [Copy::A, Copy::B];
}

/// What a file of a database folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FileKind {
    /// A log segment; the number is the segment's id.
    Wal,
    /// A log segment that is still being made.
    Spare,
    /// A sorted table file.
    Table,
    /// A file of large values.
    Blob,
    /// One copy of the manifest; the number is its generation.
    Manifest(Copy),
    /// One copy of the root. Has no number.
    Root(Copy),
    /// The file whose lock says that the folder is in use. Has no number.
    Lock,
    /// Half-written, to be renamed when whole. Means nothing after a crash.
    Temp,
}

/// Which file of a folder: what it is, and its number.
pub(crate) type FileName = (FileKind, FileNo);

const NUMBERED: [(FileKind, &str); 7] = [
    (FileKind::Wal, "wal"),
    (FileKind::Spare, "spare"),
    (FileKind::Table, "sst"),
    (FileKind::Blob, "blob"),
    (FileKind::Manifest(Copy::A), "manifest-a"),
    (FileKind::Manifest(Copy::B), "manifest-b"),
    (FileKind::Temp, "tmp"),
];

const PLAIN: [(FileKind, &str); 3] = [
    (FileKind::Root(Copy::A), "ROOT-A"),
    (FileKind::Root(Copy::B), "ROOT-B"),
    (FileKind::Lock, "LOCK"),
];

/// The name of a file: `000012.sst`, `ROOT-A`. Kinds without a number ignore `no`.
pub(crate) fn file_name(kind: FileKind, no: FileNo) -> String {
    if let Some((_, name)) = PLAIN.iter().find(|(plain, _)| *plain == kind) {
        return (*name).to_owned();
    }
    let ending = NUMBERED.iter().find(|(numbered, _)| *numbered == kind).map_or("", |(_, e)| e);
    format!("{no}.{ending}")
}

/// What the file called `name` is; `None` where the name is not one of ours.
pub(crate) fn parse(name: &str) -> Option<FileName> {
    if let Some((kind, _)) = PLAIN.iter().find(|(_, plain)| *plain == name) {
        return Some((*kind, FileNo(0)));
    }
    let (digits, ending) = name.split_once('.')?;
    let (kind, _) = NUMBERED.iter().find(|(_, known)| *known == ending)?;
    let no = FileNo(digits.parse().ok().filter(|no| *no <= NUMBER_MAX)?);
    // As `file_name` writes them: six digits, more only where the number needs them.
    let alike = digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits.len() == 6 || digits.len() > 6 && !digits.starts_with('0'));
    alike.then_some((*kind, no))
}

/// Where the file of `kind` and `no` lies in `dir`.
pub(crate) fn path(dir: &Path, kind: FileKind, no: FileNo) -> PathBuf {
    dir.join(file_name(kind, no))
}

/// Where the log segment `id` lies in `dir`.
pub(crate) fn segment_path(dir: &Path, id: SegmentId) -> PathBuf {
    path(dir, FileKind::Wal, FileNo(id.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_comes_back() {
        for no in [0, 7, 999_999, 1_000_000, NUMBER_MAX] {
            for (kind, _) in NUMBERED {
                let name = file_name(kind, FileNo(no));
                assert_eq!(parse(&name), Some((kind, FileNo(no))), "{name}");
            }
        }
        for (kind, name) in PLAIN {
            assert_eq!(file_name(kind, FileNo(3)), name);
            assert_eq!(parse(name), Some((kind, FileNo(0))));
        }
        assert_eq!(file_name(FileKind::Table, FileNo(12)), "000012.sst");
        assert_eq!(file_name(FileKind::Manifest(Copy::B), FileNo(1)), "000001.manifest-b");
    }

    #[test]
    fn other_spellings_are_foreign() {
        for name in [
            "",
            "12.sst",
            "0000012.sst",
            "+00012.sst",
            "000012.SST",
            "000012.sst.bak",
            "root-a",
            ".sst",
            "000012",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
    }
}
