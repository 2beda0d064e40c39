//! What may happen to files at rest.

use crate::corpus::{Corpus, contents, kind_of, path};
use crate::seals::{self, Stretches};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::mem::SimFs;
use tabulith_testkit::seed::Rng;

const SECTOR: usize = 512;

/// What happens to a file.
#[derive(Clone, Debug)]
pub(crate) enum Damage {
    Flip {
        at: usize,
        bit: u8,
    },
    Byte {
        at: usize,
        byte: u8,
    },
    /// Bytes that read as a large number.
    Number {
        at: usize,
        bytes: [u8; 4],
    },
    Zeros {
        at: usize,
        bytes: usize,
    },
    Garbage {
        at: usize,
        bytes: usize,
    },
    /// Bytes of the same file, from somewhere else in it.
    Moved {
        from: usize,
        to: usize,
        bytes: usize,
    },
    /// Bytes of another file, from the same place.
    Foreign {
        other: String,
        at: usize,
        bytes: usize,
    },
    Cut(usize),
    Longer {
        bytes: usize,
        byte: u8,
    },
    Removed,
    /// The file is another one of its kind.
    Becomes(String),
    /// The two have each other's name.
    Swapped(String),
    /// It is there a second time, under a name of its kind.
    Doubled(String),
    /// It is what it was at some time.
    Earlier(usize),
}

/// Kinds of damage as they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Bits,
    Sectors,
    Lengths,
    Files,
    /// Two at once, of any of these.
    Pairs,
    /// With the checksums made good again.
    Nonsense,
}

/// Damage to one file, or the same to it and its twin; and what else is damaged, if anything.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) class: Class,
    pub(crate) file: String,
    pub(crate) damage: Damage,
    /// Done to this file as well.
    pub(crate) twin: Option<String>,
    pub(crate) second: Option<Box<Case>>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { class, file, damage, twin, second } = self;
        write!(f, "{class:?} of {file}: {damage:?}")?;
        twin.as_ref().map_or(Ok(()), |twin| write!(f, ", and {twin}"))?;
        second.as_ref().map_or(Ok(()), |second| write!(f, "; then {second}"))
    }
}

/// The stretches of all table files and blob files of a corpus.
pub(crate) type Map = BTreeMap<String, Stretches>;

/// Where the checksums of a corpus are.
pub(crate) fn map_of(corpus: &Corpus) -> Map {
    let stretches =
        |(name, bytes): (&String, &Vec<u8>)| (name.clone(), seals::stretches(name, bytes));
    corpus.files.iter().map(stretches).collect()
}

impl Case {
    /// Does the damage.
    pub(crate) fn apply(&self, sim: &SimFs, corpus: &Corpus, map: &Map) -> io::Result<()> {
        for file in [Some(&self.file), self.twin.as_ref()].into_iter().flatten() {
            self.damage.apply(sim, corpus, file)?;
            if self.class == Class::Nonsense {
                let mut bytes = contents(sim, file);
                let stretches = map.get(file).map_or(&[][..], Vec::as_slice);
                seals::seal(file, &mut bytes, stretches);
                sim.open(&path(file), Access::ReadWrite)?.write_all_at(&bytes, 0)?;
            }
        }
        self.second.as_ref().map_or(Ok(()), |second| second.apply(sim, corpus, map))
    }

    /// Itself, and what else is damaged.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Case> {
        std::iter::once(self).chain(self.second.as_deref())
    }

    /// The files that are not what they were.
    pub(crate) fn files(&self) -> Vec<&str> {
        self.each().flat_map(Case::own_files).collect()
    }

    fn own_files(&self) -> impl Iterator<Item = &str> {
        let other = match &self.damage {
            Damage::Swapped(other) | Damage::Doubled(other) => Some(other.as_str()),
            _ => None,
        };
        [Some(self.file.as_str()), self.twin.as_deref(), other].into_iter().flatten()
    }

    /// Whether both can be done to one folder: to files of their own, or to places of one file.
    fn goes_with(&self, other: &Case) -> bool {
        let places =
            self.file == other.file && self.damage.is_in_place() && other.damage.is_in_place();
        places || self.files().iter().all(|file| !other.files().contains(file))
    }
}

impl Damage {
    /// Whether the file stays, with other bytes in some place.
    pub(crate) fn is_in_place(&self) -> bool {
        use Damage::{Byte, Flip, Foreign, Garbage, Moved, Number, Zeros};
        matches!(
            self,
            Flip { .. }
                | Byte { .. }
                | Number { .. }
                | Zeros { .. }
                | Garbage { .. }
                | Moved { .. }
                | Foreign { .. }
        )
    }

