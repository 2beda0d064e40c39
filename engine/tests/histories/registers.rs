//! Entities as registers under ETags: single changes, batches, pages, tables dropped and made
//! again, and a log that fails amid that.

use crate::house::{Ending, House, Watch, failures_min};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use tabulith::ids::CommitTs;
use tabulith::options::Reach;
use tabulith::table::entity::Entity;
use tabulith::table::error::{GroupError, TableError};
use tabulith::table::etag::{ETag, IfMatch};
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::page::Query;
use tabulith::table::store::TableStore;
use tabulith::table::value::Value;
use tabulith::table::write::Write;
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::linear::Call;
use tabulith_testkit::register::{self, Act, Answer, Ask, Checked, Condition};
use tabulith_testkit::seed::{self, Replay, Rng};
use tabulith_testkit::wholes::{self, Wholes};

const OPS_DEFAULT: u64 = 200_000;
const THREADS: usize = 4;
/// Calls of a thread between two openings.
const STRETCH: usize = 500;
const STRETCHES: usize = 4;
const KEYS: u32 = 8;
const PARTITIONS: u32 = 2;

#[test]
fn entities_are_linearizable_across_kills_and_power_losses() {
    let ops = seed::number("TABULITH_HISTORY_OPS").unwrap_or(OPS_DEFAULT);
    let first = seed::seed_or(1);
    let (mut checked, mut seen) = (Checked::default(), Wholes::default());
    let (mut histories, mut losses, mut failures) = (0, 0, 0);
    while checked.calls < ops {
        let seed = first + histories;
        let _replay = Replay::new(
            seed,
            "TABULITH_HISTORY_OPS=1 cargo test -p tabulith --test histories entities",
        );
        let (calls, lost, failed) = history(seed);
        let one = register::check(false, &calls).and_then(|one| {
            checked.add(&one);
            wholes::check(&calls)
        });
        match one {
            Ok(wholes) => seen.add(&wholes),
            Err(anomaly) => panic!("{anomaly}"),
        }
        histories += 1;
        losses += lost;
        failures += failed;
    }
    eprintln!(
        "{} calls in {histories} histories of {} keys from seed {first}, {} of them without an \
         answer, {losses} kills and power losses, {failures} failures of the log, {} pages that showed \
         {} batches, {} steps of the search: 0 anomalies",
        checked.calls, checked.keys, checked.unknown, seen.pages, seen.batches, checked.steps
    );
    let counts = [
        count("calls", checked.calls, ops),
        count("keys", checked.keys, histories * u64::from(KEYS)),
        count("crashes", losses, histories),
        count("failures", failures, failures_min(histories)),
        count("unanswered", checked.unknown, histories / 3),
        count("pages", seen.pages, histories * 20),
        count("batches", seen.batches, histories * 2),
    ];
    counts::tell("histories", &counts);
}

/// What the threads of one database asked and were told, and how often it crashed and its log
/// failed.
fn history(seed: u64) -> (Vec<Call<Act>>, u64, u64) {
    let mut rng = Rng::new(seed);
    let mut house = House::open(&mut rng);
    let is_restless = seed.is_multiple_of(4);
    let values = AtomicU64::new(1);
    let mut calls: Vec<Call<Act>> = Vec::new();
    let (mut now, mut losses, mut failures) = (0, 0, 0);
    for stretch in 0..STRETCHES {
        let ending = house.ending(&mut rng);
        let all = (THREADS * STRETCH) as u64;
        let kill_at = match ending {
            Ending::Close => u64::MAX,
            _ => all / 4 + rng.below(all as usize / 4) as u64,
        };
        losses += u64::from(ending != Ending::Close);
        let watch = Watch::new(now, kill_at, &house);
        house.break_log(&mut rng);
        let seeds: Vec<u64> = (0..THREADS).map(|_| rng.next_u64()).collect();
        std::thread::scope(|scope| {
            let workers: Vec<_> = seeds
                .iter()
                .map(|seed| {
                    let (house, watch, values) = (&house, &watch, &values);
                    scope.spawn(move || {
                        Worker::new((*seed, is_restless), house, watch, values).run(stretch == 0)
                    })
                })
                .collect();
            for worker in workers {
                calls.extend(worker.join().expect("the worker says what went wrong"));
            }
        });
        now = watch.tick();
        failures += u64::from(watch.has_failed());
        house.reopen(ending, &mut rng);
    }
    // What is there at the end was there all the time.
    let watch = Watch::new(now, u64::MAX, &house);
    calls.extend(Worker::new((0, false), &house, &watch, &values).look());
    (calls, losses, failures)
}

