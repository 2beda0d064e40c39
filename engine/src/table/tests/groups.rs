//! Groups: all or nothing, and which operation is named.

use super::memory::MemoryStore;
use super::words::{account, entity, get, store, table, text, write};
use crate::table::entity::Entity;
use crate::table::error::{GroupError, TableError};
use crate::table::etag::IfMatch;
use crate::table::store::TableStore;
use crate::table::value::Value;
use crate::table::write::{Write, WriteOutcome};

fn transact(
    store: &TableStore<MemoryStore>,
    writes: Vec<Write>,
) -> Result<Vec<WriteOutcome>, GroupError> {
    store.transact(&account(), &table(), writes)?.wait()
}

fn insert(pk: &str, rk: &str) -> Write {
    Write::Insert(entity(pk, rk, &[]))
}

fn failed(store: &TableStore<MemoryStore>, writes: Vec<Write>) -> (usize, TableError) {
    let GroupError { index, error } = transact(store, writes).expect_err("must fail");
    (index, error)
}

#[test]
fn a_group_of_every_kind_is_one_commit() {
    let store = store();
    for rk in ["updated", "merged", "deleted", "replaced"] {
        let old = entity("p", rk, &[("Old", Value::Int32(1))]);
        write(&store, Write::Insert(old)).expect("added");
    }
    let new = |rk: &str| entity("p", rk, &[("New", Value::Int32(2))]);
    let outcomes = transact(
        &store,
        vec![
            Write::Insert(new("inserted")),
            Write::Update(new("updated"), IfMatch::Any),
            Write::Merge(new("merged"), IfMatch::Any),
            Write::Delete {
                partition_key: "p".to_owned(),
                row_key: "deleted".to_owned(),
                condition: IfMatch::Any,
            },
            Write::InsertOrReplace(new("replaced")),
            Write::InsertOrMerge(new("added")),
        ],
    )
    .expect("all may happen");
    assert!(outcomes.iter().all(|outcome| outcome.ts == outcomes[0].ts), "one commit");
    let names = |rk: &str| -> Vec<String> {
        let stored = get(&store, "p", rk).expect("there");
        assert_eq!(stored.ts, outcomes[0].ts);
        stored.properties.into_iter().map(|(name, _)| name).collect()
    };
    for rk in ["inserted", "updated", "replaced", "added"] {
        assert_eq!(names(rk), ["New"], "{rk}");
    }
    assert_eq!(names("merged"), ["Old", "New"]);
    assert_eq!(get(&store, "p", "deleted"), None);
    let existed: Vec<bool> = outcomes.iter().map(|outcome| outcome.existed).collect();
    assert_eq!(existed, [false, true, true, true, true, false]);
}

#[test]
fn a_failure_at_any_place_leaves_nothing() {
    for at in 0..5 {
        let store = store();
        let before = write(&store, insert("p", "taken")).expect("added");
        let mut writes: Vec<Write> = (0..4).map(|i| insert("p", &format!("r{i}"))).collect();
        writes.insert(at, insert("p", "taken"));
        let (index, error) = failed(&store, writes);
        assert_eq!(index, at);
        assert!(matches!(error, TableError::EntityExists));
        for i in 0..4 {
            assert_eq!(get(&store, "p", &format!("r{i}")), None);
        }
        assert_eq!(get(&store, "p", "taken"), before.entity);
    }
}

#[test]
fn the_first_operation_at_fault_is_named() {
    let store = store();
    let (index, error) = failed(&store, vec![insert("p", "a"), insert("q", "b"), insert("p", "a")]);
    assert!(index == 1 && matches!(error, TableError::MixedPartitions));
    let (index, error) = failed(&store, vec![insert("p", "a"), insert("p", "b"), insert("p", "a")]);
    assert!(index == 2 && matches!(error, TableError::RowTwice));
    let bad = Write::Insert(entity("p", "b", &[("a b", text(""))]));
    let (index, error) = failed(&store, vec![insert("p", "a"), bad, insert("p", "a")]);
    assert!(index == 1 && matches!(error, TableError::PropertyNameInvalid { .. }));
}

#[test]
fn a_group_has_one_to_a_hundred_operations() {
    let store = store();
    let many = |count: usize| (0..count).map(|i| insert("p", &format!("r{i}"))).collect();
    let (index, error) = failed(&store, many(0));
    assert!(index == 0 && matches!(error, TableError::NoOperations));
    let (index, error) = failed(&store, many(101));
    assert!(index == 99 && matches!(error, TableError::TooManyOperations { count: 101 }));
    assert_eq!(get(&store, "p", "r0"), None);
    assert_eq!(transact(&store, many(100)).expect("a hundred").len(), 100);
}

#[test]
fn a_group_has_four_mebibytes_at_most() {
    let store = store();
    let big = |rk: &str, count: usize| {
        let names: Vec<String> = (0..count).map(|i| format!("b{i:02}")).collect();
        let properties: Vec<_> =
            names.iter().map(|n| (n.as_str(), Value::Binary(vec![1; 65_536]))).collect();
        Write::Insert(entity("p", rk, &properties))
    };
    let fits = ["a", "b", "c", "d"].map(|rk| big(rk, 15)).to_vec();
    assert_eq!(transact(&store, fits).expect("3.75 MiB").len(), 4);
    let over = ["e", "f", "g", "h", "i"].map(|rk| big(rk, 15)).to_vec();
    let (_, error) = failed(&store, over);
    assert!(matches!(error, TableError::GroupTooLarge { .. }));
}

/// A merge of a few bytes writes the whole entity anew.
#[test]
fn a_group_leaves_no_more_behind_than_it_may() {
    let store = store();
    let long = text(&"x".repeat(10_000));
    let keys: Vec<String> = (0..10).map(|i| format!("r{i}")).collect();
    for key in &keys {
        write(&store, Write::Insert(entity("p", key, &[("L", long.clone())]))).expect("added");
    }
    let merges = || {
        let merge =
            |key: &String| Write::Merge(entity("p", key, &[("A", Value::Int32(1))]), IfMatch::Any);
        keys.iter().map(merge).collect()
    };
    let within = |bytes| store.transact_within(&account(), &table(), merges(), bytes)?.wait();
    let GroupError { index, error } = within(50_000).expect_err("too much");
    assert!(
        index == 4 && matches!(error, TableError::GroupTooLarge { bytes: 50_001.. }),
        "{error}"
    );
    assert!(keys.iter().all(|key| get(&store, "p", key).expect("there").properties.len() == 1));
    let outcomes = within(110_000).expect("enough");
    let names = |entity: &Entity| entity.properties.len();
    assert!(outcomes.iter().all(|outcome| outcome.entity.as_ref().map(names) == Some(2)));
    assert!(keys.iter().all(|key| get(&store, "p", key).expect("there").properties.len() == 2));
}

#[test]
fn a_group_needs_its_table() {
    let store = store();
    store.delete_table(&account(), &table()).expect("there");
    let (index, error) = failed(&store, vec![insert("p", "a")]);
    assert!(index == 0 && matches!(error, TableError::TableNotFound));
}
