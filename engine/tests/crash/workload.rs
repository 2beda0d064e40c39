//! What is done to the database before the crash: lists of operations, each made from a name, so
//! that a name replays them.

use crate::look::{ENTITIES, LONG_HISTORY};
use crate::ops::{Op, Owner, Verb};
use crate::settings;
use std::fmt;
use std::time::Duration;
use tabulith::Codec;
use tabulith::options::{Advanced, Compression, Durability, Options};
use tabulith_testkit::seed::Rng;

/// A list of steps, and the settings that it runs under.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) options: Options,
    pub(crate) ops: Vec<Op>,
}

/// A workload's family and its number in there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(pub Family, pub u64);

/// Kinds of workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// All sequences of three steps out of twenty-seven, after a short beginning.
    Triple,
    /// Long random lists, every commit durable.
    Random,
    /// The same with every durability.
    Mixed,
    /// A handful of steps, for crashes within crashes.
    Tiny,
    /// Commits that ask for no sync, over several segments of the log; frames that end with a
    /// block.
    Rolling,
    /// Memtables that are full one after the other, over several segments, before any is flushed.
    Filling,
    /// Rows that are gone after some steps, overwritten, merged, and their tables' time to live set
    /// and set again.
    Aging,
    /// Few entities, inserted, replaced, merged and removed in groups.
    Entities,
    /// One row counted up, until the log is long though little is in memory.
    Counting,
    /// Few rows, written again and again between opens with other options.
    Changing,
}

impl Family {
    const ALL: [(Family, &str); 10] = [
        (Family::Triple, "triple"),
        (Family::Random, "random"),
        (Family::Mixed, "mixed"),
        (Family::Tiny, "tiny"),
        (Family::Rolling, "rolling"),
        (Family::Filling, "filling"),
        (Family::Aging, "aging"),
        (Family::Entities, "entities"),
        (Family::Counting, "counting"),
        (Family::Changing, "changing"),
    ];
}

/// How many sequences [`Family::Triple`] has.
pub(crate) const TRIPLES: u64 = (STEPS as u64).pow(3);
const STEPS: usize = 27;

/// What a start after a crash is ahead of the newest commit, in ticks.
const SECOND: u64 = 10_000_000;

impl Family {
    /// The family of that name.
    pub(crate) fn named(name: &str) -> Option<Family> {
        Family::ALL.iter().find(|(_, own)| *own == name).map(|(family, _)| *family)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Family::ALL.iter().find(|(family, _)| *family == self.0).map_or("", |(_, t)| t);
        write!(f, "{text}:{}", self.1)
    }
}

impl Name {
    /// Reads `random:17`.
    pub(crate) fn parse(text: &str) -> Option<Name> {
        let (family, number) = text.split_once(':')?;
        Some(Name(Family::named(family)?, number.parse().ok()?))
    }

    /// The workload of that name.
    pub(crate) fn workload(self) -> Workload {
        let Name(family, number) = self;
        let mut rng = Rng::new(number ^ 0x1057);
        let (options, ops) = match family {
            Family::Triple => (small(), triple(number)),
            Family::Random => {
                let options = varied(number, &mut rng);
                let mut ops = random(&mut rng, 40, &[Durability::Synced]);
                let at = rng.between(1, ops.len());
                match number % 3 {
                    1 => {
                        let (pk, times) = (rng.below(3) as u8, rng.between(2, 6) as u8);
                        ops.insert(at, Op::Count { table: 0, pk, times });
                    }
                    2 => ops.insert(at, random_alter(&mut rng)),
                    _ => {}
                }
                (options, ops)
            }
            Family::Mixed => {
                use Durability::{Buffered, Flushed, Synced};
                let own = *rng.pick(&[Synced, Flushed, Buffered]);
                let options = Options { durability: own, ..varied(number, &mut rng) };
                (options, random(&mut rng, 40, &[Synced, Flushed, Flushed, Buffered]))
            }
            Family::Tiny => (small(), random(&mut rng, 6, &[Durability::Synced])),
            Family::Rolling => {
                let durability = *rng.pick(&[Durability::Synced, Durability::Flushed]);
                let small = varied(number, &mut rng);
                // Little is flushed for want of room, so that the log holds most of it.
                let memtable_bytes = match *rng.pick(&[10 << 10, 128 << 10]) {
                    // Writers take all of it: index and filters are read again at each use.
                    _ if has_one_budget(number) => Some(8 << 20),
                    bytes => Some(bytes),
                };
                let advanced = Advanced { memtable_bytes, ..small.advanced };
                (Options { durability, advanced, ..small }, rolling(&mut rng))
            }
            Family::Filling => {
                let small = varied(number, &mut rng);
                let memtable_bytes = Some(4 << 10);
                let advanced =
                    Advanced { memtable_bytes, wal_segment_bytes: 16 << 10, ..small.advanced };
                (Options { advanced, ..small }, filling(&mut rng))
            }
            Family::Aging => (varied(number, &mut rng), aging(&mut rng)),
            Family::Entities => (varied(number, &mut rng), groups(&mut rng)),
            Family::Counting => {
                let small = varied(number, &mut rng);
                (counted(small), counting(&mut rng))
            }
            Family::Changing => (varied(number, &mut rng), changing(&mut rng)),
        };
        Workload { options, ops }
    }
}

