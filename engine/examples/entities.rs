//! Typed entities: insert, merge under an ETag, a transaction, a filtered query.
//!
//! `cargo run -p tabulith --example entities [FOLDER]`

use tabulith::{Db, Entity, Filter, IfMatch, Op, TableResult, Write};

fn main() -> TableResult<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "example-entities".into());
    let db = Db::open(&folder)?;
    let flights = db.entities("flights")?;

    let etag = flights.upsert(
        Entity::new("JFK-B6", "0101-0600").with("dest", "BQN").with("delay", 18).with("late", true),
    )?;
    flights.merge(Entity::new("JFK-B6", "0101-0600").with("delay", 21), IfMatch::Match(etag))?;

    // Up to 100 changes of one partition, all or none.
    let more = ["0102-0600", "0103-0600", "0104-0600"];
    let more = more.into_iter().zip(0..).map(|(row_key, delay)| {
        Write::InsertOrReplace(Entity::new("JFK-B6", row_key).with("delay", delay * 10))
    });
    flights.transact(more.collect())?;

    // The two keys bound the scan; the rest of the filter is evaluated on what it reads.
    let january_late = Filter::And(vec![
        Filter::compare("PartitionKey", Op::Eq, "JFK-B6"),
        Filter::compare("RowKey", Op::Lt, "0201"),
        Filter::compare("delay", Op::Gt, 15),
    ]);
    for entity in flights.query(Some(january_late)) {
        show(&entity?);
    }
    Ok(db.close()?)
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn show(entity: &Entity) {
    println!("{} {:?}", entity.row_key, entity.property("delay"));
}
