//! `$filter` against a second opinion: an evaluator of a few lines that knows nothing of the
//! engine's, and every row looked at where a plan looks at few.
//!
//! `TABULITH_FILTER_CASES` sets how many pairs of filter and entity are tried: 100,000 else.

#![allow(clippy::print_stdout, reason = "how many cases there were")]

mod common;

use common::{Bench, escaped};
use std::cmp::Ordering;
use std::sync::Arc;
use tabulith::env::clock::ManualClock;
use tabulith::ids::CommitTs;
use tabulith::table::entity::Entity;
use tabulith::table::filter::eval::passes;
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::page::Query;
use tabulith::table::store::TableStore;
use tabulith::table::value::{DateTime, Value};
use tabulith::table::write::Write;
use tabulith_server::limits::FILTER_DEPTH_MAX;
use tabulith_server::odata::parser::parse;
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed::{Replay, Rng, seed_or};

const CASES: usize = 100_000;
const PLANS: usize = 3_000;
const NO_METADATA: &str = "application/json;odata=nometadata";

/// A filter as a tree of its own.
enum Tree {
    Compare { name: &'static str, op: &'static str, literal: Value, literal_first: bool },
    Flag(&'static str),
    Constant(bool),
    Not(Box<Tree>),
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
}

const NAMES: [&str; 10] =
    ["A", "B", "C", "a", "Flag", "\u{540d}", "Missing", "PartitionKey", "RowKey", "Timestamp"];
const OPS: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
const TEXTS: [&str; 12] = [
    "",
    "a",
    "A",
    "ab",
    "b",
    "it's",
    "5",
    "\u{e9}",
    "\u{e000}",
    "\u{ffff}",
    "\u{1f600}",
    "a b)&%20",
];

/// Commits of entities, and what a Timestamp may be compared with.
const WRITTEN: u64 = 10_000_000;

fn value(rng: &mut Rng) -> Value {
    let pick = rng.below(8);
    match pick {
        0 => Value::String(TEXTS[rng.below(TEXTS.len())].to_owned()),
        1 => Value::Boolean(rng.chance(2)),
        2 => Value::Int32([0, 1, -1, 5, i32::MAX, i32::MIN][rng.below(6)]),
        3 => Value::Int64([0, 1, -1, 5, i64::MAX, i64::MIN, 5_000_000_000][rng.below(7)]),
        4 => {
            let doubles = [0.0, 1.0, -1.0, 5.0, 0.5, 1e300, f64::NAN, f64::INFINITY, -1e-5];
            Value::Double(doubles[rng.below(doubles.len())])
        }
        5 => {
            let epoch = DateTime::UNIX_EPOCH.0;
            Value::DateTime(DateTime([0, epoch + WRITTEN, epoch + WRITTEN + 1, 1][rng.below(4)]))
        }
        6 => {
            let mut guid = [0; 16];
            guid[rng.below(16)] = [0, 1, 255][rng.below(3)];
            Value::Guid(guid)
        }
        _ => Value::Binary(vec![[0, 1, 255][rng.below(3)]; rng.below(3)]),
    }
}

fn tree(rng: &mut Rng, depth: usize, names: &[&'static str]) -> Tree {
    let name = names[rng.below(names.len())];
    let kind = if depth == 0 { 3 + rng.below(7) } else { rng.below(10) };
    let mut inner = || Box::new(tree(rng, depth - 1, names));
    match kind {
        0 => Tree::Not(inner()),
        1 => Tree::And(inner(), inner()),
        2 => Tree::Or(inner(), inner()),
        3 if rng.chance(4) => Tree::Flag(name),
        3 => Tree::Constant(rng.chance(2)),
        _ => {
            let is_key = name.ends_with("Key") && !rng.chance(5);
            let text = Value::String(TEXTS[rng.below(TEXTS.len())].to_owned());
            let literal = if is_key { text } else { value(rng) };
            let op = OPS[rng.below(OPS.len())];
            Tree::Compare { name, op, literal, literal_first: rng.chance(5) }
        }
    }
}

/// The tree as a client might write it: with parentheses where they are needed and sometimes where
/// they are not.
fn write(rng: &mut Rng, tree: &Tree, out: &mut String) {
    let spare = rng.chance(6);
    if spare {
        out.push_str(["(", "( "][rng.below(2)]);
    }
    match tree {
        Tree::Compare { name, op, literal, literal_first } => {
            let literal = literal_text(rng, literal);
            let (left, right) =
                if *literal_first { (&*literal, *name) } else { (*name, &*literal) };
            let blank = [" ", "  ", "\t"][rng.below(3)];
            out.push_str(&format!("{left}{blank}{op} {right}"));
        }
        Tree::Flag(name) => out.push_str(name),
        Tree::Constant(value) => {
            let spelling = if *value { ["true", "True"] } else { ["false", "FALSE"] };
            out.push_str(spelling[rng.below(2)]);
        }
        Tree::Not(inner) => {
            let needs = matches!(**inner, Tree::And(..) | Tree::Or(..));
            out.push_str(if needs { ["not", "not "][rng.below(2)] } else { "not " });
            write_inner(rng, inner, needs, out);
        }
        Tree::And(left, right) => {
            let is_or = |tree: &Tree| matches!(tree, Tree::Or(..));
            write_inner(rng, left, is_or(left), out);
            out.push_str(" and ");
            write_inner(rng, right, is_or(right), out);
        }
        Tree::Or(left, right) => {
            write_inner(rng, left, false, out);
            out.push_str(" or ");
            write_inner(rng, right, false, out);
        }
    }
    if spare {
        out.push_str([")", " )"][rng.below(2)]);
    }
}

fn write_inner(rng: &mut Rng, tree: &Tree, needs: bool, out: &mut String) {
    if needs {
        out.push('(');
    }
    write(rng, tree, out);
    if needs {
        out.push(')');
    }
}

fn literal_text(rng: &mut Rng, literal: &Value) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match literal {
        Value::String(text) => format!("'{}'", text.replace('\'', "''")),
        Value::Boolean(flag) => flag.to_string(),
        Value::Int32(number) => number.to_string(),
        Value::Int64(number) => format!("{number}{}", ["L", "l"][rng.below(2)]),
        Value::Double(number) if number.is_nan() => "NaN".to_owned(),
        Value::Double(number) if number.is_infinite() => "INF".to_owned(),
        Value::Double(number) => format!("{number:?}{}", ["", "d", "F", "m"][rng.below(4)]),
        Value::DateTime(moment) => format!("datetime'{moment}'"),
        Value::Guid(bytes) => {
            let text = hex(bytes);
            let (a, b, c, d, e) =
                (&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]);
            format!("guid'{a}-{b}-{c}-{d}-{e}'")
        }
        Value::Binary(bytes) => format!("{}'{}'", ["X", "x", "binary"][rng.below(3)], hex(bytes)),
    }
}

