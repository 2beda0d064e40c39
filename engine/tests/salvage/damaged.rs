//! Files that are flipped, overwritten, cut, lost or swapped: nothing is invented, nothing that was
//! not touched is missing, and the list of losses names whatever is.

use crate::judge::{Tally, check};
use crate::life::{DIR, life};
use std::path::Path;
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::mem::SimFs;
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed::{self, Replay, Rng};

const CASES: u64 = 400;
/// Damages of one folder.
const CASES_PER_LIFE: u64 = 20;

/// Damages a random file in a random way; tells what was done.
pub(crate) fn damage(sim: &SimFs, rng: &mut Rng) -> String {
    let mut names = sim.list(Path::new(DIR)).expect("the folder");
    names.retain(|name| name != "LOCK");
    names.sort();
    if names.is_empty() {
        return "nothing is left".to_owned();
    }
    let name = rng.pick(&names).clone();
    let path = Path::new(DIR).join(&name);
    let file = sim.open(&path, Access::ReadWrite).expect("a file");
    let len = file.len().expect("its length") as usize;
    let (kind, at) = (rng.below(12), rng.below(len.max(1)));
    let sector = at / 512 * 512;
    let bytes = (len - sector).min(512);
    let done = match kind {
        _ if len == 0 => Ok(()),
        0..=4 => {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at as u64).expect("a byte");
            file.write_all_at(&[byte[0] ^ 1 << rng.below(8)], at as u64)
        }
        5 => file.write_all_at(&rng.bytes(bytes), sector as u64),
        6 => file.write_all_at(&vec![0; bytes], sector as u64),
        7 => file.write_all_at(&rng.bytes(len - sector), sector as u64),
        8 => file.set_len(at as u64),
        9 => file.set_len((len + rng.between(1, 5000)) as u64),
        10 => sim.remove(&path),
        _ => {
            let other = Path::new(DIR).join(rng.pick(&names));
            let aside = Path::new("db/000000.tmp");
            let moved = sim.rename(&path, aside);
            let _ = sim.rename(&other, &path); // It may be the same file.
            moved.and_then(|()| sim.rename(aside, &other))
        }
    };
    done.expect("the simulated disk does it");
    format!("{name}: kind {kind} at {at} of {len}")
}

#[test]
fn what_is_salvaged_is_true_and_what_is_missing_is_listed() {
    let cases = seed::number("TABULITH_SALVAGES").unwrap_or(CASES);
    let first = seed::seed_or(1);
    let mut tally = Tally::default();
    let lives = cases.div_ceil(CASES_PER_LIFE);
    for number in 0..lives {
        let seed = first + number;
        let command = format!(
            "TABULITH_SALVAGES={CASES_PER_LIFE} cargo test -p tabulith --test salvage what_is"
        );
        let _replay = Replay::new(seed, command);
        let mut rng = Rng::new(seed);
        let (sim, _, model) = life(&mut rng);
        for _ in 0..CASES_PER_LIFE {
            let sim = sim.fork();
            let done: Vec<_> = (0..rng.between(1, 3)).map(|_| damage(&sim, &mut rng)).collect();
            check(&sim, &model, &mut tally).unwrap_or_else(|what| panic!("{done:#?}\n{what}"));
        }
    }
    let Tally { rows, lost, listed, whole, nothing } = tally;
    eprintln!(
        "{} salvages: {rows} rows, {lost} not as they were, {listed} on the list; {whole} whole, \
         {nothing} without a file",
        lives * CASES_PER_LIFE
    );
    counts::tell(
        "salvage",
        &[
            count("salvages", lives * CASES_PER_LIFE, cases),
            count("rows", rows, cases * 10),
            count("lost", lost, cases / 20),
        ],
    );
    assert!(listed < rows * 3 / 4, "a list of everything says nothing");
}
