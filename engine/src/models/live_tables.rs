//! Live tables beside whoever drops one and makes one.

use super::every_order::{holds, needs};
use crate::catalog::Tables;
use crate::ids::{CommitTs, TableId};
use crate::live_tables::LiveTables;
use crate::rows::TableInfo;
use crate::sync::atomic::{AtomicBool, Ordering};
use bytes::Bytes;
use loom::thread;
use std::sync::Arc;

const TABLE: TableId = TableId(1);

fn with_table() -> Tables {
    let mut tables = Tables::new();
    let (name, note) = ("t".to_owned(), Bytes::new());
    tables.add(TableInfo { id: TABLE, name, note, created: CommitTs(1) });
    tables
}

/// A table is dropped: whoever saw the new catalogue, or the commit, is not told that it is live.
fn dropped() {
    let live = Arc::new(LiveTables::default());
    live.follow(&with_table(), || ());
    let (shown, visible) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (theirs, show, commit) = (Arc::clone(&live), Arc::clone(&shown), Arc::clone(&visible));
    let dropping = thread::spawn(move || {
        theirs.follow(&Tables::new(), || show.store(true, Ordering::Release));
        commit.store(true, Ordering::Release);
    });
    let seen = shown.load(Ordering::Acquire) || visible.load(Ordering::Acquire);
    assert!(!(seen && live.knows(TABLE)), "told of a table whose drop was seen");
    dropping.join().expect("it ends");
}

/// A table is made: whoever is told of it finds it in the catalogue.
fn made() {
    let (live, shown) = (Arc::new(LiveTables::default()), Arc::new(AtomicBool::new(false)));
    let (theirs, show) = (Arc::clone(&live), Arc::clone(&shown));
    let making = thread::spawn(move || {
        theirs.follow(&with_table(), || show.store(true, Ordering::Relaxed));
    });
    assert!(!live.knows(TABLE) || shown.load(Ordering::Relaxed), "told of what is not shown");
    making.join().expect("it ends");
    assert!(live.knows(TABLE));
}

#[test]
fn whoever_saw_a_drop_is_not_told_of_its_table() {
    holds(dropped, 3);
}

#[test]
fn a_table_that_is_told_of_is_in_the_catalogue() {
    holds(made, 3);
}

#[test]
fn a_drop_needs_its_place_emptied_before_it_shows() {
    needs(dropped, "gone");
}

#[test]
fn a_table_needs_the_release_of_its_place() {
    needs(made, "known");
}
