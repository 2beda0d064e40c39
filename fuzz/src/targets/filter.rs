//! `$filter`: any text is a filter or refused; what a filter prints is the same filter; and its
//! plan finds the entities that it is true for.

use crate::input::text;
use std::sync::Arc;
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::options::{Advanced, Options};
use tabulith::table::entity::Entity;
use tabulith::table::error::TableError;
use tabulith::table::filter::ast::Filter;
use tabulith::table::filter::eval::passes;
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::page::{Continuation, Query};
use tabulith::table::plan::Plan;
use tabulith::table::store::TableStore;
use tabulith::table::value::{DateTime, Value};
use tabulith::table::write::Write;
use tabulith::vfs::mem::SimFs;
use tabulith_server::odata::parser::parse;

/// Reads the input as a filter and asks a small table.
pub fn filter(data: &[u8]) {
    let Ok(Some(filter)) = parse(&text(data)) else { return };
    let printed = filter.to_string();
    // Printing adds parentheses, which count towards the depth that is read.
    let reread = parse(&printed);
    if reread.is_ok() || depth(&filter) <= 30 {
        let reread = reread.unwrap_or_else(|error| panic!("{error:?}: {printed}"));
        let reread = reread.unwrap_or_else(|| panic!("blank: {filter:?}"));
        assert_eq!(reread.to_string(), printed, "{filter:?}");
        SHELF.with(|shelf| shelf.ask(&filter, &reread));
    }
    // The planner takes what no check has seen, too.
    let _ = Plan::of(Some(&filter)).to_string();
}

fn depth(filter: &Filter) -> usize {
    match filter {
        Filter::Compare { .. } | Filter::Flag(_) | Filter::Always(_) => 1,
        Filter::Not(inner) => 1 + depth(inner),
        Filter::And(inner) | Filter::Or(inner) => {
            1 + inner.iter().map(depth).max().unwrap_or_default()
        }
    }
}

thread_local! {
    /// Only ever read, so that one input does not depend on those before it.
    static SHELF: Shelf = Shelf::new();
}

/// A table with every type and with keys at the edges of ranges.
struct Shelf {
    tables: TableStore<Db>,
    account: AccountName,
    table: TableName,
    entities: Vec<Entity>,
}

impl Shelf {
    fn new() -> Shelf {
        let clock = Arc::new(ManualClock::at(16_094_592_000_000_000));
        let options = Options {
            advanced: Advanced {
                memtable_bytes: Some(4 << 10),
                wal_segment_bytes: 64 << 10,
                block_bytes: 256,
                block_cache_bytes: Some(1 << 20),
                ..Advanced::default()
            },
            ..Options::default()
        };
        let db = Db::builder()
            .options(options)
            .parts(Arc::new(SimFs::new()), clock.clone(), Arc::new(ByHand))
            .open("/shelf")
            .expect("a database in memory opens");
        let tables = TableStore::with_clock(Arc::new(db), clock.clone());
        let account = AccountName::parse("account").expect("a name");
        let table = TableName::parse("Shelf").expect("a name");
        tables.create_table(&account, &table).expect("a new table");
        for (index, entity) in entities().into_iter().enumerate() {
            clock.advance(Duration::from_millis(1));
            let pending = tables.write(&account, &table, Write::Insert(entity));
            pending.expect("a sound entity").wait().expect("a sound disk");
            if index == 40 {
                tables.rows().flush().expect("a sound disk");
            }
        }
        let mut shelf = Shelf { tables, account, table, entities: Vec::new() };
        shelf.entities = shelf.page_through(None).expect("no filter is none too complex");
        shelf
    }

    /// The plan's answer is the answer of looking at every entity, for a filter and for the filter
    /// that its text is read as.
    fn ask(&self, filter: &Filter, reread: &Filter) {
        let is_true = |filter: &Filter, entity: &Entity| {
            passes(filter, entity).expect("a whole entity answers")
        };
        let expected: Vec<_> =
            self.entities.iter().filter(|entity| is_true(filter, entity)).collect();
        let same = self.entities.iter().all(|e| is_true(filter, e) == is_true(reread, e));
        assert!(same, "{filter:?} is not {reread:?}");
        match self.page_through(Some(filter)) {
            Ok(found) => assert!(
                found.iter().eq(expected.iter().copied()),
                "{filter}\n{}\nfound {}, expected {}",
                Plan::of(Some(filter)),
                found.len(),
                expected.len()
            ),
            Err(error) => assert!(matches!(error, TableError::FilterTooComplex), "{error}"),
        }
    }

    fn page_through(&self, filter: Option<&Filter>) -> Result<Vec<Entity>, TableError> {
        let mut query = Query { filter: filter.cloned(), top: 50, ..Query::default() };
        let mut found = Vec::new();
        loop {
            let page = self.tables.query(&self.account, &self.table, &query)?;
            found.extend(page.entities);
            let Some(next) = page.next else { return Ok(found) };
            assert!(query.from.as_ref() != Some(&next), "a page goes on");
            query.from = Some(Continuation { ..next });
        }
    }
}

fn entities() -> Vec<Entity> {
    let keys = ["", "0", "a", "a ", "aa", "b", "it's", "p", "p1", "z", "ô", "\u{ffff}", "😀"];
    let mut all = Vec::new();
    for (i, partition_key) in keys.iter().enumerate() {
        for (j, row_key) in keys.iter().enumerate().filter(|(j, _)| (i + j) % 3 != 1) {
            let number = (i * 13 + j) as i32 - 40;
            let entity = Entity::new(*partition_key, *row_key);
            all.push(match (i + j) % 7 {
                0 => entity.with("A", Value::Int32(number)).with("B", Value::Boolean(j % 2 == 0)),
                1 => entity.with("A", Value::Int64(i64::from(number) << 33)),
                2 => entity.with("A", Value::Double(f64::from(number) / 2.0)),
                3 => entity.with("A", Value::String(row_key.to_string())),
                4 => entity.with("A", Value::Guid([number as u8; 16])).with("C", Value::Int32(1)),
                5 => entity.with("A", Value::Binary(vec![number as u8; j])),
                _ => entity.with("A", Value::DateTime(DateTime::UNIX_EPOCH)),
            });
        }
    }
    all
}
