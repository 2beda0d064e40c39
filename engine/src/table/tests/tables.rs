//! Tables: made, listed, dropped, found in any case.

use super::memory::MemoryStore;
use super::words::{account, compare, entity, get, store, table, write};
use crate::options::Reach;
use crate::table::error::TableError;
use crate::table::filter::ast::{Filter, Op};
use crate::table::name::{AccountName, TableName};
use crate::table::page::PAGE_TABLES_LOOKED_MAX;
use crate::table::settings::SETTING_BYTES_MAX;
use crate::table::store::TableStore;
use crate::table::write::Write;

fn name(text: &str) -> TableName {
    TableName::parse(text).expect("a name")
}

fn listed(
    store: &TableStore<MemoryStore>,
    filter: Option<&Filter>,
    top: usize,
    from: Option<&str>,
) -> (Vec<String>, Option<String>) {
    let page = store.list_tables(&account(), filter, top, from).expect("tables");
    (page.tables.iter().map(|table| table.name.to_string()).collect(), page.next)
}

#[test]
fn a_table_is_one_in_every_case_and_keeps_the_first() {
    let store = store();
    let again = store.create_table(&account(), &name("FLIGHTS"));
    assert!(matches!(again, Err(TableError::TableExists)));
    let found = store.get_table(&account(), &name("flights")).expect("found").expect("there");
    assert_eq!(found.name.as_str(), "Flights");
}

#[test]
fn accounts_do_not_see_each_other() {
    let store = store();
    let other = AccountName::parse("devstoreaccount2").expect("a name");
    assert!(store.get_table(&other, &table()).expect("no error").is_none());
    assert!(store.list_tables(&other, None, 10, None).expect("none").tables.is_empty());
    store.create_table(&other, &table()).expect("another account's name is free");
}

#[test]
fn a_dropped_table_is_gone_with_its_entities_and_its_name_is_free() {
    let store = store();
    write(&store, Write::Insert(entity("p", "r", &[]))).expect("inserted");
    store.delete_table(&account(), &table()).expect("there");
    assert!(matches!(store.delete_table(&account(), &table()), Err(TableError::TableNotFound)));
    let read = store.get(&account(), &table(), "p", "r", Reach::Disk);
    assert!(matches!(read, Err(TableError::TableNotFound)));
    let insert = write(&store, Write::Insert(entity("p", "r", &[])));
    assert!(matches!(insert, Err(TableError::TableNotFound)));
    store.create_table(&account(), &table()).expect("free");
    assert_eq!(get(&store, "p", "r"), None);
}

#[test]
fn a_truncated_table_keeps_its_settings_and_loses_its_entities() {
    let store = store();
    store.set_table_setting(&account(), &table(), "acl", Some(b"x")).expect("set");
    write(&store, Write::Insert(entity("p", "r", &[]))).expect("inserted");
    let ts = store.truncate(&account(), &table()).expect("there");
    assert_eq!(
        (get(&store, "p", "r"), store.count(&account(), &table()).expect("read")),
        (None, 0)
    );
    let kept = store.table_setting(&account(), &table(), "acl").expect("read");
    assert_eq!(kept.as_deref(), Some(&b"x"[..]));
    let again = write(&store, Write::Insert(entity("p", "r", &[]))).expect("its keys are free");
    assert!(again.ts > ts);
    let none = store.truncate(&account(), &name("None"));
    assert!(matches!(none, Err(TableError::TableNotFound)));
}

#[test]
fn tables_are_listed_by_name_without_case_in_pages() {
    let store = store();
    for text in ["zebra", "Alpha", "beta", "BETA2", "gamma"] {
        store.create_table(&account(), &name(text)).expect("new");
    }
    let all = ["Alpha", "beta", "BETA2", "Flights", "gamma", "zebra"].map(str::to_owned).to_vec();
    assert_eq!(listed(&store, None, 1000, None), (all.clone(), None));
    for top in 1..=7 {
        let (mut seen, mut next) = (Vec::new(), None);
        loop {
            let (tables, more) = listed(&store, None, top, next.as_deref());
            assert!(!tables.is_empty() && tables.len() <= top);
            seen.extend(tables);
            next = more;
            if next.is_none() {
                break;
            }
        }
        assert_eq!(seen, all, "pages of {top}");
    }
    assert_eq!(listed(&store, None, 0, None), (vec![], None));
}

