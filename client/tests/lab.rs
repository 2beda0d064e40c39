//! The client against our server's fault lab: thousands of calls, of which many fail, lose their
//! answer or are cut, held against an ordered map after each.
//!
//! Every write has a value that no other write has, so that what is found can be told from what was
//! there. The same seed meets the same faults.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::rng::Rng;
use tabulith::options::{Durability, Options as DbOptions};
use tabulith::table::store::TableStore;
use tabulith_client::connection::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use tabulith_client::world::{Machine, Pending, World};
use tabulith_client::{
    Account, Condition, Connection, Credential, ETag, Entity, Error, Key, Operation, Options,
    Query, Retry, Table, Transaction,
};
use tabulith_server::faults::rule::Rules;
use tabulith_server::{Config, Running, Server};

const CALLS: u64 = 3000;
const PARTITIONS: u64 = 3;
const ROWS: u64 = 8;

/// More than one call in four fails at first.
const RULES: &str = "
busy chance=0.05
busy retry-after=3 chance=0.02
timed-out chance=0.05
cut bytes=20 chance=0.05
lost chance=0.15
empty-page operation=query chance=0.3
";

/// Waits pass at once and are counted.
#[derive(Default)]
struct Hasty {
    machine: Machine,
    waits: AtomicU64,
    slept_ms: AtomicU64,
}

impl World for Hasty {
    fn wall(&self) -> Duration {
        self.machine.wall()
    }

    fn steady(&self) -> Duration {
        Duration::from_millis(self.slept_ms.load(Ordering::Relaxed))
    }

    fn chance(&self) -> f64 {
        0.5
    }

    fn sleep(&self, wait: Duration) -> Pending<'_, ()> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.slept_ms.fetch_add(u64::try_from(wait.as_millis()).unwrap(), Ordering::Relaxed);
        Box::pin(async {})
    }
}

struct House {
    _running: Running,
    _folder: tempfile::TempDir,
    world: Arc<Hasty>,
    account: Account,
}

impl House {
    fn start(rules: &str) -> House {
        let folder = tempfile::tempdir().unwrap();
        let options = DbOptions { durability: Durability::Buffered, ..DbOptions::default() };
        let db = Db::builder().options(options).open(folder.path().join("data")).unwrap();
        let faults = Some(Rules::parse(rules).unwrap());
        let config = Config { listen: ([127, 0, 0, 1], 0).into(), faults, ..Config::default() };
        let running = Server::start(config, Arc::new(TableStore::new(Arc::new(db)))).unwrap();
        let endpoint = format!("http://{}/{DEVELOPMENT_ACCOUNT}", running.addr());
        let key = Credential::from(Key::of_base64(DEVELOPMENT_KEY).unwrap());
        let connection = Connection::new(DEVELOPMENT_ACCOUNT, &endpoint, key).unwrap();
        let world = Arc::new(Hasty::default());
        let retry = Retry { retries_max: 100, ..Retry::default() };
        let account =
            Account::new(connection, Options { retry, world: world.clone(), ..Options::default() });
        House { _running: running, _folder: folder, world, account }
    }
}

/// What should be there, by both keys.
type Model = BTreeMap<(String, String), Entity>;

/// One test's state: the table, what should be in it, and ETags that were once good.
struct Run {
    table: Table,
    model: Model,
    old: Vec<ETag>,
    rng: Rng,
    calls: u64,
}

impl Run {
    /// An entity of that partition with a value of its own.
    fn entity(&mut self, partition: u64) -> Entity {
        self.calls += 1;
        let value = i64::try_from(self.calls).unwrap();
        let property = format!("v{}", self.rng.below(3));
        Entity::new(format!("p{partition}"), format!("r{}", self.rng.below(ROWS)))
            .with(&property, value)
    }

