//! Queries with zones against the filter itself: entities whose properties are of every type, under
//! overwrites, deletes and erasures, in memtables, L0 and deeper levels. What a query finds must be
//! what the filter passes of all that is there, and blocks and rows must really have been passed
//! over.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tabulith::env::clock::{Clock, ManualClock};
use tabulith::env::jobs::ByHand;
use tabulith::env::rng::Rng;
use tabulith::key::range::KeyRange;
use tabulith::rows::RowStore;
use tabulith::table::etag::IfMatch;
use tabulith::table::filter::eval;
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::page::{Budget, Page, Query};
use tabulith::table::store::TableStore;
use tabulith::table::value::DateTime;
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{Advanced, CommitTs, Db, Entity, Filter, Kind, Op, Options, Value};

/// When all of it takes place.
const TICKS: u64 = 16_000_000_000_000_000;

fn open(history: Duration) -> Db {
    let advanced = Advanced {
        memtable_bytes: Some(32 << 10),
        wal_segment_bytes: 256 << 10,
        block_bytes: 256,
        file_bytes: 16 << 10,
        level_base_bytes: 32 << 10,
        level_fanout: 3,
        l0_compact_files: 3,
        blob_bytes_min: 200,
        ..Advanced::default()
    };
    let options = Options { advanced, history: Some(history), ..Options::default() };
    let clock = Arc::new(ManualClock::at(TICKS));
    let builder = Db::builder().options(options);
    builder.parts(Arc::new(SimFs::new()), clock, Arc::new(ByHand)).open(Path::new("db")).unwrap()
}

struct Bed {
    db: Db,
    store: TableStore<Db>,
    account: AccountName,
    table: TableName,
}

impl Bed {
    fn new() -> Bed {
        Bed::keeping(Duration::ZERO)
    }

    fn keeping(history: Duration) -> Bed {
        let db = open(history);
        drop(db.entities("Things").unwrap());
        Bed {
            store: TableStore::new(Arc::new(db.clone())),
            db,
            account: AccountName::parse("devstoreaccount1").unwrap(),
            table: TableName::parse("Things").unwrap(),
        }
    }

    fn query(&self, filter: Option<Filter>) -> (Vec<Entity>, u64) {
        self.query_within(Budget::default(), filter)
    }

    /// What passes, page by page, and how many blocks were passed over.
    fn query_within(&self, budget: Budget, filter: Option<Filter>) -> (Vec<Entity>, u64) {
        let mut query = Query { filter, budget, ..Query::default() };
        let (mut found, mut skipped) = (Vec::new(), 0);
        loop {
            let page: Page = self.store.query(&self.account, &self.table, &query).unwrap();
            found.extend(page.entities);
            skipped += page.blocks.skipped;
            assert!((1..=budget.rows_scanned).contains(&page.examined) || page.next.is_none());
            match page.next {
                Some(next) => query.from = Some(next),
                None => return (found, skipped),
            }
        }
    }
}

/// Close to `about`, mostly an Int32; at times of another type, cut off beyond 8 bytes, or no
/// number.
fn value(rng: &mut Rng, about: i32) -> Value {
    let near = about + rng.below(20) as i32;
    match rng.below(24) {
        0 => Value::Int64(near.into()),
        1 => Value::Double(near.into()),
        2 => Value::Double(f64::NAN),
        3 => Value::String(format!("{near}")),
        4 => Value::DateTime(DateTime(near as u64)),
        5 => Value::Boolean(near % 2 == 0),
        _ => Value::Int32(near),
    }
}

fn entity(rng: &mut Rng, partition: u64, row: u64) -> Entity {
    // Values follow the keys, so that blocks differ.
    let about = (row * 4) as i32;
    let mut entity = Entity::new(format!("p{partition}"), format!("r{row:04}"));
    if !rng.one_in(10) {
        entity = entity.with("A", value(rng, about));
    }
    if !rng.one_in(3) {
        entity = entity.with("B", format!("customer-{:04}", row / 8));
    }
    if rng.one_in(30) {
        entity = entity.with("Large", "x".repeat(300));
    }
    entity
}

