//! The same list on the table layer itself, as an embedded user calls it: no requests, no answers,
//! filters that were never text. It is held against a model of its own under the same rules, so
//! that what the protocol does to a list shows as a difference of one of the two.

use crate::model::{Entity, Refusal, bytes_of, name_of, partition_of};
use crate::ops::{Change, Compare, Filter, Op, Policy, Property, Select, Tag, Verb};
use crate::way::{Difference, Form, Look, Site, Way};
use serde::Serialize;
use std::fmt::Debug;
use tabulith::CommitTs;
use tabulith::options::Reach;
use tabulith::table::entity;
use tabulith::table::error::{TableError, TableResult};
use tabulith::table::etag::IfMatch;
use tabulith::table::filter::ast;
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::page::{PAGE_ENTITIES_MAX, Page, Query};
use tabulith::table::store::TablesPage;
use tabulith::table::value::Value;
use tabulith::table::write::{Pending, Write};

/// How far a list went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reached {
    /// Changes and groups that happened.
    pub(crate) done: u64,
    /// Those that did not.
    pub(crate) refused: u64,
    /// Entities that were read.
    pub(crate) entities: u64,
    /// Those of them that were read in the past.
    pub(crate) past: u64,
}

impl Reached {
    pub(crate) fn add(&mut self, other: &Reached) {
        self.done += other.done;
        self.refused += other.refused;
        self.entities += other.entities;
        self.past += other.past;
    }
}

struct Run {
    site: Site,
    account: AccountName,
    reached: Reached,
}

/// Runs `ops` on tables of their own; the first difference ends it.
pub(crate) fn run(ops: &[Op], options: usize) -> Result<Reached, Difference> {
    let account = AccountName::parse("direct").map_err(said)?;
    let mut run = Run { site: Site::start(options)?, account, reached: Reached::default() };
    run.all(ops)?;
    Ok(Reached { entities: run.site.entities, past: run.site.past, ..run.reached })
}

impl Run {
    fn tables_page(
        &self,
        filter: Option<&ast::Filter>,
        top: usize,
        from: Option<&str>,
    ) -> TableResult<TablesPage> {
        let tables = self.site.house.tables();
        match self.site.as_of {
            Some(moment) => tables.as_of(moment)?.list_tables(&self.account, filter, top, from),
            None => tables.list_tables(&self.account, filter, top, from),
        }
    }

    /// A change as the table layer takes it; `None` where its `If-Match` is no condition at all.
    fn write(&self, table: usize, pk: &str, change: &Change) -> Result<Option<Write>, Difference> {
        let tag = self.site.model.tag(table, pk, change);
        let condition = match tag.as_deref().map(IfMatch::parse).transpose() {
            Ok(condition) if change.tag != Tag::Malformed => condition,
            Err(_) if change.tag == Tag::Malformed => return Ok(None),
            outcome => return Err(format!("{tag:?} is {outcome:?}")),
        };
        let present = change
            .properties
            .iter()
            .filter_map(|(name, property)| value_of(property).map(|value| (name.clone(), value)));
        let entity = present.fold(entity::Entity::new(pk, &change.rk), |entity, (name, value)| {
            entity.with(name, value)
        });
        Ok(Some(match (change.verb, condition) {
            (Verb::Insert | Verb::InsertAndShow, _) => Write::Insert(entity),
            (Verb::Replace, None) => Write::InsertOrReplace(entity),
            (Verb::Replace, Some(condition)) => Write::Update(entity, condition),
            (Verb::Merge | Verb::PostMerge, None) => Write::InsertOrMerge(entity),
            (Verb::Merge | Verb::PostMerge, Some(condition)) => Write::Merge(entity, condition),
            (Verb::Delete, condition) => Write::Delete {
                partition_key: pk.to_owned(),
                row_key: change.rk.clone(),
                condition: condition.ok_or("a delete without a condition")?,
            },
        }))
    }

    /// A commit comes after all others.
    fn rises(&self, ts: CommitTs) -> Result<(), Difference> {
        let newest = self.site.model.newest();
        (ts.0 > newest).then_some(()).ok_or(format!("commit {ts} does not come after {newest}"))
    }

    fn page(&self, table: usize, query: &Query) -> TableResult<Page> {
        let (tables, account, name) = (self.site.house.tables(), &self.account, named(table));
        match self.site.as_of {
            Some(moment) => tables.as_of(moment)?.query(account, &name, query),
            None => tables.query(account, &name, query),
        }
    }
}

impl Way for Run {
    const NAME: &'static str = "direct";

    fn site(&mut self) -> &mut Site {
        &mut self.site
    }

