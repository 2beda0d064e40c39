//! Every adapter against a `BTreeMap`: the same operations, the same rows, in both directions and
//! after opening again, so that the numbers are of engines that do the work.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use tabulith::env::rng::Rng;
use tabulith_peers::adapters::open::open;
use tabulith_peers::engine::{Change, Direction, Engine, Key, Promise, Rows, Span};
use tabulith_peers::rows::{self, KeyBuf, PARTITION_ROWS, Values};
use tabulith_peers::settings::{Settings, engines, is_ceiling};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Rows that the operations choose from: three partitions.
const ROWS: u64 = 3 * PARTITION_ROWS;

#[test]
fn every_engine_holds_what_was_written() {
    for name in engines() {
        let promises: &[_] = if is_ceiling(name) {
            &[Promise::Unsynced]
        } else {
            &[Promise::Unsynced, Promise::Durable]
        };
        for &promise in promises {
            in_folder(name, |dir| {
                let settings = Settings::new(promise, 8 << 20);
                let engine = open(name, dir, &settings).unwrap();
                let mut model = Model::new();
                operate(&*engine, &mut model, if promise == Promise::Durable { 20 } else { 300 });
                compare(name, &*engine, &model);
                engine.settle().unwrap();
                compare(name, &*engine, &model);
                engine.close().unwrap();
                if !is_ceiling(name) {
                    let again = open(name, dir, &settings).unwrap();
                    compare(name, &*again, &model);
                    again.close().unwrap();
                }
            });
        }
    }
}

#[test]
fn large_values_come_back() {
    for name in engines() {
        in_folder(name, |dir| {
            let mut settings = Settings::new(Promise::Unsynced, 8 << 20);
            settings.large_values = true;
            let engine = open(name, dir, &settings).unwrap();
            let (mut key, mut values) = (KeyBuf::default(), Values::new(64 << 10, 1));
            let expected: Vec<Vec<u8>> = (0..8).map(|i| values.value(i, 0).to_vec()).collect();
            for (i, value) in expected.iter().enumerate() {
                engine.write(&[Change::Put(key.row(i as u64), value)]).unwrap();
            }
            engine.settle().unwrap();
            for (i, value) in expected.iter().enumerate() {
                assert_eq!(get(&*engine, key.row(i as u64)).as_ref(), Some(value), "{name}");
            }
            engine.close().unwrap();
        });
    }
}

#[test]
fn no_conditional_update_is_lost() {
    const THREADS: u64 = 4;
    const UPDATES: u64 = 50;
    for name in engines().into_iter().filter(|name| !name.ends_with("-raw")) {
        in_folder(name, |dir| {
            let mut settings = Settings::new(Promise::Unsynced, 8 << 20);
            settings.conditional = true;
            let engine = open(name, dir, &settings).unwrap();
            let first = Values::new(200, 1).value(0, 0).to_vec();
            engine.write(&[Change::Put(KeyBuf::default().row(0), &first)]).unwrap();
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        let mut values = Values::new(200, 1);
                        let mut done = 0;
                        while done < UPDATES {
                            let mut revise = |old: &[u8], new: &mut Vec<u8>| {
                                new.extend_from_slice(values.value(0, rows::revision_of(old) + 1));
                            };
                            let mut key = KeyBuf::default();
                            done += u64::from(engine.revise(key.row(0), &mut revise).unwrap());
                        }
                    });
                }
            });
            let last = get(&*engine, KeyBuf::default().row(0)).unwrap();
            assert_eq!(rows::revision_of(&last), THREADS * UPDATES, "{name}");
            engine.close().unwrap();
        });
    }
}

#[test]
fn what_is_dropped_is_gone() {
    for name in engines() {
        for whole_table in [false, true] {
            in_folder(name, |dir| {
                let mut settings = Settings::new(Promise::Unsynced, 8 << 20);
                settings.droppable = true;
                let engine = open(name, dir, &settings).unwrap();
                let mut model = Model::new();
                fill(&*engine, &mut model);
                engine.settle().unwrap();
                if whole_table {
                    engine.drop_table().unwrap();
                } else {
                    let partition = rows::partition(1);
                    engine.drop_partition(&partition).unwrap();
                    model.retain(|key, _| !key.starts_with(&partition));
                    compare(name, &*engine, &model);
                }
            });
        }
    }
}

