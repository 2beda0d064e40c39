//! Tables of typed entities for embedded use: the same tables that the server serves from the
//! folder for its development account.

use crate::db::Db;
use crate::error::{Error, Kind};
use crate::ids::CommitTs;
use crate::key::range::KeyRange;
use crate::options::Reach;
use crate::rows::{Catalog, TableInfo};
use crate::storage::DbSnapshot;
use crate::table::entity::Entity;
use crate::table::error::{GroupError, TableError, TableResult};
use crate::table::etag::{ETag, IfMatch};
use crate::table::filter::ast::Filter;
use crate::table::keys;
use crate::table::name::{AccountName, NameError, TableName, catalog_name, catalog_prefix};
use crate::table::page::{Budget, Continuation, Query};
use crate::table::past::Past;
use crate::table::store::{TableStore, table_of};
use crate::table::write::{Write, WriteOutcome};
use std::ops::Bound::Unbounded;
use std::sync::Arc;
use std::time::Duration;
use std::vec;

/// The account whose tables [`Db::entities`] opens: the one that the server knows without any
/// configuration.
pub const ACCOUNT: &str = "devstoreaccount1";

impl Db {
    /// The table of entities called `name`, made where there is none.
    ///
    /// Errors: for a name that is not 3 to 63 letters and digits, the first a letter;
    /// [`TableError::TableNotFound`] where there is none and the database was opened read-only;
    /// otherwise as [`Db::table`].
    pub fn entities(&self, name: &str) -> TableResult<Entities> {
        let entities = Entities::new(self, name)?;
        if entities.found()?.is_some() {
            return Ok(entities);
        }
        match entities.store.create_table(&entities.account, &entities.name) {
            Ok(_) | Err(TableError::TableExists) => Ok(entities),
            Err(TableError::Engine(error)) if error.kind() == Kind::ReadOnly => {
                Err(TableError::TableNotFound)
            }
            Err(error) => Err(error),
        }
    }

    /// The table of entities called `name`, if there is one. Cost: a lookup in memory.
    ///
    /// Errors: as [`Db::entities`] for a bad name.
    pub fn find_entities(&self, name: &str) -> TableResult<Option<Entities>> {
        let entities = Entities::new(self, name)?;
        Ok(entities.found()?.map(|_| entities))
    }

    /// The names of all tables of entities, in the casing that they were made with, in order
    /// without case.
    pub fn entity_table_names(&self) -> TableResult<Vec<String>> {
        let account = AccountName::parse(ACCOUNT).map_err(bad_name)?;
        let tables = self.tables(&catalog_prefix(&account), None, usize::MAX)?.into_iter();
        tables.map(|info| Ok(table_of(info)?.name.as_str().to_owned())).collect()
    }

    /// Drops a table of entities, as [`Db::drop_table`] does one of byte rows; false where there is
    /// none. Handles on it find no table, or the next one of its name.
    ///
    /// Errors: as [`Db::entities`] for a bad name.
    pub fn drop_entities(&self, name: &str) -> TableResult<bool> {
        let (account, name) = names_of(name)?;
        Ok(Catalog::drop_table(self, &catalog_name(&account, &name))?)
    }
}

fn names_of(table: &str) -> TableResult<(AccountName, TableName)> {
    let account = AccountName::parse(ACCOUNT).map_err(bad_name)?;
    Ok((account, TableName::parse(table).map_err(bad_name)?))
}

fn bad_name(error: NameError) -> TableError {
    TableError::Engine(Error::invalid(format!("table name: {error}")))
}

/// A handle on a table of entities, bound to its name: where the table is dropped and another one
/// made of that name, it is a handle on that.
#[derive(Clone, Debug)]
pub struct Entities {
    store: TableStore<Db>,
    account: AccountName,
    name: TableName,
}

impl Entities {
    /// A handle, whether or not the table is there.
    fn new(db: &Db, name: &str) -> TableResult<Entities> {
        let (account, name) = names_of(name)?;
        Ok(Entities { store: TableStore::new(Arc::new(db.clone())), account, name })
    }