    /// Any version, the one that is there, or one that was there before.
    fn condition(&mut self, entity: &Entity) -> Condition {
        let found = self.model.get(&keys(entity)).and_then(|found| found.etag.clone());
        let old = self.old.get(self.rng.below(self.old.len() as u64 + 1) as usize).cloned();
        let etag = match self.rng.below(3) {
            0 => None,
            1 => found,
            _ => old,
        };
        etag.map_or(Condition::Any, Condition::Is)
    }

    fn operation(&mut self, partition: u64) -> Operation {
        let entity = self.entity(partition);
        let condition = self.condition(&entity);
        match self.rng.below(7) {
            0 | 1 => Operation::Insert(entity),
            2 => Operation::Replace(entity, None),
            3 => Operation::Merge(entity, None),
            4 => Operation::Replace(entity, Some(condition)),
            5 => Operation::Merge(entity, Some(condition)),
            _ => {
                let (partition_key, row_key) = keys(&entity);
                Operation::Delete { partition_key, row_key, condition }
            }
        }
    }

    /// One write by the call that is made for it. Its ETag, if it has one.
    async fn write(&self, operation: &Operation) -> Result<Option<ETag>, Error> {
        let table = &self.table;
        match operation.clone() {
            Operation::Insert(entity) => table.insert(&entity).await.map(Some),
            Operation::Replace(entity, None) => table.upsert(&entity).await.map(Some),
            Operation::Merge(entity, None) => table.upsert_merge(&entity).await.map(Some),
            Operation::Replace(entity, Some(condition)) => {
                table.replace(&entity, condition).await.map(Some)
            }
            Operation::Merge(entity, Some(condition)) => {
                table.merge(&entity, condition).await.map(Some)
            }
            Operation::Delete { partition_key, row_key, condition } => {
                table.delete(&partition_key, &row_key, condition).await.map(|()| None)
            }
        }
    }

    /// Holds an outcome against the model, and takes what was written into it.
    async fn settle(
        &mut self,
        operations: &[Operation],
        outcome: Result<Vec<Option<ETag>>, Error>,
    ) {
        let refusal = operations.iter().find_map(|operation| self.refusal(operation));
        let merges = operations.iter().any(|operation| matches!(operation, Operation::Merge(..)));
        match (outcome, refusal) {
            (Ok(etags), None) => {
                assert_eq!(etags.len(), operations.len());
                for (operation, etag) in operations.iter().zip(etags) {
                    self.apply(operation, etag);
                }
            }
            // A merge that met itself is left open, unless an insert beside it tells whose it was.
            // Nobody else writes here: it is done.
            (Err(error), None) if merges && error.maybe_done() => {
                assert!(matches!(error.status(), Some(404 | 409 | 412)), "{operations:?}: {error}");
                let inserts = |own: &Operation| matches!(own, Operation::Insert(_));
                assert!(!operations.iter().any(inserts), "{operations:?}: {error}");
                for operation in operations {
                    let (partition_key, row_key) = operation.keys();
                    let found = self.table.get(partition_key, row_key).await.unwrap();
                    self.apply(operation, found.and_then(|found| found.etag));
                }
            }
            (Err(error), Some(status)) => {
                assert_eq!(error.status(), Some(status), "{operations:?}: {error}");
            }
            // A delete that finds nothing after a lost answer counts as done.
            (Ok(_), Some(404)) if operations.iter().all(|operation| self.is_gone(operation)) => {}
            (outcome, refusal) => panic!("{operations:?}: {outcome:?} and not {refusal:?}"),
        }
    }

    /// The status that the service would refuse a write with.
    fn refusal(&self, operation: &Operation) -> Option<u16> {
        let (partition_key, row_key) = operation.keys();
        let found = self.model.get(&(partition_key.to_owned(), row_key.to_owned()));
        match (operation, found) {
            (Operation::Insert(_), found) => found.map(|_| 409),
            (Operation::Replace(_, None) | Operation::Merge(_, None), _) => None,
            (_, None) => Some(404),
            (
                Operation::Replace(_, Some(condition))
                | Operation::Merge(_, Some(condition))
                | Operation::Delete { condition, .. },
                Some(found),
            ) => match condition {
                Condition::Is(etag) if found.etag.as_ref() != Some(etag) => Some(412),
                _ => None,
            },
        }
    }