fn filter(rng: &mut Rng, depth: u64) -> Filter {
    let ops = [Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge];
    let op = ops[rng.below(6) as usize];
    match rng.below(if depth == 0 { 5 } else { 8 }) {
        0 => Filter::compare("B", op, Value::String(format!("customer-{:04}", rng.below(40)))),
        1 => Filter::compare(
            "B",
            op,
            Value::String(["b", "customer", "d"][rng.below(3) as usize].to_owned()),
        ),
        2..=4 => {
            let about = rng.below(1300) as i32;
            Filter::compare("A", op, value(rng, about))
        }
        5 => Filter::Not(Box::new(filter(rng, depth - 1))),
        6 => Filter::And(vec![filter(rng, depth - 1), filter(rng, depth - 1)]),
        _ => Filter::Or(vec![filter(rng, depth - 1), filter(rng, depth - 1)]),
    }
}

/// The same with a condition on the keys at times, of which some leave one range and others many.
fn filter_of_keys(rng: &mut Rng) -> Filter {
    let ops = [Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge];
    let inner = filter(rng, 2);
    let (op, row) = (ops[rng.below(6) as usize], rng.below(300));
    let in_partition = |n: u64| Filter::compare("PartitionKey", op, Value::String(format!("p{n}")));
    let in_rows = Filter::compare("RowKey", op, Value::String(format!("r{row:04}")));
    match rng.below(6) {
        0 => Filter::And(vec![in_partition(rng.below(3)), inner]),
        1 => Filter::And(vec![in_rows, inner]),
        2 => Filter::And(vec![in_partition(rng.below(3)), inner, in_rows]),
        3 => Filter::Or(vec![in_rows, inner]),
        _ => inner,
    }
}

/// Changes the table at random; `model` follows.
fn churn(bed: &Bed, rng: &mut Rng, model: &mut BTreeMap<(String, String), Entity>) {
    let things = bed.db.entities("Things").unwrap();
    for _ in 0..400 {
        let (partition, row) = (rng.below(3), rng.below(300));
        let entity = entity(rng, partition, row);
        let keys = (entity.partition_key.clone(), entity.row_key.clone());
        if rng.one_in(5) {
            if model.remove(&keys).is_some() {
                things.delete(&keys.0, &keys.1, IfMatch::Any).unwrap();
            }
            continue;
        }
        things.upsert(entity.clone()).unwrap();
        model.insert(keys, entity);
    }
    match rng.below(6) {
        0 => bed.db.flush().unwrap(),
        1 => bed.db.compact().unwrap(),
        2 => bed.db.settle().unwrap(),
        _ => while bed.db.step().unwrap() {},
    }
}

fn same(found: &[Entity], wanted: &[&Entity]) -> bool {
    let text = |entity: &Entity| {
        // NaN is not equal to itself; its text is.
        format!("{}/{} {:?}", entity.partition_key, entity.row_key, entity.properties)
    };
    found.len() == wanted.len() && found.iter().zip(wanted).all(|(a, b)| text(a) == text(b))
}

#[test]
fn a_query_finds_what_the_filter_passes() {
    let mut skipped_in_all = 0;
    for seed in 0..6 {
        let (bed, mut rng, mut model) = (Bed::new(), Rng::seeded(seed), BTreeMap::new());
        for round in 0..25 {
            if rng.one_in(4) {
                let things = bed.db.entities("Things").unwrap();
                let declared: [&[&str]; 4] = [&[], &["B"], &["Absent", "B", "A"], &["Large"]];
                things.set_zone_columns(declared[rng.below(4) as usize]).unwrap();
            }
            churn(&bed, &mut rng, &mut model);
            for _ in 0..12 {
                let filter = filter_of_keys(&mut rng);
                let rows_scanned = if rng.one_in(3) { 1 + rng.below(40) } else { u64::MAX };
                let bytes_scanned = if rng.one_in(3) { 1 + rng.below(900) } else { u64::MAX };
                let budget = Budget { rows_scanned, bytes_scanned, ..Budget::default() };
                let (found, skipped) = bed.query_within(budget, Some(filter.clone()));
                let passes = |entity: &&Entity| eval::passes(&filter, *entity).unwrap();
                let wanted: Vec<_> = model.values().filter(passes).collect();
                assert!(
                    same(&found, &wanted),
                    "seed {seed}, round {round}, {filter}: {} found, {} wanted",
                    found.len(),
                    wanted.len()
                );
                skipped_in_all += skipped;
            }
        }
    }
    assert!(skipped_in_all > 10_000, "only {skipped_in_all} blocks were passed over");
}