    /// The table's name, as [`Db::entities`] was asked for it.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The entity under the two keys, if there is one.
    pub fn get(&self, partition_key: &str, row_key: &str) -> TableResult<Option<Entity>> {
        self.store.get(&self.account, &self.name, partition_key, row_key, Reach::Disk)
    }

    /// The table as it was at a moment of the past, which stays readable for as long as what is
    /// returned lives. The table may be dropped since.
    ///
    /// Errors: [`TableError::MomentNotKept`] where the history
    /// ([`Options::history`](crate::Options::history)) does not go back so far, or for a moment
    /// that is yet to come.
    ///
    /// ```
    /// # fn main() -> tabulith::table::error::TableResult<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// use tabulith::Entity;
    /// let hour = std::time::Duration::from_secs(3600);
    /// let db = tabulith::Db::builder().history(hour).open(folder.path())?;
    /// let prices = db.entities("prices")?;
    /// let before = prices.upsert(Entity::new("fruit", "apple").with("price", 3))?.0;
    /// prices.upsert(Entity::new("fruit", "apple").with("price", 4))?;
    /// let then = prices.as_of(before)?.get("fruit", "apple")?.unwrap();
    /// assert_eq!(then.property("price"), Some(&tabulith::Value::Int32(3)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_of(&self, at: CommitTs) -> TableResult<PastEntities> {
        let past = Arc::new(self.store.as_of(at)?);
        Ok(PastEntities { past, account: self.account.clone(), name: self.name.clone() })
    }

    /// Adds an entity; [`TableError::EntityExists`] where there is one.
    pub fn insert(&self, entity: Entity) -> TableResult<ETag> {
        self.write(Write::Insert(entity)).map(|outcome| ETag(outcome.ts))
    }

    /// Adds an entity, or replaces the one there with all its properties.
    pub fn upsert(&self, entity: Entity) -> TableResult<ETag> {
        self.write(Write::InsertOrReplace(entity)).map(|outcome| ETag(outcome.ts))
    }

    /// Adds an entity, or lays its properties over those of the one there.
    pub fn upsert_merge(&self, entity: Entity) -> TableResult<ETag> {
        self.write(Write::InsertOrMerge(entity)).map(|outcome| ETag(outcome.ts))
    }

    /// [`Entities::insert`] of an entity that is gone, as if it had been deleted, for reads from
    /// the time `expires` on: `db.time().after(span)`. Other changes, and groups of them:
    /// [`Write::until`].
    ///
    /// ```
    /// # fn main() -> tabulith::table::error::TableResult<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = tabulith::Db::open(folder.path())?;
    /// use tabulith::Entity;
    /// let sessions = db.entities("sessions")?;
    /// let ends = db.time().after(std::time::Duration::from_secs(3600));
    /// sessions.insert_until(Entity::new("users", "ann").with("visits", 1), ends)?;
    /// assert_eq!(sessions.get("users", "ann")?.unwrap().expires, Some(ends));
    /// sessions.upsert_until(Entity::new("users", "ann"), db.time())?;
    /// assert!(sessions.get("users", "ann")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert_until(&self, entity: Entity, expires: CommitTs) -> TableResult<ETag> {
        self.write(Write::Insert(entity).until(expires)).map(|outcome| ETag(outcome.ts))
    }

    /// [`Entities::upsert`] of an entity that is gone from the time `expires` on.
    pub fn upsert_until(&self, entity: Entity, expires: CommitTs) -> TableResult<ETag> {
        self.write(Write::InsertOrReplace(entity).until(expires)).map(|outcome| ETag(outcome.ts))
    }

    /// Replaces an entity that exists and is as `condition` says.
    pub fn replace(&self, entity: Entity, condition: IfMatch) -> TableResult<ETag> {
        self.write(Write::Update(entity, condition)).map(|outcome| ETag(outcome.ts))
    }

    /// Lays properties over those of an entity that exists and is as `condition` says.
    pub fn merge(&self, entity: Entity, condition: IfMatch) -> TableResult<ETag> {
        self.write(Write::Merge(entity, condition)).map(|outcome| ETag(outcome.ts))
    }

    /// Removes an entity that exists and is as `condition` says.
    pub fn delete(
        &self,
        partition_key: &str,
        row_key: &str,
        condition: IfMatch,
    ) -> TableResult<()> {
        let (partition_key, row_key) = (partition_key.to_owned(), row_key.to_owned());
        self.write(Write::Delete { partition_key, row_key, condition }).map(|_| ())
    }

    /// Makes up to 100 changes of one partition together or not at all.
    ///
    /// Errors name the first change at fault.
    pub fn transact(&self, writes: Vec<Write>) -> Result<Vec<WriteOutcome>, GroupError> {
        self.store.transact(&self.account, &self.name, writes)?.wait()
    }

    /// Removes all entities of the table in one record; the table and its settings stay. As
    /// [`Table::truncate`](crate::Table::truncate).
    pub fn truncate(&self) -> TableResult<CommitTs> {
        self.store.truncate(&self.account, &self.name)
    }

    /// All entities that pass `filter`, in the order of their keys. Each page, of at most a
    /// thousand and some 4 MiB, is as of one moment; an entity that does not change meanwhile
    /// appears exactly once.
    pub fn query(&self, filter: Option<Filter>) -> Found {
        Found::new(Source::Now(self.clone()), filter)
    }

    /// How many entities there are, as of now: exactly, and mostly without reading them; see
    /// [`Table::count`](crate::Table::count).
    pub fn count(&self) -> TableResult<u64> {
        self.store.count(&self.account, &self.name)
    }

    /// How many of them a partition has.
    pub fn count_partition(&self, partition_key: &str) -> TableResult<u64> {
        self.store.count_partition(&self.account, &self.name, partition_key)
    }

    /// Bytes that they take on the disk, about; see
    /// [`Table::bytes_on_disk`](crate::Table::bytes_on_disk).
    pub fn bytes_on_disk(&self) -> TableResult<u64> {
        self.bytes_of(&KeyRange::table(self.info()?.id))
    }

    /// Bytes that one partition takes on the disk, about; see
    /// [`Partition::bytes_on_disk`](crate::Partition::bytes_on_disk).
    pub fn bytes_on_disk_of_partition(&self, partition_key: &str) -> TableResult<u64> {
        let pk = keys::encode(partition_key);
        self.bytes_of(&KeyRange::rows(self.info()?.id, &pk, Unbounded, Unbounded))
    }

    fn bytes_of(&self, range: &KeyRange) -> TableResult<u64> {
        Ok(DbSnapshot::now(self.store.rows()).bytes_on_disk(range)?)
    }

    /// How long entities live from their last change on; `None` for ever. As
    /// [`Table::set_ttl`](crate::Table::set_ttl).
    pub fn set_ttl(&self, ttl: Option<Duration>) -> TableResult<()> {
        Ok(self.store.rows().set_ttl(&self.info()?, ttl)?)
    }

    /// How long entities live: [`Entities::set_ttl`].
    pub fn ttl(&self) -> TableResult<Option<Duration>> {
        Ok(self.store.rows().ttl(self.info()?.id))
    }

    /// Declares up to eight properties of which every table file written from now on keeps zones,
    /// so that a query with a condition on one of them passes over blocks that hold no such entity.
    /// Without this those eight are chosen that most entities of a file have, of the first sixteen.
    /// More in [`Table::set_zone_columns`](crate::Table::set_zone_columns).
    pub fn set_zone_columns(&self, properties: &[&str]) -> TableResult<()> {
        Ok(self.store.rows().set_zone_columns(&self.info()?, properties)?)
    }

    /// The properties that are declared: [`Entities::set_zone_columns`].
    pub fn zone_columns(&self) -> TableResult<Vec<String>> {
        Ok(self.store.rows().zone_columns(self.info()?.id))
    }

    /// What the catalogue says of the table.
    fn info(&self) -> TableResult<TableInfo> {
        self.found()?.ok_or(TableError::TableNotFound)
    }

    fn found(&self) -> TableResult<Option<TableInfo>> {
        Ok(self.store.rows().find_table(&catalog_name(&self.account, &self.name))?)
    }

    fn write(&self, write: Write) -> TableResult<WriteOutcome> {
        self.store.write(&self.account, &self.name, write)?.wait()
    }
}