struct Worker<'a> {
    rng: Rng,
    house: &'a House,
    store: TableStore<tabulith::Db>,
    watch: &'a Watch,
    values: &'a AtomicU64,
    account: AccountName,
    table: TableName,
    /// The last ETag that it was told of each key.
    etags: HashMap<u32, u64>,
    calls: Vec<Call<Act>>,
    is_restless: bool,
    /// Nobody could tell it what became of a write: it only reads from then on. What is in doubt
    /// for good makes the search long.
    is_in_doubt: bool,
}

impl<'a> Worker<'a> {
    fn new(
        (seed, is_restless): (u64, bool),
        house: &'a House,
        watch: &'a Watch,
        values: &'a AtomicU64,
    ) -> Worker<'a> {
        Worker {
            rng: Rng::new(seed),
            house,
            store: TableStore::new(house.db.clone()),
            watch,
            values,
            account: AccountName::parse("account").expect("a name"),
            table: TableName::parse("table").expect("a name"),
            etags: HashMap::new(),
            calls: Vec::new(),
            is_restless,
            is_in_doubt: false,
        }
    }

    fn run(mut self, is_new: bool) -> Vec<Call<Act>> {
        if is_new {
            self.make_table();
        }
        for _ in 0..STRETCH {
            if !self.watch.goes_on(self.house) {
                break;
            }
            if self.is_in_doubt {
                match self.rng.chance(10) {
                    true => self.page(),
                    false => self.get(),
                }
                continue;
            }
            // In one history of four tables come and go all the time.
            match self.rng.below(if self.is_restless { 180 } else { 400 }) {
                1..9 if self.is_restless => self.drop_table(),
                9..25 if self.is_restless => self.make_table(),
                0 => self.drop_table(),
                1..5 => self.make_table(),
                5..105 => self.get(),
                105..125 => self.page(),
                125..165 => self.group(),
                165 => self.house.turn_clock(self.rng.below(3) as u64),
                _ => self.change(),
            }
        }
        self.calls
    }

    /// Every key, one after the other.
    fn look(mut self) -> Vec<Call<Act>> {
        for key in 0..KEYS {
            self.get_key(key);
        }
        self.calls
    }

    fn note(&mut self, begin: u64, key: Option<u32>, ask: Ask, answer: Answer) {
        let told = match answer {
            Answer::Unknown if ask == Ask::Get => return,
            Answer::Unknown => {
                self.is_in_doubt = true;
                None
            }
            _ => Some(self.watch.tick()),
        };
        if let (Some(key), Answer::Found(_, etag) | Answer::Written(etag)) = (key, answer) {
            self.etags.insert(key, etag);
        }
        self.calls.push(Call { begin, end: told, act: Act { key, ask, answer } });
    }

    fn answer_of(&self, error: &TableError) -> Answer {
        match error {
            TableError::TableNotFound => Answer::NoTable,
            TableError::TableExists | TableError::EntityExists => Answer::Exists,
            TableError::EntityNotFound => Answer::Absent,
            TableError::ConditionFailed { .. } => Answer::Changed,
            other => {
                self.watch.excuse(other);
                Answer::Unknown
            }
        }
    }

    /// The same of a read.
    fn answer_of_read(&self, error: &TableError) -> Answer {
        if !matches!(error, TableError::TableNotFound) {
            self.watch.excuse_read(error);
        }
        self.answer_of(error)
    }

    fn make_table(&mut self) {
        let begin = self.watch.tick();
        let made = self.store.create_table(&self.account, &self.table);
        let answer = made.map_or_else(|error| self.answer_of(&error), |_| Answer::Done);
        self.note(begin, None, Ask::CreateTable, answer);
    }

    fn drop_table(&mut self) {
        let begin = self.watch.tick();
        let dropped = self.store.delete_table(&self.account, &self.table);
        let answer = dropped.map_or_else(|error| self.answer_of(&error), |()| Answer::Done);
        self.note(begin, None, Ask::DropTable, answer);
    }

    fn get(&mut self) {
        let key = self.rng.skewed_below(KEYS as usize) as u32;
        self.get_key(key);
    }

    fn get_key(&mut self, key: u32) {
        let begin = self.watch.tick();
        let (pk, rk) = keys(key);
        let answer = match self.store.get(&self.account, &self.table, &pk, &rk, Reach::Disk) {
            Ok(Some(entity)) => found(&entity),
            Ok(None) => Answer::Absent,
            Err(error) => self.answer_of_read(&error),
        };
        self.note(begin, Some(key), Ask::Get, answer);
    }

    /// All keys as of one moment.
    fn page(&mut self) {
        let begin = self.watch.tick();
        let page = self.store.query(&self.account, &self.table, &Query::default());
        match page {
            Ok(page) => {
                let rows: HashMap<_, _> = page
                    .entities
                    .iter()
                    .map(|entity| ((entity.partition_key.clone(), entity.row_key.clone()), entity))
                    .collect();
                for key in 0..KEYS {
                    let answer = rows.get(&keys(key)).map_or(Answer::Absent, |row| found(row));
                    self.note(begin, Some(key), Ask::Get, answer);
                }
            }
            Err(error) => {
                let answer = self.answer_of_read(&error);
                self.note(begin, Some(0), Ask::Get, answer);
            }
        }
    }

    fn change(&mut self) {
        let key = self.rng.skewed_below(KEYS as usize) as u32;
        let ask = self.ask(key);
        let write = self.write(key, ask);
        let begin = self.watch.tick();
        let pending = self.store.write(&self.account, &self.table, write);
        let answer = match pending.and_then(tabulith::table::write::Pending::wait) {
            Ok(outcome) => outcome.etag().map_or(Answer::Done, |etag| Answer::Written(etag.0.0)),
            Err(error) => self.answer_of(&error),
        };
        self.note(begin, Some(key), ask, answer);
    }

    /// Some keys of one partition, all or none.
    fn group(&mut self) {
        let partition = self.rng.below(PARTITIONS as usize) as u32;
        let keys: Vec<u32> =
            (0..KEYS).filter(|key| key % PARTITIONS == partition && self.rng.chance(60)).collect();
        if keys.is_empty() {
            return;
        }
        let asks: Vec<Ask> = keys.iter().map(|key| self.ask(*key)).collect();
        let writes = keys.iter().zip(&asks).map(|(key, ask)| self.write(*key, *ask)).collect();
        let begin = self.watch.tick();
        let pending = self.store.transact(&self.account, &self.table, writes);
        let answers: Vec<Answer> = match pending.and_then(tabulith::table::write::Pending::wait) {
            Ok(outcomes) => outcomes
                .iter()
                .map(|one| one.etag().map_or(Answer::Done, |etag| Answer::Written(etag.0.0)))
                .collect(),
            Err(GroupError { index, error, .. }) => {
                let named = self.answer_of(&error);
                let other = match named {
                    Answer::Unknown | Answer::NoTable => named,
                    _ => Answer::Refused,
                };
                (0..keys.len()).map(|n| if n == index { named } else { other }).collect()
            }
        };
        for ((key, ask), answer) in keys.into_iter().zip(asks).zip(answers) {
            self.note(begin, Some(key), ask, answer);
        }
    }

    /// What to ask of a key.
    fn ask(&mut self, key: u32) -> Ask {
        let value = self.values.fetch_add(1, Ordering::Relaxed);
        Ask::write(&mut self.rng, value, self.etags.get(&key).copied())
    }

    fn write(&mut self, key: u32, ask: Ask) -> Write {
        let (partition_key, row_key) = keys(key);
        let room = if self.rng.chance(20) { 200 } else { 8 };
        let mut entity = |value: u64| {
            Entity::new(partition_key.clone(), row_key.clone())
                .with("V", Value::Int64(value as i64))
                .with("P", Value::Binary(self.rng.bytes(room)))
        };
        let is = |condition| match condition {
            Condition::Any => IfMatch::Any,
            Condition::Is(etag) => IfMatch::Match(ETag(CommitTs(etag))),
        };
        match ask {
            Ask::Insert(value) => Write::Insert(entity(value)),
            Ask::Put(value) if value % 2 == 0 => Write::InsertOrMerge(entity(value)),
            Ask::Put(value) => Write::InsertOrReplace(entity(value)),
            Ask::Replace(value, condition) if value % 2 == 0 => {
                Write::Merge(entity(value), is(condition))
            }
            Ask::Replace(value, condition) => Write::Update(entity(value), is(condition)),
            Ask::Delete(condition) => {
                Write::Delete { partition_key, row_key, condition: is(condition) }
            }
            Ask::Get | Ask::CreateTable | Ask::DropTable => unreachable!("not a write"),
        }
    }
}

fn keys(key: u32) -> (String, String) {
    (format!("p{}", key % PARTITIONS), format!("r{}", key / PARTITIONS))
}

fn found(entity: &Entity) -> Answer {
    match entity.property("V") {
        Some(Value::Int64(value)) => Answer::Found(*value as u64, entity.ts.0),
        other => panic!("an entity without its value: {other:?}"),
    }
}