/// The smallest files there are: the fewer bytes, the more states per second.
pub(crate) fn small() -> Options {
    Options {
        advanced: Advanced {
            memtable_bytes: Some(4 << 10),
            wal_segment_bytes: 16 << 10,
            block_bytes: 256,
            file_bytes: 4 << 10,
            level_base_bytes: 4 << 10,
            level_fanout: 2,
            l0_compact_files: 2,
            block_cache_bytes: Some(1 << 20),
            blob_bytes_min: 500,
            blob_file_bytes: 4 << 10,
            scrub_period_s: 4, // A pass takes a moment of the steady clock.
            ..Advanced::default()
        },
        threads: Some(1),
        ..Options::default()
    }
}

/// The same with memtables that are not full when four segments of the log are.
pub(crate) fn counted(small: Options) -> Options {
    let advanced =
        Advanced { memtable_bytes: Some(16 << 10), wal_segment_bytes: 16 << 10, ..small.advanced };
    Options { advanced, ..small }
}

#[cfg(feature = "zstd")]
const CODECS: &[Codec] = &[Codec::None, Codec::Lz4, Codec::Zstd];
#[cfg(not(feature = "zstd"))]
const CODECS: &[Codec] = &[Codec::None, Codec::Lz4];

/// The least that a database may have in all.
const MEMORY_BYTES: usize = 32 << 20;

/// Whether a long workload has that, in place of as much as its settings ask for.
fn has_one_budget(number: u64) -> bool {
    number % 4 == 3
}

fn varied(number: u64, rng: &mut Rng) -> Options {
    let advanced = Advanced {
        l0_compact_files: rng.between(1, 3),
        filter_bits: *rng.pick(&[0, 10]),
        blob_bytes_min: *rng.pick(&[0, 50, 500]),
        compression: Compression { upper: *rng.pick(CODECS), bottom: *rng.pick(CODECS) },
        block_cache_bytes: Some(*rng.pick(&[0, 1 << 20])),
        memtable_bytes: Some(*rng.pick(&[4 << 10, 6 << 10])),
        wal_segment_bytes: *rng.pick(&[16 << 10, 20 << 10]),
        mapped: rng.chance(25),
        index_and_filter_bytes: [None, Some(0), Some(2 << 10)][(number / 3 % 3) as usize],
        ..small().advanced
    };
    // None, some operations, or all of a run.
    let history = *rng.pick(&[Duration::ZERO, Duration::from_micros(3), LONG_HISTORY]);
    // Merges are divided in two of three runs, as far as they are large enough.
    let threads = Some(1 + (number % 3) as usize);
    let memory = has_one_budget(number).then_some(MEMORY_BYTES);
    Options { advanced, history: Some(history), memory, threads, ..small() }
}

fn put(table: u8, pk: u8, rows: &[(u8, Option<u16>)], wait: bool) -> Op {
    Op::Write { table, pk, rows: rows.to_vec(), level: Durability::Synced, wait }
}

fn transact(table: u8, pk: u8, read: u8, rows: &[(u8, Option<u16>)]) -> Op {
    Op::Transact { table, pk, read, rows: rows.to_vec() }
}

