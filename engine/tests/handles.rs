//! What handles may be used for, and what they show of themselves.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fmt::Debug;
use tabulith::{Db, If, Kind, TableError, TableResult};

/// That `outcome` was refused with `kind`, by words among which `what` is.
#[track_caller]
fn refused<T: Debug>(outcome: tabulith::Result<T>, kind: Kind, what: &str) {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.message().contains(what), "{error}");
}

#[test]
fn a_snapshot_reads_no_table_of_another_database() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (db, other) = (Db::open(here.path()).unwrap(), Db::open(there.path()).unwrap());
    db.table("orders").unwrap().insert("p", "r", "an order").unwrap();
    db.table("people").unwrap().insert("p", "r", "a person").unwrap();
    let [people, orders] = ["people", "orders"].map(|name| other.table(name).unwrap());
    orders.insert("p", "r", "another order").unwrap();

    // Made in the other order there: the numbers are those of the wrong tables.
    let snapshot = db.snapshot().unwrap();
    let what = "table orders is of another database";
    let partition = orders.partition("p");
    refused(snapshot.get(&orders, "p", "r"), Kind::Invalid, what);
    refused(snapshot.get_many(&orders, &[("p", "r")]), Kind::Invalid, what);
    refused(snapshot.scan::<&str, &str>(&orders, ..), Kind::Invalid, what);
    refused(snapshot.scan_partition::<&str>(&partition, ..), Kind::Invalid, what);
    refused(snapshot.cursor::<&str, &str>(&orders, ..), Kind::Invalid, what);
    refused(snapshot.cursor_partition::<&str>(&partition, ..), Kind::Invalid, what);
    refused(snapshot.count::<&str, &str>(&orders, ..), Kind::Invalid, what);
    refused(snapshot.count_partition::<&str>(&partition, ..), Kind::Invalid, what);
    refused(snapshot.split(&orders, 2), Kind::Invalid, what);
    refused(snapshot.get(&people, "p", "r"), Kind::Invalid, "table people");

    // Clones of a handle, and the tables that the snapshot names, are of its database.
    let own = db.clone().table("orders").unwrap();
    for table in [own, snapshot.table("orders").unwrap()] {
        assert_eq!(snapshot.get(&table, "p", "r").unwrap().unwrap().value, "an order");
    }
}

#[test]
fn only_a_table_that_is_missing_is_told_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let folder = |name: &str| dir.path().join(name);
    let open = || -> TableResult<Db> { Ok(Db::builder().must_exist().open(folder("typo"))?) };
    let is_of_the_engine = |error: &TableError| match error {
        TableError::Engine(error) => error.kind() == Kind::NotFound,
        _ => false,
    };
    let error = open().unwrap_err();
    assert!(is_of_the_engine(&error), "{error}");

    let db = Db::open(folder("db")).unwrap();
    let table = db.table("orders").unwrap();
    let error = TableError::from(table.delete("p", "r", If::Present).unwrap_err());
    assert!(is_of_the_engine(&error), "{error}");

    assert!(db.drop_table("orders").unwrap());
    for error in [table.get("p", "r").unwrap_err(), table.insert("p", "r", "").unwrap_err()] {
        assert!(error.is_no_table() && error.duplicate().is_no_table(), "{error}");
        assert!(matches!(TableError::from(error), TableError::TableNotFound));
    }
}