#[test]
fn a_page_starts_after_a_table_that_was_dropped_meanwhile() {
    let store = store();
    store.create_table(&account(), &name("beta")).expect("new");
    let (_, next) = listed(&store, None, 1, None);
    assert_eq!(next.as_deref(), Some("flights"));
    store.delete_table(&account(), &table()).expect("there");
    store.create_table(&account(), &name("gamma")).expect("new");
    assert_eq!(listed(&store, None, 1, next.as_deref()), (vec!["gamma".to_owned()], None));
}

#[test]
fn table_names_are_filtered_in_their_stored_case() {
    let store = store();
    for text in ["Flown", "flightplan", "Other"] {
        store.create_table(&account(), &name(text)).expect("new");
    }
    let prefix =
        Filter::And(vec![compare("TableName", Op::Ge, "Fl"), compare("TableName", Op::Lt, "Fm")]);
    let expected = ["Flights", "Flown"].map(str::to_owned).to_vec();
    assert_eq!(listed(&store, Some(&prefix), 10, None), (expected.clone(), None));
    let (first, next) = listed(&store, Some(&prefix), 1, None);
    assert_eq!((first, next.as_deref()), (expected[..1].to_vec(), Some("flown")));
}

#[test]
fn a_page_of_tables_looks_at_so_many_and_goes_on_with_the_next() {
    let store = store();
    for number in 0..=PAGE_TABLES_LOOKED_MAX {
        store.create_table(&account(), &name(&format!("t{number:05}"))).expect("new");
    }
    let last = format!("t{PAGE_TABLES_LOOKED_MAX:05}");
    let filter = compare("TableName", Op::Eq, &last);
    // Flights comes first, so two of them are left for the second page.
    let before = format!("t{:05}", PAGE_TABLES_LOOKED_MAX - 1);
    assert_eq!(listed(&store, Some(&filter), 10, None), (vec![], Some(before.clone())));
    assert_eq!(listed(&store, Some(&filter), 10, Some(&before)), (vec![last], None));
}

#[test]
fn settings_belong_to_their_account_or_table() {
    let store = store();
    let other = AccountName::parse("devstoreaccount2").expect("a name");
    assert_eq!(store.account_setting(&account(), "cors").expect("no error"), None);
    store.set_account_setting(&account(), "cors", Some(b"rules")).expect("kept");
    store.set_table_setting(&account(), &table(), "acl", Some(b"policies")).expect("kept");
    let of_account = |name| store.account_setting(&account(), name).expect("no error");
    let of_table = |name| store.table_setting(&account(), &table(), name).expect("no error");
    assert_eq!((of_account("cors").as_deref(), of_account("acl")), (Some(&b"rules"[..]), None));
    assert_eq!((of_table("acl").as_deref(), of_table("cors")), (Some(&b"policies"[..]), None));
    assert_eq!(store.account_setting(&other, "cors").expect("no error"), None);
    assert_eq!(listed(&store, None, 10, None).0, ["Flights"], "settings are no table of anyone");

    store.set_account_setting(&account(), "cors", None).expect("taken back");
    assert_eq!(of_account("cors"), None);
    store.delete_table(&account(), &table()).expect("there");
    let gone = store.table_setting(&account(), &table(), "acl");
    assert!(matches!(gone, Err(TableError::TableNotFound)));
    store.create_table(&account(), &table()).expect("free");
    assert_eq!(of_table("acl"), None, "a new table of the name has none of the old settings");

    let large = vec![0; SETTING_BYTES_MAX + 1];
    let refused = store.set_account_setting(&account(), "cors", Some(&large));
    assert!(matches!(refused, Err(TableError::SettingTooLarge { .. })));
}
