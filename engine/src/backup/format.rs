//! The manifest of one backup: a text of lines, so that whoever has nothing but a shell can read
//! it.
//!
//! ```text
//! tabulith backup 1                     the format's version
//! number 3                              its place among the backups of its folder
//! database 0f0e…                        the id of the database, 32 hexadecimal digits
//! made 17672256000000000                when, in ticks of 100 ns since 1970
//! from 17672255000000000                the oldest moment that it can be restored to by its history
//! to 17672255999999999                  every commit up to here is in it, and none later
//! quiet 17672256000000000               nothing was committed from there to here; absent where that is not known
//! sst 12 33554432 MARK HASH SUMS        a table file: number, bytes, mark, BLAKE3, CRC-32 of each MiB
//! blob 13 67108864 MARK HASH SUMS       a file of large values
//! state HEX                             the set of files, as one edit of the engine's manifest
//! end HASH                              BLAKE3 of all that stands above
//! ```
//!
//! A mark is what a later backup knows the source's file by without reading it: 16 digits, of a
//! table file its XXH3-64, of a file of large values that of its last 64 KiB, 0 for one that is not
//! known so. Sums are 8 digits each, without anything between them; `-` for none. Files stand in
//! the order of their numbers.

use crate::backup::digest::{Digest, Hash, from_hex, to_hex};
use crate::error::{Error, Result};
use crate::ids::{CommitTs, FileNo};
use crate::limits::NUMBER_MAX;
use crate::names::FileKind;
use std::fmt::Write as _;
use std::path::Path;

/// Longest manifest: that of some half a million files, or 20 TB.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 256 << 20;

const HEAD: &str = "tabulith backup 1";

/// One backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) number: u64,
    pub(crate) db_id: u128,
    pub(crate) made: CommitTs,
    pub(crate) from: CommitTs,
    pub(crate) to: CommitTs,
    /// At least `to`.
    pub(crate) quiet: CommitTs,
    pub(crate) files: Vec<Kept>,
    pub(crate) state: Vec<u8>,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) kind: FileKind,
    pub(crate) no: FileNo,
    pub(crate) mark: u64,
    pub(crate) bytes: u64,
    pub(crate) hash: Hash,
    pub(crate) pieces: Vec<u32>,
}

impl Kept {
    pub(crate) fn new(kind: FileKind, no: FileNo, mark: u64, digest: Digest) -> Kept {
        let Digest { bytes, hash, pieces, .. } = digest;
        Kept { kind, no, mark, bytes, hash, pieces }
    }
}

impl Manifest {
    pub(crate) fn encode(&self) -> String {
        let Manifest { number, db_id, made, from, to, quiet, files, state } = self;
        let mut text = format!(
            "{HEAD}\nnumber {number}\ndatabase {db_id:032x}\nmade {made}\nfrom {from}\nto {to}\n"
        );
        if quiet > to {
            let _ = writeln!(text, "quiet {quiet}");
        }
        for Kept { kind, no, mark, bytes, hash, pieces } in files {
            let kind = if *kind == FileKind::Blob { "blob" } else { "sst" };
            let _ = write!(text, "{kind} {} {bytes} {mark:016x} {} ", no.0, hash.hex());
            for sum in pieces {
                let _ = write!(text, "{sum:08x}");
            }
            text.push_str(if pieces.is_empty() { "-\n" } else { "\n" });
        }
        let _ = writeln!(text, "state {}", to_hex(state));
        let end = Hash::of(text.as_bytes());
        let _ = writeln!(text, "end {}", end.hex());
        text
    }

    /// The manifest that the file `path` holds as `bytes`. One encoding per manifest: what would be
    /// written otherwise is refused.
    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Manifest> {
        let damaged = |offset: usize, what: &str| Error::corrupt(path, offset as u64, what);
        let text = std::str::from_utf8(bytes)
            .map_err(|error| damaged(error.valid_up_to(), "a backup's manifest is not text"))?;
        if !text.starts_with(&format!("{HEAD}\n")) {
            return Err(damaged(0, "this is no manifest of a backup that this version reads"));
        }
        let whole = text.strip_suffix('\n').and_then(|text| text.rsplit_once('\n'));
        let end = whole.and_then(|(above, last)| {
            Some((above.len() + 1, Hash::parse(last.strip_prefix("end ")?)?))
        });
        let (end_at, end) = end.ok_or_else(|| damaged(text.len(), "a backup's manifest is cut"))?;
        if Hash::of(&bytes[..end_at]) != end {
            return Err(damaged(0, "a backup's manifest differs from its digest"));
        }
        let manifest = Manifest::read(&text[..end_at])
            .ok_or_else(|| damaged(0, "a backup's manifest does not read"))?;
        match manifest.encode() == text {
            true => Ok(manifest),
            false => Err(damaged(0, "a backup's manifest is not as it would be written")),
        }
    }

