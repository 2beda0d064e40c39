//! What the engine asks of a file system. Everything that touches a file goes through it.
//!
//! Absent: buffering, retries, paths outside the database folder.

use bytes::Bytes;
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A file system.
pub trait Vfs: Debug + Send + Sync {
    /// Makes the folder, and those above it that are missing. Unlike the names of files its own
    /// survives power loss once this returns, also where it was there: who made it may have been
    /// killed before that. Where it was there and the one above cannot be synced, it stays as it
    /// is.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Makes a new empty file for reading and writing; `AlreadyExists` where there is one. The name
    /// survives power loss only after [`Vfs::sync_dir`].
    fn create(&self, file: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens a file that exists.
    fn open(&self, file: &Path, access: Access) -> io::Result<Arc<dyn File>>;

    /// Opens a file that exists for [`File::write_synced_at`] alone, with writes that go past the
    /// system's cache: whole blocks of 4 KiB (or of the disk's own, where smaller) from an address
    /// that is a multiple of the block. `None` where that is not to be had; one that was opened
    /// may still refuse with `InvalidInput`.
    fn open_direct(&self, file: &Path) -> io::Result<Option<Arc<dyn File>>> {
        let _ = file;
        Ok(None)
    }

    /// Removes a file's name; open handles stay usable.
    fn remove(&self, file: &Path) -> io::Result<()>;

    /// Gives a file a new name in the same folder, replacing a file of that name in one step.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name; the two share their bytes.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Whether the file has another name, so that what is written by one is read by both; false
    /// where that is not known.
    fn has_other_names(&self, file: &Path) -> io::Result<bool> {
        let _ = file;
        Ok(false)
    }

    /// The names in a folder, in no particular order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Returns once every name made, changed or removed in `dir` so far survives power loss.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes the lock of a folder through the file `file`, which is made where it is absent.
    /// `WouldBlock` where another holder has it. Released when the guard drops or the process ends.
    fn lock(&self, file: &Path) -> io::Result<Box<dyn LockGuard>>;

    /// Bytes that a writer may still take on the disk of `dir`.
    fn bytes_available(&self, dir: &Path) -> io::Result<u64>;

    /// A number that nobody can guess; of a simulated disk, one that follows from what happened to
    /// it.
    fn chance(&self) -> u64;
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading only.
    Read,
    /// For reading and writing.
    ReadWrite,
}

/// An open file. All methods take the offset; there is no shared position.
#[expect(clippy::len_without_is_empty, reason = "a question to the disk, not a property")]
pub trait File: Debug + Send + Sync {
    /// Fills `buf` from `offset`; `UnexpectedEof` where the file ends first.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// The `len` bytes from `offset`; `UnexpectedEof` where the file ends first. Cheaper than
    /// filling a new buffer where the system takes one that was not zeroed.
    fn read_vec_at(&self, len: usize, offset: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Has the system begin to read `len` bytes from `offset` on, so that those who read them next
    /// wait together and not one after the other. Promises nothing, and does nothing where that is
    /// not to be had.
    fn begin_read(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Writes all of `bytes` at `offset`, extending the file where needed. After an error, any
    /// part of the range may have been written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// As [`File::write_all_at`] with `parts`, one behind the other.
    fn write_parts_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        match parts {
            [whole] => self.write_all_at(whole, offset),
            _ => self.write_all_at(&parts.concat(), offset),
        }
    }

    /// Returns once all bytes written so far, and the length, survive power loss. After an error
    /// nothing may be assumed about them, now or after a later success.
    fn sync(&self) -> io::Result<()>;

    /// Has the system begin to bring `len` bytes from `offset` on to the disk, so that a later
    /// [`File::sync`] has less to wait for. Promises nothing, and does nothing where that is not to
    /// be had.
    fn begin_sync(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Writes all of `bytes` at `offset` and returns once they survive power loss, as the bytes
    /// written before through other handles may not. After an error as after one of either.
    fn write_synced_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)?;
        self.sync()
    }

    /// The file's length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// All bytes of the file as memory, read from the disk as they are used. Only for a file that
    /// nobody writes to or cuts while a slice of them lives. `Unsupported` where that is not to be
    /// had; a later failure of the disk may end the process.
    fn map(&self) -> io::Result<Bytes> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// From where on the system knows of zeros only, without a read: room that was taken and never
    /// written. The file's length where it knows of none.
    fn zeros_from(&self) -> io::Result<u64> {
        self.len()
    }

    /// Cuts the file, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Extends the file with zeros to `len` bytes and takes their room on the disk without writing
    /// them: what is written there later cannot find the disk full. `Unsupported` where that is
    /// not to be had; after another error it may have grown by a part.
    fn reserve(&self, len: u64) -> io::Result<()> {
        let _ = len;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Holds a folder's lock until it drops.
pub trait LockGuard: Debug + Send + Sync {}
