//! Changes of one entity: what each kind asks of the entity and leaves behind.

use super::words::{account, entity, get, store, table, text, write};
use crate::error::Kind;
use crate::ids::CommitTs;
use crate::options::Reach;
use crate::table::error::{Key, TableError};
use crate::table::etag::{ETag, IfMatch};
use crate::table::page::Query;
use crate::table::rules;
use crate::table::value::Value;
use crate::table::write::Write;
use std::sync::atomic::Ordering;
use std::sync::mpsc;

fn delete(pk: &str, rk: &str, condition: IfMatch) -> Write {
    Write::Delete { partition_key: pk.to_owned(), row_key: rk.to_owned(), condition }
}

#[test]
fn insert_adds_once() {
    let store = store();
    let first = entity("p", "r", &[("A", Value::Int32(1))]);
    let outcome = write(&store, Write::Insert(first.clone())).expect("added");
    assert!(!outcome.existed);
    assert_eq!(outcome.etag(), Some(ETag(outcome.ts)));
    let stored = get(&store, "p", "r");
    assert_eq!(stored, outcome.entity);
    assert_eq!(stored.map(|e| (e.ts, e.properties)), Some((outcome.ts, first.properties)));

    let again = write(&store, Write::Insert(entity("p", "r", &[])));
    assert!(matches!(again, Err(TableError::EntityExists)));
    assert_eq!(get(&store, "p", "r"), outcome.entity, "the refused insert left no trace");
}

#[test]
fn keys_are_told_apart_by_every_unit() {
    let store = store();
    let keys = [("", ""), ("", "a"), ("a", ""), ("a", "A"), ("a ", "a"), ("\u{1f600}", "\u{ffff}")];
    for (pk, rk) in keys {
        write(&store, Write::Insert(entity(pk, rk, &[("Of", text(rk))]))).expect("new keys");
    }
    for (pk, rk) in keys {
        let stored = get(&store, pk, rk).expect("there");
        assert_eq!(stored.properties, [("Of".to_owned(), text(rk))]);
    }
    assert_eq!(get(&store, "a", "a"), None);
}

#[test]
fn replace_leaves_nothing_of_the_old_properties() {
    let store = store();
    let old = entity("p", "r", &[("A", Value::Int32(1)), ("B", Value::Int32(2))]);
    let inserted = write(&store, Write::InsertOrReplace(old)).expect("added");
    assert!(!inserted.existed);
    let new = entity("p", "r", &[("C", Value::Int32(3))]);
    let replaced = write(&store, Write::InsertOrReplace(new.clone())).expect("replaced");
    assert!(replaced.existed && replaced.ts > inserted.ts);
    assert_eq!(get(&store, "p", "r").expect("there").properties, new.properties);
}

#[test]
fn merge_lays_properties_over_in_their_places() {
    let store = store();
    let old = entity("p", "r", &[("A", Value::Int32(1)), ("B", Value::Int32(2))]);
    write(&store, Write::InsertOrMerge(old)).expect("added");
    let over = entity("p", "r", &[("C", Value::Int32(3)), ("A", text("changed type"))]);
    let merged = write(&store, Write::InsertOrMerge(over)).expect("merged");
    let expected = entity(
        "p",
        "r",
        &[("A", text("changed type")), ("B", Value::Int32(2)), ("C", Value::Int32(3))],
    );
    assert_eq!(get(&store, "p", "r").expect("there").properties, expected.properties);
    assert_eq!(merged.entity, get(&store, "p", "r"), "the outcome is the whole entity");
}

#[test]
fn a_change_that_changes_nothing_still_gets_a_new_etag() {
    let store = store();
    let same = || Write::InsertOrMerge(entity("p", "r", &[]));
    let first = write(&store, same()).expect("added");
    let second = write(&store, same()).expect("merged");
    assert_ne!(first.etag(), second.etag());
}

