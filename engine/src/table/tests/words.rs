//! Short ways to say entities, tables and filters.

use super::memory::MemoryStore;
use crate::options::Reach;
use crate::table::entity::Entity;
use crate::table::error::TableResult;
use crate::table::filter::ast::{Filter, Op};
use crate::table::name::{AccountName, TableName};
use crate::table::page::{Page, Query};
use crate::table::store::TableStore;
use crate::table::value::Value;
use crate::table::write::{Write, WriteOutcome};
use std::sync::Arc;

pub(super) fn account() -> AccountName {
    AccountName::parse("devstoreaccount1").expect("a name")
}

pub(super) fn table() -> TableName {
    TableName::parse("Flights").expect("a name")
}

/// A store with one empty table.
pub(super) fn store() -> TableStore<MemoryStore> {
    let store = TableStore::new(Arc::new(MemoryStore::default()));
    store.create_table(&account(), &table()).expect("a new table");
    store
}

pub(super) fn entity(pk: &str, rk: &str, properties: &[(&str, Value)]) -> Entity {
    let properties = properties.iter().map(|(n, v)| ((*n).to_owned(), v.clone()));
    Entity { properties: properties.collect(), ..Entity::new(pk, rk) }
}

pub(super) fn write(store: &TableStore<MemoryStore>, write: Write) -> TableResult<WriteOutcome> {
    store.write(&account(), &table(), write)?.wait()
}

pub(super) fn get(store: &TableStore<MemoryStore>, pk: &str, rk: &str) -> Option<Entity> {
    store.get(&account(), &table(), pk, rk, Reach::Disk).expect("the table is there")
}

pub(super) fn query(store: &TableStore<MemoryStore>, query: &Query) -> Page {
    store.query(&account(), &table(), query).expect("a page")
}

pub(super) fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

/// `name op 'literal'`.
pub(super) fn compare(name: &str, op: Op, literal: &str) -> Filter {
    Filter::compare(name, op, text(literal))
}

pub(super) fn pk(op: Op, literal: &str) -> Filter {
    compare("PartitionKey", op, literal)
}

pub(super) fn rk(op: Op, literal: &str) -> Filter {
    compare("RowKey", op, literal)
}

pub(super) fn n(op: Op, literal: i32) -> Filter {
    Filter::compare("N", op, Value::Int32(literal))
}

pub(super) fn not(filter: Filter) -> Filter {
    Filter::Not(Box::new(filter))
}