#[test]
fn ingested_rows_are_rows() {
    struct Counted(u64, KeyBuf, Values);
    impl Rows for Counted {
        fn next(
            &mut self,
            give: &mut dyn FnMut(Key<'_>, &[u8]) -> anyhow::Result<()>,
        ) -> anyhow::Result<bool> {
            give(self.1.row(self.0), self.2.value(self.0, 0))?;
            self.0 += 1;
            Ok(self.0 < ROWS)
        }
    }
    for name in engines() {
        in_folder(name, |dir| {
            let settings = Settings::new(Promise::Unsynced, 8 << 20);
            let engine = open(name, dir, &settings).unwrap();
            let mut rows = Counted(0, KeyBuf::default(), Values::new(200, 1));
            let Some(ingested) = engine.ingest(&mut rows) else { return };
            ingested.unwrap();
            let (mut key, mut values) = (KeyBuf::default(), Values::new(200, 1));
            let model = (0..ROWS)
                .map(|i| (key.row(i).whole.to_vec(), values.value(i, 0).to_vec()))
                .collect();
            compare(name, &*engine, &model);
            engine.close().unwrap();
        });
    }
}

/// sled runs the program `sync` when it makes a database. A child has its parent's open files until
/// it becomes that program, locks with them, so no other database may be closed and opened again
/// meanwhile.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn in_folder(name: &str, test: impl FnOnce(&std::path::Path)) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::Builder::new().prefix(name).tempdir_in(env!("CARGO_TARGET_TMPDIR"));
    test(folder.unwrap().path());
}

fn fill(engine: &dyn Engine, model: &mut Model) {
    let (mut key, mut values) = (KeyBuf::default(), Values::new(200, 7));
    for i in 0..ROWS {
        let value = values.value(i, 0);
        engine.write(&[Change::Put(key.row(i), value)]).unwrap();
        model.insert(key.row(i).whole.to_vec(), value.to_vec());
    }
}

/// Commits of 1 to 20 changes of one partition, a third of them deletes.
fn operate(engine: &dyn Engine, model: &mut Model, commits: u64) {
    let (mut rng, mut values) = (Rng::seeded(3), Values::new(200, 7));
    for revision in 0..commits {
        let partition = rng.below(ROWS / PARTITION_ROWS);
        let mut batch = BTreeMap::new();
        for _ in 0..=rng.below(20) {
            let i = partition * PARTITION_ROWS + rng.below(PARTITION_ROWS);
            let whole = KeyBuf::default().row(i).whole.to_vec();
            let value = (!rng.one_in(3)).then(|| values.value(i, revision).to_vec());
            if value.is_some() || model.contains_key(&whole) {
                batch.insert(whole, value);
            }
        }
        let changes: Vec<_> = batch
            .iter()
            .map(|(whole, value)| {
                let key = Key { whole, partition_bytes: rows::PARTITION_BYTES };
                value.as_ref().map_or(Change::Delete(key), |value| Change::Put(key, value))
            })
            .collect();
        if changes.is_empty() {
            continue;
        }
        engine.write(&changes).unwrap();
        for (key, value) in batch {
            match value {
                Some(value) => drop(model.insert(key, value)),
                None => drop(model.remove(&key)),
            }
        }
    }
}

fn get(engine: &dyn Engine, key: Key<'_>) -> Option<Vec<u8>> {
    let mut value = None;
    let found = engine.get(key, &mut |bytes| value = Some(bytes.to_vec())).unwrap();
    assert_eq!(found, value.is_some());
    value
}

fn scan(engine: &dyn Engine, span: Span<'_>, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let all = &mut |seen: tabulith_peers::engine::Seen<'_>| {
        rows.push((seen.whole_key(), seen.value.to_vec()));
        ControlFlow::Continue(())
    };
    engine.scan(span, direction, all).unwrap();
    rows
}

fn compare(name: &str, engine: &dyn Engine, model: &Model) {
    let mut buf = KeyBuf::default();
    for i in (0..ROWS).step_by(7) {
        let whole = buf.row(i).whole.to_vec();
        assert_eq!(get(engine, buf.row(i)), model.get(&whole).cloned(), "{name}: row {i}");
        assert_eq!(get(engine, buf.absent(i)), None, "{name}: no row {i}");
    }
    let middle = buf.absent(PARTITION_ROWS + 500);
    let partition = rows::partition(1);
    for span in [Span::All, Span::Partition(&partition), Span::From(middle)] {
        for direction in [Direction::Forward, Direction::Reverse] {
            let ends = span.ends(direction);
            let inside = model.range::<[u8], _>(ends.range());
            let mut expected: Vec<_> = inside.map(|(k, v)| (k.clone(), v.clone())).collect();
            if direction == Direction::Reverse {
                expected.reverse();
            }
            let found = scan(engine, span, direction);
            assert!(found == expected, "{name}: {span:?} {direction:?}: {} rows", found.len());
        }
    }
}
