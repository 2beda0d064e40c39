//! Entities through their own layer: what a group makes of them, by the model's rules, and what is
//! read.
//!
//! The model's value of an entity is a text of all its properties, and each write gives several
//! that tell the commit: an entity of which some properties are of another commit equals none of
//! the model's.

use crate::model::{Place, Stored};
use crate::ops::Verb;
use crate::stop::Stop;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use tabulith::db::Db;
use tabulith::ids::CommitTs;
use tabulith::rows::{Catalog, TableInfo};
use tabulith::table::error::{TableError, TableResult};
use tabulith::table::etag::IfMatch;
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::page::Query;
use tabulith::table::store::TableStore;
use tabulith::table::value::Value;
use tabulith::table::write::Write;
use tabulith::{Entity, Filter, Op as Compare};
use tabulith_testkit::seed::Rng;

/// The table of entities, which is one of the account for embedded use.
const TABLE: &str = "people";
/// That account.
pub(crate) const ACCOUNT: &str = "devstoreaccount1";
/// The table's name in the catalogue.
pub(crate) const CATALOG_NAME: &str = "devstoreaccount1/people";

/// Which commit wrote an entity, or what merged it.
const NUMBER: &str = "Number";

/// The properties that may be declared: one of all entities, and one of those that were merged.
pub(crate) const PROPERTIES: [&str; 2] = [NUMBER, "Merged"];

impl From<TableError> for Stop {
    fn from(error: TableError) -> Stop {
        match error {
            TableError::Engine(error) => Stop::Refused(error),
            other => Stop::Wrong(format!("entities: {other}")),
        }
    }
}

/// The tables of entities of a database.
pub(crate) fn store(db: &Db) -> TableStore<Db> {
    TableStore::new(Arc::new(db.clone()))
}

/// The account and its table, as names.
pub(crate) fn names() -> Result<(AccountName, TableName), Stop> {
    let account = AccountName::parse(ACCOUNT).map_err(|error| error.to_string())?;
    let table = TableName::parse(TABLE).map_err(|error| error.to_string())?;
    Ok((account, table))
}

/// The table as it was made, where there is none.
pub(crate) fn create(db: &Db) -> Result<TableInfo, Stop> {
    db.entities(TABLE)?;
    let made = db.find_table(CATALOG_NAME)?;
    made.ok_or_else(|| Stop::Wrong("the table of entities was made and is not there".to_owned()))
}

/// Changes of one partition that are made together or not at all.
pub(crate) struct Group<'a> {
    pub(crate) pk: &'a str,
    /// Which entities, what is done to them, and the bytes of a text.
    pub(crate) changes: Vec<(String, Verb, u16)>,
    /// The commit's number in the history.
    pub(crate) number: u64,
    pub(crate) expires: Option<CommitTs>,
}

/// RowKeys and the model's values of what a group writes; `None` for what it removes.
pub(crate) type Rows = Vec<(Bytes, Option<Bytes>)>;

impl Group<'_> {
    /// What it makes of the entities that are `there`; `None` where one of them is not as a change
    /// asks.
    pub(crate) fn expected(&self, there: &BTreeMap<Bytes, Bytes>) -> Option<Rows> {
        let one = |(rk, verb, bytes): &(String, Verb, u16)| {
            let rk = Bytes::from(rk.clone());
            let current = there.get(&rk);
            let own = || text_of(&self.entity("", *verb, *bytes).properties);
            let value = match (verb, current) {
                (Verb::Insert, Some(_)) | (Verb::Delete, None) => return None,
                (Verb::Delete, Some(_)) => None,
                (Verb::Merge, Some(current)) => Some(laid_over(current, &own())),
                (Verb::Insert | Verb::Replace | Verb::Merge, _) => Some(own()),
            };
            Some((rk, value))
        };
        self.changes.iter().map(one).collect()
    }

    /// Makes the changes; gives the commit and what came of them, or `None` where they are refused.
    pub(crate) fn commit(&self, db: &Db) -> Result<Option<(CommitTs, Rows)>, Stop> {
        let writes = self.changes.iter().map(|change| self.write(change)).collect();
        match db.entities(TABLE)?.transact(writes) {
            Ok(outcomes) => {
                let left = outcomes.iter().map(|outcome| outcome.entity.as_ref());
                let left = left.map(|entity| entity.map(|entity| text_of(&entity.properties)));
                let keys = self.changes.iter().map(|(rk, ..)| Bytes::from(rk.clone()));
                let rows = keys.zip(left).collect();
                Ok(outcomes.first().map(|outcome| (outcome.ts, rows)))
            }
            Err(refused) => match refused.error {
                TableError::EntityExists | TableError::EntityNotFound => Ok(None),
                error => Err(error.into()),
            },
        }
    }

    fn write(&self, (rk, verb, bytes): &(String, Verb, u16)) -> Write {
        let entity = || self.entity(rk, *verb, *bytes);
        let write = match verb {
            Verb::Insert => Write::Insert(entity()),
            Verb::Replace => Write::InsertOrReplace(entity()),
            Verb::Merge => Write::InsertOrMerge(entity()),
            Verb::Delete => Write::Delete {
                partition_key: self.pk.to_owned(),
                row_key: rk.clone(),
                condition: IfMatch::Any,
            },
        };
        self.expires.map_or(write.clone(), |expires| write.until(expires))
    }

    /// A merge leaves what the others write.
    fn entity(&self, rk: &str, verb: Verb, bytes: u16) -> Entity {
        let number = self.number as i64;
        let letters = Rng::new(self.number).bytes(bytes.into()).into_iter();
        let text: String = letters.map(|byte| char::from(b'a' + byte % 26)).collect();
        let entity = Entity::new(self.pk, rk).with(NUMBER, number);
        match verb {
            Verb::Merge => entity.with("Merged", number).with("More", text),
            _ => entity.with("Text", text).with("Again", number as i32),
        }
    }
}

