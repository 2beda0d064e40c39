//! The bytes of a Parquet file, and what is asked of them before they are believed.
//!
//! Promise: no length that the file states makes the reader take more memory than the bounds below.

#![allow(clippy::disallowed_types, reason = "the files are the user's, not the engine's")]

use crate::columnar::footer;
use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

/// Most bytes of what stands at the end of a file and describes it.
const FOOTER_BYTES_MAX: u64 = 64 << 20;

/// Most bytes of a page once it is unpacked. Programs write pages of a mebibyte or so.
pub(crate) const PAGE_BYTES_MAX: i64 = 256 << 20;

/// Bytes of the length and the mark at the end of a file.
const TAIL_BYTES: u64 = 8;

/// A file.
pub(crate) struct Source {
    file: File,
    bytes: u64,
    /// Where the footer begins; reads before it begin at pages.
    footer: u64,
}

fn wrong(what: impl Into<String>) -> ParquetError {
    ParquetError::General(what.into())
}

impl Source {
    /// Takes a file whose footer has a length that can be.
    pub(crate) fn new(mut file: File) -> Result<Source> {
        let bytes = file.seek(SeekFrom::End(0))?;
        let start = bytes.checked_sub(TAIL_BYTES).ok_or_else(|| wrong("it is cut short"))?;
        file.seek(SeekFrom::Start(start))?;
        let mut tail = [0; 4];
        file.read_exact(&mut tail)?;
        let footer = u64::from(u32::from_le_bytes(tail));
        if footer > start || footer > FOOTER_BYTES_MAX {
            return Err(wrong(format!("its footer is said to have {footer} bytes")));
        }
        let mut stated = vec![0; footer as usize];
        file.seek(SeekFrom::Start(start - footer))?;
        file.read_exact(&mut stated)?;
        footer::check(&stated).map_err(wrong)?;
        Ok(Source { file, bytes, footer: start - footer })
    }

    fn at(&self, start: u64) -> Result<File> {
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(start))?;
        Ok(file)
    }

    /// Looks at the sizes that the page at a place states, before anybody makes room for them.
    fn check_page(&self, start: u64) -> Result<()> {
        let mut head = Vec::with_capacity(32);
        self.at(start)?.take(32).read_to_end(&mut head)?;
        // The header's first three members, in Thrift's compact form: kind, bytes, bytes as stored.
        let mut rest = &head[..];
        for at in 0..3 {
            let Some(value) = member(&mut rest) else { return Err(wrong("no page begins here")) };
            if at > 0 && !(0..=PAGE_BYTES_MAX).contains(&value) {
                return Err(wrong(format!("a page is said to have {value} bytes")));
            }
        }
        Ok(())
    }
}

/// A number that is the member behind the last one.
fn member(rest: &mut &[u8]) -> Option<i64> {
    // One further than the last, a number of 32 bits.
    let (0x15, after) = rest.split_first().map(|(first, after)| (*first, after))? else {
        return None;
    };
    *rest = after;
    let value = number(rest)?;
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

impl Length for Source {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for Source {
    type T = BufReader<File>;

    fn get_read(&self, start: u64) -> Result<BufReader<File>> {
        if start < self.footer {
            self.check_page(start)?;
        }
        Ok(BufReader::new(self.at(start)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = start.checked_add(length as u64);
        if end.is_none_or(|end| end > self.bytes) {
            return Err(wrong(format!("{length} bytes at {start} are beyond the end")));
        }
        let mut bytes = vec![0; length];
        self.at(start)?.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// Pages of a column, whose counts have been looked at.
pub(crate) struct Pages {
    /// What is looked at.
    pub(crate) pages: Box<dyn PageReader>,
    /// Whether a page begins with the levels that say which values are there.
    pub(crate) is_optional: bool,
}

impl Pages {
    fn checked(&self, page: Option<Page>) -> Result<Option<Page>> {
        match &page {
            // The library makes room for all of them at once.
            Some(Page::DictionaryPage { buf, num_values, .. })
                if *num_values as usize > buf.len() =>
            {
                let bytes = buf.len();
                return Err(wrong(format!("{num_values} values are said to be in {bytes} bytes")));
            }
            Some(Page::DataPage { buf, num_values, encoding, .. }) => {
                let levels = match buf.first_chunk::<4>() {
                    Some(length) if self.is_optional => 4 + u64::from(u32::from_le_bytes(*length)),
                    _ => 0,
                };
                check_lengths(buf, levels, *encoding, *num_values)?;
            }
            Some(Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            }) => {
                let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
                check_lengths(buf, levels, *encoding, *num_values)?;
            }
            Some(Page::DictionaryPage { .. }) | None => {}
        }
        Ok(page)
    }
}

/// Looks at the number of lengths that stand before texts, for which room is made at once.
fn check_lengths(page: &[u8], levels: u64, encoding: Encoding, values: u32) -> Result<()> {
    match encoding {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => {}
        // Its second number of lengths stands behind lengths of unknown size.
        Encoding::DELTA_BYTE_ARRAY => {
            return Err(wrong("stored as DELTA_BYTE_ARRAY, which is not read"));
        }
        _ => return Ok(()),
    }
    let mut rest = page.get(usize::try_from(levels)?..).unwrap_or_default();
    // Values of a block, its parts, and all lengths.
    let lengths = (0..3).map_while(|_| number(&mut rest)).nth(2);
    match lengths {
        Some(lengths) if lengths > u64::from(values) => {
            Err(wrong(format!("{lengths} lengths are said to be those of {values} values")))
        }
        _ => Ok(()),
    }
}

/// A number of seven bits a byte.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        self.checked(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}