    fn read(text: &str) -> Option<Manifest> {
        let mut lines = text.lines().skip(1);
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let number = number(field("number")?)?;
        let db_id = u128::from_str_radix(field("database")?, 16).ok()?;
        let [made, from, to] = [field("made")?, field("from")?, field("to")?].map(ticks);
        let (made, from, to) = (made?, from?, to?);
        let (mut quiet, mut files) = (to, Vec::<Kept>::new());
        for (nth, line) in lines.enumerate() {
            if let Some(until) = line.strip_prefix("quiet ").filter(|_| nth == 0) {
                quiet = ticks(until)?;
                continue;
            }
            if let Some(state) = line.strip_prefix("state ") {
                let state = from_hex(state)?;
                return Some(Manifest { number, db_id, made, from, to, quiet, files, state });
            }
            let file = file(line)?;
            if files.last().is_some_and(|before| before.no >= file.no) {
                return None;
            }
            files.push(file);
        }
        None
    }
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number <= NUMBER_MAX)
}

fn ticks(text: &str) -> Option<CommitTs> {
    text.parse().ok().map(CommitTs)
}

fn file(line: &str) -> Option<Kept> {
    let mut words = line.split(' ');
    let kind = match words.next()? {
        "sst" => FileKind::Table,
        "blob" => FileKind::Blob,
        _ => return None,
    };
    let (no, bytes) = (FileNo(number(words.next()?)?), words.next()?.parse().ok()?);
    let mark = u64::from_str_radix(words.next()?, 16).ok()?;
    let hash = Hash::parse(words.next()?)?;
    let pieces = from_hex(words.next().map(|sums| if sums == "-" { "" } else { sums })?)?;
    let pieces = pieces.chunks(4).map(|sum| sum.try_into().map(u32::from_be_bytes));
    let pieces = pieces.collect::<Result<Vec<_>, _>>().ok()?;
    let right = pieces.len() as u64 == u64::div_ceil(bytes, 1 << 20);
    (right && words.next().is_none()).then_some(Kept { kind, no, mark, bytes, hash, pieces })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    fn manifest() -> Manifest {
        let file = |kind, no, bytes: u64| Kept {
            kind,
            no: FileNo(no),
            mark: 0xab,
            bytes,
            hash: Hash::of(&no.to_le_bytes()),
            pieces: vec![0x1234_5678; usize::try_from(bytes.div_ceil(1 << 20)).unwrap_or(0)],
        };
        Manifest {
            number: 3,
            db_id: 0x0f0e,
            made: CommitTs(50),
            from: CommitTs(10),
            to: CommitTs(40),
            quiet: CommitTs(45),
            files: vec![
                file(FileKind::Table, 3, (1 << 20) + 1),
                file(FileKind::Blob, 12, 7),
                file(FileKind::Table, 13, 0),
            ],
            state: vec![0, 1, 254],
        }
    }

    fn read(text: &str) -> Result<Manifest> {
        Manifest::decode(text.as_bytes(), Path::new("000003.backup"))
    }

    #[test]
    fn comes_back() {
        let text = manifest().encode();
        assert_eq!(read(&text).ok(), Some(manifest()), "{text}");
        let quiet = CommitTs(40);
        let empty = Manifest { files: Vec::new(), state: Vec::new(), quiet, ..manifest() };
        assert_eq!(read(&empty.encode()).ok(), Some(empty));
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_found() {
        let text = manifest().encode();
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let error = Manifest::decode(&bytes, Path::new("m")).expect_err("a changed byte");
            assert_eq!(error.kind(), Kind::Corrupt, "{at}");
            assert!(read(&text[..at]).is_err(), "cut at {at}");
        }
        assert!(read(&format!("{text}\n")).is_err() && read(&format!("{text}x\n")).is_err());
    }

    #[test]
    fn a_right_digest_does_not_make_a_manifest_right() {
        let sealed = |text: &str| format!("{text}end {}\n", Hash::of(text.as_bytes()).hex());
        let text = manifest().encode();
        let body = text.rsplit_once("end ").map(|(body, _)| body).unwrap_or_default();
        assert!(read(&sealed(body)).is_ok());
        for (from, to) in [
            ("number 3", "number 03"),
            ("number 3", "number -3"),
            ("sst 13 0 ", "sst 12 0 "),
            ("blob 12 7 ", "blob 12 7000000 "),
            (" -\n", " 00\n"),
            ("state 0001fe", "state 0001f"),
            ("state ", "estat "),
            ("made ", "mode "),
            ("\nto ", "\n to "),
            ("quiet 45", "quiet 40"),
            ("quiet 45", "quiet 39"),
            ("sst 3", "wal 3"),
        ] {
            let changed = body.replacen(from, to, 1);
            assert_ne!(changed, body, "{from}");
            assert!(read(&sealed(&changed)).is_err(), "{to}");
        }
    }
}