/// Section by section what a comparison means. Nothing of the engine's is asked.
fn holds(tree: &Tree, entity: &Entity) -> bool {
    match tree {
        Tree::Constant(value) => *value,
        Tree::Not(inner) => !holds(inner, entity),
        Tree::And(left, right) => holds(left, entity) & holds(right, entity),
        Tree::Or(left, right) => holds(left, entity) | holds(right, entity),
        Tree::Flag(name) => property(entity, name) == Some(Value::Boolean(true)),
        Tree::Compare { name, op, literal, literal_first } => {
            // A missing property passes nothing.
            let Some(value) = property(entity, name) else { return false };
            let op = match (*op, literal_first) {
                ("lt", true) => "gt",
                ("le", true) => "ge",
                ("gt", true) => "lt",
                ("ge", true) => "le",
                (same, _) => same,
            };
            // With NaN nothing holds but that it differs.
            let Some(order) = order(&value, literal) else { return op == "ne" };
            match op {
                "eq" => order.is_eq(),
                "ne" => order.is_ne(),
                "lt" => order.is_lt(),
                "le" => order.is_le(),
                "gt" => order.is_gt(),
                _ => order.is_ge(),
            }
        }
    }
}

fn property(entity: &Entity, name: &str) -> Option<Value> {
    match name {
        "PartitionKey" => Some(Value::String(entity.partition_key.clone())),
        "RowKey" => Some(Value::String(entity.row_key.clone())),
        "Timestamp" => Some(Value::DateTime(DateTime(DateTime::UNIX_EPOCH.0 + entity.ts.0))),
        _ => entity.properties.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone()),
    }
}