/// The `number`-th sequence of three steps.
fn triple(number: u64) -> Vec<Op> {
    let steps: [fn(u8) -> Vec<Op>; STEPS] = [
        |n| vec![put(0, 0, &[(n, Some(60))], true)],
        |n| vec![put(0, 1, &[(0, Some(300)), (1, Some(900)), (2 + n, Some(20))], true)],
        |n| vec![put(0, 0, &[(0, None), (n, None)], true)],
        |n| vec![put(0, 0, &[(n, Some(40))], false), put(0, 1, &[(n, Some(600))], false)],
        |_| vec![Op::Flush],
        |_| vec![Op::Compact],
        |_| vec![Op::Drop(0), Op::Create(1)],
        |_| vec![Op::Idle],
        |_| vec![Op::Reopen],
        |_| vec![Op::Kill],
        // Fills the segment, so that the log changes to the next.
        |n| vec![put(0, 2, &[(n, Some(9000))], true)],
        |_| vec![Op::Drop(1), Op::Create(0), Op::Read],
        |n| vec![Op::Ingest { table: 0, pk: 0, rows: vec![(0, 50), (1 + n, 700)] }],
        |n| vec![Op::Truncate { table: 0, level: Durability::Synced, wait: n != 1 }],
        |_| vec![Op::Fill { table: 0, pk: 1, level: Durability::Synced, wait: true }],
        |n| {
            let to = (n == 1).then_some(8);
            vec![Op::Erase { table: 0, pk: 1, from: n, to, level: Durability::Synced, wait: n > 0 }]
        },
        |_| vec![Op::Settle],
        |n| vec![transact(0, 0, n, &[(0, None), (n, Some(50)), (7, Some(10))])],
        |n| vec![put(0, 0, &[(n, Some(35))], false), transact(0, 0, 0, &[(1, Some(9))]), Op::Urge],
        |n| {
            let later = [put(0, 0, &[(n, Some(25))], false), put(0, 1, &[(n, Some(90))], false)];
            [&later[..], &[Op::Notify, Op::Step, Op::Ask]].concat()
        },
        // One commit that is larger than a memtable and than a segment of the log.
        |n| vec![put(0, 2, &[0, 1, 2, 3, 4, 5].map(|rk| (rk + n, Some(3000))), n != 1)],
        // Gone by the step after next.
        |n| vec![Op::Life(Some(5)), put(0, 0, &[(0, Some(600)), (n, Some(20))], true)],
        // Gone for who opens after a second crash, and for most after the first.
        |n| vec![Op::Life(Some(SECOND + 2)), put(0, 1, &[(n, Some(30)), (4, Some(9))], n != 1)],
        |n| vec![Op::SetTtl { table: 0, ticks: [6, SECOND + 6, 0][usize::from(n)] }],
        |n| vec![put(0, 1, &[(n, Some(80))], false), Op::Peek],
        |_| vec![Op::Checkpoint],
        // Weaker than the database promises, and over the end of a segment.
        |n| {
            let level = [Durability::Flushed, Durability::Buffered][usize::from(n % 2)];
            let rows = vec![(n, Some(9000))];
            vec![Op::Write { table: 0, pk: 0, rows, level, wait: true }]
        },
    ];
    let mut ops = vec![Op::Create(0), put(0, 0, &[(0, Some(30)), (1, Some(30))], true)];
    let mut rest = number;
    for n in 0..3 {
        ops.extend(steps[(rest % STEPS as u64) as usize](n));
        rest /= STEPS as u64;
    }
    ops.push(Op::WaitAll);
    ops
}

/// What a frame with one row takes beside its value, where that is longer than 127 bytes.
const FRAME_BYTES: usize = 80;

fn rolling(rng: &mut Rng) -> Vec<Op> {
    let mut ops = vec![Op::Create(0)];
    let used_before = rng.chance(50);
    for rk in if used_before { 0..3 } else { 0..0 } {
        // Segments whose files are used again, with all of this in them.
        ops.push(put(0, 0, &[(rk, Some(4000)), (7, Some(100))], true));
        let bytes = (4 * 512 - FRAME_BYTES) as u16;
        ops.extend([0, 1, 2, 0, 1].map(|pk| put(0, pk, &[(rk, Some(bytes))], true)));
        ops.extend([Op::Flush, Op::Reopen]);
    }
    let before = ops.len();
    if rng.chance(30) {
        // The log begins in a segment of which nothing is durable, with what is in a file by then.
        let mut flushed = |bytes| Op::Write {
            table: 0,
            pk: 0,
            rows: vec![(rng.below(8) as u8, Some(bytes))],
            level: Durability::Flushed,
            wait: true,
        };
        ops.extend([6000, 6000, 6000, 6000].map(&mut flushed));
        ops.push(Op::Flush);
        ops.extend([300, 300, 300].map(&mut flushed));
    }
    while ops.len() < before + 13 {
        let level = *rng.pick(&[Durability::Flushed, Durability::Flushed, Durability::Buffered]);
        let level = if rng.chance(8) { Durability::Synced } else { level };
        let bytes = match rng.below(4) {
            // As many blocks as there are.
            0 | 1 => 512 * rng.between(1, 3) - FRAME_BYTES,
            2 => rng.between(0, 300),
            _ => rng.between(2000, 6000),
        };
        let rows = vec![(rng.below(8) as u8, Some(bytes as u16))];
        let pk = rng.below(2) as u8;
        ops.push(match rng.below(20) {
            0 => Op::Read,
            1 => Op::Step,
            2 => rng.pick(&[Op::Flush, Op::Reopen, Op::Kill, Op::Idle, Op::ClockBack]).clone(),
            _ => Op::Write { table: 0, pk, rows, level, wait: rng.chance(90) },
        });
    }
    ops
}