/// What was there at a moment, of rows some of which have more versions than a block holds.
#[test]
fn a_query_of_the_past_finds_what_the_filter_passes_among_rows_of_many_versions() {
    let (bed, mut rng) = (Bed::keeping(Duration::from_secs(3600)), Rng::seeded(3));
    let things = bed.db.entities("Things").unwrap();
    let mut model: BTreeMap<String, Vec<(CommitTs, Option<Entity>)>> = BTreeMap::new();
    let mut skipped_in_all = 0;
    for step in 1..=3000 {
        let hot = !rng.one_in(4);
        let row = if hot { 10 + 10 * rng.below(2) } else { rng.below(30) };
        let row = format!("r{row:04}");
        let versions = model.entry(row.clone()).or_default();
        let entity = Entity::new("p", row.as_str()).with("A", step).with("Pad", "x".repeat(150));
        match rng.one_in(6) && versions.last().is_some_and(|(_, last)| last.is_some()) {
            true => {
                things.delete("p", &row, IfMatch::Any).unwrap();
                versions.push((bed.db.visible(), None));
            }
            false => {
                things.upsert(entity.clone()).unwrap();
                versions.push((bed.db.visible(), Some(entity)));
            }
        }
        while step % 50 == 0 && bed.db.step().unwrap() {}
        if step % 1000 == 0 {
            bed.db.compact().unwrap();
        }
        if step % 600 != 0 {
            continue;
        }
        for _ in 0..40 {
            let hot = &model[["r0010", "r0020"][rng.below(2) as usize]];
            let at = hot[rng.below(hot.len() as u64 - 1) as usize].0;
            let op = [Op::Eq, Op::Ne, Op::Lt, Op::Ge][rng.below(4) as usize];
            let filter = Filter::compare("A", op, Value::Int32(rng.below(step as u64) as i32));
            let then = model.values().filter_map(|versions| {
                let older = versions.partition_point(|(ts, _)| *ts <= at);
                versions[..older].last()?.1.as_ref()
            });
            let wanted: Vec<_> =
                then.filter(|entity| eval::passes(&filter, *entity).unwrap()).collect();
            let past = bed.store.as_of(at).unwrap();
            let rows_scanned = if rng.one_in(3) { 1 + rng.below(10) } else { u64::MAX };
            let budget = Budget { rows_scanned, ..Budget::default() };
            let mut query = Query { filter: Some(filter.clone()), budget, ..Query::default() };
            let mut found = Vec::new();
            loop {
                let page: Page = past.query(&bed.account, &bed.table, &query).unwrap();
                found.extend(page.entities);
                skipped_in_all += page.blocks.skipped;
                match page.next {
                    Some(next) => query.from = Some(next),
                    None => break,
                }
            }
            assert!(same(&found, &wanted), "step {step}, at {at}, {filter}");
        }
    }
    assert!(skipped_in_all > 100, "only {skipped_in_all} blocks were passed over");
}