/// All properties as text, a line for each, by their names.
fn text_of(properties: &[(String, Value)]) -> Bytes {
    let sorted: BTreeMap<_, _> = properties.iter().map(|(name, value)| (name, value)).collect();
    let mut text = String::new();
    for (name, value) in sorted {
        let _ = writeln!(text, "{name}={value:?}");
    }
    text.into()
}

/// The text of an entity over whose properties others are laid.
fn laid_over(below: &Bytes, above: &Bytes) -> Bytes {
    let lines = |text: &Bytes| -> BTreeMap<String, String> {
        let text = String::from_utf8_lossy(text).into_owned();
        let lines = text.lines().filter_map(|line| line.split_once('='));
        lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let mut all = lines(below);
    all.extend(lines(above));
    all.into_iter().map(|(name, value)| format!("{name}={value}\n")).collect::<String>().into()
}

fn row(entity: &Entity) -> (Place, Stored) {
    let copy = |text: &String| Bytes::from(text.clone());
    let place = (copy(&entity.partition_key), copy(&entity.row_key));
    (place, Stored::found(entity.ts, entity.expires, text_of(&entity.properties)))
}

/// Reads all entities, and each by its keys too.
pub(crate) fn read(db: &Db) -> Result<BTreeMap<Place, Stored>, Stop> {
    let table = db.entities(TABLE)?;
    let found = table.query(None).collect::<TableResult<Vec<_>>>()?;
    for entity in &found {
        let got = table.get(&entity.partition_key, &entity.row_key)?;
        if got.as_ref() != Some(entity) {
            return Err(Stop::Wrong(format!("get and query differ: {got:?} for {entity:?}")));
        }
    }
    let count = table.count()?;
    if count != found.len() as u64 {
        return Err(Stop::Wrong(format!("{} entities are counted {count}", found.len())));
    }
    let number_of = |entity: &Entity| entity.property(NUMBER).cloned();
    if let Some(Value::Int64(least)) = found.get(found.len() / 2).and_then(number_of) {
        let filter = Filter::compare(NUMBER, Compare::Ge, least);
        let passing = table.query(Some(filter)).collect::<TableResult<Vec<_>>>()?;
        let passes =
            |entity: &&Entity| matches!(number_of(entity), Some(Value::Int64(own)) if own >= least);
        if !passing.iter().eq(found.iter().filter(passes)) {
            return Err(Stop::Wrong(format!("of numbers from {least} on, {passing:?}")));
        }
    }
    Ok(found.iter().map(row).collect())
}

/// All entities as of a moment that is kept, when there was such a table.
pub(crate) fn read_past(db: &Db, at: CommitTs) -> Result<BTreeMap<Place, Stored>, Stop> {
    let past = store(db).as_of(at)?;
    let (account, table) = names()?;
    let (mut query, mut all) = (Query::default(), BTreeMap::new());
    loop {
        let page = past.query(&account, &table, &query)?;
        all.extend(page.entities.iter().map(row));
        query.from = page.next;
        if query.from.is_none() {
            return Ok(all);
        }
    }
}
