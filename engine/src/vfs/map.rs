//! A file's bytes as memory that the operating system fills when it is read. The one place that
//! maps files.
//!
//! Dangers: where the disk fails under a read of that memory, or another program has cut the file,
//! the system ends the process with SIGBUS; there is no error to return.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the door itself")]

use bytes::Bytes;
use memmap2::Mmap;
use std::{fs, io};

/// The bytes of `file` as it is now; the mapping lasts until the last slice of them is gone. For
/// files that nobody writes to or cuts any more: see [`File::map`](crate::vfs::api::File::map).
#[allow(unsafe_code, reason = "a mapping is sound by what happens to the file, which no type says")]
pub(crate) fn read_only(file: &fs::File) -> io::Result<Bytes> {
    if file.metadata()?.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the memory must stay as it is while a slice of it is borrowed.
    // - It cannot be written through: the mapping is read-only, and `Bytes` lends shared slices.
    // - It does not go away: `Bytes` owns the mapping, which outlives the handle of the file.
    // - The file does not change under it: only table files and blob files are mapped, by their
    //   `TableFile` and `BlobFile`, after the manifest has named them, which is after their builder
    //   has written and synced the last byte. Nothing writes to either again: compaction makes new
    //   files and removes names, which leaves the bytes to those who have them open.
    // - Others: the lock of the folder keeps every other engine that writes away. A program that
    //   writes to the folder behind the engine's back breaks this; who turns `Advanced::mapped` on
    //   is told so and answers for it.
    let map = unsafe { Mmap::map(file) }?;
    Ok(Bytes::from_owner(map))
}

#[cfg(test)]
mod tests {
    use super::read_only;
    use std::fs;
    use std::io::{self, Write as _};

    #[test]
    fn bytes_outlive_the_handle_and_the_name() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("a");
        fs::File::create(&path)?.write_all(&[7; 10_000])?;
        let file = fs::File::open(&path)?;
        let bytes = read_only(&file)?;
        drop(file);
        fs::remove_file(&path)?;
        let tail = bytes.slice(9_990..);
        drop(bytes);
        assert_eq!(tail, vec![7; 10]);
        Ok(())
    }

    #[test]
    fn an_empty_file_has_no_bytes() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("a");
        fs::File::create(&path)?;
        assert!(read_only(&fs::File::open(&path)?)?.is_empty());
        Ok(())
    }
}
