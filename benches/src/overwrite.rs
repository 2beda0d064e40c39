//! Space that was written before, written again and synced: in each of the ways in which a program
//! can have that, for the faster one is what the disk can do.

use crate::sample::{Loop, Sample};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tabulith::vfs::api::{Access, File, Vfs as _};
use tabulith::vfs::os::OsVfs;

/// What writes past the page cache are aligned to, in memory and in the file.
pub const BLOCK: usize = 4096;

/// A way in which a write gets to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Into the page cache, then `fdatasync`.
    Buffered,
    /// `O_DIRECT | O_DSYNC`, as the engine's log is written where the file system can do it.
    Direct,
}

impl Way {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Way::Buffered => "write and fdatasync",
            Way::Direct => "O_DIRECT | O_DSYNC",
        }
    }

    fn open(self, path: &Path) -> Result<Option<Arc<dyn File>>> {
        let opened = match self {
            Way::Buffered => OsVfs.open(path, Access::ReadWrite).map(Some),
            Way::Direct => OsVfs.open_direct(path),
        };
        opened.with_context(|| format!("opening {}", path.display()))
    }
}

/// Files that were written from end to end and synced.
#[derive(Debug)]
pub struct Space {
    paths: Vec<PathBuf>,
    bytes: u64,
}

impl Space {
    /// Makes them, of `bytes` each.
    pub fn make(paths: Vec<PathBuf>, bytes: u64) -> Result<Space> {
        for path in &paths {
            fill(path, bytes).with_context(|| format!("making {}", path.display()))?;
        }
        Ok(Space { paths, bytes })
    }

    /// Writes `bytes`, whole blocks, over each of the files again and again by a thread of its own,
    /// for `span` in each way that the file system knows; the fastest way comes first.
    pub fn measure(&self, bytes: usize, span: std::time::Duration) -> Result<Vec<(Way, Sample)>> {
        let mut ways = Vec::new();
        for way in [Way::Buffered, Way::Direct] {
            let files: Result<Option<Vec<_>>> =
                self.paths.iter().map(|path| way.open(path)).collect();
            let Some(files) = files? else { continue };
            let run = Loop { threads: files.len(), span, timed_every: 1 };
            let sample = run.run(|thread| {
                let (file, data, end) = (&files[thread], Aligned::of(bytes), self.bytes);
                let mut at = 0;
                move || {
                    at += bytes as u64;
                    if at + bytes as u64 > end {
                        at = 0;
                    }
                    file.write_synced_at(data.bytes(), at).context("overwrite")?;
                    Ok(1)
                }
            });
            ways.push((way, sample.context(way.words())?));
        }
        ways.sort_by(|(_, a), (_, b)| b.rate().total_cmp(&a.rate()));
        Ok(ways)
    }
}

fn fill(path: &Path, bytes: u64) -> Result<()> {
    match OsVfs.remove(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        removed => removed?,
    }
    let file = OsVfs.create(path)?;
    let zeros = vec![0; 1 << 20];
    for at in (0..bytes).step_by(zeros.len()) {
        let rest = zeros.len().min((bytes - at) as usize);
        file.write_all_at(&zeros[..rest], at)?;
    }
    Ok(file.sync()?)
}

/// Bytes that begin where a block of memory does.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    fn of(len: usize) -> Aligned {
        let memory = vec![7; len + BLOCK];
        let start = memory.as_ptr().align_offset(BLOCK);
        Aligned { memory, start, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::{BLOCK, Space, Way};
    use std::time::Duration;
    use tabulith::vfs::api::Vfs as _;
    use tabulith::vfs::os::OsVfs;

    #[test]
    fn every_way_that_there_is_is_tried_and_the_fastest_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<_> = ["a", "b"].map(|name| dir.path().join(name)).into();
        let direct = |path| OsVfs.open_direct(path).unwrap().is_some();
        let space = Space::make(paths.clone(), 16 * BLOCK as u64).unwrap();
        let ways = space.measure(3 * BLOCK, Duration::from_millis(10)).unwrap();
        let mut names: Vec<_> = ways.iter().map(|(way, _)| *way).collect();
        names.sort_by_key(|way| way.words());
        match direct(&paths[0]) {
            true => assert_eq!(names, [Way::Direct, Way::Buffered]),
            false => assert_eq!(names, [Way::Buffered]),
        }
        assert!(ways.iter().all(|(_, sample)| sample.ops > 0));
        assert!(ways.is_sorted_by(|(_, a), (_, b)| a.rate() >= b.rate()));
        // What was written stays within the files.
        for path in paths {
            let bytes = std::fs::read(path).unwrap();
            assert_eq!(bytes.len(), 16 * BLOCK);
            assert_eq!(bytes[3 * BLOCK..6 * BLOCK], [7; 3 * BLOCK]);
        }
    }
}
