//! One run of `tabulith copy`: its tables one after the other, and the comparison in the end.

use crate::args::copy::CopyArgs;
use crate::ask::{Key, WriteError};
use crate::copy::digest::{Digests, PARTS};
use crate::copy::lines::{self, Writer};
use crate::copy::pace::Pace;
use crate::copy::place::Place;
use crate::copy::progress::{Progress, Reached};
use crate::exit::{Exit, Failure};
use crate::folder::Access;
use crate::import::batcher::{Batcher, Ready};
use crate::import::report::{count_expiring, grouped, rate, tell_expiring};
use crate::json;
use crate::print::note;
use crate::target::Target;
use anyhow::{Context, Result};
use std::sync::Arc;
use std::time::Duration;
use tabulith::env::clock::{Clock, SystemClock};
use tabulith::table::entity::Entity;
use tokio::task::JoinSet;
use xxhash_rust::xxh3::xxh3_128;

/// Batches on their way at once.
const IN_FLIGHT: usize = 16;

/// Partitions that are named where two places differ.
const DIFFERENCES_SHOWN: u64 = 20;

/// Of a table with many partitions, parts that differ and are read again for their names.
const PARTS_NAMED: usize = 20;

/// Copies, and compares.
pub(crate) async fn run(args: CopyArgs) -> Result<Exit> {
    let patience = Duration::from_secs(args.patience);
    let ca = args.ca.as_deref();
    let from = Place::open(&args.from, Access::Read, ca, patience).context("FROM")?;
    let access = if args.verify_only { Access::Read } else { Access::Write };
    // Before the other place is made.
    let tables = chosen(&from, &args.table).await?;
    let to = Place::open(&args.to, access, ca, patience).context("TO")?;
    let names = format!("{}\n{}", from.identity(), to.identity());
    let mut copy = Copy {
        progress: Progress::of(xxh3_128(names.as_bytes())),
        compares: !args.no_verify,
        pace: Pace::new(args.rate),
        clock: SystemClock::new(),
        from,
        to,
    };
    if args.table.is_empty() {
        copy.progress.know_only(&tables);
    }
    let copied = if args.verify_only { Ok(0) } else { copy.tables(&tables, args.restart).await };
    let compared = match &copied {
        Ok(_) if copy.compares => copy.compare(&tables).await,
        _ => Ok(true),
    };
    let closed = match &copy.to {
        Place::Tables(target) => target.close(),
        _ => Ok(()),
    };
    copied?;
    let same = compared?;
    closed?;
    if same {
        // What was only looked at may be a copy that is to go on.
        if !args.verify_only {
            copy.progress.forget(&tables)?;
        }
        return Ok(Exit::Ok);
    }
    let help = if args.verify_only { "" } else { "; --restart copies every row again" };
    Err(Failure::new(Exit::Failure, format!("the two places differ{help}")).into())
}

/// The tables to copy: all, or those that are named.
async fn chosen(from: &Place, wanted: &[String]) -> Result<Vec<String>> {
    let all = from.tables().await?;
    if wanted.is_empty() {
        return Ok(all);
    }
    let find = |name: &String| {
        let found = all.iter().find(|table| table.eq_ignore_ascii_case(name));
        let missing = || Failure::new(Exit::NotFound, format!("there is no table {name} to copy"));
        found.cloned().ok_or_else(missing)
    };
    Ok(wanted.iter().map(find).collect::<Result<_, _>>()?)
}

struct Copy {
    from: Place,
    to: Place,
    progress: Progress,
    /// Whether both sides are read in the end.
    compares: bool,
    pace: Pace,
    clock: SystemClock,
}

impl Copy {
    /// Copies the tables, with `restart` from their beginnings. Returns the number of rows.
    async fn tables(&mut self, tables: &[String], restart: bool) -> Result<u64> {
        if restart {
            // On the disk too: if this copy is interrupted, the next one would believe the record.
            self.progress.forget(tables)?;
        }
        let (mut rows, mut expiring) = (0, 0);
        for table in tables {
            let copied = self.table(table, &mut expiring).await;
            rows += copied.with_context(|| format!("copying {table}"))?;
        }
        self.progress.reach_all(tables);
        note(&format!("copied {}, {} tables", rate(rows, self.clock.steady()), tables.len()));
        if !self.to.is_folder() {
            tell_expiring(expiring);
        }
        Ok(rows)
    }