/// A table of entities as it was: [`Entities::as_of`].
#[derive(Clone, Debug)]
pub struct PastEntities {
    past: Arc<Past>,
    account: AccountName,
    name: TableName,
}

impl PastEntities {
    /// The entity under the two keys, if there was one.
    pub fn get(&self, partition_key: &str, row_key: &str) -> TableResult<Option<Entity>> {
        self.past.get(&self.account, &self.name, partition_key, row_key)
    }

    /// All entities that passed `filter`, in the order of their keys, and all as of that moment.
    pub fn query(&self, filter: Option<Filter>) -> Found {
        Found::new(Source::Then(self.clone()), filter)
    }

    /// How many entities there were.
    pub fn count(&self) -> TableResult<u64> {
        self.past.count(&self.account, &self.name)
    }
}

/// What a query asks.
#[derive(Debug)]
enum Source {
    Now(Entities),
    Then(PastEntities),
}

/// Bytes of rows after which a page ends, all of which are in memory at once.
const PAGE_BYTES: u64 = 4 << 20;

/// The entities that a query finds, page by page. Ends after an error.
pub struct Found {
    source: Source,
    query: Query,
    page: vec::IntoIter<Entity>,
    more: bool,
}

impl Found {
    fn new(source: Source, filter: Option<Filter>) -> Found {
        let budget = Budget { bytes_scanned: PAGE_BYTES, ..Budget::default() };
        let query = Query { filter, budget, ..Query::default() };
        Found { source, query, page: Vec::new().into_iter(), more: true }
    }