fn filling(rng: &mut Rng) -> Vec<Op> {
    let mut ops = vec![Op::Create(0)];
    while ops.len() < 14 {
        // Two of them fill a memtable, and five a segment of the log.
        let rows = vec![(rng.below(8) as u8, Some(rng.between(2500, 3500) as u16))];
        let (pk, level) = (rng.below(2) as u8, Durability::Synced);
        ops.push(match rng.below(20) {
            0 => Op::Step,
            1 => rng.pick(&[Op::Read, Op::Flush, Op::Kill, Op::Reopen, Op::Settle]).clone(),
            2 => Op::Drop(0),
            3 => Op::Create(0),
            _ => Op::Write { table: 0, pk, rows, level, wait: rng.chance(80) },
        });
    }
    ops
}

/// Few rows, so that most are written again and again.
fn aging(rng: &mut Rng) -> Vec<Op> {
    let mut ops = vec![Op::Create(0)];
    while ops.len() < 16 {
        let rows = |rng: &mut Rng| -> Vec<_> {
            let bytes = if rng.chance(20) { 2500 } else { 60 };
            (0..4).filter(|_| rng.chance(50)).map(|rk| (rk, Some(bytes))).collect()
        };
        ops.push(match rng.below(24) {
            0..6 => put(0, 0, &rows(rng), rng.chance(75)),
            6..10 => Op::Life(rng.chance(75).then(|| random_ticks(rng))),
            10..14 => {
                Op::SetTtl { table: 0, ticks: if rng.chance(60) { random_ticks(rng) } else { 0 } }
            }
            14..17 => Op::Flush,
            17 => Op::Compact,
            18 => Op::Settle,
            19 => Op::Step,
            20 => Op::Read,
            21 => Op::Reopen,
            22 => Op::Kill,
            _ => Op::ClockBack,
        });
    }
    ops
}

/// Twice as many small commits as make a long log, and what else there is beside them.
fn counting(rng: &mut Rng) -> Vec<Op> {
    let mut ops = vec![Op::Create(0), put(0, 0, &[(0, Some(30)), (1, Some(600))], true)];
    for _ in 0..2 {
        ops.push(Op::Count {
            table: 0,
            pk: rng.below(2) as u8,
            times: rng.between(136, 150) as u8,
        });
        for _ in 0..2 {
            ops.push(match rng.below(8) {
                0 => put(0, 0, &[(0, None), (2, Some(900))], false),
                1 => put(0, 1, &[(0, Some(70))], true),
                2 => Op::Read,
                3 => rng.pick(&[Op::Kill, Op::Reopen]).clone(),
                4 => rng.pick(&[Op::Flush, Op::Compact, Op::Step]).clone(),
                5 => Op::Checkpoint,
                6 => Op::SetTtl { table: 0, ticks: random_ticks(rng) },
                _ => Op::Life(rng.chance(50).then(|| random_ticks(rng))),
            });
        }
    }
    ops
}

