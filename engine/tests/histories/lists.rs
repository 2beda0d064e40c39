//! Transactions over one partition that append to lists and read them: strictly serializable, also
//! where the log fails under them.

use crate::house::{Ending, House, Watch, failures_min};
use std::sync::atomic::{AtomicU64, Ordering};
use tabulith::Partition;
use tabulith::error::Kind;
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::isolation::{self, Fate, Seen, Step, Transaction};
use tabulith_testkit::seed::{self, Replay, Rng};

const OPS_DEFAULT: u64 = 40_000;
const THREADS: usize = 4;
const STRETCH: usize = 150;
const STRETCHES: usize = 3;
const LISTS: u32 = 5;

#[test]
fn transactions_are_strictly_serializable_across_kills_and_power_losses() {
    let ops = seed::number("TABULITH_HISTORY_OPS").map_or(OPS_DEFAULT, |ops| ops / 5);
    let first = seed::seed_or(1);
    let mut all = Seen::default();
    let mut fates = [0_u64; 3];
    let (mut histories, mut failures) = (0, 0);
    while all.transactions < ops {
        let seed = first + histories;
        let _replay = Replay::new(
            seed,
            "TABULITH_HISTORY_OPS=1 cargo test -p tabulith --test histories transactions",
        );
        let (history, failed) = history(seed);
        for transaction in &history {
            fates[transaction.fate as usize] += 1;
        }
        match isolation::check(&history) {
            Ok(seen) => {
                all.transactions += seen.transactions;
                all.elements += seen.elements;
                all.edges += seen.edges;
            }
            Err(anomaly) => panic!("{anomaly}"),
        }
        histories += 1;
        failures += failed;
    }
    let [committed, aborted, unknown] = fates;
    eprintln!(
        "{} transactions in {histories} histories from seed {first} ({committed} committed, {aborted} \
         aborted, {unknown} amid a crash or after one of {failures} failures of the log), {} elements, \
         {} edges: 0 anomalies",
        all.transactions, all.elements, all.edges
    );
    let n = all.transactions;
    let counts = [
        count("transactions", n, ops),
        count("committed", committed, n / 4),
        count("aborted", aborted, n / 100),
        count("unknown", unknown, histories / 4),
        count("failures", failures, failures_min(histories)),
        count("elements", all.elements, n / 8),
        count("edges", all.edges, n),
    ];
    counts::tell("isolation", &counts);
}

/// What the threads of one database did, and how often its log failed.
fn history(seed: u64) -> (Vec<Transaction>, u64) {
    let mut rng = Rng::new(seed);
    let mut house = House::open(&mut rng);
    house.db.table("lists").expect("a table");
    let elements = AtomicU64::new(1);
    let mut history = Vec::new();
    let (mut now, mut failures) = (0, 0);
    for _ in 0..STRETCHES {
        let ending = house.ending(&mut rng);
        let all = (THREADS * STRETCH) as u64;
        let kill_at = match ending {
            Ending::Close => u64::MAX,
            _ => all / 4 + rng.below(all as usize / 4) as u64,
        };
        let watch = Watch::new(now, kill_at, &house);
        house.break_log(&mut rng);
        let seeds: Vec<u64> = (0..THREADS).map(|_| rng.next_u64()).collect();
        std::thread::scope(|scope| {
            let workers: Vec<_> = seeds
                .iter()
                .map(|seed| {
                    let (house, watch, elements) = (&house, &watch, &elements);
                    scope.spawn(move || work(Rng::new(*seed), house, watch, elements))
                })
                .collect();
            for worker in workers {
                history.extend(worker.join().expect("the worker says what went wrong"));
            }
        });
        now = watch.tick();
        failures += u64::from(watch.has_failed());
        house.reopen(ending, &mut rng);
    }
    let watch = Watch::new(now, u64::MAX, &house);
    let partition = house.db.table("lists").expect("a table").partition("p");
    history.extend(page(&partition, &watch));
    (history, failures)
}

fn work(mut rng: Rng, house: &House, watch: &Watch, elements: &AtomicU64) -> Vec<Transaction> {
    let mut history = Vec::new();
    let partition = match house.db.table("lists") {
        Ok(table) => table.partition("p"),
        Err(error) => {
            watch.excuse(&error);
            return history;
        }
    };
    for _ in 0..STRETCH {
        if !watch.goes_on(house) {
            break;
        }
        match rng.chance(25) {
            true => history.extend(page(&partition, watch)),
            false => history.extend(transaction(&partition, watch, &mut rng, elements)),
        }
    }
    history
}

/// All lists as of one moment, read by one scan.
fn page(partition: &Partition, watch: &Watch) -> Option<Transaction> {
    let begin = watch.tick();
    let rows = partition.scan::<&[u8]>(..).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let rows = match rows {
        Ok(rows) => rows,
        Err(error) => {
            watch.excuse_read(&error);
            return None;
        }
    };
    let steps = (0..LISTS).map(|list| {
        let row = rows.iter().find(|row| *row.row_key == list.to_be_bytes());
        Step::Read(list, row.map_or(Vec::new(), |row| decoded(&row.value)))
    });
    let steps = steps.collect();
    Some(Transaction { begin, end: watch.tick(), fate: Fate::Committed, steps })
}

fn transaction(
    partition: &Partition,
    watch: &Watch,
    rng: &mut Rng,
    elements: &AtomicU64,
) -> Option<Transaction> {
    let begin = watch.tick();
    let mut steps = Vec::new();
    let outcome = (|| {
        let mut open = partition.begin()?;
        for _ in 0..rng.between(1, 4) {
            let list = rng.below(LISTS as usize) as u32;
            let mut found = match rng.chance(20) {
                true => {
                    let rows = open.scan::<&[u8]>(..)?;
                    let row = rows.iter().find(|(rk, _)| **rk == list.to_be_bytes());
                    row.map_or(Vec::new(), |(_, row)| decoded(&row.value))
                }
                false => {
                    let row = open.get(list.to_be_bytes())?;
                    row.map_or(Vec::new(), |row| decoded(&row.value))
                }
            };
            steps.push(Step::Read(list, found.clone()));
            if rng.chance(60) {
                let element = elements.fetch_add(1, Ordering::Relaxed);
                found.push(element);
                open.put(list.to_be_bytes(), encoded(&found))?;
                steps.push(Step::Append(list, element));
            }
        }
        open.commit()
    })();
    let fate = match outcome {
        Ok(_) => Fate::Committed,
        Err(error) if error.kind() == Kind::Changed => Fate::Aborted,
        Err(error) => {
            watch.excuse(&error);
            Fate::Unknown
        }
    };
    Some(Transaction { begin, end: watch.tick(), fate, steps })
}

fn encoded(list: &[u64]) -> Vec<u8> {
    list.iter().flat_map(|element| element.to_le_bytes()).collect()
}

fn decoded(bytes: &[u8]) -> Vec<u64> {
    let (chunks, rest) = bytes.as_chunks::<8>();
    assert!(rest.is_empty(), "half an element");
    chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect()
}
