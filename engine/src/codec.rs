//! Bounded reading and writing of fixed integers, varints and length-prefixed slices.
//!
//! Promise: no read goes past its slice, and no length is trusted before it is compared with
//! what is left.

/// Appends `value` as a LEB128 varint: 1 to 10 bytes.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the length of `bytes` as a varint, then the bytes.
pub(crate) fn put_slice(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads a slice from the front; every method returns `None` where the bytes run out or make no
/// sense, and the caller names file and offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(len)?;
        self.rest = tail;
        Some(head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.rest.split_first_chunk::<N>()?;
        self.rest = tail;
        Some(*head)
    }

    /// A LEB128 varint of at most 64 bits in its shortest form; a longer form is refused, so that
    /// every value has one encoding.
    #[inline]
    pub(crate) fn varint(&mut self) -> Option<u64> {
        match self.rest.split_first() {
            Some((byte, rest)) if *byte < 0x80 => {
                self.rest = rest;
                Some(u64::from(*byte))
            }
            _ => self.varint_of_many(),
        }
    }

    fn varint_of_many(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return (byte != 0 || shift == 0).then_some(value);
            }
        }
        None
    }

    /// A varint that must not exceed `max`.
    #[inline]
    pub(crate) fn varint_max(&mut self, max: usize) -> Option<usize> {
        self.varint().and_then(|v| usize::try_from(v).ok()).filter(|v| *v <= max)
    }

    /// A length-prefixed slice of at most `max` bytes.
    pub(crate) fn slice(&mut self, max: usize) -> Option<&'a [u8]> {
        let len = self.varint_max(max)?;
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_come_back_and_have_one_form() {
        for value in [0, 1, 127, 128, 300, 1 << 21, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.varint(), Some(value));
            assert!(reader.is_empty());
            for cut in 0..bytes.len() {
                assert_eq!(Reader::new(&bytes[..cut]).varint(), None);
            }
        }
        assert_eq!(Reader::new(&[0x80, 0x00]).varint(), None, "a padded zero");
        assert_eq!(Reader::new(&[0xff; 10]).varint(), None, "more than 64 bits");
    }

    #[test]
    fn lengths_are_checked_before_they_are_trusted() {
        let mut bytes = Vec::new();
        put_slice(&mut bytes, b"abc");
        assert_eq!(Reader::new(&bytes).slice(3), Some(&b"abc"[..]));
        assert_eq!(Reader::new(&bytes).slice(2), None, "above its bound");
        bytes[0] = 200;
        assert_eq!(Reader::new(&bytes).slice(1000), None, "past the end");
    }
}
