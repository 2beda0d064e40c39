//! The stream below the reader of a CSV file: it finds the ends of records too, bounds them, and
//! knows their lines.

use std::collections::VecDeque;
use std::io::{self, Read};

/// Longest line of a JSON lines file, and longest record of CSV. An entity has 1 MiB; in JSON it is
/// at most six times that.
pub(crate) const LINE_BYTES_MAX: usize = 8 << 20;

/// The bytes of a CSV file up to a record that is too long, or that ends with the file between
/// quotes: with all that follows it such a record would be one cell, in memory.
///
/// It finds the ends of records as the reader above it does. A quote that does not begin a cell is
/// a character like any other.
pub(crate) struct Bounded<R> {
    input: R,
    place: Place,
    /// The line of the next byte.
    line: u64,
    /// The first line of the record.
    first: u64,
    /// Bytes of the record so far.
    bytes: usize,
    /// Bytes of the file so far.
    passed: u64,
    /// Of records that the reader above has not come to: where each begins, and its line.
    begun: VecDeque<(u64, u64)>,
}

/// Where the next byte of a CSV file stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At the beginning of a cell.
    Start,
    /// In a cell without quotes, or behind what closed them.
    Plain,
    /// Between quotes.
    Quoted,
    /// Behind a quote that closes the cell, unless another one follows.
    Closed,
}

impl<R> Bounded<R> {
    /// The bytes of `input`, from the beginning of the file.
    pub(crate) fn new(input: R) -> Bounded<R> {
        let (passed, begun) = (0, VecDeque::new());
        Bounded { input, place: Place::Start, line: 1, first: 1, bytes: 0, passed, begun }
    }

    /// The line on which the record begins that ends before the byte `end`, which counts from 0.
    /// The reader above counts a line where it reads on behind its end, and so takes blank lines
    /// for a part of the next record, and half of a CR LF.
    pub(crate) fn line_of(&mut self, end: u64) -> u64 {
        let mut line = 0;
        while let Some((begin, of)) = self.begun.front().copied()
            && begin < end
        {
            line = of;
            self.begun.pop_front();
        }
        line
    }

    fn pass(&mut self, byte: u8) {
        if self.bytes == 0 && !matches!(byte, b'\n' | b'\r') {
            self.begun.push_back((self.passed, self.line));
        }
        self.passed += 1;
        self.bytes += 1;
        self.line += u64::from(byte == b'\n');
        self.place = match (self.place, byte) {
            (Place::Quoted, b'"') => Place::Closed,
            (Place::Quoted, _) | (Place::Start | Place::Closed, b'"') => Place::Quoted,
            (_, b',') => Place::Start,
            (_, b'\n' | b'\r') => {
                (self.first, self.bytes) = (self.line, 0);
                Place::Start
            }
            _ => Place::Plain,
        };
    }

    fn refused(&self, why: &str) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, format!("line {}: {why}", self.first))
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(out)?;
        if read == 0 && !out.is_empty() && self.place == Place::Quoted {
            return Err(self.refused("a quote is never closed"));
        }
        for byte in &out[..read] {
            self.pass(*byte);
            if self.bytes > LINE_BYTES_MAX {
                let mib = LINE_BYTES_MAX >> 20;
                let why = format!("the record is longer than {mib} MiB; is a quote never closed?");
                return Err(self.refused(&why));
            }
        }
        Ok(read)
    }
}