    /// Reads only these properties of each entity that is still to come, beside its keys and
    /// Timestamp.
    ///
    /// ```
    /// # fn main() -> tabulith::table::error::TableResult<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = tabulith::Db::open(folder.path())?;
    /// use tabulith::Entity;
    /// let fruit = db.entities("fruit")?;
    /// fruit.insert(Entity::new("fruit", "apple").with("price", 3).with("colour", "red"))?;
    /// for found in fruit.query(None).select(&["price"]) {
    ///     let found = found?;
    ///     assert!(found.property("price").is_some() && found.property("colour").is_none());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn select(mut self, properties: &[&str]) -> Found {
        self.query.select = Some(properties.iter().map(|&property| property.to_owned()).collect());
        self
    }

    fn turn_page(&mut self) -> TableResult<()> {
        let page = match &self.source {
            Source::Now(Entities { store, account, name }) => {
                store.query(account, name, &self.query)
            }
            Source::Then(PastEntities { past, account, name }) => {
                past.query(account, name, &self.query)
            }
        }?;
        let next: Option<Continuation> = page.next;
        self.more = next.is_some();
        self.query.from = next;
        self.page = page.entities.into_iter();
        Ok(())
    }
}

impl Iterator for Found {
    type Item = TableResult<Entity>;

    fn next(&mut self) -> Option<TableResult<Entity>> {
        loop {
            if let Some(entity) = self.page.next() {
                return Some(Ok(entity));
            }
            if !std::mem::take(&mut self.more) {
                return None;
            }
            if let Err(error) = self.turn_page() {
                return Some(Err(error));
            }
        }
    }
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Found { source, query, .. } = self;
        let mut found = f.debug_struct("Found");
        found.field("source", source).field("query", query).finish_non_exhaustive()
    }
}
