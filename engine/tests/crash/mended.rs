//! Damage that is being mended when the power fails or the process dies: a copy of root or manifest
//! that the next open or the scrub writes anew, and a log whose commits the scrub brings to files.
//! All that was acknowledged is there, or the damage is told as it was before.

use crate::explore::{Depth, Explorer, Tally};
use crate::fates::fates;
use crate::model::{History, Need};
use crate::opening::DIR;
use crate::ops::Op;
use crate::run::Run;
use crate::stop::Stop;
use crate::verdict;
use crate::workload::small;
use std::path::Path;
use std::sync::Arc;
use tabulith::error::Error;
use tabulith::options::Durability;
use tabulith::verify;
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::mem::{Profile, SimFs};
use tabulith_testkit::counts::{self, count};

/// States that a power loss leaves, of each crash point of a log that is renewed.
const STATES: usize = 24;

/// A database at rest with files of every kind, and commits that the log alone has on disk.
fn house() -> (SimFs, Run) {
    let put = |pk, rk, bytes| {
        let rows = vec![(rk, Some(bytes)), (rk + 1, Some(40))];
        Op::Write { table: 0, pk, rows, level: Durability::Synced, wait: true }
    };
    let (table, level) = (0, Durability::Synced);
    let work = [
        Op::Create(0),
        put(0, 0, 700),
        Op::Fill { table, pk: 1, level, wait: true },
        Op::Flush,
        Op::Erase { table, pk: 1, from: 0, to: None, level, wait: true },
        put(0, 1, 900),
        Op::Compact,
        Op::Create(1),
        put(0, 3, 60),
        put(2, 0, 1500),
        put(2, 1, 30),
        put(0, 0, 200),
        put(2, 5, 90),
        Op::Idle, // The log is sealed.
    ];
    let sim = SimFs::new();
    let vfs = Arc::new(sim.clone());
    let mut run = Run::new(&sim, vfs, &small(), History::new(), Need::default());
    let outcome = run.open(|need| need.kill).and_then(|_| run.apply_all(&work));
    outcome.unwrap_or_else(|stop| panic!("{stop}"));
    (sim, run)
}

fn names(sim: &SimFs, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut names = sim.list(Path::new(DIR)).expect("the folder is there");
    names.retain(|name| is_wanted(name));
    names.sort();
    names
}

/// Another byte stands there, also after a power loss.
fn flip(sim: &SimFs, name: &str, at: u64) {
    let file = sim.open(&Path::new(DIR).join(name), Access::ReadWrite).expect("a file");
    let byte = file.read_vec_at(1, at).expect("a byte")[0];
    file.write_all_at(&[byte ^ 4], at).and_then(|()| file.sync()).expect("the simulated disk");
}

fn is_sound(sim: &SimFs) -> bool {
    let report = verify::check_with(Arc::new(sim.clone()), Path::new(DIR));
    report.expect("a look").is_clean()
}

/// What happens to a copy of the metadata.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Flipped,
    Removed,
}

fn damage_copy(sim: &SimFs, name: &str, harm: Harm) {
    let path = Path::new(DIR).join(name);
    match harm {
        Harm::Flipped => {
            let len = sim.open(&path, Access::Read).and_then(|file| file.len());
            flip(sim, name, len.expect("its length") / 2);
        }
        Harm::Removed => {
            let removed = sim.remove(&path).and_then(|()| sim.sync_dir(Path::new(DIR)));
            removed.expect("the simulated disk");
        }
    }
}

/// Who mends.
#[derive(Clone, Copy, Debug)]
enum Mender {
    Open,
    Scrub,
}