    fn is_gone(&self, operation: &Operation) -> bool {
        let (partition_key, row_key) = operation.keys();
        let key = (partition_key.to_owned(), row_key.to_owned());
        matches!(operation, Operation::Delete { .. }) && !self.model.contains_key(&key)
    }

    fn apply(&mut self, operation: &Operation, etag: Option<ETag>) {
        let (partition_key, row_key) = operation.keys();
        let key = (partition_key.to_owned(), row_key.to_owned());
        let found = self.model.remove(&key);
        self.old.extend(found.as_ref().and_then(|found| found.etag.clone()));
        let entity = match (operation, found) {
            (Operation::Delete { .. }, _) => return assert_eq!(etag, None),
            (Operation::Merge(entity, _), Some(mut found)) => {
                for (name, value) in &entity.properties {
                    found.set(name, value.clone());
                }
                found
            }
            (
                Operation::Insert(entity)
                | Operation::Replace(entity, _)
                | Operation::Merge(entity, _),
                _,
            ) => entity.clone(),
        };
        assert!(etag.is_some(), "{operation:?}");
        self.model.insert(key, Entity { etag, ..entity });
    }

    /// Reads all of the table, and a row of it.
    async fn check(&mut self) {
        let mut read = Model::new();
        let mut pages = self.table.query(Query::new().page_size(5));
        while let Some(entity) = pages.next().await.unwrap() {
            read.insert(keys(&entity), plain(entity));
        }
        let expected = self.model.clone().into_iter().map(|(key, entity)| (key, plain(entity)));
        assert_eq!(read, expected.collect());
        let entity = self.entity(0);
        let found = self.table.get(&entity.partition_key, &entity.row_key).await.unwrap();
        let expected = self.model.get(&keys(&entity)).cloned();
        assert_eq!(found.map(plain), expected.map(plain));
    }
}

fn keys(entity: &Entity) -> (String, String) {
    (entity.partition_key.clone(), entity.row_key.clone())
}

/// Without its time, and with its properties in the order of their names.
fn plain(mut entity: Entity) -> Entity {
    entity.timestamp = None;
    entity.properties.sort_by(|(a, _), (b, _)| a.cmp(b));
    entity
}

async fn calls(house: &House, seed: u64) {
    assert!(house.account.create_table("rows").await.is_ok());
    let table = house.account.table("rows");
    let rng = Rng::seeded(seed);
    let mut run = Run { table, model: Model::new(), old: Vec::new(), rng, calls: 0 };
    let (mut writes, mut transactions) = (0, 0);
    while run.calls < CALLS {
        let partition = run.rng.below(PARTITIONS);
        match run.rng.below(10) {
            0 => run.check().await,
            1..=3 => {
                let mut transaction = Transaction::new();
                for _ in 0..=run.rng.below(4) {
                    let operation = run.operation(partition);
                    // A row may stand in a transaction once.
                    if transaction.operations().iter().all(|own| own.keys() != operation.keys()) {
                        transaction.push(operation);
                    }
                }
                let outcome = run.table.submit(&transaction).await;
                run.settle(transaction.operations(), outcome).await;
                transactions += 1;
            }
            _ => {
                let operation = run.operation(partition);
                let outcome = run.write(&operation).await;
                run.settle(&[operation], outcome.map(|etag| vec![etag])).await;
                writes += 1;
            }
        }
    }
    run.check().await;
    let retries = house.world.waits.load(Ordering::Relaxed);
    println!("seed {seed}: {writes} writes, {transactions} transactions, {retries} retries");
    assert!(retries > CALLS / 10, "the lab was idle: {retries} retries");
}

#[test]
fn what_is_told_is_what_is_there() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for seed in [1, 2, 3] {
        let house = House::start(&format!("seed {seed}\n{RULES}"));
        runtime.block_on(calls(&house, seed));
    }
}