/// Versions for a history window to keep, or not.
fn changing(rng: &mut Rng) -> Vec<Op> {
    use Durability::{Buffered, Flushed, Synced};
    let mut ops = vec![Op::Create(0)];
    while ops.len() < 20 {
        let op = match rng.below(24) {
            0..9 => {
                let value = |rng: &mut Rng| if rng.chance(20) { 1500 } else { 60 };
                let rows = (0..4).filter(|_| rng.chance(50)).collect::<Vec<_>>().into_iter();
                let rows = rows.map(|rk| (rk, (!rng.chance(20)).then_some(value(rng)))).collect();
                let level = *rng.pick(&[Synced, Synced, Flushed, Buffered]);
                Op::Write { table: 0, pk: 0, rows, level, wait: rng.chance(75) }
            }
            9..13 => random_alter(rng),
            13 | 14 => Op::Flush,
            15 => Op::Compact,
            16 => rng.pick(&[Op::Settle, Op::Idle]).clone(),
            17 => Op::Read,
            18 => Op::ReadQuiet,
            19 => rng.pick(&[Op::Kill, Op::Reopen]).clone(),
            20 => rng.pick(&[Op::Drop(0), Op::Checkpoint]).clone(),
            21 => Op::Create(0),
            22 => random_erase(rng, 0, &[Synced]),
            _ => Op::SetTtl { table: 0, ticks: if rng.chance(60) { random_ticks(rng) } else { 0 } },
        };
        // Time goes back to before a moment that was shown.
        let goes_back = matches!(op, Op::ReadQuiet) && rng.chance(50);
        ops.push(op);
        ops.extend(goes_back.then_some(Op::ClockBack));
    }
    ops
}

/// No window, none that is said, a short one, or one that is longer than all of it.
fn random_alter(rng: &mut Rng) -> Op {
    use Durability::{Buffered, Flushed, Synced};
    let long = Some(3600 * SECOND);
    Op::Alter {
        history: *rng.pick(&[None, None, Some(0), Some(30), long, long]),
        durability: *rng.pick(&[Synced, Synced, Flushed, Buffered]),
        blob_bytes_min: *rng.pick(&[0, 50, 500]),
        kill: rng.chance(40),
    }
}

fn groups(rng: &mut Rng) -> Vec<Op> {
    let mut ops = Vec::new();
    while ops.len() < 20 {
        ops.push(match rng.below(23) {
            0..13 => random_entities(rng, &[Durability::Synced, Durability::Flushed]),
            13..15 => Op::Flush,
            15 => rng.pick(&[Op::Compact, Op::Settle, Op::Idle]).clone(),
            16 => rng.pick(&[Op::Kill, Op::Reopen]).clone(),
            17 => rng.pick(&[Op::Checkpoint, Op::Export, Op::Hold]).clone(),
            18 => rng.pick(&[Op::Read, Op::Peek]).clone(),
            19 => Op::Declare { table: ENTITIES, columns: rng.below(4) as u8 },
            20 | 21 => random_setting(rng),
            _ => Op::Life(rng.chance(50).then(|| random_ticks(rng))),
        });
    }
    ops
}

fn random(rng: &mut Rng, count: usize, levels: &[Durability]) -> Vec<Op> {
    let mut ops = vec![Op::Create(0)];
    while ops.len() < count {
        let table = u8::from(rng.chance(25));
        ops.push(match rng.below(140) {
            0..32 => random_write(rng, table, levels),
            32..36 => random_transact(rng, table),
            36 => Op::Urge,
            37 | 38 => Op::Ask,
            39..42 => Op::Notify,
            42..48 => random_erase(rng, table, levels),
            48..54 => Op::WaitAll,
            54..60 => Op::Read,
            60..65 => Op::Create(table),
            65..68 => Op::Drop(table),
            68..74 => Op::Flush,
            74..78 => Op::Settle,
            78..81 => Op::Compact,
            81..88 => Op::Step,
            88..91 => Op::Idle,
            91..94 => Op::Reopen,
            94..96 => Op::Kill,
            96 => Op::ClockBack,
            97 => Op::Scrub,
            100..104 => Op::Life(rng.chance(70).then(|| random_ticks(rng))),
            104..108 if rng.chance(60) => Op::SetTtl { table, ticks: random_ticks(rng) },
            104..108 => Op::SetTtl { table, ticks: 0 },
            108 => Op::Declare { table, columns: rng.below(4) as u8 },
            109 => Op::Declare { table: ENTITIES, columns: rng.below(4) as u8 },
            110..113 => Op::Peek,
            113 | 114 => Op::Checkpoint,
            115..119 => Op::Hold,
            119..122 => Op::Export,
            122..134 => random_entities(rng, levels),
            134..138 => random_setting(rng),
            138 | 139 => Op::ReadQuiet,
            _ if rng.chance(40) => Op::CompactPartition { table, pk: rng.below(3) as u8 },
            _ => random_ingest(rng, table),
        });
    }
    ops
}

