//! What is asked of the service, as data.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Tables that a list works on; they come and go.
pub(crate) const TABLES: usize = 3;
/// Moments of the past that are known at a time.
pub(crate) const PASTS: usize = 3;
/// Sets of options of the engine, of which each opening takes one.
pub(crate) const OPTION_SETS: usize = 4;

/// One operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Op {
    CreateTable {
        table: usize,
    },
    /// The same, with the table in the answer.
    CreateShown {
        table: usize,
    },
    DropTable {
        table: usize,
    },
    /// One table by its name.
    Find {
        table: usize,
    },
    /// All names, by pages of so many.
    ListTables {
        top: Option<u32>,
    },
    /// The names that compare so with a table's, whether that is there or not.
    ListSome {
        op: Compare,
        table: usize,
        top: Option<u32>,
    },
    /// A change of one entity.
    Change {
        table: usize,
        pk: String,
        change: Change,
    },
    /// Changes of a partition, together or not at all.
    Batch {
        table: usize,
        pk: String,
        changes: Vec<Change>,
    },
    Get {
        table: usize,
        pk: String,
        rk: String,
        select: Select,
    },
    /// The same, as the one part of a batch.
    GetInBatch {
        table: usize,
        pk: String,
        rk: String,
        select: Select,
    },
    /// The same, in JSON that says no types.
    GetBare {
        table: usize,
        pk: String,
        rk: String,
        select: Select,
    },
    /// All that pass, page by page.
    Query {
        table: usize,
        filter: Option<Filter>,
        select: Select,
        top: Option<u32>,
    },
    /// The same, in JSON that says no types.
    QueryBare {
        table: usize,
        filter: Option<Filter>,
        select: Select,
        top: Option<u32>,
    },
    /// All of some keys that pass.
    QueryKeys {
        table: usize,
        keys: Keys,
        rest: Option<Filter>,
        select: Select,
        top: Option<u32>,
    },
    /// All that pass, for one who may see a stretch of keys alone.
    QuerySigned {
        table: usize,
        stretch: Stretch,
        filter: Option<Filter>,
        top: Option<u32>,
    },
    /// All there is, for one who has leave by a stored policy, if it gives any.
    QueryByPolicy {
        table: usize,
        id: String,
    },
    /// All there is, page by page, while the service dies behind each page.
    QueryAcrossKills {
        table: usize,
        top: u32,
        options: usize,
    },
    /// All there is, page by page, with a change behind each page.
    Walk {
        table: usize,
        top: u32,
        changes: Vec<(String, Change)>,
    },
    /// Takes note of the present, to come back to it later: after an opening, too.
    Remember {
        past: usize,
    },
    /// An entity as of a moment that was noted, or of the newest where none was.
    GetPast {
        past: usize,
        table: usize,
        pk: String,
        rk: String,
        select: Select,
    },
    /// All that pass as of a moment of the past, page by page.
    QueryPast {
        past: usize,
        table: usize,
        filter: Option<Filter>,
        select: Select,
        top: Option<u32>,
    },
    /// All names as of a moment of the past.
    ListPast {
        past: usize,
        top: Option<u32>,
    },
    /// One table as of a moment of the past.
    FindPast {
        past: usize,
        table: usize,
    },
    /// Replaces a table's stored policies.
    SetPolicies {
        table: usize,
        policies: Vec<Policy>,
    },
    AskPolicies {
        table: usize,
    },
    /// For how many days figures by the hour are to be kept, of the properties of the service.
    SetProperties {
        days: u16,
    },
    AskProperties,
    /// Closes the database and opens it, under a set of options.
    Reopen {
        options: usize,
    },
    /// The process dies, and is started again.
    Kill {
        options: usize,
    },
    /// The power goes; of what may be left on the disk the number says which.
    LosePower {
        options: usize,
        state: u64,
    },
    /// Writes the memtable to a file.
    Flush,
    Compact,
    /// Everything that is due in the background.
    Settle,
    /// One piece of that.
    Step,
    /// So many pieces of a scrub.
    Scrub {
        pieces: usize,
    },
    /// Copies the database into a folder beside it, closes it and goes on with the copy.
    Checkpoint {
        options: usize,
    },
    /// Writes all that is there now into a folder beside it, closes the database and goes on with
    /// that.
    Export {
        options: usize,
    },
    /// Closes the database, has the whole of it checked, and opens it.
    Check {
        options: usize,
    },
    /// The wall clock goes on by so many ticks, or back.
    Clock {
        ticks: i64,
    },
}

/// A change of an entity, as a request of its own or a part of a batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) rk: String,
    pub(crate) verb: Verb,
    /// What it asks of the entity that is there; an insert asks nothing.
    pub(crate) tag: Tag,
    pub(crate) properties: Properties,
    /// In a batch: of a partition that is not the batch's.
    pub(crate) astray: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Verb {
    Insert,
    /// With its content in the answer.
    InsertAndShow,
    Replace,
    Merge,
    /// As old clients do: POST that says MERGE.
    PostMerge,
    Delete,
}

/// What stands in `If-Match`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Tag {
    /// Nothing: the entity is made where there is none. A delete says `*` then.
    Absent,
    Any,
    /// The ETag of what is there, or of what never was.
    Right,
    /// One that it had, or never had.
    Stale,
    /// No ETag.
    Malformed,
}

/// Properties by name. A name has one type, so that filters compare what can be compared.
pub(crate) type Properties = BTreeMap<String, Property>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Property {
    Int(i32),
    Long(i64),
    Text(String),
    Flag(bool),
    /// Halves, so that its text is exact.
    Halves(i32),
    /// Not there; in a merge it changes nothing.
    Null,
}

