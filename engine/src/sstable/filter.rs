//! Filters that say "not in this file" without a read: blocked Bloom filters over key hashes.
//!
//! A filter is an array of lines of 512 bits, each one cache line of memory. A hash picks one line
//! and up to 7 bits in it, so a probe is one cache miss. At 10 bits per key about 1 absent key in
//! 80 passes.
//!
//! ```text
//! size  field
//!    1  bits set per key: 1 to 7
//!  64n  lines, each 8 words of 64 bits
//! ```

use crate::prefetch;
use crate::sstable::format::Damage;

/// 7 positions of 9 bits are what one 64-bit hash holds; more bits per key than 10 still gain from
/// the lower load.
const PROBES_MAX: u32 = 7;
const LINE_BITS: usize = 512;
const LINE_BYTES: usize = LINE_BITS / 8;

/// Spreads the bits of the hash anew, so that the line and the bits in it are chosen apart.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A filter held in memory.
pub(crate) struct Filter {
    probes: u32,
    // Invariant: not empty.
    lines: Box<[Line]>,
}

/// Aligned, so that it never straddles two cache lines.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; 8]);

impl Filter {
    /// A filter of `bits_per_key` bits over `hashes`; duplicates do no harm.
    pub(crate) fn build(hashes: &[u64], bits_per_key: u32) -> Filter {
        let bits = hashes.len().saturating_mul(bits_per_key as usize);
        let lines = bits.div_ceil(LINE_BITS).clamp(1, u32::MAX as usize);
        // ln 2 bits per bit of space is best for a filter of one size.
        let probes = (bits_per_key * 7 / 10).clamp(1, PROBES_MAX);
        let mut filter = Filter { probes, lines: vec![Line([0; 8]); lines].into_boxed_slice() };
        // Planted (`planted.rs`) with the number: one key is not in the filter.
        for hash in hashes.iter().skip(usize::from(crate::planted!("B37"))) {
            let line = filter.line_of(*hash);
            for bit in positions(*hash, probes) {
                filter.lines[line].0[bit / 64] |= 1 << (bit % 64);
            }
        }
        filter
    }

    /// False only where no key of this hash was put in.
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        let line = &self.lines[self.line_of(hash)].0;
        positions(hash, self.probes).all(|bit| line[bit / 64] >> (bit % 64) & 1 == 1)
    }

    /// Starts fetching what a probe of `hash` will read.
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch::read(&self.lines[self.line_of(hash)]);
    }

    /// Bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * LINE_BYTES
    }

    /// Bits that a key sets, the share of all bits that are set, and of absent keys the share that
    /// it lets pass, as its lines are filled.
    pub(crate) fn fill(&self) -> (u32, f64, f64) {
        let lines = self.lines.len() as f64;
        let shares = self.lines.iter().map(|line| {
            f64::from(line.0.iter().map(|word| word.count_ones()).sum::<u32>()) / LINE_BITS as f64
        });
        let (set, passed) = shares.fold((0.0, 0.0), |(set, passed), share| {
            (set + share, passed + share.powi(self.probes.cast_signed()))
        });
        (self.probes, set / lines, passed / lines)
    }

    /// Appends its stored form.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(1 + self.bytes());
        out.push(self.probes as u8);
        for word in self.lines.iter().flat_map(|line| line.0) {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads what [`Filter::encode`] wrote.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Filter, Damage> {
        let damage = Damage("filter does not hold whole lines");
        let (probes, body) = bytes.split_first().ok_or(damage)?;
        let probes = u32::from(*probes);
        if !(1..=PROBES_MAX).contains(&probes) {
            return Err(Damage("filter sets an impossible number of bits"));
        }
        let whole = body.len().is_multiple_of(LINE_BYTES);
        if body.is_empty() || !whole || body.len() / LINE_BYTES > u32::MAX as usize {
            return Err(damage);
        }
        Ok(Filter { probes, lines: body.chunks_exact(LINE_BYTES).map(read_line).collect() })
    }

    fn line_of(&self, hash: u64) -> usize {
        // The high half scaled to the number of lines: a multiplication in place of a division.
        (((hash >> 32) * self.lines.len() as u64) >> 32) as usize
    }
}

fn positions(hash: u64, probes: u32) -> impl Iterator<Item = usize> {
    let spread = hash.wrapping_mul(SPREAD);
    (1..=probes).map(move |i| (spread >> (64 - 9 * i)) as usize % LINE_BITS)
}

fn read_line(bytes: &[u8]) -> Line {
    let mut line = Line([0; 8]);
    for (word, stored) in line.0.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*stored);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::rng::Rng;

    fn hashes(seed: u64, count: usize) -> Vec<u64> {
        let mut rng = Rng::seeded(seed);
        (0..count).map(|_| rng.next_u64()).collect()
    }

    #[test]
    fn what_was_put_in_always_passes_and_little_else_does() {
        for (bits, percent_max) in [(1, 80.0), (5, 15.0), (10, 1.7), (14, 0.6), (20, 0.2)] {
            let inside = hashes(1, 20_000);
            let filter = Filter::build(&inside, bits);
            assert!(inside.iter().all(|hash| filter.may_hold(*hash)), "{bits} bits");
            let absent = hashes(2, 100_000);
            let passed = absent.iter().filter(|hash| filter.may_hold(**hash)).count();
            let percent = passed as f64 * 100.0 / absent.len() as f64;
            assert!(percent < percent_max, "{bits} bits: {percent} % of absent keys pass");
        }
    }

    #[test]
    fn the_stored_form_comes_back() {
        for count in [0, 1, 51, 52, 1000] {
            let inside = hashes(3, count);
            let mut bytes = Vec::new();
            Filter::build(&inside, 10).encode(&mut bytes);
            let filter = Filter::decode(&bytes).expect("as written");
            assert!(inside.iter().all(|hash| filter.may_hold(*hash)));
            let mut again = Vec::new();
            filter.encode(&mut again);
            assert_eq!(bytes, again);
        }
    }

    #[test]
    fn what_is_not_a_filter_is_refused() {
        let line = [1; LINE_BYTES];
        for bytes in [&b""[..], b"\x07", &[&[0], &line[..]].concat(), &[&[8], &line[..]].concat()] {
            assert!(Filter::decode(bytes).is_err(), "{bytes:?}");
        }
        assert!(Filter::decode(&[&[7], &line[..]].concat()).is_ok());
        assert!(Filter::decode(&[&[7], &line[1..]].concat()).is_err());
    }
}
