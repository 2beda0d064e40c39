//! What handles may be used for, and what they show of themselves.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::vfs::mem::SimFs;
use tabulith::{Db, Durability, Entity, If, Kind, TableError, TableResult, Write};

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
    let error = Db::builder().read_only().open(folder("no folder")).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound, "{error}");

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

#[test]
fn tables_of_entities_and_of_byte_rows_keep_apart() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    let (rows, flights) = (db.table("flights").unwrap(), db.entities("Flights").unwrap());
    rows.insert("p", "r", "row").unwrap();
    flights.insert(Entity::new("p", "r").with("late", true)).unwrap();
    db.entities("airports").unwrap();
    assert_eq!(db.entity_table_names().unwrap(), ["airports", "Flights"]);

    // By the names that they have in the catalogue none is made or dropped.
    for name in ["devstoreaccount1/flights", "a/b", "$settings"] {
        refused(db.table(name), Kind::Invalid, "no '/' in its name");
        refused(db.drop_table(name), Kind::Invalid, "no '/' in its name");
    }
    let (in_catalog, now) = ("devstoreaccount1/flights", db.snapshot().unwrap());
    assert_eq!(db.find(in_catalog).unwrap().unwrap().count().unwrap(), 1);
    let all = now.table(in_catalog).unwrap();
    assert_eq!(now.count::<&[u8], &[u8]>(&all, ..).unwrap(), 1);
    assert!(db.find("a/b").unwrap().is_none());
    assert!(db.drop_table("flights").unwrap() && !db.drop_table("flights").unwrap());
    assert_eq!((flights.name(), flights.count().unwrap()), ("Flights", 1));

    flights.truncate().unwrap();
    assert_eq!(flights.count().unwrap(), 0);
    assert!(db.drop_entities("flights").unwrap() && !db.drop_entities("flights").unwrap());
    assert!(matches!(flights.count(), Err(TableError::TableNotFound)));
    assert!(matches!(flights.truncate(), Err(TableError::TableNotFound)));
    assert!(matches!(db.drop_entities("a/b"), Err(TableError::Engine(_))));
    assert_eq!(db.entity_table_names().unwrap(), ["airports"]);
}

#[test]
fn a_table_is_found_and_listed_without_being_made() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    assert!(db.find("orders").unwrap().is_none() && db.find_entities("people").unwrap().is_none());
    assert!(db.table_names().unwrap().is_empty() && db.entity_table_names().unwrap().is_empty());
    let orders = db.table("orders").unwrap();
    orders.insert("p", "r", "old").unwrap();
    db.table("items").unwrap();
    db.entities("people").unwrap().insert(Entity::new("p", "r")).unwrap();
    assert_eq!(db.table_names().unwrap(), ["items", "orders"]);
    assert_eq!(db.find("orders").unwrap().unwrap().count().unwrap(), 1);
    assert_eq!(db.find_entities("people").unwrap().unwrap().count().unwrap(), 1);
    for name in ["", &"x".repeat(513)] {
        refused(db.find(name), Kind::Invalid, "name");
    }
    for name in ["", "a/b", "$settings", &"x".repeat(513)] {
        refused(db.table(name), Kind::Invalid, "name");
    }

    // One that is open for reading makes none, and says that there is none.
    let reader = Db::builder().read_only().open(dir.path()).unwrap();
    assert_eq!(reader.table("orders").unwrap().count().unwrap(), 1);
    refused(reader.table("oders"), Kind::NotFound, "table oders does not exist");
    assert!(matches!(reader.entities("peple"), Err(TableError::TableNotFound)));

    // A handle is of the table, not of its name.
    assert!(db.drop_table("orders").unwrap());
    let again = db.table("orders").unwrap();
    refused(orders.get("p", "r"), Kind::NotFound, "does not exist");
    refused(orders.insert("p", "s", "new"), Kind::NotFound, "does not exist");
    assert_eq!(again.count().unwrap(), 0);
}

