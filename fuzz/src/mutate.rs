//! The mutator: from good inputs to nearly good ones. Equal seeds give equal inputs for ever, as
//! long as the corpus stays.
//!
//! Absent: feedback. Which branches an input reaches is not known here; the corpus, the words of a
//! target and the checksums that targets mend take its place. cargo-fuzz has feedback: README.md.

use tabulith_testkit::seed::Rng;

/// Changes of one input, one upon the other: mostly few, so that most of it still holds.
const CHANGES_MAX: usize = 6;

/// Longest piece that is inserted, repeated or removed at once.
const PIECE_BYTES_MAX: usize = 64;

/// Numbers at the edges of lengths, counts and signs.
const EDGES: [u64; 14] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX,
];

/// Makes inputs for one target.
#[derive(Clone, Copy, Debug)]
pub struct Mutator<'a> {
    /// Inputs to begin with.
    pub corpus: &'a [Vec<u8>],
    /// Words that mean something to the target.
    pub words: &'a [&'a str],
    /// Longest input.
    pub bytes_max: usize,
}

impl Mutator<'_> {
    /// The input number `index` of a run with `seed`.
    pub fn input(&self, seed: u64, index: u64) -> Vec<u8> {
        let mut rng = Rng::new(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // The first numbers of neighbouring seeds are alike in nothing, yet the seeds themselves
        // are.
        let mut rng = Rng::new(rng.next_u64());
        let mut input = match self.corpus {
            [] => Vec::new(),
            _ if rng.chance(2) => Vec::new(),
            corpus => rng.pick(corpus).clone(),
        };
        if rng.chance(15) {
            self.splice(&mut rng, &mut input);
        }
        for _ in 0..1 + rng.skewed_below(CHANGES_MAX) {
            self.change(&mut rng, &mut input);
        }
        input.truncate(self.bytes_max);
        input
    }

    /// The front of the input and the back of another.
    fn splice(&self, rng: &mut Rng, input: &mut Vec<u8>) {
        if self.corpus.is_empty() {
            return;
        }
        let other = rng.pick(self.corpus);
        let (cut, from) = (rng.below(input.len() + 1), rng.below(other.len() + 1));
        input.truncate(cut);
        input.extend_from_slice(&other[from..]);
    }

    fn change(&self, rng: &mut Rng, input: &mut Vec<u8>) {
        if input.is_empty() {
            let len = rng.below(PIECE_BYTES_MAX);
            *input = rng.bytes(len);
        }
        let at = place(rng, input);
        let behind = input.len() - at;
        let len = (1 + rng.skewed_below(PIECE_BYTES_MAX)).min(behind);
        match rng.below(12) {
            0 | 1 if behind > 0 => input[at] ^= 1 << rng.below(8),
            2 if behind > 0 => input[at] = rng.next_u64() as u8,
            3 if behind > 0 => {
                input[at] = input[at].wrapping_add(rng.next_u64() as u8 % 9).wrapping_sub(4)
            }
            4 => overwrite_number(rng, &mut input[at..]),
            5 => {
                let len = 1 + rng.skewed_below(PIECE_BYTES_MAX);
                let piece = rng.bytes(len);
                insert(input, at, &piece);
            }
            6 | 7 if !self.words.is_empty() => {
                let word = rng.pick(self.words).as_bytes();
                if rng.chance(50) {
                    insert(input, at, word);
                } else {
                    let len = word.len().min(behind);
                    input.splice(at..at + len, word.iter().copied());
                }
            }
            8 => drop(input.drain(at..at + len)),
            9 => {
                let piece = input[at..at + len].to_vec();
                let times = if rng.chance(5) { 200 } else { 1 };
                insert(input, at, &piece.repeat(times));
            }
            10 => {
                let piece = input[at..at + len].to_vec();
                let to = rng.below(input.len() + 1);
                let end = (to + piece.len()).min(input.len());
                input.splice(to..end, piece);
            }
            _ => {
                // Cut off, sometimes by all but a little.
                let keep = if rng.chance(80) { input.len() - len } else { at };
                input.truncate(keep);
            }
        }
    }
}

/// A place in the input; more often one that says something than one among zeros, of which the
/// padding of files is made.
fn place(rng: &mut Rng, input: &[u8]) -> usize {
    let mut at = rng.below(input.len() + 1);
    for _ in 0..3 {
        if input.get(at) != Some(&0) {
            break;
        }
        at = rng.below(input.len() + 1);
    }
    at
}

fn insert(input: &mut Vec<u8>, at: usize, piece: &[u8]) {
    input.splice(at..at, piece.iter().copied());
}

/// A number of 1, 2, 4 or 8 bytes in either order, or a varint.
fn overwrite_number(rng: &mut Rng, bytes: &mut [u8]) {
    let number = match rng.below(3) {
        0 => rng.next_u64() >> rng.below(64),
        _ => rng.pick(&EDGES).wrapping_add(rng.below(3) as u64).wrapping_sub(1),
    };
    let len = (1 << rng.below(4)).min(bytes.len());
    let little = number.to_le_bytes();
    let big = number.to_be_bytes();
    match rng.below(3) {
        0 => bytes[..len].copy_from_slice(&big[8 - len..]),
        1 => bytes[..len].copy_from_slice(&little[..len]),
        _ => {
            let mut rest = number;
            for byte in bytes.iter_mut().take(10) {
                *byte = rest as u8 & 0x7f | if rest > 0x7f { 0x80 } else { 0 };
                rest >>= 7;
                if rest == 0 {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn inputs_differ_from_each_other_and_come_again_from_their_seed() {
        let corpus = [b"one good input".to_vec(), b"another, longer good input".to_vec()];
        let mutator = Mutator { corpus: &corpus, words: &["word"], bytes_max: 40 };
        let inputs: Vec<_> = (0..2000).map(|index| mutator.input(7, index)).collect();
        assert_eq!(inputs[1999], mutator.input(7, 1999));
        let different: HashSet<_> = inputs.iter().collect();
        assert!(different.len() > 1500, "{}", different.len());
        assert!(inputs.iter().all(|input| input.len() <= 40));
        let holding = |piece: &[u8]| {
            inputs.iter().filter(|input| input.windows(piece.len()).any(|w| w == piece)).count()
        };
        assert!(holding(b"word") > 100, "words are used");
        assert!(holding(b"good input") > 500, "most of a good input stays");
    }

    #[test]
    fn nothing_is_a_beginning_too() {
        let mutator = Mutator { corpus: &[], words: &[], bytes_max: 1000 };
        assert!((0..500).any(|index| !mutator.input(1, index).is_empty()));
    }
}
