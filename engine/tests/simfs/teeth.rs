//! Does the enumeration bite? A log of fifty lines, right and with planted bugs: each bug must be
//! found, and the right one must raise no alarm.
//!
//! The log overwrites a file that was filled with zeros and synced before, in groups of records
//! that share a sync, each record padded to a sector: what the engine's own log does.

use std::io;
use std::path::Path;
use std::sync::Arc;
use tabulith::env::rng::Rng;
use tabulith::vfs::api::{Access, File, Vfs};
use tabulith::vfs::mem::{Profile, SimFs, Trace};

const LOG: &str = "/db/log";
const LOG_BYTES: usize = 16 << 10;
const HEADER_BYTES: usize = 12;
const RECORDS: u64 = 12;
const STATES_PER_CRASH: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bug {
    None,
    AcknowledgesBeforeSync,
    ChecksumsHeaderOnly,
    SkipsBadRecord,
    ForgetsFolderSync,
    ServesUnsyncedTail,
}

#[test]
fn the_right_log_raises_no_alarm() -> io::Result<()> {
    let mut all = 0;
    for seed in 0..20 {
        let (states, found) = explore(Bug::None, seed)?;
        assert_eq!(found, None, "seed {seed}");
        all += states;
    }
    assert!(all > 20_000, "only {all} states: the test has lost its point");
    Ok(())
}

#[test]
fn planted_bugs_are_found() -> io::Result<()> {
    use Bug::{AcknowledgesBeforeSync, ChecksumsHeaderOnly, ForgetsFolderSync, SkipsBadRecord};
    let bugs = [AcknowledgesBeforeSync, ChecksumsHeaderOnly, SkipsBadRecord, ForgetsFolderSync];
    for bug in bugs {
        for seed in 1..4 {
            let (states, found) = explore(bug, seed)?;
            assert!(found.is_some(), "{bug:?} survived {states} states, seed {seed}");
        }
    }
    Ok(())
}

/// A process dies, the next one reads the cache and answers from it, then the power goes.
#[test]
fn what_recovery_showed_must_survive_the_next_power_loss() -> io::Result<()> {
    assert_eq!(explore_recovery(Bug::None)?, None);
    assert!(explore_recovery(Bug::ServesUnsyncedTail)?.is_some());
    Ok(())
}

/// Crashes after every effect of a run. Gives the number of states and the first alarm.
fn explore(bug: Bug, seed: u64) -> io::Result<(usize, Option<String>)> {
    let trace = run(bug, seed)?;
    let mut states = 0;
    for n in 0..=trace.len() {
        let acked = trace.marks(n).last().copied().unwrap_or(0);
        let disk = trace.at(n).ok_or(io::ErrorKind::NotFound)?;
        for state in disk.crash_states(Profile::Hostile, STATES_PER_CRASH, seed) {
            states += 1;
            if let Err(alarm) = check(&SimFs::after_crash(&state), bug, acked) {
                return Ok((states, Some(format!("after {n} effects, {state:?}: {alarm}"))));
            }
        }
    }
    Ok((states, None))
}

/// Kills the process after every effect, recovers, and cuts the power during and after that.
fn explore_recovery(bug: Bug) -> io::Result<Option<String>> {
    let trace = run(bug, 1)?;
    for n in 0..=trace.len() {
        let disk = trace.at(n).ok_or(io::ErrorKind::NotFound)?;
        let acked = trace.marks(n).last().copied().unwrap_or(0);
        let second = disk.record();
        second.mark(acked);
        let shown = recover(&disk, bug)?;
        second.mark(shown.len() as u64);
        for m in 0..=second.len() {
            let must = second.marks(m).last().copied().unwrap_or(0);
            let disk = second.at(m).ok_or(io::ErrorKind::NotFound)?;
            for state in disk.crash_states(Profile::Ordered, 40, 1) {
                if let Err(alarm) = check(&SimFs::after_crash(&state), bug, must) {
                    return Ok(Some(format!("killed after {n}, cut after {m}: {alarm}")));
                }
            }
        }
    }
    Ok(None)
}

