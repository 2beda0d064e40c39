//! W15: a scan that wants one row of a hundred, by a property of it.
//!
//! Ours stores entities and is given the filter; its zone maps may skip blocks. A peer has no
//! properties: it scans, and its callback reads a number at a fixed place of the value, which is
//! less work than any real encoding would be.

use crate::adapters::open::open;
use crate::adapters::ours;
use crate::engine::{Direction, Promise, Span};
use crate::probe::{Kind, LAP_ROWS, Laps, Line, Probe};
use crate::rows::{KeyBuf, PARTITION_ROWS, Values, row_of, size_of, tag_of};
use crate::work::{Batch, Context, bytes_of};
use anyhow::{Result, anyhow, ensure};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;
use tabulith::env::rng::Rng;
use tabulith::table::write::Write;
use tabulith::{Entities, Entity, Filter, Op, Value};

/// Rows with values of 200 bytes at scale 1: 115 MB, all in the cache. Of larger ones as many as
/// take the same bytes.
const ROWS: u64 = 500_000;

/// Entities of one transaction.
const GROUP_ROWS: u64 = 100;

/// The tag that is looked for, one of a hundred.
const WANTED: u64 = 42;

/// Rows of a lap: what is found among [`LAP_ROWS`]. Rows that an engine passes over are not seen
/// from here.
const LAP_FOUND: u64 = LAP_ROWS / 100;

/// How the rows that match lie: in one place of each partition, as days do where RowKeys rise with
/// time, or anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tags {
    Together,
    Anywhere,
}

impl Tags {
    fn of(self, i: u64) -> u64 {
        match self {
            Tags::Together => i % PARTITION_ROWS / (PARTITION_ROWS / 100),
            Tags::Anywhere => Rng::seeded(i).below(100),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Tags::Together => "W15 filter 1 % of rows, together in each partition",
            Tags::Anywhere => "W15 filter 1 % of rows, anywhere",
        }
    }
}

/// How the rows lie, how many there are, and the bytes of each of their values.
type Laid = (Tags, u64, usize);

/// What was found: how many rows, and the sum of their numbers.
type Found = (u64, u64);

/// Both ways in which the rows may lie.
pub fn all(context: &Context, value_bytes: usize) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for tags in [Tags::Together, Tags::Anywhere] {
        let rows = context.rows_like(ROWS, value_bytes);
        let matching = (0..rows).filter(|i| tags.of(*i) == WANTED);
        let expected = matching.fold((0, 0), |(count, sum), i| (count + 1, sum + i));
        lines.push(match context.engine.starts_with("ours") {
            true => entities(context, (tags, rows, value_bytes), expected)?,
            false => bytes(context, (tags, rows, value_bytes), expected)?,
        });
    }
    Ok(lines)
}

/// Scans until the span is over; a scan looks at `rows` rows.
fn measure(
    context: &Context,
    (tags, rows, value_bytes): Laid,
    expected: Found,
    mut scan: impl FnMut(&mut Laps) -> Result<Found>,
) -> Result<Line> {
    ensure!(scan(&mut Laps::of(LAP_FOUND)?)? == expected, "the first scan found something else");
    let (probe, mut laps, mut scans) = (Probe::start()?, Laps::of(LAP_FOUND)?, 0);
    while scans == 0 || probe.elapsed() < context.span {
        laps.begin();
        let found = scan(&mut laps)?;
        ensure!(found == expected, "found {found:?}, should be {expected:?}");
        scans += 1;
    }
    let looked_at = scans * rows;
    let name = format!("{}{}", tags.name(), size_of(value_bytes));
    let line = probe.rate(Kind::Read, name, "rows looked at/s", looked_at, Duration::ZERO)?;
    let line = line.disk(&folder(context, tags), bytes_of(rows, value_bytes))?;
    Ok(line.in_laps(&laps, "each 10 rows found, of 1,000 looked at"))
}

fn folder(context: &Context, tags: Tags) -> PathBuf {
    context.dir.join(format!("{tags:?}"))
}

fn bytes(context: &Context, laid: Laid, expected: Found) -> Result<Line> {
    let (tags, rows, value_bytes) = laid;
    let settings = context.settings(Promise::Unsynced);
    let engine = open(&context.engine, &folder(context, tags), &settings)?;
    let mut values = Values::new(value_bytes, context.seed);
    let mut batch = Batch::default();
    for first in (0..rows).step_by(PARTITION_ROWS as usize) {
        batch.make_tagged(&mut values, first..first + PARTITION_ROWS, |i| tags.of(i));
        batch.commit(&*engine)?;
    }
    engine.settle()?;
    let line = measure(context, laid, expected, |laps| {
        let mut found = (0, 0);
        engine.scan(Span::All, Direction::Forward, &mut |seen| {
            if tag_of(seen.value) == WANTED {
                found = (found.0 + 1, found.1 + row_of(seen.value));
                laps.row();
            }
            ControlFlow::Continue(())
        })?;
        Ok(found)
    })?;
    engine.close()?;
    Ok(line)
}

fn entities(context: &Context, laid: Laid, expected: Found) -> Result<Line> {
    let settings = context.settings(Promise::Unsynced);
    let mode = ours::mode_of(&context.engine);
    let db = ours::open_db(&folder(context, laid.0), &settings, mode)?;
    let table = db.entities("rows")?;
    fill(&table, laid, context.seed)?;
    db.flush()?;
    db.settle()?;
    let filter = Filter::Compare {
        property: "Tag".to_owned(),
        op: Op::Eq,
        literal: Value::Int64(WANTED as i64),
    };
    let line = measure(context, laid, expected, |laps| {
        let mut found = (0, 0);
        for entity in table.query(Some(filter.clone())).select(&["Number"]) {
            let number = entity?.properties.into_iter().find(|(name, _)| name == "Number");
            let Some((_, Value::Int64(number))) = number else { return Ok((0, 0)) };
            found = (found.0 + 1, found.1 + number as u64);
            laps.row();
        }
        Ok(found)
    })?;
    db.close()?;
    Ok(line)
}

/// Entities with as many bytes of payload as the values of the peers.
fn fill(table: &Entities, (tags, rows, value_bytes): Laid, seed: u64) -> Result<()> {
    let (mut key, mut values) = (KeyBuf::default(), Values::new(value_bytes - 24, seed));
    for first in (0..rows).step_by(GROUP_ROWS as usize) {
        let mut group = Vec::new();
        for i in first..first + GROUP_ROWS {
            let key = key.row(i);
            let properties = vec![
                ("Number".to_owned(), Value::Int64(i as i64)),
                ("Tag".to_owned(), Value::Int64(tags.of(i) as i64)),
                ("Payload".to_owned(), Value::Binary(values.value(i, 0).to_vec())),
            ];
            group.push(Write::InsertOrReplace(Entity {
                properties,
                ..Entity::new(
                    String::from_utf8(key.partition().to_vec())?,
                    String::from_utf8(key.row().to_vec())?,
                )
            }));
        }
        table.transact(group).map_err(|error| anyhow!("{error:?}"))?;
    }
    Ok(())
}
