//! Bulk load through the table layer: entities like those of the flights data, in durable group
//! transactions of 100, several on their way at once, as an importer makes them.

use crate::case::{Case, Plan};
use crate::sample::{Meter, histogram};
use anyhow::{Context as _, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use tabulith::db::Db;
use tabulith::table::entity::Entity;
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::store::TableStore;
use tabulith::table::value::{DateTime, Value};
use tabulith::table::write::Write;

const BATCH: u64 = 100;

/// Transactions on their way at once.
const IN_FLIGHT: usize = 32;

/// Import by one thread.
pub fn cases(plan: &Plan) -> Result<Vec<Case>> {
    let db = Arc::new(Db::open(plan.folder("import")?)?);
    let store = TableStore::new(Arc::clone(&db));
    let account = AccountName::parse("devstoreaccount1").ok().context("account")?;
    let table = TableName::parse("flights").ok().context("table")?;
    store.create_table(&account, &table)?;
    let mut next = 0; // No row comes twice, whatever the round.
    let name = format!("import of entities with 19 properties, {IN_FLIGHT} groups in flight");
    Ok(vec![Case::new(name, "rows/s", move |plan| {
        let (mut ops, mut latency_ns) = (0, histogram()?);
        let mut pending = VecDeque::new();
        let meter = Meter::start(None);
        let start = Instant::now();
        while start.elapsed() < plan.span {
            let before = Instant::now();
            let writes = (next..next + BATCH).map(|i| Write::InsertOrReplace(flight(i))).collect();
            next += BATCH;
            pending.push_back((before, store.transact(&account, &table, writes)?));
            if pending.len() == IN_FLIGHT
                && let Some((before, oldest)) = pending.pop_front()
            {
                ops += oldest.wait()?.len() as u64;
                latency_ns.saturating_record(before.elapsed().as_nanos() as u64);
            }
        }
        for (_, rest) in pending {
            ops += rest.wait()?.len() as u64;
        }
        let sample = meter.stop(ops, latency_ns);
        db.settle()?;
        Ok(sample)
    })])
}

/// Entity `i`: batches of 100 in a row share their partition.
fn flight(i: u64) -> Entity {
    const CARRIERS: [&str; 12] =
        ["9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "MQ", "UA", "US", "WN"];
    let (batch, number) = (i / BATCH, (i % 9000) as i32);
    let origin = ["EWR", "JFK", "LGA"][batch as usize % 3];
    let carrier = CARRIERS[(batch / 3) as usize % CARRIERS.len()];
    let (month, day) = ((i / 28) % 12 + 1, i % 28 + 1);
    let time = DateTime(DateTime::UNIX_EPOCH.0 + 13_570_000_000_000_000 + i * 600_000_000);
    let int = |name: &str, value: i32| (name.to_owned(), Value::Int32(value));
    let text = |name: &str, value: String| (name.to_owned(), Value::String(value));
    Entity {
        properties: vec![
            int("year", 2013),
            int("month", month as i32),
            int("day", day as i32),
            int("dep_time", number % 2400),
            int("sched_dep_time", (number + 2) % 2400),
            int("dep_delay", number % 60 - 5),
            int("arr_time", (number + 200) % 2400),
            int("sched_arr_time", (number + 190) % 2400),
            int("arr_delay", number % 70 - 20),
            text("carrier", carrier.to_owned()),
            int("flight", number),
            text("tailnum", format!("N{:05}", i % 4000)),
            text("origin", origin.to_owned()),
            text("dest", ["IAH", "MIA", "BQN", "ATL", "ORD"][i as usize % 5].to_owned()),
            int("air_time", number % 400),
            int("distance", number % 2500),
            int("hour", number % 24),
            int("minute", number % 60),
            ("time_hour".to_owned(), Value::DateTime(time)),
        ],
        ..Entity::new(format!("{origin}-{carrier}"), format!("{month:02}{day:02}-{i:010}"))
    }
}
