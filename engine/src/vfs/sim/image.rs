//! The bytes of a simulated file: a length and pages that copies share until one is written.
//!
//! Promise: a copy costs a reference per 128 KiB, a write to a copy one page (4 KiB) more, so that
//! thousands of crash states per second can stand on one disk.
//!
//! ```text
//! Image ── len
//!       └─ chunks: [ Arc<Chunk> ─ pages: [ Arc<Page> ─ 8 sectors of 512 bytes; 32 ], … ]
//! ```
//!
//! What was never written, or zeroed by whole pages, has no page.

use std::sync::{Arc, OnceLock};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The unit in which a power loss keeps or loses bytes.
pub(crate) const SECTOR_BYTES: usize = 512;
const SECTORS_PER_PAGE: usize = 8;
const PAGE_BYTES: usize = SECTOR_BYTES * SECTORS_PER_PAGE;
const PAGES_PER_CHUNK: usize = 32;

pub(crate) type Sector = [u8; SECTOR_BYTES];
pub(crate) static ZERO_SECTOR: Sector = [0; SECTOR_BYTES];

/// The bytes of one file. Invariant: all bytes at or past `len` are zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    len: u64,
    chunks: Vec<Arc<Chunk>>,
}

type Chunk = [Option<Arc<Page>>; PAGES_PER_CHUNK];

#[derive(Clone, Debug)]
struct Page {
    sectors: [Sector; SECTORS_PER_PAGE],
    /// Sum of the sectors, once someone asked.
    sum: OnceLock<u128>,
}

impl Image {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Copies bytes out; those past the end are zero.
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) {
        for (at, part) in split(offset, buf.len()) {
            let (page, from) = (at.page, at.byte);
            match self.page(page) {
                Some(page) => {
                    let bytes = &page.sectors.as_flattened()[from..from + part.len()];
                    buf[part].copy_from_slice(bytes);
                }
                None => buf[part].fill(0),
            }
        }
    }

    /// Copies bytes in, extending the length where needed.
    pub(crate) fn write(&mut self, bytes: &[u8], offset: u64) {
        self.len = self.len.max(offset + bytes.len() as u64);
        for (at, part) in split(offset, bytes.len()) {
            let bytes = &bytes[part];
            if bytes.len() == PAGE_BYTES && bytes.iter().all(|b| *b == 0) {
                self.drop_page(at.page);
            } else {
                let page = self.page_mut(at.page).as_flattened_mut();
                page[at.byte..at.byte + bytes.len()].copy_from_slice(bytes);
            }
        }
    }

    /// Cuts, or extends with zeros.
    pub(crate) fn set_len(&mut self, len: u64) {
        if len < self.len {
            let page = len as usize / PAGE_BYTES;
            if self.page(page).is_some() {
                self.page_mut(page).as_flattened_mut()[len as usize % PAGE_BYTES..].fill(0);
            }
            for page in page + 1..self.chunks.len() * PAGES_PER_CHUNK {
                self.drop_page(page);
            }
        }
        self.len = len;
    }

    pub(crate) fn sector(&self, number: u64) -> &Sector {
        let number = number as usize;
        match self.page(number / SECTORS_PER_PAGE) {
            Some(page) => &page.sectors[number % SECTORS_PER_PAGE],
            None => &ZERO_SECTOR,
        }
    }

    /// Replaces a sector, as far as the length reaches.
    pub(crate) fn put_sector(&mut self, number: u64, bytes: &Sector) {
        let start = number * SECTOR_BYTES as u64;
        let kept = self.len.saturating_sub(start).min(SECTOR_BYTES as u64) as usize;
        if kept > 0 {
            let page = self.page_mut(number as usize / SECTORS_PER_PAGE);
            page[number as usize % SECTORS_PER_PAGE][..kept].copy_from_slice(&bytes[..kept]);
        }
    }

    /// The sectors from `first` on that are not all zero.
    pub(crate) fn written_sectors_from(&self, first: u64) -> Vec<u64> {
        let pages = first as usize / SECTORS_PER_PAGE..self.chunks.len() * PAGES_PER_CHUNK;
        let sectors = pages.filter(|page| self.page(*page).is_some()).flat_map(|page| {
            let start = page * SECTORS_PER_PAGE;
            (start..start + SECTORS_PER_PAGE).map(|sector| sector as u64)
        });
        sectors.filter(|s| *s >= first && *self.sector(*s) != ZERO_SECTOR).collect()
    }

    /// The sum of [`sector_sum`] over all sectors. The length is not part of it.
    pub(crate) fn sum(&self) -> u128 {
        let pages = self.chunks.iter().flat_map(|chunk| chunk.iter()).enumerate();
        pages.fold(0, |sum, (number, page)| match page {
            Some(page) => sum.wrapping_add(page.sum(number)),
            None => sum,
        })
    }

    fn page(&self, number: usize) -> Option<&Page> {
        let chunk = self.chunks.get(number / PAGES_PER_CHUNK)?;
        chunk[number % PAGES_PER_CHUNK].as_deref()
    }

    fn page_mut(&mut self, number: usize) -> &mut [Sector; SECTORS_PER_PAGE] {
        let chunk = number / PAGES_PER_CHUNK;
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, Arc::default);
        }
        let chunk = Arc::make_mut(&mut self.chunks[chunk]);
        let page = chunk[number % PAGES_PER_CHUNK].get_or_insert_with(Page::zero);
        let page = Arc::make_mut(page);
        page.sum = OnceLock::new();
        &mut page.sectors
    }

    fn drop_page(&mut self, number: usize) {
        let slot = number % PAGES_PER_CHUNK;
        match self.chunks.get_mut(number / PAGES_PER_CHUNK) {
            Some(chunk) if chunk[slot].is_some() => Arc::make_mut(chunk)[slot] = None,
            _ => {}
        }
    }
}

