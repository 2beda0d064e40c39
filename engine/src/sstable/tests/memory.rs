//! A file in memory whose bytes a test may change.

use crate::vfs::api::File;
use bytes::Bytes;
use parking_lot::Mutex;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[derive(Debug, Default)]
pub(super) struct MemoryFile {
    bytes: Mutex<Vec<u8>>,
    reads: AtomicUsize,
    bytes_read: AtomicUsize,
    syncs: AtomicUsize,
}

impl MemoryFile {
    pub(super) fn holding(bytes: Vec<u8>) -> MemoryFile {
        MemoryFile { bytes: Mutex::new(bytes), ..MemoryFile::default() }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().clone()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.bytes.lock());
    }

    pub(super) fn reads(&self) -> usize {
        self.reads.load(Relaxed)
    }

    pub(super) fn bytes_read(&self) -> usize {
        self.bytes_read.load(Relaxed)
    }

    pub(super) fn syncs(&self) -> usize {
        self.syncs.load(Relaxed)
    }
}

impl File for MemoryFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.reads.fetch_add(1, Relaxed);
        self.bytes_read.fetch_add(buf.len(), Relaxed);
        let bytes = self.bytes.lock();
        let from = bytes.get(offset as usize..).and_then(|rest| rest.get(..buf.len()));
        buf.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut held = self.bytes.lock();
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        if held.len() < end {
            held.resize(end, 0);
        }
        held[start..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Relaxed);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().len() as u64)
    }

    fn map(&self) -> io::Result<Bytes> {
        Ok(Bytes::from(self.bytes()))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.lock().resize(len as usize, 0);
        Ok(())
    }
}
