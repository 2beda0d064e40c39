//! Queries with a condition on a property that one row in a hundred meets: where such rows lie
//! together, where they lie anywhere, and on a property of which zones know nothing, which is the
//! plain scan that the other two are held against.

use crate::case::{Case, Plan};
use crate::rows;
use crate::sample::{Meter, Sample, histogram};
use anyhow::{Result, ensure};
use tabulith::db::Db;
use tabulith::env::rng::Rng;
use tabulith::options::Durability;
use tabulith::{Entities, Entity, Filter, Op, Value};

/// Rows of the table at scale 1, each of some 200 bytes.
const ROWS: u64 = 200_000;

/// One row in so many passes.
const SHARE: u64 = 100;

/// Full queries of a table of entities.
pub fn cases(plan: &Plan) -> Result<Vec<Case>> {
    let table = filled(plan)?;
    let kinds = [
        ("Serial", "that lie together"),
        ("Random", "that lie anywhere"),
        ("Text", "by what no zone tells"),
    ];
    let case = |(property, what): (&'static str, &str)| {
        let table = table.clone();
        let name = format!("query: 1 % of the rows, {what}");
        Case::new(name, "rows/s", move |plan| query(plan, &table, property))
    };
    Ok(kinds.into_iter().map(case).collect())
}

fn filled(plan: &Plan) -> Result<Entities> {
    let db = Db::builder().durability(Durability::Buffered).open(plan.folder("filters")?)?;
    let table = db.entities("Bench")?;
    let mut rng = Rng::seeded(plan.seed);
    let all = plan.rows(ROWS);
    for i in 0..all {
        let (partition, row) = rows::keys(i);
        let random = rng.below(all);
        // Behind the eight bytes that a zone keeps of a text.
        let text = format!("customer-{:01}{}", u8::from(random < all / SHARE), "x".repeat(100));
        let entity = Entity::new(partition, row).with("Serial", i as i64);
        table.upsert(entity.with("Random", random as i64).with("Text", text))?;
    }
    db.compact()?;
    Ok(table)
}

fn query(plan: &Plan, table: &Entities, property: &str) -> Result<Sample> {
    let all = plan.rows(ROWS);
    let below = Value::Int64((all / SHARE) as i64);
    let filter = match property {
        "Text" => Filter::compare(property, Op::Ge, Value::String("customer-1".to_owned())),
        _ => Filter::compare(property, Op::Lt, below),
    };
    let meter = Meter::start(None);
    let mut found = 0;
    for entity in table.query(Some(filter)) {
        std::hint::black_box(entity?);
        found += 1;
    }
    ensure!(found > all / SHARE / 2 && found < all / SHARE * 2, "{found} rows of {all} passed");
    Ok(meter.stop(all, histogram()?))
}