impl Page {
    fn zero() -> Arc<Page> {
        Arc::new(Page { sectors: [ZERO_SECTOR; SECTORS_PER_PAGE], sum: OnceLock::from(0) })
    }

    fn sum(&self, number: usize) -> u128 {
        *self.sum.get_or_init(|| {
            let first = (number * SECTORS_PER_PAGE) as u64;
            let sums = (first..).zip(&self.sectors).map(|(n, bytes)| sector_sum(n, bytes));
            sums.fold(0, u128::wrapping_add)
        })
    }
}

/// What one sector adds to the sum of an image. A zero sector adds nothing, so that a hole and
/// written zeros are one state.
pub(crate) fn sector_sum(number: u64, bytes: &Sector) -> u128 {
    if *bytes == ZERO_SECTOR { 0 } else { xxh3_128_with_seed(bytes, number) }
}

/// A place in a page.
struct At {
    page: usize,
    byte: usize,
}

/// Cuts a range of a file into its pages: where each part starts, and which bytes of the caller's
/// buffer it is.
fn split(offset: u64, len: usize) -> impl Iterator<Item = (At, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset as usize + done;
        let (page, byte) = (at / PAGE_BYTES, at % PAGE_BYTES);
        let part = done..len.min(done + PAGE_BYTES - byte);
        done = part.end;
        Some((At { page, byte }, part))
    })
}

#[cfg(test)]
mod tests {
    use super::{Image, SECTOR_BYTES};
    use crate::env::rng::Rng;

    #[test]
    fn behaves_like_a_vector_of_bytes() {
        let (mut image, mut model) = (Image::default(), Vec::new());
        let mut rng = Rng::seeded(1);
        for step in 0..2000u64 {
            let offset = rng.below(200_000) as usize;
            let bytes = vec![(step % 3) as u8; rng.below(9000) as usize + 1];
            match rng.below(4) {
                0 => {
                    image.set_len(offset as u64);
                    model.resize(offset, 0);
                }
                _ => {
                    image.write(&bytes, offset as u64);
                    model.resize(model.len().max(offset + bytes.len()), 0);
                    model[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
            }
            assert_eq!(image.len(), model.len() as u64);
        }
        let mut all = vec![1; model.len()];
        image.read(&mut all, 0);
        assert!(all == model);
    }

    #[test]
    fn equal_bytes_have_equal_sums_whatever_the_history() {
        let mut written = Image::default();
        written.write(&[7; 5000], 0);
        let copy = written.clone();
        written.write(&[0; 8192], 8192);
        written.put_sector(3, &[9; SECTOR_BYTES]);
        assert_ne!(written.sum(), copy.sum());
        written.put_sector(3, &[7; SECTOR_BYTES]);
        written.set_len(5000);
        assert_eq!(written.sum(), copy.sum());
        assert_eq!(written.written_sectors_from(8), [8, 9]);
    }
}