/// Rows passed over are the ones that come next, each asked about once and in order, and what
/// follows is what a walk without it would come to, in either direction.
#[test]
fn a_walk_that_passes_rows_over_comes_by_every_row() {
    let (mut passed_in_all, mut hidden_in_all) = (0, 0);
    for seed in 0..20 {
        let (bed, mut rng, mut model) = (Bed::new(), Rng::seeded(seed), BTreeMap::new());
        for _ in 0..1 + rng.below(8) {
            churn(&bed, &mut rng, &mut model);
        }
        let table = bed.store.get_table(&bed.account, &bed.table).unwrap().unwrap().id;
        let snapshot = RowStore::snapshot(&bed.db).unwrap();
        let mut cursor = snapshot.scan(KeyRange::table(table)).unwrap();
        let mut rows = Vec::new();
        while cursor.next().unwrap() {
            rows.push((cursor.key().to_vec(), cursor.ts(), cursor.value().unwrap()));
        }
        assert_eq!(rows.len(), model.len());
        let mut cursor = snapshot.scan(KeyRange::table(table)).unwrap();
        if seed % 2 == 0 {
            cursor.stop_after(rng.below(3) as usize);
        }
        // The row that comes next, and whether the cursor stands on one that nobody sees before it.
        let (mut at, mut is_hidden) = (0, false);
        loop {
            let goes_back = at > 1 && rng.one_in(8);
            let moved = if goes_back { cursor.prev() } else { cursor.next() };
            if !moved.unwrap() {
                break;
            }
            at -= usize::from(goes_back && !is_hidden);
            is_hidden = cursor.is_ruled_out();
            hidden_in_all += usize::from(is_hidden);
            at += usize::from(!goes_back && !is_hidden);
            let (rows_max, first) = (rng.below(20) as usize, at);
            passed_in_all += cursor.pass_over(rows_max, &mut |ts, value| {
                assert_eq!((ts, value), (rows[at].1, &rows[at].2[..]), "seed {seed}, row {at}");
                let is_unwanted = !ts.0.is_multiple_of(5);
                at += usize::from(is_unwanted);
                is_unwanted
            });
            assert!(at - first <= rows_max);
            if !is_hidden || at > first {
                let here = (cursor.key().to_vec(), cursor.ts(), cursor.value().unwrap());
                assert_eq!(here, rows[at - 1], "seed {seed}, on the last one passed");
            }
        }
        assert_eq!(at, rows.len());
    }
    assert!(passed_in_all > 1_000, "only {passed_in_all} rows were passed over");
    assert!(hidden_in_all > 50, "only {hidden_in_all} stops on a row that nobody sees");
}

#[test]
fn a_declared_column_has_zones_though_others_are_in_more_rows_and_come_first() {
    let bed = Bed::new();
    let things = bed.db.entities("Things").unwrap();
    let write = || {
        for row in 0..400 {
            let mut entity = Entity::new("p", format!("{row:04}"));
            // Names of one letter: a value in a blob file says nothing to a merge.
            for other in 'a'..='r' {
                entity = entity.with(other, row);
            }
            // Every second row has it, behind more than are followed.
            things.upsert(if row % 2 == 0 { entity.with("Rare", row) } else { entity }).unwrap();
        }
        bed.db.compact().unwrap();
    };
    let asked = || {
        let rare = Filter::compare("Rare", Op::Eq, Value::Int32(100));
        let (found, skipped) = bed.query(Some(rare));
        assert_eq!(found.len(), 1);
        skipped
    };
    write();
    assert_eq!(asked(), 0, "nothing is known of it");
    things.set_zone_columns(&["Rare", "r"]).unwrap();
    assert_eq!(things.zone_columns().unwrap(), ["Rare", "r"]);
    assert_eq!(asked(), 0, "files that are there have no zones of it");
    write();
    assert!(asked() > 100, "{} blocks passed over", asked());
    let chosen = |name: &str| bed.query(Some(Filter::compare(name, Op::Eq, 7))).1;
    assert!(chosen("r") > 100 && chosen("a") > 100, "declared, and chosen as ever");
    things.set_zone_columns(&[]).unwrap();
    write();
    assert_eq!(asked(), 0);
}

#[test]
fn columns_that_cannot_be_declared_are_refused_and_those_that_can_outlive_the_process() {
    let disk = SimFs::new();
    let open = || {
        let clock = Arc::new(ManualClock::at(TICKS));
        let parts = Db::builder().parts(Arc::new(disk.clone()), clock, Arc::new(ByHand));
        parts.open(Path::new("db")).unwrap()
    };
    let db = open();
    let table = db.table("t").unwrap();
    let nine: Vec<String> = (0..9).map(|n| n.to_string()).collect();
    let nine: Vec<&str> = nine.iter().map(String::as_str).collect();
    let long = "x".repeat(1025);
    for bad in [&nine[..], &["a", "b", "a"], &[""], &[&long]] {
        assert_eq!(table.set_zone_columns(bad).unwrap_err().kind(), Kind::Invalid);
    }
    assert!(table.zone_columns().is_empty());
    // Each setting leaves the other as it was.
    table.set_zone_columns(&nine[..8]).unwrap();
    table.set_ttl(Some(Duration::from_secs(60))).unwrap();
    table.set_zone_columns(&["a", "b"]).unwrap();
    db.close().unwrap();
    let table = open().table("t").unwrap();
    assert_eq!(table.zone_columns(), ["a", "b"]);
    assert_eq!(table.ttl(), Some(Duration::from_secs(60)));
}

