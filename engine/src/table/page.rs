//! A query and the page that answers it.

use crate::table::entity::Entity;
use crate::table::filter::ast::Filter;
use crate::table::plan::Plan;
use std::time::Duration;

/// Most entities of one page.
pub const PAGE_ENTITIES_MAX: usize = 1000;

/// Most tables that one page of tables looks at, those that its filter refuses included.
pub const PAGE_TABLES_LOOKED_MAX: usize = 10_000;

/// Which entities of a table, and how much work to spend on one page of them.
#[derive(Clone, Debug)]
pub struct Query {
    /// The condition; `None` takes every entity.
    pub filter: Option<Filter>,
    /// The keys that whoever asks may know of, as a condition that entities must meet as well. Its
    /// keys are found apart from `filter`, and none beyond them is read, whatever that asks for.
    /// Default: `None`, all of them.
    pub within: Option<Filter>,
    /// The custom properties to return; `None` returns all. Keys and Timestamp always come.
    pub select: Option<Vec<String>>,
    /// Most entities of the page: 0 to [`PAGE_ENTITIES_MAX`]. A page of 0 has no continuation.
    pub top: usize,
    /// Where to start: an earlier page's [`Page::next`].
    pub from: Option<Continuation>,
    /// When to stop early.
    pub budget: Budget,
    /// Whether blocks may be passed over by what is known of all rows in them, those outside of the
    /// plan too. All pages together have the same entities either way; where one ends, and what it
    /// examined, does not hang on rows outside of the plan where this is false. Default: true.
    pub zones: bool,
}

impl Default for Query {
    fn default() -> Query {
        Query {
            filter: None,
            within: None,
            select: None,
            top: PAGE_ENTITIES_MAX,
            from: None,
            budget: Budget::default(),
            zones: true,
        }
    }
}

/// What one page may cost. Where it ends before the page is full, the page is short, perhaps
/// empty, and has a continuation. At least one row is examined whatever the budget.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Time. Default 5 s, as on Azure.
    pub time: Duration,
    /// Rows read, those that the filter refused included, and one for each 256 deleted ones between
    /// two others. Default: no bound.
    pub rows_scanned: u64,
    /// Bytes of the rows read, as they are stored. Also bounds the page's size in memory. Default:
    /// no bound.
    pub bytes_scanned: u64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { time: Duration::from_secs(5), rows_scanned: u64::MAX, bytes_scanned: u64::MAX }
    }
}

/// Where the next page starts: the first row that may be in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// Its PartitionKey.
    pub partition_key: String,
    /// Its RowKey.
    pub row_key: String,
}

/// Blocks of table files that a page with conditions on properties or on the Timestamp came by, in
/// files whose zones were asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// Those with rows that may pass, or that hide older ones.
    pub read: u64,
    /// Those passed over unread.
    pub skipped: u64,
}

/// How a page that was read entity by entity ended, and what it took.
#[derive(Clone, Debug)]
pub struct PageEnd {
    /// Where the next page starts; `None` where no row is left for the plan to read. The page
    /// after this one may still be empty: rows that are left may fail the filter.
    pub next: Option<Continuation>,
    /// Rows read to make this page, passed-over ones included.
    pub examined: u64,
    /// What zones spared.
    pub blocks: Blocks,
    /// How they were found.
    pub plan: Plan,
}

/// Entities in the order of their keys, all as of one moment.
#[derive(Clone, Debug)]
pub struct Page {
    /// The entities, with the selected properties in their stored order.
    pub entities: Vec<Entity>,
    /// As [`PageEnd::next`].
    pub next: Option<Continuation>,
    /// As [`PageEnd::examined`].
    pub examined: u64,
    /// As [`PageEnd::blocks`].
    pub blocks: Blocks,
    /// As [`PageEnd::plan`].
    pub plan: Plan,
}