    /// Copies a table, and counts in `expiring` the rows that expire.
    async fn table(&mut self, table: &str, expiring: &mut u64) -> Result<u64> {
        let after = match self.begin(table).await? {
            Some(Reached::End | Reached::All) => {
                note(&format!("{table} was copied before"));
                return Ok(0);
            }
            Some(Reached::Row(key)) => {
                note(&format!("{table}: going on behind '{}', '{}'", key.partition, key.row));
                Some(key)
            }
            None => None,
        };
        let mut reading = self.from.read(table, after)?;
        let mut writer = match &self.to {
            Place::Lines(dir) => Some(Writer::create(dir, table)?),
            Place::Tables(_) | Place::Azurite(..) => None,
        };
        let mut rows = 0;
        loop {
            let page = reading.next().await?;
            let Some(last) = page.last() else { break };
            let key = Key { partition: last.partition_key.clone(), row: last.row_key.clone() };
            rows += page.len() as u64;
            *expiring += count_expiring(&page);
            self.pace.wait_for(page.len()).await;
            match (&mut writer, &self.to) {
                (Some(writer), _) => writer.write(&page)?,
                (None, Place::Tables(target)) => write_page(target, table, page).await?,
                (None, _) => {}
            }
            if self.from.is_ordered() && writer.is_none() {
                self.progress.reach(table, &Reached::Row(key));
            }
        }
        if let Some(writer) = writer {
            writer.finish()?;
        }
        self.progress.reach(table, &Reached::End);
        Ok(rows)
    }

    /// Makes the table, and tells how far it has come: what is recorded of it counts only where it
    /// is still there.
    async fn begin(&mut self, table: &str) -> Result<Option<Reached>> {
        let reached = self.progress.reached(table);
        let is_there = match (&self.to, &reached) {
            // A file is written from its beginning.
            (Place::Lines(_), Some(Reached::Row(_))) => return Ok(None),
            (Place::Tables(target), Some(Reached::Row(key))) => {
                let was_there = !target.create_table(table).await?;
                was_there
                    && (target.get(table, &key.partition, &key.row).await?.is_some()
                        || self.is_gone(table, key).await?)
            }
            (Place::Tables(target), _) => !target.create_table(table).await?,
            (Place::Lines(dir), Some(Reached::End | Reached::All)) => lines::has(dir, table)?,
            (Place::Lines(_) | Place::Azurite(..), _) => false,
        };
        let begins_anew = reached == Some(Reached::All) && !self.compares;
        if reached.is_none() || (is_there && !begins_anew) {
            return Ok(reached);
        }
        if !is_there {
            note(&format!("{table}: what was copied before is not there any more; starting over"));
        }
        // At once: if this copy is interrupted, the next one finds the table and would believe the
        // record.
        self.progress.forget(&[table.to_owned()])?;
        Ok(None)
    }

    /// Whether the last row that was copied is not in FROM any more, where it may have expired in
    /// both places: it says nothing of TO then, and what TO lacks the comparison finds, if there is
    /// one.
    async fn is_gone(&self, table: &str, key: &Key) -> Result<bool> {
        match &self.from {
            Place::Tables(from) if self.compares && self.keeps_times() => {
                Ok(from.get(table, &key.partition, &key.row).await?.is_none())
            }
            _ => Ok(false),
        }
    }

    /// Whether what expires in FROM does so in TO.
    fn keeps_times(&self) -> bool {
        self.from.is_folder() && self.to.is_folder()
    }

    /// Whether both places have the same rows; where not, says which partitions differ.
    async fn compare(&self, tables: &[String]) -> Result<bool> {
        let mut same = true;
        for table in tables {
            same &= self.compare_table(table).await?;
        }
        Ok(same)
    }