#[test]
fn an_older_version_never_comes_to_light() {
    let bed = Bed::new();
    let things = bed.db.entities("Things").unwrap();
    for age in [1, 2] {
        // The newer version of every row fails the filter that the older one passes.
        for row in 0..500 {
            things.upsert(Entity::new("p", format!("{row:04}")).with("A", age)).unwrap();
        }
        bed.db.flush().unwrap();
        let (found, _) = bed.query(Some(Filter::compare("A", Op::Eq, Value::Int32(1))));
        assert_eq!(found.len(), if age == 1 { 500 } else { 0 });
    }
    bed.db.compact().unwrap();
    let (found, skipped) = bed.query(Some(Filter::compare("A", Op::Eq, Value::Int32(1))));
    assert!(found.is_empty() && skipped > 10, "{skipped} blocks passed over");
}

#[test]
fn the_time_of_writing_rules_blocks_out() {
    let bed = Bed::new();
    let things = bed.db.entities("Things").unwrap();
    for row in 0..1000 {
        things.upsert(Entity::new("p", format!("{row:04}")).with("A", row)).unwrap();
    }
    bed.db.compact().unwrap();
    let last = things.get("p", "0990").unwrap().unwrap();
    let since = Filter::compare("Timestamp", Op::Ge, Value::DateTime(DateTime::from(last.ts)));
    let (found, skipped) = bed.query(Some(since));
    assert_eq!(found.len(), 10);
    assert!(skipped > 50, "{skipped} blocks passed over");
}

/// Who asked for rows behind many deleted ones got no page before all of those were passed, however
/// long that took.
#[test]
fn a_page_ends_among_deleted_rows_too() {
    let bed = Bed::new();
    let things = bed.db.entities("Things").unwrap();
    let key = |row: usize| format!("{row:04}");
    let work = |row: usize| while row.is_multiple_of(100) && bed.db.step().unwrap() {};
    for row in 0..2000 {
        things.upsert(Entity::new("p", key(row)).with("A", row as i32)).unwrap();
        work(row);
    }
    let before = bed.db.snapshot(); // It keeps merges from dropping what is deleted.
    for row in 0..1999 {
        things.delete("p", &key(row), IfMatch::Any).unwrap();
        work(row);
    }
    for filter in [None, Some(Filter::compare("A", Op::Ge, Value::Int32(0)))] {
        let page = |query: &Query| bed.store.query(&bed.account, &bed.table, query).unwrap();
        only_the_last_in_many_pages(filter, page);
    }
    drop(before);
}

/// Has 10 ms pass whenever a table file is opened.
fn pass_at_each_opening(disk: &FaultFs, clock: &Arc<ManualClock>) {
    let (here, turned) = (disk.clone(), Arc::clone(clock));
    disk.interrupt(Rule::fail(Call::Open).named("*.sst"), move || {
        turned.advance(Duration::from_millis(10));
        pass_at_each_opening(&here, &turned);
    });
}