/// `$select`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Select {
    All,
    Some(Vec<String>),
}

/// `$filter`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Filter {
    Compare { name: String, op: Compare, with: Property },
    Not(Box<Filter>),
    And(Box<Filter>, Box<Filter>),
    Or(Box<Filter>, Box<Filter>),
}

/// Keys as a filter says them: each is found in a way of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Keys {
    Row(String, String),
    Partition(String),
    /// Rows of a partition, the second one not among them.
    Rows(String, String, String),
    /// Partitions, the second one among them.
    Partitions(String, String),
}

impl Keys {
    pub(crate) fn filter(&self) -> Filter {
        let pk = |op, key: &str| compare("PartitionKey", op, key);
        let rk = |op, key: &str| compare("RowKey", op, key);
        match self {
            Keys::Row(own, row) => both(pk(Compare::Eq, own), rk(Compare::Eq, row)),
            Keys::Partition(own) => pk(Compare::Eq, own),
            Keys::Rows(own, from, to) => {
                both(pk(Compare::Eq, own), both(rk(Compare::Ge, from), rk(Compare::Lt, to)))
            }
            Keys::Partitions(from, to) => both(pk(Compare::Ge, from), pk(Compare::Le, to)),
        }
    }
}

/// The keys that a signature is good for, both ends among them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stretch {
    pub(crate) from: (String, Option<String>),
    pub(crate) to: (String, Option<String>),
}

impl Stretch {
    /// What one sees who may see no more.
    pub(crate) fn filter(&self) -> Filter {
        let end = |(own, row): &(String, Option<String>), beyond, up_to| {
            let Some(row) = row else { return compare("PartitionKey", up_to, own) };
            let here =
                both(compare("PartitionKey", Compare::Eq, own), compare("RowKey", up_to, row));
            Filter::Or(Box::new(compare("PartitionKey", beyond, own)), Box::new(here))
        };
        both(end(&self.from, Compare::Gt, Compare::Ge), end(&self.to, Compare::Lt, Compare::Le))
    }
}

/// A stored policy without an end that anybody reaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Policy {
    pub(crate) id: String,
    /// What it gives leave to, of `raud`, in that order.
    pub(crate) letters: String,
}

fn compare(name: &str, op: Compare, key: &str) -> Filter {
    Filter::Compare { name: name.to_owned(), op, with: Property::Text(key.to_owned()) }
}

/// What passes one filter and the other.
pub(crate) fn both(left: Filter, right: Filter) -> Filter {
    Filter::And(Box::new(left), Box::new(right))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Op {
    /// What kind of operation it is, for counts.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Op::CreateTable { .. } => "create a table",
            Op::CreateShown { .. } => "create a table and show it",
            Op::DropTable { .. } => "drop a table",
            Op::Find { .. } => "look for a table",
            Op::ListTables { .. } => "list tables",
            Op::ListSome { .. } => "list tables with a filter",
            Op::Change { change, .. } => match (change.verb, change.tag) {
                (Verb::Insert, _) => "insert",
                (Verb::InsertAndShow, _) => "insert and show",
                (Verb::Replace, Tag::Absent) => "insert or replace",
                (Verb::Replace, _) => "replace under a condition",
                (Verb::Merge | Verb::PostMerge, Tag::Absent) => "insert or merge",
                (Verb::Merge | Verb::PostMerge, _) => "merge under a condition",
                (Verb::Delete, _) => "delete under a condition",
            },
            Op::Batch { .. } => "batch",
            Op::Get { select: Select::All, .. } => "get",
            Op::Get { .. } => "get some properties",
            Op::GetInBatch { .. } => "get in a batch",
            Op::GetBare { .. } => "get without types",
            Op::QueryBare { .. } => "query without types",
            Op::QueryKeys { keys: Keys::Row(..), .. } => "query of a row",
            Op::QueryKeys { keys: Keys::Partition(_), .. } => "query of a partition",
            Op::QueryKeys { keys: Keys::Rows(..), .. } => "query of some rows",
            Op::QueryKeys { keys: Keys::Partitions(..), .. } => "query of some partitions",
            Op::QuerySigned { .. } => "query under a signature",
            Op::QueryByPolicy { .. } => "query under a stored policy",
            Op::QueryAcrossKills { .. } => "query across kills",
            Op::Query { filter: Some(_), .. } => "query with a filter",
            Op::Query { .. } => "query",
            Op::Walk { .. } => "query while it changes",
            Op::Remember { .. } => "note a moment",
            Op::GetPast { .. } => "get of the past",
            Op::QueryPast { .. } => "query of the past",
            Op::ListPast { .. } => "list tables of the past",
            Op::FindPast { .. } => "look for a table of the past",
            Op::SetPolicies { .. } => "set stored policies",
            Op::AskPolicies { .. } => "ask for stored policies",
            Op::SetProperties { .. } => "set properties",
            Op::AskProperties => "ask for properties",
            Op::Reopen { .. } => "reopen",
            Op::Kill { .. } => "kill",
            Op::LosePower { .. } => "lose power",
            Op::Flush => "flush",
            Op::Compact => "compact",
            Op::Settle => "settle",
            Op::Step => "background step",
            Op::Scrub { .. } => "scrub",
            Op::Checkpoint { .. } => "checkpoint, gone on with",
            Op::Export { .. } => "export, gone on with",
            Op::Check { .. } => "check",
            Op::Clock { .. } => "set the clock",
        }
    }
}
