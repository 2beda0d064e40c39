//! zstd, where this build has it: the cargo feature `zstd`. Used by `compress`.
//!
//! Promise: every build knows what bytes of zstd are, and says so where it cannot read them.

/// What a build without the feature says of values that are stored so.
pub(crate) const LACKING: &str =
    "values are compressed with zstd, which this build lacks (cargo feature `zstd`)";

pub(crate) use built::{Encoder, decompress_into};

#[cfg(feature = "zstd")]
mod built {
    use std::cell::Cell;
    use zstd::bulk::{Compressor, Decompressor};

    /// zstd's own default: 1 gives up a tenth of what is saved, 9 takes four times as long.
    const LEVEL: i32 = 3;

    /// Compresses one buffer after another in one context.
    pub(crate) struct Encoder(Option<Compressor<'static>>);

    impl Encoder {
        pub(crate) fn new() -> Encoder {
            Encoder(Compressor::new(LEVEL).ok())
        }

        /// Writes the compressed form of `raw` to `out`; its length, or `None` where it does not
        /// fit.
        pub(crate) fn compress_into(&mut self, raw: &[u8], out: &mut [u8]) -> Option<usize> {
            self.0.as_mut()?.compress_to_buffer(raw, out).ok()
        }
    }

    thread_local! {
        // A context takes 150 KiB and longer to make than a block to decompress.
        static DECODER: Cell<Option<Decompressor<'static>>> = const { Cell::new(None) };
    }

    /// Writes what `stored` was made from to `raw`; its length, otherwise what is wrong.
    pub(crate) fn decompress_into(stored: &[u8], raw: &mut [u8]) -> Result<usize, &'static str> {
        const BROKEN: &str = "values are not what zstd makes";
        // A thread that ends has nothing kept any more, and may still read in what it drops.
        let mut decoder = match DECODER.try_with(Cell::take).ok().flatten() {
            Some(decoder) => decoder,
            None => Decompressor::new().map_err(|_| BROKEN)?,
        };
        let len = decoder.decompress_to_buffer(stored, raw).map_err(|_| BROKEN);
        let _ = DECODER.try_with(|kept| kept.set(Some(decoder)));
        len
    }
}

#[cfg(not(feature = "zstd"))]
mod built {
    use crate::zstandard::LACKING;

    /// Compresses nothing. Options that ask for it are refused before.
    pub(crate) struct Encoder;

    impl Encoder {
        pub(crate) fn new() -> Encoder {
            Encoder
        }

        pub(crate) fn compress_into(&mut self, _raw: &[u8], _out: &mut [u8]) -> Option<usize> {
            None
        }
    }

    pub(crate) fn decompress_into(_stored: &[u8], _raw: &mut [u8]) -> Result<usize, &'static str> {
        Err(LACKING)
    }
}