/// Who asked for rows that are in none of many files got no page before all of those were opened.
#[test]
fn a_page_ends_among_files_in_which_nothing_passes() {
    const ROWS: i32 = 20_000;
    let (disk, clock) = (FaultFs::new(Arc::new(SimFs::new())), ManualClock::at(TICKS));
    let clock = Arc::new(clock);
    let advanced = Advanced {
        file_bytes: 16 << 10,
        block_bytes: 1024,
        index_and_filter_bytes: Some(0), // None stays open.
        ..Advanced::default()
    };
    let builder = Db::builder().options(Options { advanced, ..Options::default() });
    let vfs = Arc::new(disk.clone());
    let db = builder.parts(vfs, clock.clone(), Arc::new(ByHand)).open("db").unwrap();
    let things = db.entities("Things").unwrap();
    let mut rng = Rng::seeded(7);
    for row in 0..ROWS {
        let noise: String = (0..100).map(|_| (b'a' + rng.below(26) as u8) as char).collect();
        let entity = Entity::new("p", format!("{row:05}")).with("A", row % 10).with("B", noise);
        things.upsert(entity).unwrap();
    }
    let last = things.get("p", &format!("{:05}", ROWS - 1)).unwrap().unwrap();
    db.compact().unwrap();
    let files = db.stats().levels.iter().map(|(files, _)| *files as u64).sum::<u64>();
    assert!(files > 120, "{files} files");
    pass_at_each_opening(&disk, &clock);
    let store = TableStore::with_clock(Arc::new(db.clone()), clock.clone());
    let account = AccountName::parse("devstoreaccount1").unwrap();
    let table = TableName::parse("Things").unwrap();
    let read = |filter, page_ms_max: u128| {
        let budget = Budget { time: Duration::from_millis(20), ..Budget::default() };
        let mut query = Query { filter: Some(filter), budget, ..Query::default() };
        let (mut found, opened) = (0, db.stats().table_files_opened);
        loop {
            let begun = clock.steady();
            let page = store.query(&account, &table, &query).unwrap();
            let took = clock.steady() - begun;
            assert!(took.as_millis() <= page_ms_max, "a page took {took:?}");
            found += page.entities.len();
            query.from = page.next;
            if query.from.is_none() {
                return (found, db.stats().table_files_opened - opened);
            }
        }
    };
    let none = Filter::compare("A", Op::Gt, Value::Int32(10));
    let (found, opened) = read(none, 500);
    assert!(found == 0 && opened >= files / 2, "{found} found, {opened} of {files} files opened");
    let since = Filter::compare("Timestamp", Op::Ge, Value::DateTime(DateTime::from(last.ts)));
    let (found, opened) = read(since, u128::MAX);
    assert!(found == 1 && opened <= 8, "{found} found, {opened} of {files} files opened");
}

/// Reads with a budget of two rows.
fn only_the_last_in_many_pages(filter: Option<Filter>, page: impl Fn(&Query) -> Page) {
    let budget = Budget { rows_scanned: 2, ..Budget::default() };
    let mut query = Query { filter, budget, ..Query::default() };
    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        let page = page(&query);
        found.extend(page.entities.into_iter().map(|entity| entity.row_key));
        pages += 1;
        query.from = page.next;
        if query.from.is_none() {
            break;
        }
    }
    assert_eq!(found, ["1999"]);
    assert!(pages > 2, "{pages} pages");
}

#[test]
fn a_page_of_the_past_ends_among_rows_that_came_later() {
    let bed = Bed::keeping(Duration::from_secs(3600));
    let things = bed.db.entities("Things").unwrap();
    let put = |row: i32| things.upsert(Entity::new("p", format!("{row:04}")).with("A", row));
    put(1999).unwrap();
    let at = bed.db.visible();
    for row in 0..1999 {
        put(row).unwrap();
        while row % 100 == 0 && bed.db.step().unwrap() {}
    }
    let past = bed.store.as_of(at).unwrap();
    let page = |query: &Query| past.query(&bed.account, &bed.table, query).unwrap();
    only_the_last_in_many_pages(None, page);
}

#[test]
fn a_full_page_does_not_look_for_a_further_match_among_rows_that_are_ruled_out() {
    let bed = Bed::new();
    let things = bed.db.entities("Things").unwrap();
    let put = |row: i32| {
        let entity = Entity::new("p", format!("{row:04}")).with("A", i32::from(row == 0));
        things.upsert(entity).unwrap();
    };
    (0..500).for_each(put);
    bed.db.compact().unwrap();
    // Again: blocks above others are passed over row by row.
    (1..500).for_each(put);
    bed.db.flush().unwrap();
    let filter = Some(Filter::compare("A", Op::Eq, Value::Int32(1)));
    let query = Query { filter, top: 1, ..Query::default() };
    let page = bed.store.query(&bed.account, &bed.table, &query).unwrap();
    assert_eq!((page.entities.len(), page.examined), (1, 1));
    assert!(page.next.is_some());
}
