//! Arbitrary bytes read as what a target needs: numbers, slices, texts. Never fails: what is not
//! there is zero or empty.

/// Reads an input from its front.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// Reads `bytes`.
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes }
    }

    /// Whether all has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What has not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    /// The next four bytes, little-endian.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// A number below `end` from the next byte; `end` is 1 to 256.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    /// The next `len` bytes, or as many as there are.
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// A slice behind its length in one byte.
    pub fn short(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte());
        self.take(len)
    }

    /// A slice behind its length in four bytes; what [`put_long`] writes.
    pub fn long(&mut self) -> &'a [u8] {
        let len = self.u32() as usize;
        self.take(len)
    }
}

/// Appends `bytes` behind their length in one byte. They must be at most 255.
pub fn put_short(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(u8::try_from(bytes.len()).expect("a short slice"));
    out.extend_from_slice(bytes);
}

/// Appends `bytes` behind their length in four bytes.
pub fn put_long(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).expect("an input is far below 4 GiB");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(bytes);
}

/// The text that `bytes` are, broken UTF-8 replaced.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_comes_back_and_what_is_missing_is_empty() {
        let mut bytes = vec![9];
        put_short(&mut bytes, b"ab");
        put_long(&mut bytes, b"cde");
        let mut input = Input::new(&bytes);
        assert_eq!((input.byte(), input.short(), input.long()), (9, &b"ab"[..], &b"cde"[..]));
        assert!(input.is_empty());
        assert_eq!((input.u32(), input.short(), input.below(3)), (0, &b""[..], 0));
        assert_eq!(Input::new(&[200, 1]).short(), [1], "as much as there is");
    }
}
