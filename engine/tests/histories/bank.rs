//! A bank: whatever is moved between accounts, their sum in one page stays what it is, also after
//! the log has failed.

use crate::house::{Ending, House, Watch};
use std::sync::atomic::{AtomicU64, Ordering};
use tabulith::Partition;
use tabulith::error::{Error, Kind};
use tabulith_testkit::seed::{self, Replay, Rng};

const ACCOUNTS: u64 = 7;
const EACH: u64 = 1_000;
const THREADS: usize = 4;
const STRETCH: usize = 1_000;

#[test]
fn nothing_is_gained_or_lost_between_accounts() {
    let seed = seed::seed_or(1);
    let _replay = Replay::new(seed, "cargo test -p tabulith --test histories nothing_is");
    let mut rng = Rng::new(seed);
    let (sums, moved, refused) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let mut failures = 0;
    for _ in 0..6 {
        let mut house = House::open(&mut rng);
        let table = house.db.table("bank").expect("a table");
        let mut batch = table.partition("p").batch();
        for account in 0..ACCOUNTS {
            batch = batch.upsert(account.to_be_bytes(), EACH.to_le_bytes());
        }
        batch.commit().expect("a sound disk");
        for _ in 0..3 {
            let ending = house.ending(&mut rng);
            let kill_at = match ending {
                Ending::Close => u64::MAX,
                _ => rng.below(THREADS * STRETCH / 2) as u64,
            };
            let watch = Watch::new(0, kill_at, &house);
            house.break_log(&mut rng);
            let seeds: Vec<u64> = (0..THREADS).map(|_| rng.next_u64()).collect();
            std::thread::scope(|scope| {
                for seed in &seeds {
                    let (house, watch) = (&house, &watch);
                    let (sums, moved, refused) = (&sums, &moved, &refused);
                    scope.spawn(move || {
                        let mut rng = Rng::new(*seed);
                        let partition = match house.db.table("bank") {
                            Ok(table) => table.partition("p"),
                            Err(error) => return watch.excuse(&error),
                        };
                        for _ in 0..STRETCH {
                            if !watch.goes_on(house) {
                                break;
                            }
                            let (counter, outcome) = match rng.chance(40) {
                                true => (sums, shown(&partition, watch)),
                                false => (moved, transfer(&partition, &mut rng)),
                            };
                            match outcome {
                                Ok(()) => counter.fetch_add(1, Ordering::Relaxed),
                                Err(error) if error.kind() == Kind::Changed => {
                                    refused.fetch_add(1, Ordering::Relaxed)
                                }
                                Err(error) => {
                                    watch.excuse(&error);
                                    break;
                                }
                            };
                        }
                    });
                }
            });
            failures += u64::from(watch.has_failed());
            house.reopen(ending, &mut rng);
            let table = house.db.table("bank").expect("a table");
            sum(&table.partition("p")).expect("a sound disk");
        }
    }
    let counts = [sums, moved, refused].map(AtomicU64::into_inner);
    let [sums, moved, refused] = counts;
    eprintln!(
        "{moved} transfers, {refused} refused, {sums} sums, {failures} failures of the log from seed \
         {seed}: 0 differences"
    );
    assert!(sums > 2_000 && moved > 2_000 && refused > 20 && failures > 0, "{counts:?}");
}

fn balance(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("a balance"))
}

/// Reads all accounts by one scan.
fn sum(partition: &Partition) -> Result<u64, Error> {
    let mut accounts = 0;
    let mut sum = 0;
    for row in partition.scan::<&[u8]>(..)? {
        accounts += 1;
        sum += balance(&row?.value);
    }
    assert_eq!((accounts, sum), (ACCOUNTS, ACCOUNTS * EACH), "accounts and their sum");
    Ok(sum)
}

/// The same while others work.
fn shown(partition: &Partition, watch: &Watch) -> Result<(), Error> {
    sum(partition).map(|_| ()).inspect_err(|error| watch.excuse_read(error))
}

fn transfer(partition: &Partition, rng: &mut Rng) -> Result<(), Error> {
    let (from, to) = (rng.below(ACCOUNTS as usize) as u64, rng.below(ACCOUNTS as usize) as u64);
    let mut open = partition.begin()?;
    let mut read = |account: u64| -> Result<u64, Error> {
        let row = open.get(account.to_be_bytes())?;
        Ok(balance(&row.expect("an account").value))
    };
    let (before, after) = (read(from)?, read(to)?);
    let amount = (rng.below(50) as u64).min(before);
    if from != to {
        open.put(from.to_be_bytes(), (before - amount).to_le_bytes())?;
        open.put(to.to_be_bytes(), (after + amount).to_le_bytes())?;
    }
    open.commit().map(|_| ())
}
