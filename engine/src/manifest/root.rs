//! The root: which manifest counts. 40 bytes in each of two files, `ROOT-A` and `ROOT-B`.
//!
//! ```text
//! offset size  field       (little-endian)
//!      0    4  magic       "TLR1"
//!      4    4  crc         of bytes 8..40, placed at (0, 0)
//!      8    8  format      version of everything in the folder: 1
//!     16    8  generation  number of the manifest's two files
//!     24   16  db_id       chosen when the database was made
//! ```
//!
//! A copy is never written in place: a new file takes its name by rename, so each copy is always
//! whole, old or new. A is switched and durable before B is begun.

use crate::checksum::placed;
use crate::codec::Reader;
use crate::error::{Error, Result};
use crate::ids::FileNo;
use crate::limits::NUMBER_MAX;
use crate::names::{self, Copy, FileKind};
use crate::vfs::api::{Access, Vfs};
use std::io;
use std::path::Path;

const MAGIC: [u8; 4] = *b"TLR1";
pub(crate) const FORMAT: u64 = 1;
pub(crate) const ROOT_BYTES: usize = 40;

/// Why bytes are no root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoot {
    Damaged,
    /// They are one, of a later build.
    OfOtherFormat,
}

/// What a root says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) generation: u64,
    pub(crate) db_id: u128,
}

impl Root {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(ROOT_BYTES);
        body.extend_from_slice(&FORMAT.to_le_bytes());
        body.extend_from_slice(&self.generation.to_le_bytes());
        body.extend_from_slice(&self.db_id.to_le_bytes());
        let crc = placed(0, 0, &[&body]);
        [&MAGIC[..], &crc.to_le_bytes(), &body].concat()
    }

    /// The root that `bytes` are.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Root, NoRoot> {
        read(bytes).unwrap_or(Err(NoRoot::Damaged))
    }

    /// The root as one line.
    pub(crate) fn dump(&self) -> String {
        format!(
            "         0  format {FORMAT}  manifest {:06}  db {:032x}",
            self.generation, self.db_id
        )
    }
}

fn read(bytes: &[u8]) -> Option<Result<Root, NoRoot>> {
    let mut reader = Reader::new(bytes);
    let (magic, crc) = (reader.array::<4>()?, reader.u32()?);
    if magic != MAGIC || bytes.len() != ROOT_BYTES || crc != placed(0, 0, &[reader.rest()]) {
        return None;
    }
    if reader.u64()? != FORMAT {
        return Some(Err(NoRoot::OfOtherFormat));
    }
    let generation = reader.u64().filter(|generation| *generation <= NUMBER_MAX)?;
    Some(Ok(Root { generation, db_id: u128::from_le_bytes(reader.array()?) }))
}

/// Reads one copy. `Ok(None)` where there is no such file.
///
/// Errors: `Unsupported` for one of a later build; `Corrupt`; `Io`.
pub(crate) fn load(vfs: &dyn Vfs, dir: &Path, copy: Copy) -> Result<Option<Root>> {
    let path = names::path(dir, FileKind::Root(copy), FileNo(0));
    let file = match vfs.open(&path, Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| Error::io("opening the root", &path, error))?,
    };
    let failed = |error| Error::io("reading the root", &path, error);
    let len = file.len().map_err(failed)?;
    if len != ROOT_BYTES as u64 {
        return Err(Error::corrupt(&path, 0, format!("the root has {len} bytes")));
    }
    let mut bytes = [0; ROOT_BYTES];
    file.read_exact_at(&mut bytes, 0).map_err(failed)?;
    match Root::decode(&bytes) {
        Ok(root) => Ok(Some(root)),
        Err(NoRoot::Damaged) => Err(Error::corrupt(&path, 0, "the root: it is not a root")),
        Err(NoRoot::OfOtherFormat) => {
            let what = "the root: it is of a format that this build does not know";
            Err(Error::unsupported(&path, 8, what))
        }
    }
}

/// Why the copies do not both say something else.
#[derive(Debug)]
pub(crate) struct Unswitched {
    pub(crate) error: Error,
    /// No copy says it, nor will one after a crash.
    pub(crate) is_unnamed: bool,
}

/// Makes both copies say `root`, one after the other. The manifest is durable already.
pub(crate) fn switch(vfs: &dyn Vfs, dir: &Path, root: &Root) -> Result<(), Unswitched> {
    for copy in Copy::BOTH {
        let path = names::path(dir, FileKind::Root(copy), FileNo(0));
        if let Err((error, is_old)) = replace(vfs, dir, &path, root) {
            let error = Error::io("writing the root", &path, error);
            return Err(Unswitched { error, is_unnamed: is_old && copy == Copy::A });
        }
    }
    Ok(())
}

/// Errors say whether the copy at `path` is certainly as it was.
fn replace(vfs: &dyn Vfs, dir: &Path, path: &Path, root: &Root) -> Result<(), (io::Error, bool)> {
    let temp = names::path(dir, FileKind::Temp, FileNo(root.generation));
    if let Err(error) = write(vfs, &temp, root) {
        let _ = vfs.remove(&temp);
        return Err((error, true));
    }
    if let Err(error) = vfs.rename(&temp, path) {
        // A name that can be removed had not become the root's, and cannot any more.
        let is_old = vfs.remove(&temp).is_ok();
        return Err((error, is_old));
    }
    vfs.sync_dir(dir).map_err(|error| (error, false))
}

fn write(vfs: &dyn Vfs, path: &Path, root: &Root) -> io::Result<()> {
    match vfs.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _removed_or_absent => {}
    }
    let file = vfs.create(path)?;
    file.write_all_at(&root.encode(), 0)?;
    file.sync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_comes_back_and_nothing_else_is_one() {
        let root = Root { generation: 12, db_id: 7 };
        let bytes = root.encode();
        assert_eq!(bytes.len(), ROOT_BYTES);
        assert_eq!(Root::decode(&bytes), Ok(root));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Root::decode(&bad).is_err(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert!(Root::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_root_of_another_format_is_told_as_one() {
        let mut bytes = Root { generation: 12, db_id: 7 }.encode();
        bytes[8..16].copy_from_slice(&(FORMAT + 1).to_le_bytes());
        let crc = placed(0, 0, &[&bytes[8..]]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Root::decode(&bytes), Err(NoRoot::OfOtherFormat));
    }
}