#[test]
fn update_merge_and_delete_need_the_entity() {
    let store = store();
    for change in [
        Write::Update(entity("p", "r", &[]), IfMatch::Any),
        Write::Merge(entity("p", "r", &[]), IfMatch::Any),
        Write::Merge(entity("p", "r", &[]), IfMatch::Match(ETag(CommitTs(1)))),
        delete("p", "r", IfMatch::Any),
        delete("p", "r", IfMatch::Never),
    ] {
        let refused = write(&store, change.clone());
        assert!(matches!(refused, Err(TableError::EntityNotFound)), "{change:?}");
    }
    assert_eq!(get(&store, "p", "r"), None);
}

#[test]
fn a_condition_is_held_to_the_current_etag() {
    let store = store();
    let old = write(&store, Write::Insert(entity("p", "r", &[]))).expect("added");
    let old = IfMatch::Match(old.etag().expect("an entity"));
    let changed = write(&store, Write::Update(entity("p", "r", &[("A", Value::Int32(1))]), old));
    let current = changed.expect("was current").etag().expect("an entity");
    for stale in [old, IfMatch::Never] {
        for change in [
            Write::Update(entity("p", "r", &[]), stale),
            Write::Merge(entity("p", "r", &[]), stale),
            delete("p", "r", stale),
        ] {
            match write(&store, change) {
                Err(TableError::ConditionFailed { current: told }) => assert_eq!(told, current),
                other => panic!("a stale condition passed: {other:?}"),
            }
        }
    }
    let merge = Write::Merge(entity("p", "r", &[("B", Value::Int32(2))]), IfMatch::Match(current));
    let current = write(&store, merge).expect("current").etag().expect("an entity");
    assert_eq!(get(&store, "p", "r").expect("there").properties.len(), 2);
    let gone = write(&store, delete("p", "r", IfMatch::Match(current))).expect("current");
    assert!(gone.existed && gone.entity.is_none() && gone.etag().is_none());
    assert_eq!(get(&store, "p", "r"), None);
}

#[test]
fn a_merge_is_measured_by_what_it_leaves() {
    let store = store();
    let many = |from: usize, to: usize| {
        let names: Vec<String> = (from..to).map(|i| format!("P{i}")).collect();
        let properties: Vec<_> =
            names.iter().map(|name| (name.as_str(), Value::Boolean(true))).collect();
        entity("p", "r", &properties)
    };
    write(&store, Write::Insert(many(0, 200))).expect("200 properties");
    write(&store, Write::InsertOrMerge(many(100, 252))).expect("252 properties");
    let over = write(&store, Write::InsertOrMerge(many(252, 253)));
    assert!(matches!(over, Err(TableError::TooManyProperties { count: 253 })));
    assert_eq!(get(&store, "p", "r").expect("there").properties.len(), 252);

    let big = |name: &str| Value::Binary(vec![name.len() as u8; rules::BINARY_BYTES_MAX]);
    let half = |names: &[&str]| {
        let properties: Vec<_> = names.iter().map(|name| (*name, big(name))).collect();
        entity("p", "big", &properties)
    };
    write(&store, Write::Insert(half(&["a", "b", "c", "d", "e", "f", "g", "h"]))).expect("0.5 MiB");
    let refused =
        write(&store, Write::InsertOrMerge(half(&["i", "j", "k", "l", "m", "n", "o", "q"])));
    assert!(matches!(refused, Err(TableError::EntityTooLarge { .. })));
}

#[test]
fn bad_entities_are_refused_before_the_store_is_asked() {
    let store = store();
    let refused = write(&store, Write::Insert(entity("a/b", "r", &[])));
    assert!(matches!(
        refused,
        Err(TableError::KeyInvalid { key: Key::Partition, value }) if value == "a/b"
    ));
    let refused = write(&store, delete("p", &"k".repeat(1025), IfMatch::Any));
    assert!(matches!(refused, Err(TableError::KeyTooLong { key: Key::Row })));
    let refused = write(&store, Write::InsertOrMerge(entity("p", "r", &[("a-b", text(""))])));
    assert!(matches!(refused, Err(TableError::PropertyNameInvalid { .. })));
}