    fn create(&mut self, table: usize, _: bool) -> Result<(), Difference> {
        let outcome = self.site.house.tables().create_table(&self.account, &named(table));
        let expected = self.site.model.create(table);
        agree(&outcome, &expected)
    }

    fn drop_table(&mut self, table: usize) -> Result<(), Difference> {
        let outcome = self.site.house.tables().delete_table(&self.account, &named(table));
        // The protocol has a code of its own for this one place.
        let expected = self.site.model.drop_table(table);
        agree(&outcome, &expected.map_err(|_| TABLE_NOT_FOUND))
    }

    fn find(&mut self, table: usize) -> Result<(), Difference> {
        let (tables, account, name) = (self.site.house.tables(), &self.account, named(table));
        let found = match self.site.as_of {
            Some(moment) => tables.as_of(moment).and_then(|past| past.get_table(account, &name)),
            None => tables.get_table(account, &name),
        };
        let found = found.map_err(said)?.map(|table| table.name.as_str().to_owned());
        same(&found, &self.site.model.find(table).ok())
    }

    fn list(&mut self, only: Option<(Compare, usize)>, top: Option<u32>) -> Result<(), Difference> {
        let filter = only.map(|(op, table)| {
            ast::Filter::compare("TableName", op_of(op), Value::String(name_of(table)))
        });
        let top = top.map_or(PAGE_ENTITIES_MAX, |top| top as usize);
        let (mut names, mut next) = (Vec::new(), None::<String>);
        loop {
            let page = self.tables_page(filter.as_ref(), top, next.as_deref()).map_err(said)?;
            if page.tables.len() > top {
                return Err(format!("{} names on a page of {top}", page.tables.len()));
            }
            names.extend(page.tables.iter().map(|table| table.name.as_str().to_owned()));
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        let expected = match only {
            Some((op, table)) => self.site.model.some_names(op, table),
            None => self.site.model.names(),
        };
        same(&names, &expected)
    }

    fn change(&mut self, table: usize, pk: &str, change: &Change) -> Result<(), Difference> {
        let Some(write) = self.write(table, pk, change)? else { return Ok(()) };
        let tables = self.site.house.tables();
        let outcome = tables.write(&self.account, &named(table), write).and_then(Pending::wait);
        let expected = self.site.model.judge(table, pk, change);
        agree(&outcome, &expected)?;
        let (Ok(done), Ok(left)) = (outcome, expected) else {
            self.reached.refused += 1;
            return Ok(());
        };
        self.reached.done += 1;
        self.rises(done.ts)?;
        same(&done.entity.is_some(), &left.is_some())?;
        self.site.model.commit(table, pk, done.ts.0, &[(change.rk.clone(), left)]);
        match (done.entity, self.site.model.get(table, pk, &change.rk)) {
            (Some(found), Ok(expected)) => same_entity(&found, &expected, &Select::All),
            _ => Ok(()),
        }
    }

    fn batch(&mut self, table: usize, pk: &str, changes: &[Change]) -> Result<(), Difference> {
        let own = |change: &Change| partition_of(pk, change.astray);
        let writes = changes.iter().map(|change| self.write(table, &own(change), change));
        let writes: Option<Vec<Write>> = writes.collect::<Result<_, _>>()?;
        // Where an `If-Match` is no condition, there is no group that could be given.
        let Some(writes) = writes else { return Ok(()) };
        let tables = self.site.house.tables();
        let outcome = tables.transact(&self.account, &named(table), writes).and_then(Pending::wait);
        let (done, left) = match (outcome, self.site.model.judge_all(table, pk, changes)) {
            (Ok(done), Ok(left)) => (done, left),
            (Err(refused), Err((at, refusal))) => {
                self.reached.refused += 1;
                return same(&(refused.index, refusal_of(&refused.error)), &(at, Some(refusal)));
            }
            (outcome, expected) => return Err(format!("{expected:?}, not {outcome:?}")),
        };
        self.reached.done += 1;
        same(&done.len(), &left.len())?;
        let Some(ts) = done.first().map(|first| first.ts) else { return Ok(()) };
        self.rises(ts)?;
        if done.iter().any(|one| one.ts != ts) {
            return Err(format!("one commit, and several times: {done:?}"));
        }
        let own = partition_of(pk, changes.first().is_some_and(|change| change.astray));
        let left: Vec<_> = changes.iter().map(|change| change.rk.clone()).zip(left).collect();
        self.site.model.commit(table, &own, ts.0, &left);
        for (done, (rk, _)) in done.iter().zip(&left) {
            match (&done.entity, self.site.model.get(table, &own, rk)) {
                (Some(found), Ok(expected)) => same_entity(found, &expected, &Select::All)?,
                (None, Err(_)) => {}
                (found, expected) => return Err(format!("{found:?}, not {expected:?}")),
            }
        }
        Ok(())
    }

    fn get(
        &mut self,
        table: usize,
        [pk, rk]: [&str; 2],
        _: &Select,
        _: Form,
    ) -> Result<(), Difference> {
        let (tables, account, name) = (self.site.house.tables(), &self.account, named(table));
        let outcome = match self.site.as_of {
            Some(moment) => tables.as_of(moment).and_then(|past| past.get(account, &name, pk, rk)),
            None => tables.get(account, &name, pk, rk, Reach::Disk),
        };
        let outcome = outcome.and_then(|found| found.ok_or(TableError::EntityNotFound));
        let expected = self.site.model.get(table, pk, rk);
        agree(&outcome, &expected)?;
        let (Ok(found), Ok(expected)) = (outcome, expected) else { return Ok(()) };
        self.site.entities += 1;
        same_entity(&found, &expected, &Select::All)
    }

    fn query(&mut self, table: usize, look: Look<'_>) -> Result<(), Difference> {
        let (filter, select) = (look.whole_filter(), look.select);
        let mut query = Query {
            filter: filter.as_ref().map(filter_of),
            select: match select {
                Select::All => None,
                Select::Some(names) => Some(names.clone()),
            },
            top: look.top.map_or(PAGE_ENTITIES_MAX, |top| top as usize),
            ..Query::default()
        };
        let expected = self.site.model.query(table, filter.as_ref());
        let mut found = Vec::new();
        loop {
            let page = self.page(table, &query);
            agree(&page, &expected)?;
            let Ok(page) = page else { return Ok(()) };
            if page.entities.len() > query.top {
                return Err(format!("{} entities on a page of {}", page.entities.len(), query.top));
            }
            found.extend(page.entities);
            query.from = page.next;
            if query.from.is_none() {
                break;
            }
            if let Some(options) = look.killed {
                self.site.house.endure(&Op::Kill { options })?;
            }
        }
        let expected = expected.unwrap_or_default();
        self.site.entities += expected.len() as u64;
        same(&found.len(), &expected.len())?;
        found.iter().zip(&expected).try_for_each(|(a, b)| same_entity(a, b, select))
    }

    /// Each page is of its own moment: what is there then, from where the one before it ended.
    fn walk(
        &mut self,
        table: usize,
        top: u32,
        changes: &[(String, Change)],
    ) -> Result<(), Difference> {
        let mut query = Query { top: top as usize, ..Query::default() };
        let mut changes = changes.iter();
        loop {
            let all = self.site.model.query(table, None);
            let page = self.page(table, &query);
            agree(&page, &all)?;
            let (Ok(page), Ok(all)) = (page, all) else { return Ok(()) };
            let order = |pk: &str, rk: &str| [bytes_of(pk), bytes_of(rk)];
            let from = query.from.map(|from| order(&from.partition_key, &from.row_key));
            let is_left = |entity: &&Entity| {
                from.as_ref().is_none_or(|from| order(&entity.pk, &entity.rk) >= *from)
            };
            let expected: Vec<_> = all.iter().filter(is_left).take(query.top).collect();
            same(&page.entities.len(), &expected.len())?;
            for (found, expected) in page.entities.iter().zip(&expected) {
                same_entity(found, expected, &Select::All)?;
            }
            self.site.entities += expected.len() as u64;
            query.from = page.next;
            if query.from.is_none() {
                return Ok(());
            }
            if let Some((pk, change)) = changes.next() {
                self.change(table, pk, change)?;
            }
        }
    }

    /// Nobody asks here by their leave; they are kept as any setting of a table is.
    fn set_policies(&mut self, table: usize, policies: &[Policy]) -> Result<(), Difference> {
        let (tables, kept) = (self.site.house.tables(), kept(&policies));
        let outcome = tables.set_table_setting(&self.account, &named(table), SETTING, Some(&kept));
        let expected = self.site.model.set_policies(table, policies);
        agree(&outcome, &expected)
    }

    fn policies(&mut self, table: usize) -> Result<(), Difference> {
        let tables = self.site.house.tables();
        let found = tables.table_setting(&self.account, &named(table), SETTING);
        let expected = self.site.model.policies(table);
        agree(&found, &expected)?;
        let (Ok(found), Ok(expected)) = (found, expected) else { return Ok(()) };
        let nothing: [Policy; 0] = [];
        same(
            &found.map_or_else(|| kept(&nothing.as_slice()), |kept| kept.to_vec()),
            &kept(&expected),
        )
    }

    fn set_properties(&mut self, days: u16) -> Result<(), Difference> {
        let tables = self.site.house.tables();
        tables.set_account_setting(&self.account, SETTING, Some(&kept(&days))).map_err(said)?;
        self.site.model.set_days(days);
        Ok(())
    }

    fn properties(&mut self) -> Result<(), Difference> {
        let tables = self.site.house.tables();
        let found = tables.account_setting(&self.account, SETTING).map_err(said)?;
        same(&found.map(|kept| kept.to_vec()), &self.site.model.days().map(|days| kept(&days)))
    }
}

/// The name of a setting, of a table and of the account alike.
const SETTING: &str = "of-the-list";

fn kept(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("it is JSON")
}

const TABLE_NOT_FOUND: Refusal = (404, "TableNotFound");

fn named(table: usize) -> TableName {
    TableName::parse(&name_of(table)).expect("a name that can be")
}

fn said(error: impl Debug) -> Difference {
    format!("{error:?}")
}

/// What the protocol answers to an error; `None` for one that no list can cause.
fn refusal_of(error: &TableError) -> Option<Refusal> {
    Some(match error {
        TableError::TableNotFound => TABLE_NOT_FOUND,
        TableError::TableExists => (409, "TableAlreadyExists"),
        TableError::EntityNotFound => (404, "ResourceNotFound"),
        TableError::EntityExists => (409, "EntityAlreadyExists"),
        TableError::ConditionFailed { .. } => (412, "UpdateConditionNotSatisfied"),
        TableError::MixedPartitions => (400, "CommandsInBatchActOnDifferentPartitions"),
        TableError::RowTwice => (400, "InvalidDuplicateRow"),
        _ => return None,
    })
}

/// Both go well, or both are refused for the same reason.
fn agree<A: Debug, B: Debug>(
    outcome: &TableResult<A>,
    expected: &Result<B, Refusal>,
) -> Result<(), Difference> {
    match (outcome, expected) {
        (Ok(_), Ok(_)) => Ok(()),
        (Err(error), Err(refusal)) if refusal_of(error) == Some(*refusal) => Ok(()),
        _ => Err(format!("{expected:?}, not {outcome:?}")),
    }
}

fn same<T: PartialEq + Debug>(found: &T, expected: &T) -> Result<(), Difference> {
    (found == expected).then_some(()).ok_or_else(|| format!("{found:?}, not {expected:?}"))
}

/// Keys and time always come; of properties those that are selected and there.
fn same_entity(
    found: &entity::Entity,
    expected: &Entity,
    select: &Select,
) -> Result<(), Difference> {
    let is_wanted = |name: &String| match select {
        Select::All => true,
        Select::Some(names) => names.contains(name),
    };
    let wanted = expected.properties.iter().filter(|(name, _)| is_wanted(name));
    let mut wanted: Vec<(String, Value)> = wanted
        .filter_map(|(name, property)| value_of(property).map(|value| (name.clone(), value)))
        .collect();
    let mut properties = found.properties.clone();
    wanted.sort_by(|(a, _), (b, _)| a.cmp(b));
    properties.sort_by(|(a, _), (b, _)| a.cmp(b));
    let has = (&*found.partition_key, &*found.row_key, found.ts.0, properties);
    same(&has, &(&*expected.pk, &*expected.rk, expected.ts, wanted))
}

/// `None` for what is not there.
fn value_of(property: &Property) -> Option<Value> {
    Some(match property {
        Property::Int(number) => Value::Int32(*number),
        Property::Long(number) => Value::Int64(*number),
        Property::Text(text) => Value::String(text.clone()),
        Property::Flag(flag) => Value::Boolean(*flag),
        Property::Halves(halves) => Value::Double(f64::from(*halves) / 2.0),
        Property::Null => return None,
    })
}

fn filter_of(filter: &Filter) -> ast::Filter {
    match filter {
        Filter::Not(inner) => ast::Filter::Not(Box::new(filter_of(inner))),
        Filter::And(left, right) => ast::Filter::And(vec![filter_of(left), filter_of(right)]),
        Filter::Or(left, right) => ast::Filter::Or(vec![filter_of(left), filter_of(right)]),
        Filter::Compare { name, op, with } => {
            let literal = value_of(with).expect("lists compare with what is there");
            ast::Filter::compare(name, op_of(*op), literal)
        }
    }
}

fn op_of(op: Compare) -> ast::Op {
    match op {
        Compare::Eq => ast::Op::Eq,
        Compare::Ne => ast::Op::Ne,
        Compare::Lt => ast::Op::Lt,
        Compare::Le => ast::Op::Le,
        Compare::Gt => ast::Op::Gt,
        Compare::Ge => ast::Op::Ge,
    }
}