/// Damages a copy, has it mended, and crashes that after every effect.
fn mend(copy: usize, harm: Harm, mender: Mender) -> Tally {
    let (sim, run) = house();
    let copies = names(&sim, |name| name.starts_with("ROOT") || name.contains("manifest"));
    assert_eq!(copies.len(), 4, "{copies:?}");
    let place = format!("{}, {harm:?}, {mender:?}", copies[copy]);
    let need = run.history.promised(run.history.len());
    let (sim, run) = match mender {
        Mender::Scrub => (sim, run),
        Mender::Open => {
            let (killed, history) = (sim.fork(), run.history.clone());
            let vfs = Arc::new(killed.clone());
            (killed.clone(), Run::new(&killed, vfs, &small(), history, need))
        }
    };
    damage_copy(&sim, &copies[copy], harm);
    assert!(!is_sound(&sim), "{place}: it is seen");
    let mut run = run.recorded();
    let outcome = match mender {
        Mender::Open => run.open(|need| need.kill).map(drop),
        Mender::Scrub => run.scrub(),
    };
    outcome.unwrap_or_else(|stop| panic!("{place}: {stop}"));
    assert!(is_sound(&sim), "{place}: it is mended");
    let (run, mut all) = (run.finish(need), Tally::default());
    for profile in [Profile::Ordered, Profile::Hostile] {
        let depth = Depth {
            profile,
            states: 16,
            one_used_in: 32,
            one_nested_in: 64,
            levels: 1,
            nested_states: 4,
        };
        match Explorer::new(&run, &depth).all() {
            Ok(tally) => all += tally,
            Err(violation) => panic!("{place}, {profile:?}\n{violation}"),
        }
    }
    all
}

#[test]
fn a_damaged_copy_of_the_metadata_is_mended_and_cut_anywhere() {
    let (mut all, mut cases) = (Tally::default(), 0);
    for mender in [Mender::Open, Mender::Scrub] {
        for harm in [Harm::Flipped, Harm::Removed] {
            for copy in 0..4 {
                all += mend(copy, harm, mender);
                cases += 1;
            }
        }
    }
    let counts = [
        count("cases", cases, 16),
        count("kills", all.kills, 200),
        count("states", all.opened, 500),
        count("used", all.used(), 5),
    ];
    counts::tell("mended copies", &counts);
}

/// Damages the oldest commit that the log alone has; gives the segment.
fn damage_log(sim: &SimFs) -> String {
    for name in names(sim, |name| name.ends_with(".wal")) {
        let file = sim.open(&Path::new(DIR).join(&name), Access::Read).expect("a segment");
        for at in (512..file.len().expect("its length")).step_by(64) {
            flip(sim, &name, at);
            if !is_sound(sim) {
                return name;
            }
            flip(sim, &name, at);
        }
    }
    panic!("no byte of the log counts");
}

#[test]
fn a_damaged_log_is_renewed_and_cut_anywhere() {
    let (sim, mut run) = house();
    let segment = damage_log(&sim);
    assert!(refusal(&run, &sim.fork(), &segment, "before").is_some(), "it counts");
    let trace = sim.record();
    run.scrub().unwrap_or_else(|stop| panic!("{stop}"));
    assert!(is_sound(&sim), "{segment} is not needed any more");
    let (mut refused, mut whole, done) = (0, 0, trace.len());
    for n in 0..=done {
        let disk = trace.at(n).expect("the trace goes that far");
        for (how, fs) in &fates(&disk, STATES, n as u64) {
            let place = format!("after effect {n} of {done}, {how}");
            match refusal(&run, fs, &segment, &place) {
                None => whole += 1,
                Some(error) => {
                    assert!(n < done, "{place}: {error:?}");
                    refused += 1;
                }
            }
        }
    }
    let counts = [count("refused", refused, 50), count("whole", whole, 10)];
    counts::tell("mended log", &counts);
}

/// Why `fs` does not open, if it does not; it must be for the damaged segment. What opens has all
/// that was acknowledged.
fn refusal(run: &Run, fs: &SimFs, segment: &str, place: &str) -> Option<Error> {
    match run.judge(fs, |need| need.power) {
        Ok(_) => None,
        Err(Stop::Refused(error)) => {
            assert!(verdict::names_one_of(&error, &[segment]), "{place}: {error:?}");
            Some(error)
        }
        Err(stop) => panic!("{place}: {stop}"),
    }
}