#[test]
fn errors_say_what_they_are_of() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    refused(Db::open(dir.path()), Kind::Locked, "is open already, in this process or in another");

    // A group's error leads to the change at fault, and is one of tables where that is asked for.
    let people = db.entities("people").unwrap();
    people.insert(Entity::new("p", "ann")).unwrap();
    let twice = || ["bob", "ann"].map(|row_key| Write::Insert(Entity::new("p", row_key))).to_vec();
    let error = people.transact(twice()).unwrap_err();
    let cause = error.source().and_then(|cause| cause.downcast_ref::<TableError>());
    assert!(error.index == 1 && matches!(cause, Some(TableError::EntityExists)), "{error}");
    let group = || -> TableResult<usize> { Ok(people.transact(twice())?.len()) };
    assert!(matches!(group(), Err(TableError::EntityExists)));

    // One row's condition names its commit; a transaction, which may have read many, does not.
    let partition = db.table("orders").unwrap().partition("p");
    let first = partition.batch().insert("r", "1").commit().unwrap();
    let mut tx = partition.begin().unwrap();
    tx.get("r").unwrap();
    tx.put("r", "3").unwrap();
    let second = partition.batch().upsert("r", "2").commit().unwrap();
    let condition = partition.batch().put_if("r", "3", If::Match(first)).commit().unwrap_err();
    assert_eq!((condition.kind(), condition.current()), (Kind::Changed, Some(second)));
    let changed = tx.commit().unwrap_err();
    assert_eq!((changed.kind(), changed.current()), (Kind::Changed, None));
}

/// What rows hold; no handle shows it.
const SECRET: &str = "open sesame";

/// That what `handle` prints has the secret in it neither as text nor as a list of bytes.
#[track_caller]
fn keeps_the_secret(handle: &dyn Debug) {
    let printed = format!("{handle:?} {handle:#?}");
    let bytes = format!("{:?}", SECRET.as_bytes());
    assert!(!printed.contains(SECRET), "{printed}");
    assert!(!printed.contains(bytes.trim_matches(['[', ']'])), "{printed}");
    assert!(printed.len() < 4 << 10, "{} bytes, from {}", printed.len(), &printed[..200]);
}

#[test]
fn no_handle_prints_what_rows_hold() {
    let clock = Arc::new(ManualClock::at(17_672_256_000_000_000));
    let builder = Db::builder().durability(Durability::Buffered).history(Duration::from_secs(3600));
    let builder = builder.parts(Arc::new(SimFs::new()), clock, Arc::new(ByHand));
    let db = builder.open("/db").unwrap();
    let (table, people) = (db.table("orders").unwrap(), db.entities("people").unwrap());
    let partition = table.partition("p");
    for i in 0..100u32 {
        table.insert("p", i.to_be_bytes(), SECRET).unwrap();
        people.insert(Entity::new("p", format!("{i:02}")).with("word", SECRET)).unwrap();
    }
    assert_eq!(format!("{db:?}"), "Db(/db)");
    let batch = partition.batch().insert("new", SECRET);
    assert_eq!(format!("{batch:?}"), "Batch(table 1, 1 operations, 14 bytes)");
    let mut tx = partition.begin().unwrap();
    tx.put("new", SECRET).unwrap();
    assert_eq!(tx.scan::<&str>(..).unwrap().len(), 101);
    let (mut scan, mut back) =
        (table.scan::<&str, &str>(..).unwrap(), partition.scan::<&str>(..).unwrap());
    assert_eq!(scan.next().unwrap().unwrap().value, SECRET);
    assert_eq!(back.next_back().unwrap().unwrap().value, SECRET);
    let (mut cursor, mut lending) =
        (table.cursor::<&str, &str>(..).unwrap(), partition.cursor::<&str>(..).unwrap());
    assert!(cursor.next().unwrap().is_some());
    let row = lending.next().unwrap().unwrap();
    assert_eq!(row.value().unwrap(), SECRET.as_bytes());
    let mut found = people.query(None);
    assert!(found.next().unwrap().is_ok());
    let past = people.as_of(db.visible()).unwrap();
    let mut ingest = table.ingest().unwrap();
    ingest.add("p", "x", SECRET).unwrap();
    let ticket = partition.batch().insert("y", SECRET).commit_async();
    let snapshot = db.snapshot().unwrap();
    table.insert("p", "z", SECRET).unwrap();
    table.insert("p", "large", SECRET.repeat(2000)).unwrap(); // One piece, which a memtable has.
    let handles: [&dyn Debug; 15] = [
        &db, &snapshot, &table, &partition, &batch, &tx, &scan, &back, &cursor, &row, &people,
        &found, &past, &ingest, &ticket,
    ];
    handles.into_iter().for_each(keeps_the_secret);
}