fn random_setting(rng: &mut Rng) -> Op {
    Op::Setting {
        owner: *rng.pick(&[Owner::Account, Owner::Table]),
        name: rng.below(settings::NAMES.into()) as u8,
        bytes: rng.chance(75).then(|| rng.between(0, 1500) as u16),
    }
}

/// Some steps, about until the start after a crash, or longer than everything.
fn random_ticks(rng: &mut Rng) -> u64 {
    match rng.below(4) {
        0 | 1 => 1 + rng.below(40) as u64,
        2 => SECOND - 60 + rng.below(120) as u64,
        _ => 3600 * SECOND,
    }
}

fn random_ingest(rng: &mut Rng, table: u8) -> Op {
    let numbers = (0..8).filter(|_| rng.chance(40)).collect::<Vec<_>>();
    let rows = numbers.into_iter().map(|rk| (rk, rng.between(0, 3000) as u16)).collect();
    Op::Ingest { table, pk: rng.below(3) as u8, rows }
}

/// Groups of entities mostly, and what else is done to their table.
fn random_entities(rng: &mut Rng, levels: &[Durability]) -> Op {
    let (table, pk) = (ENTITIES, rng.below(2) as u8);
    match rng.below(16) {
        0 => return Op::Drop(table),
        1 => return Op::CompactPartition { table, pk },
        2 => return Op::Truncate { table, level: *rng.pick(levels), wait: rng.chance(75) },
        3 => {
            return Op::SetTtl { table, ticks: if rng.chance(60) { random_ticks(rng) } else { 0 } };
        }
        _ => {}
    }
    let one = rng.chance(40).then(|| rng.below(4) as u8);
    let numbers = (0..4).filter(|rk| one.map_or(rng.chance(50), |one| one == *rk));
    let numbers: Vec<_> = numbers.collect();
    let change = |rk| {
        // One that is refused has all others of its group refused.
        let verb = match rng.below(if one.is_some() { 8 } else { 20 }) {
            0 => Verb::Insert,
            1 => Verb::Delete,
            n if n % 2 == 0 => Verb::Replace,
            _ => Verb::Merge,
        };
        (rk, verb, if rng.chance(85) { rng.between(0, 200) } else { rng.between(200, 3000) } as u16)
    };
    Op::Entities { pk, changes: numbers.into_iter().map(change).collect() }
}

fn random_erase(rng: &mut Rng, table: u8, levels: &[Durability]) -> Op {
    let (pk, level, wait) = (rng.below(3) as u8, *rng.pick(levels), rng.chance(75));
    match rng.below(6) {
        0..3 => Op::Fill { table, pk, level, wait },
        3 | 4 => {
            let from = rng.below(10) as u8;
            let to = rng.chance(50).then(|| rng.below(10) as u8);
            Op::Erase { table, pk, from, to, level, wait }
        }
        _ => Op::Truncate { table, level, wait },
    }
}

fn random_transact(rng: &mut Rng, table: u8) -> Op {
    let rows: Vec<_> = (0..8).filter(|_| rng.chance(25)).collect();
    let rows = rows.into_iter().map(|rk| {
        let bytes = rng.between(0, 400) as u16;
        (rk, (!rng.chance(20)).then_some(bytes))
    });
    let rows: Vec<_> = rows.collect();
    transact(table, rng.below(3) as u8, rng.below(8) as u8, &rows)
}

fn random_write(rng: &mut Rng, table: u8, levels: &[Durability]) -> Op {
    let rows = if rng.chance(50) { 1 } else { rng.between(2, 6) };
    let is_large = rng.chance(2); // Than a memtable, and mostly than a segment of the log.
    let rows = (0..if is_large { 8 } else { rows }).map(|_| {
        let bytes = match rng.below(100) {
            _ if is_large => rng.between(2500, 4500),
            0..70 => rng.between(0, 120),
            70..90 => rng.between(120, 900),
            90..98 => rng.between(900, 3000),
            _ => rng.between(3000, 9000),
        };
        (rng.below(8) as u8, (!rng.chance(20)).then_some(bytes as u16))
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    rows.dedup_by_key(|(rk, _)| *rk);
    let level = *rng.pick(levels);
    Op::Write { table, pk: rng.below(3) as u8, rows, level, wait: rng.chance(75) }
}