#[test]
fn negative_zero_becomes_zero() {
    let store = store();
    let insert = Write::Insert(entity("p", "r", &[("D", Value::Double(-0.0))]));
    let outcome = write(&store, insert).expect("added");
    for stored in [outcome.entity, get(&store, "p", "r")] {
        let Some((_, Value::Double(zero))) = stored.expect("an entity").properties.pop() else {
            panic!("a double");
        };
        assert!(zero.is_sign_positive());
    }
}

#[test]
fn neither_success_nor_refusal_is_told_before_it_is_safe() {
    let store = store();
    write(&store, Write::Insert(entity("p", "r", &[]))).expect("added");
    store.rows().syncs_fail.store(true, Ordering::Relaxed);
    for change in [
        Write::Insert(entity("p", "r", &[])),
        Write::Insert(entity("p", "new", &[])),
        delete("p", "missing", IfMatch::Any),
    ] {
        match write(&store, change) {
            Err(TableError::Engine(error)) => assert_eq!(error.kind(), Kind::Closed),
            other => panic!("told before it was safe: {other:?}"),
        }
    }
}

#[test]
fn who_must_not_wait_merges_into_no_large_entity() {
    let store = store();
    let long = Value::String("x".repeat(rules::STRING_UNITS_MAX));
    let large = entity("p", "r", &[("A", long.clone()), ("B", long.clone()), ("C", long)]);
    let change = |write| store.write_within(&account(), &table(), write, Reach::Memory);
    let small = || entity("p", "r", &[("D", Value::Int32(1))]);
    assert!(change(Write::InsertOrMerge(large)).is_ok(), "there is nothing to merge into");
    for merge in [Write::InsertOrMerge(small()), Write::Merge(small(), IfMatch::Any)] {
        let merged = change(merge.clone());
        assert!(matches!(merged, Err(TableError::Engine(e)) if e.kind() == Kind::WouldBlock));
        assert!(write(&store, merge).is_ok());
    }
    assert!(change(Write::Update(small(), IfMatch::Any)).is_ok());
    assert!(change(Write::InsertOrMerge(small())).is_ok(), "it is small now");
}

#[test]
fn a_caller_may_be_called_instead_of_waiting() {
    let store = store();
    let (send, receive) = mpsc::channel();
    for _ in 0..2 {
        let send = send.clone();
        let insert = Write::Insert(entity("p", "r", &[]));
        let pending = store.write(&account(), &table(), insert).expect("well-formed");
        pending.notify(move |outcome| send.send(outcome).expect("the test listens"));
    }
    assert!(receive.recv().expect("called").is_ok());
    assert!(matches!(receive.recv().expect("called"), Err(TableError::EntityExists)));
}

#[test]
fn damaged_bytes_of_an_entity_are_an_error_of_the_engine() {
    let store = store();
    let id = store.get_table(&account(), &table()).expect("found").expect("there").id;
    store.rows().plant(id, b"p", b"r", b"\x09damage");
    let read = store.get(&account(), &table(), "p", "r", Reach::Disk);
    let Err(TableError::Engine(error)) = read else {
        panic!("damage was read: {read:?}");
    };
    assert_eq!(error.kind(), Kind::Corrupt);
    let told = "an entity's bytes are damaged: unknown version 9, in row 'p' 'r'";
    assert_eq!(error.to_string(), told);
    let page = store.query(&account(), &table(), &Query::default());
    assert!(matches!(page, Err(TableError::Engine(error)) if error.to_string() == told));
    let merge = write(&store, Write::InsertOrMerge(entity("p", "r", &[])));
    assert!(matches!(merge, Err(TableError::Engine(error)) if error.kind() == Kind::Corrupt));
}
