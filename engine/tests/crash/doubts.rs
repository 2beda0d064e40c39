//! Changes that failed and may have happened all the same: what failed is there whole or not at
//! all, and what the database shows later says which.

use crate::model::{Change, History, World};
use bytes::Bytes;

/// Changes of the catalogue, transactions and ingests, each with the newest commit before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doubts(Vec<(u64, Change)>);

impl Doubts {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// A commit of rows failed, after the last one of `history`.
    pub(crate) fn add(&mut self, history: &History, change: Change) {
        self.0.push((history.newest(), change));
    }

    /// A change of the catalogue failed by the time `now`. Of several on one table the first
    /// counts. It comes after whatever failed before it and may be there, a tick for each, as an
    /// ingest that failed leaves the log as it was.
    pub(crate) fn add_first_of_table(&mut self, history: &History, now: u64, change: Change) {
        let is_in_the_way = |other: &Change| {
            !matches!(other, Change::Rows { .. }) && other.table() == change.table()
        };
        if !self.0.iter().any(|(_, other)| is_in_the_way(other)) {
            let after = history.newest() + self.0.len() as u64;
            self.0.push((after.max(now.saturating_sub(1)), change));
        }
    }

    /// A change of a table did not fail: whatever failed before on it is decided.
    pub(crate) fn forget_table(&mut self, table: &str) {
        self.0.retain(|(_, other)| other.table() != table);
    }

    /// Takes up into `history` what the database shows all the same.
    pub(crate) fn settle(&mut self, history: &mut History, found: &World) -> Result<(), String> {
        self.settle_where(history, found, true)
    }

    /// The same of what the catalogue shows; `found` has no rows.
    pub(crate) fn settle_catalogue(
        &mut self,
        history: &mut History,
        found: &World,
    ) -> Result<(), String> {
        self.settle_where(history, found, false)
    }

    fn settle_where(
        &mut self,
        history: &mut History,
        found: &World,
        has_rows: bool,
    ) -> Result<(), String> {
        for (after, change) in std::mem::take(&mut self.0) {
            match (&change, found.tables.get(change.table())) {
                (Change::Create { table, .. }, Some(shown)) => {
                    let change = Change::Create { table: table.clone(), id: shown.id };
                    history.insert(shown.created, change)?;
                }
                (Change::Rows { table, pk, rows, .. }, Some(shown)) if has_rows => {
                    let at = |rk: &Bytes| (pk.clone(), rk.clone());
                    // Its timestamp is on the rows that it wrote; nobody was told.
                    let own = rows.iter().filter_map(|(rk, value)| {
                        let row = shown.rows.get(&at(rk))?;
                        let same = value.as_ref().is_some_and(|value| *value == row.value);
                        (same && row.ts > after).then_some(row.ts)
                    });
                    // One that only removes leaves none.
                    let there = history.last().tables.get(table);
                    let removed = rows.iter().filter(|(rk, _)| {
                        there.is_some_and(|table| table.rows.contains_key(&at(rk)))
                    });
                    let mut removed = removed.peekable();
                    let removes = removed.peek().is_some()
                        && rows.iter().all(|(_, value)| value.is_none())
                        && removed.all(|(rk, _)| !shown.rows.contains_key(&at(rk)));
                    match own.max() {
                        Some(ts) => history.insert(ts, change)?,
                        None if removes => history.insert_after(after, change)?,
                        None => self.0.push((after, change)),
                    }
                }
                // Nobody tells when it happened; before the next commit.
                (Change::Drop { .. }, None) => history.insert_after(after, change)?,
                (Change::Declare { columns, .. }, Some(shown)) if shown.columns == *columns => {
                    history.insert_after(after, change)?;
                }
                (Change::SetTtl { ttl, .. }, Some(shown)) if shown.life.ttl == *ttl => {
                    history.insert_after(after, change)?;
                }
                _ => self.0.push((after, change)),
            }
        }
        Ok(())
    }
}