    async fn compare_table(&self, table: &str) -> Result<bool> {
        let (mut here, mut there) = self.digests(table, Digests::default()).await?;
        let rows = grouped(here.rows());
        let of = match here.partitions() {
            Some(count) => format!("{rows} rows in {} partitions", grouped(count as u64)),
            None => format!("{rows} rows"),
        };
        let differing = match here.parts_that_differ(&mut there) {
            None => match name_differences(table, &here, &there) {
                0 => None,
                count => Some(format!("{} partitions differ", grouped(count))),
            },
            Some(parts) if parts.is_empty() => None,
            Some(parts) => {
                let few = parts.iter().copied().take(PARTS_NAMED).collect();
                let (here, there) = self.digests(table, Digests::of_parts(few)).await?;
                name_differences(table, &here, &there);
                let (count, all) = (grouped(parts.len() as u64), grouped(PARTS as u64));
                Some(format!("partitions differ in {count} of {all} parts of them"))
            }
        };
        note(&match &differing {
            None => format!("{table}: the same on both sides, {of}"),
            Some(what) => format!("{table}: {what}, FROM has {of}"),
        });
        Ok(differing.is_none())
    }

    /// What both sides have of a table, into copies of `empty`.
    async fn digests(&self, table: &str, empty: Digests) -> Result<(Digests, Digests)> {
        let keeps_times = self.keeps_times();
        tokio::try_join!(
            digests(&self.from, table, keeps_times, true, empty.clone()),
            digests(&self.to, table, keeps_times, false, empty)
        )
    }
}

/// Names the first partitions that differ; how many do.
fn name_differences(table: &str, here: &Digests, there: &Digests) -> u64 {
    let mut differing = 0;
    for (partition, here, there) in here.differences(there) {
        differing += 1;
        if differing <= DIFFERENCES_SHOWN {
            let (here, there) = (grouped(here), grouped(there));
            note(&format!("{table}: '{partition}' differs: {here} rows in FROM, {there} in TO"));
        }
    }
    differing
}

/// The digests of a table, added to `digests`, of expiries too where both places have them; a table
/// that does not exist has no rows, unless it must.
async fn digests(
    place: &Place,
    table: &str,
    keeps_times: bool,
    must_exist: bool,
    mut digests: Digests,
) -> Result<Digests> {
    let named = || format!("comparing {table}");
    let mut pages = async || -> Result<()> {
        let mut reading = place.read(table, None)?;
        loop {
            let mut page = reading.next().await?;
            if page.is_empty() {
                return Ok(());
            }
            for row in &mut page {
                row.expires = row.expires.filter(|_| keeps_times);
                digests.add(row);
            }
        }
    };
    match pages().await {
        Err(error) if !must_exist && crate::exit::of(&error) == Exit::NotFound => {}
        done => done.with_context(named)?,
    }
    Ok(digests)
}

/// Writes a page of rows, many batches at once.
async fn write_page(target: &Arc<Target>, table: &str, page: Vec<Entity>) -> Result<()> {
    let mut batches = Vec::new();
    let mut batcher = Batcher::default();
    for (number, entity) in (0..).zip(page) {
        let bytes = json::entity_bytes_max(&entity);
        batcher.push(Ready { number, line: number, entity, bytes }, |batch| batches.push(batch));
    }
    batcher.finish(|batch| batches.push(batch));
    let mut on_their_way = JoinSet::new();
    for batch in batches {
        if on_their_way.len() == IN_FLIGHT
            && let Some(done) = on_their_way.join_next().await
        {
            done.context("a worker failed")??;
        }
        let (target, table) = (target.clone(), table.to_owned());
        let mut rows: Vec<Entity> = batch.rows.into_iter().map(|row| row.entity).collect();
        on_their_way.spawn(async move {
            match target.write(&table, &mut rows).await {
                Ok(_) => Ok(()),
                Err(WriteError::Failed(error)) => Err(error),
                Err(WriteError::Row { index, why }) => {
                    let row = rows
                        .get(index)
                        .map(|row| format!("'{}', '{}': ", row.partition_key, row.row_key));
                    anyhow::bail!("{}{why}", row.unwrap_or_default())
                }
            }
        });
    }
    while let Some(done) = on_their_way.join_next().await {
        done.context("a worker failed")??;
    }
    Ok(())
}