/// The matrix of types: where they do not meet, the property is less.
fn order(value: &Value, literal: &Value) -> Option<Ordering> {
    use Value::{Binary, Boolean, Double, Guid, Int32, Int64};
    let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
    match (value, literal) {
        (Int32(a), Int32(b)) => Some(a.cmp(b)),
        (Int64(a), Int32(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Int64(a), Int64(b)) => Some(a.cmp(b)),
        (Double(a), Int32(b)) => a.partial_cmp(&f64::from(*b)),
        (Double(a), Int64(b)) => a.partial_cmp(&(*b as f64)),
        (Double(a), Double(b)) => a.partial_cmp(b),
        (Boolean(a), Boolean(b)) => Some(u8::from(*a).cmp(&u8::from(*b))),
        (Value::DateTime(a), Value::DateTime(b)) => Some(a.0.cmp(&b.0)),
        (Guid(a), Guid(b)) => Some(a.iter().cmp(b.iter())),
        (Binary(a), Binary(b)) => Some(a.iter().cmp(b.iter())),
        (Value::String(a), Value::String(b)) => Some(units(a).cmp(&units(b))),
        _ => Some(Ordering::Less),
    }
}

fn entity(rng: &mut Rng) -> Entity {
    let mut key = || TEXTS[rng.below(TEXTS.len())].replace(['/', '\\', '#', '?'], "");
    let mut entity = Entity::new(key(), key());
    entity.ts = CommitTs(WRITTEN + rng.below(2) as u64);
    for name in &NAMES[..6] {
        if !rng.chance(4) {
            entity = entity.with(*name, Value::Boolean(true));
            if let Some((_, own)) = entity.properties.last_mut() {
                *own = value(rng);
            }
        }
    }
    entity
}

#[test]
fn the_evaluator_agrees() {
    let cases = std::env::var("TABULITH_FILTER_CASES").ok().and_then(|text| text.parse().ok());
    let cases: usize = cases.unwrap_or(CASES);
    let seed = seed_or(53);
    let command =
        format!("TABULITH_FILTER_CASES={cases} cargo test -p tabulith-server --test filters");
    let _replay = Replay::new(seed, command);
    let mut rng = Rng::new(seed);
    let (mut tried, mut passed) = (0, 0);
    while tried < cases {
        let depth = rng.below(5);
        let tree = tree(&mut rng, depth, &NAMES);
        let mut text = String::new();
        write(&mut rng, &tree, &mut text);
        let filter = parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let filter = filter.expect("not blank");
        for _ in 0..4 {
            let entity = entity(&mut rng);
            let expected = holds(&tree, &entity);
            let found = passes(&filter, &entity).expect("in memory");
            assert_eq!(found, expected, "{text}\nof {entity:?}");
            tried += 1;
            passed += usize::from(found);
        }
    }
    println!("{tried} pairs of filter and entity, {passed} of which pass");
    counts::tell("filters", &[count("pairs", tried as u64, cases as u64)]);
    assert!(passed > tried / 10 && passed < tried * 9 / 10);
}

#[test]
fn plans_find_what_a_look_at_every_row_finds() {
    let seed = seed_or(54);
    let _replay = Replay::new(seed, "cargo test -p tabulith-server --test filters");
    let mut rng = Rng::new(seed);
    let bench = Bench::new();
    let clock = Arc::new(ManualClock::at(common::START));
    let store = TableStore::with_clock(bench.db.clone(), clock);
    let account = AccountName::parse("devstoreaccount1").expect("an account");
    let table = TableName::parse("people").expect("a table");
    store.create_table(&account, &table).expect("made");
    let mut rows = Vec::new();
    for _ in 0..400 {
        let write = Write::InsertOrReplace(entity(&mut rng));
        let outcome = store.write(&account, &table, write).expect("good").wait().expect("done");
        let entity = outcome.entity.expect("an entity");
        let keys = (entity.partition_key.clone(), entity.row_key.clone());
        rows.retain(|own: &Entity| (own.partition_key.clone(), own.row_key.clone()) != keys);
        rows.push(entity);
    }
    let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
    rows.sort_by_cached_key(|row| (units(&row.partition_key), units(&row.row_key)));
    let names = ["PartitionKey", "RowKey", "PartitionKey", "RowKey", "A", "Flag"];
    let mut few = 0;
    for _ in 0..PLANS {
        let depth = rng.below(5);
        let tree = tree(&mut rng, depth, &names);
        let mut text = String::new();
        write(&mut rng, &tree, &mut text);
        let filter = parse(&text).expect("a filter");
        let top = [1, 7, 1000][rng.below(3)];
        let mut query = Query { filter, top, ..Query::default() };
        let mut found = Vec::new();
        loop {
            let page = store.query(&account, &table, &query).expect("a page");
            few += usize::from(page.examined < rows.len() as u64);
            found.extend(page.entities);
            query.from = page.next;
            if query.from.is_none() {
                break;
            }
        }
        let expected: Vec<_> = rows.iter().filter(|row| holds(&tree, row)).collect();
        let keys = |row: &Entity| (row.partition_key.clone(), row.row_key.clone());
        let found: Vec<_> = found.iter().map(keys).collect();
        let expected: Vec<_> = expected.into_iter().map(keys).collect();
        assert_eq!(found, expected, "{text}");
    }
    println!("{PLANS} plans over {} rows, {few} pages that looked at fewer", rows.len());
    counts::tell("filters", &[count("plans", PLANS as u64, 1)]);
    assert!(few > PLANS / 2);
}

/// The tree of a filter has two levels for each parenthesis, and was bounded as if it had one: with
/// 49 of them filters were refused.
#[test]
fn a_filter_may_be_as_deep_as_is_said() {
    let bench = Bench::new();
    assert_eq!(bench.send("POST", "/Tables", &[], "{\"TableName\":\"Rows\"}").status, 201);
    for n in [1, 2, 3] {
        let row = format!("/Rows(PartitionKey='p',RowKey='{n}')");
        let body = format!("{{\"N\":{n},\"Flag\":true}}");
        assert_eq!(bench.send("PUT", &row, &[], &body).status, 204);
    }
    // In a file, where its zones are asked too.
    bench.db.flush().expect("a sound disk");
    let ask = |depth: usize| {
        let (open, close) = ("N eq 1 or Flag and (".repeat(depth), ")".repeat(depth));
        let filter = escaped(&format!("{open}N eq 4 or Flag and N eq 2{close}"));
        let path = format!("/Rows()?$filter={filter}&$select=N");
        let headers = [("x-tabulith-explain", "true"), ("Accept", NO_METADATA)];
        let page = bench.send("GET", &path, &headers, "");
        (page.status, String::from_utf8(page.body.to_vec()).expect("text"))
    };
    // A thread of the server has eight times as much.
    let small = || std::thread::Builder::new().stack_size(256 << 10);
    std::thread::scope(|scope| {
        let ask = &ask;
        for depth in [1, 48, 49, 99, FILTER_DEPTH_MAX] {
            let asked = small().spawn_scoped(scope, move || ask(depth)).expect("a thread").join();
            let found = (200, "{\"value\":[{\"N\":1},{\"N\":2}]}".to_owned());
            assert_eq!(asked.expect("no panic"), found, "{depth}");
        }
    });
    assert_eq!(ask(FILTER_DEPTH_MAX + 1).0, 400);
}