/// What is recovered is a prefix of what was written, and reaches as far as was promised.
fn check(fs: &SimFs, bug: Bug, acked: u64) -> Result<(), String> {
    let found = recover(fs, bug).map_err(|e| e.to_string())?;
    if (found.len() as u64) < acked {
        return Err(format!("{} records of {acked} acknowledged", found.len()));
    }
    for (i, (seq, payload)) in (1..).zip(&found) {
        if *seq != i || *payload != payload_of(i) {
            return Err(format!("record {i} is not what was written"));
        }
    }
    Ok(())
}

fn run(bug: Bug, seed: u64) -> io::Result<Trace> {
    let fs = SimFs::new();
    let trace = fs.record();
    fs.create_dir_all(Path::new("/db"))?;
    let log = fs.create(Path::new(LOG))?;
    log.write_all_at(&[0; LOG_BYTES], 0)?;
    log.sync()?;
    if bug != Bug::ForgetsFolderSync {
        fs.sync_dir(Path::new("/db"))?;
    }
    let (mut rng, mut seq, mut offset) = (Rng::seeded(seed), 0, 0);
    while seq < RECORDS {
        for _ in 0..=rng.below(3) {
            seq += 1;
            offset = append(&*log, offset, seq, bug)?;
        }
        if bug == Bug::AcknowledgesBeforeSync {
            trace.mark(seq);
        }
        log.sync()?;
        trace.mark(seq);
    }
    Ok(trace)
}

fn append(log: &dyn File, offset: u64, seq: u64, bug: Bug) -> io::Result<u64> {
    let payload = payload_of(seq);
    let mut record = (seq as u32).to_le_bytes().to_vec();
    record.extend((payload.len() as u32).to_le_bytes());
    record.extend(checksum(&record, &payload, bug).to_le_bytes());
    record.extend(payload);
    record.resize(record.len().next_multiple_of(512), 0);
    log.write_all_at(&record, offset)?;
    Ok(offset + record.len() as u64)
}

/// The records, up to the first that does not verify.
fn recover(fs: &SimFs, bug: Bug) -> io::Result<Vec<(u64, Vec<u8>)>> {
    let log: Arc<dyn File> = match fs.open(Path::new(LOG), Access::ReadWrite) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    if bug != Bug::ServesUnsyncedTail {
        log.sync()?;
        fs.sync_dir(Path::new("/db"))?;
    }
    let mut bytes = vec![0; log.len()? as usize];
    log.read_exact_at(&mut bytes, 0)?;
    let (mut found, mut rest) = (Vec::new(), &bytes[..]);
    while rest.len() >= 512 {
        match parse(rest, bug) {
            Some((record, len)) => {
                found.push(record);
                rest = &rest[len..];
            }
            None if bug == Bug::SkipsBadRecord => rest = &rest[512..],
            None => break,
        }
    }
    Ok(found)
}

fn parse(bytes: &[u8], bug: Bug) -> Option<((u64, Vec<u8>), usize)> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let (seq, len, sum) = (word(0)?, word(4)? as usize, word(8)?);
    let payload = bytes.get(HEADER_BYTES..)?.get(..len)?;
    let verified = seq != 0 && checksum(&bytes[..8], payload, bug) == sum;
    let whole = (HEADER_BYTES + len).next_multiple_of(512);
    (verified && whole <= bytes.len()).then(|| ((u64::from(seq), payload.to_vec()), whole))
}

fn checksum(header: &[u8], payload: &[u8], bug: Bug) -> u32 {
    let payload = if bug == Bug::ChecksumsHeaderOnly { &[] } else { payload };
    crc32fast::hash(&[header, payload].concat())
}

fn payload_of(seq: u64) -> Vec<u8> {
    let mut rng = Rng::seeded(seq);
    (0..rng.below(1400)).map(|_| rng.next_u64() as u8).collect()
}