    fn apply(&self, sim: &SimFs, corpus: &Corpus, name: &str) -> io::Result<()> {
        let whole = |name: &str, bytes: &[u8]| -> io::Result<()> {
            let file = sim.open(&path(name), Access::ReadWrite)?;
            file.set_len(bytes.len() as u64)?;
            file.write_all_at(bytes, 0)
        };
        let file = sim.open(&path(name), Access::ReadWrite)?;
        let write = |at: usize, bytes: &[u8]| file.write_all_at(bytes, at as u64);
        let (own, len) = (&corpus.files[name], corpus.files[name].len());
        match self {
            Damage::Flip { at, bit } => write(*at, &[own[*at] ^ 1 << bit]),
            Damage::Byte { at, byte } => write(*at, &[*byte]),
            Damage::Number { at, bytes } => write(*at, bytes),
            Damage::Zeros { at, bytes } => write(*at, &vec![0; *bytes]),
            Damage::Garbage { at, bytes } => write(*at, &Rng::new(*at as u64).bytes(*bytes)),
            Damage::Moved { from, to, bytes } => write(*to, &own[*from..from + bytes]),
            Damage::Foreign { other, at, bytes } => {
                write(*at, &corpus.files[other][*at..at + bytes])
            }
            Damage::Cut(len) => file.set_len(*len as u64),
            Damage::Longer { bytes, byte } => write(len, &vec![*byte; *bytes]),
            Damage::Removed => sim.remove(&path(name)),
            Damage::Becomes(other) => whole(name, &corpus.files[other]),
            Damage::Swapped(other) => {
                whole(name, &corpus.files[other]).and_then(|()| whole(other, own))
            }
            Damage::Doubled(as_name) => {
                sim.create(&path(as_name)).and_then(|file| file.write_all_at(own, 0))
            }
            Damage::Earlier(time) => whole(name, &corpus.earlier[name][*time]),
        }
    }
}

/// All damage that is tried, without that to checksums that are made good. One byte in `step` is
/// changed, and one length in `step` is cut to: others for another `seed`.
pub(crate) fn all(corpus: &Corpus, map: &Map, step: usize, seed: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    // Counts over all files, so that small ones are not left out, nor the same bits of each byte.
    let mut turn = seed as usize % step;
    let mut is_due = move || {
        turn += 1;
        turn.is_multiple_of(step)
    };
    for (file, bytes) in &corpus.files {
        let used = used_bytes(bytes);
        let mut add = |class, damage| {
            cases.push(Case { class, file: file.clone(), damage, twin: None, second: None });
        };
        for at in (0..used).chain((used..bytes.len()).step_by(37)) {
            for bit in (0..8).filter(|_| is_due()) {
                add(Class::Bits, Damage::Flip { at, bit });
            }
            for byte in [0, 0xff].into_iter().filter(|_| is_due()) {
                add(Class::Bits, Damage::Byte { at, byte });
            }
        }
        sectors(corpus, file, bytes, &mut add);
        stretches_moved(&map[file], &mut add);
        for len in (0..used).chain((used..bytes.len()).step_by(37)).filter(|_| is_due()) {
            add(Class::Lengths, Damage::Cut(len));
        }
        for more in (1..=4096).filter(|more| more % 97 == 1 || [2, 511, 512, 4096].contains(more)) {
            let byte = if more % 2 == 0 { 0 } else { 0xa5 };
            add(Class::Lengths, Damage::Longer { bytes: more, byte });
        }
        add(Class::Files, Damage::Removed);
        for other in corpus.kin(file) {
            add(Class::Files, Damage::Becomes(other.clone()));
            add(Class::Files, Damage::Swapped(other));
        }
        if let Some(as_name) = free_name(corpus, file) {
            add(Class::Files, Damage::Doubled(as_name));
        }
        for time in 0..corpus.earlier.get(file).map_or(0, Vec::len) {
            add(Class::Files, Damage::Earlier(time));
        }
    }
    // Each of the two could be made good by the other.
    let (file, twin) = ("ROOT-A".to_owned(), Some("ROOT-B".to_owned()));
    let damage = Damage::Removed;
    cases.push(Case { class: Class::Files, file, damage, twin, second: None });
    cases
}

/// Two of `cases` at once, by chance, each class as often as another.
pub(crate) fn pairs(cases: &[Case], count: usize, seed: u64) -> Vec<Case> {
    let classes = [Class::Bits, Class::Sectors, Class::Lengths, Class::Files];
    let classes = classes.map(|class| cases.iter().filter(|case| case.class == class).collect());
    let classes: Vec<Vec<&Case>> = classes.into();
    let (mut rng, mut pairs) = (Rng::new(seed), Vec::new());
    while pairs.len() < count {
        let [first, second] = [0, 1].map(|_| {
            let class = rng.below(classes.len());
            (*rng.pick(&classes[class])).clone()
        });
        if first.goes_with(&second) {
            pairs.push(Case { class: Class::Pairs, second: Some(Box::new(second)), ..first });
        }
    }
    pairs
}

/// Bytes before the zeros that a file ends in, and some of those.
fn used_bytes(bytes: &[u8]) -> usize {
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.len().min(used + 64)
}

fn sectors(corpus: &Corpus, file: &str, own: &[u8], add: &mut impl FnMut(Class, Damage)) {
    let len = own.len();
    for at in (0..len).step_by(SECTOR) {
        let bytes = (len - at).min(SECTOR);
        add(Class::Sectors, Damage::Zeros { at, bytes });
        add(Class::Sectors, Damage::Garbage { at, bytes });
        for from in [(at + SECTOR) % len.next_multiple_of(SECTOR), 0, len / 2 / SECTOR * SECTOR] {
            if from != at && from + bytes <= len {
                add(Class::Sectors, Damage::Moved { from, to: at, bytes });
            }
        }
        for (other, theirs) in corpus.files.iter().filter(|(other, _)| *other != file) {
            if at + bytes <= theirs.len() && kind_of(other) == kind_of(file) {
                let other = other.clone();
                add(Class::Sectors, Damage::Foreign { other, at, bytes });
            }
        }
    }
}

/// What is sealed as a whole lies in another such place.
fn stretches_moved(stretches: &Stretches, add: &mut impl FnMut(Class, Damage)) {
    for (i, to) in stretches.iter().enumerate() {
        let equal =
            stretches.iter().enumerate().filter(|(j, from)| *j != i && from.len() == to.len());
        for (_, from) in equal {
            let (from, to, bytes) = (from.start, to.start, to.len());
            add(Class::Sectors, Damage::Moved { from, to, bytes });
        }
    }
}

/// A name of the same kind that nobody has.
fn free_name(corpus: &Corpus, file: &str) -> Option<String> {
    let (_, kind) = file.split_once('.')?;
    let last = corpus.files.keys().map(|name| seals::number_of(name)).max()?;
    Some(format!("{:06}.{kind}", last + 1))
}

/// Damage whose checksums are made good: to metadata in both copies, as one would make up for the
/// other. One byte in `step` is changed.
pub(crate) fn nonsense(corpus: &Corpus, step: usize, seed: u64) -> Vec<Case> {
    let (mut cases, mut turn) = (Vec::new(), seed as usize % step);
    for (file, bytes) in &corpus.files {
        let twin = match file {
            _ if file == "ROOT-A" => Some("ROOT-B".to_owned()),
            _ if file.ends_with(".manifest-a") => Some(file.replace("-a", "-b")),
            _ if file == "ROOT-B" || file.ends_with(".manifest-b") || file == "LOCK" => continue,
            _ => None,
        };
        let mut add = |damage| {
            turn += 1;
            if turn.is_multiple_of(step) || step == 1 {
                let (class, file, twin) = (Class::Nonsense, file.clone(), twin.clone());
                cases.push(Case { class, file, damage, twin, second: None });
            }
        };
        for at in 0..used_bytes(bytes) {
            (0..8).for_each(|bit| add(Damage::Flip { at, bit }));
            [0, 0x7f, 0x80, 0xff].into_iter().for_each(|byte| add(Damage::Byte { at, byte }));
            // As varints and as numbers of four bytes: lengths that a careless reader sets aside.
            for number in [[0x80, 0x80, 0x80, 0x08], [0xff; 4], [0, 0, 0, 0x10], [0, 0, 0, 0x04]] {
                if at + 4 <= bytes.len() {
                    add(Damage::Number { at, bytes: number });
                }
            }
        }
        for at in (0..bytes.len()).step_by(SECTOR) {
            add(Damage::Garbage { at, bytes: (bytes.len() - at).min(SECTOR) });
        }
    }
    cases
}
