//! Gathers the zones of a table file as its rows are written.
//!
//! The columns that a table has declared are followed, and the first [`CANDIDATES_MAX`] that its
//! rows show; at the end the declared ones are kept and of the others those that most rows have. A
//! column whose blocks each span nearly all of its values would spare no block: of such a one only
//! the whole file's zone is written.

use crate::ids::{CommitTs, RowKind, TableId};
use crate::key::order;
use crate::panics;
use crate::sstable::zones::{COLUMNS_MAX, ColumnZones, TableZones, Times, Zones};
use crate::zone::{Cell, Declared, Extract, Zone};
use std::sync::Arc;

/// Columns of a table that are followed while a file is written.
const CANDIDATES_MAX: usize = 16;

/// Share of the file's span that a block's span may have on average where zones per block pay.
const SPAN_MAX: f64 = 0.75;

/// Collects zones, block by block.
#[derive(Default)]
pub(crate) struct ZoneBuilder {
    extract: Option<Arc<dyn Extract>>,
    declared: Arc<Declared>,
    times: Vec<Times>,
    open: Option<Times>,
    /// Of the tables that have ended, by number.
    tables: Vec<TableZones>,
    here: Option<Group>,
    /// Columns of the table that has most.
    columns_max: usize,
}

/// One table's rows.
struct Group {
    table: TableId,
    first_block: usize,
    /// Those that the table declared come first.
    columns: Vec<Column>,
    declared: usize,
    /// Of each block: whether it holds a row whose columns are not known.
    unknown: Vec<bool>,
    /// Rows with columns in the open block.
    rows: u64,
    open_unknown: bool,
    touched: bool,
}

struct Column {
    name: Vec<u8>,
    /// Rows that have it, in the whole file and in the open block.
    all_rows: u64,
    rows: u64,
    open: Zone,
    zones: Vec<Zone>,
}

impl ZoneBuilder {
    /// Takes columns by `extract`; without one it gathers nothing.
    pub(crate) fn new(extract: Option<Arc<dyn Extract>>, declared: Arc<Declared>) -> ZoneBuilder {
        ZoneBuilder { extract, declared, ..ZoneBuilder::default() }
    }

    /// Adds a version to the open block. `value`: what it holds for its reader; `None` where that
    /// is not at hand.
    pub(crate) fn add(&mut self, key: &[u8], ts: CommitTs, kind: RowKind, value: Option<&[u8]>) {
        let Some(extract) = &self.extract else { return };
        let (oldest, newest) = self.open.unwrap_or((ts, ts));
        self.open = Some((oldest.min(ts), newest.max(ts)));
        let table = order::table_of(key).unwrap_or(TableId::CATALOG);
        if table == TableId::CATALOG || kind == RowKind::Delete {
            return;
        }
        let blocks = self.times.len();
        if let Some(mut ended) = self.here.take_if(|group| group.table != table) {
            ended.end_block(blocks);
            self.tables.push(ended.finish());
        }
        let declared = || self.declared.get(&table).map_or(&[][..], Vec::as_slice);
        let group = self.here.get_or_insert_with(|| Group::new(table, blocks, declared()));
        group.fill_to(blocks);
        group.touched = true;
        // Of a row on which `extract` panics nothing is known.
        let known = value.and_then(|value| panics::answer_of(|| group.add(&**extract, value)));
        group.open_unknown |= known != Some(true);
        self.columns_max = self.columns_max.max(group.columns.len().min(COLUMNS_MAX));
    }

    /// Ends the open block.
    pub(crate) fn end_block(&mut self) {
        if let Some(times) = self.open.take() {
            let block = self.times.len();
            if let Some(group) = &mut self.here {
                group.end_block(block);
            }
            self.times.push(times);
        }
    }

    /// Bytes of memory that it takes, about as many as it will write. Asked for each key.
    pub(crate) fn bytes(&self) -> usize {
        (self.columns_max * 6 + 8) * self.times.len()
    }

    /// The zones of all blocks; `None` where nothing was gathered.
    pub(crate) fn finish(mut self) -> Option<Zones> {
        self.extract?;
        self.tables.extend(self.here.map(Group::finish));
        Some(Zones { times: self.times, tables: self.tables })
    }
}

impl Group {
    fn new(table: TableId, first_block: usize, declared: &[Vec<u8>]) -> Group {
        Group {
            table,
            first_block,
            columns: declared.iter().map(|name| Column::new(name, &[], 0)).collect(),
            declared: declared.len(),
            unknown: Vec::new(),
            rows: 0,
            open_unknown: false,
            touched: false,
        }
    }

    /// Adds a row; false where its columns are not known.
    fn add(&mut self, extract: &dyn Extract, value: &[u8]) -> bool {
        self.rows += 1;
        let (columns, row) = (&mut self.columns, self.rows);
        let columns_max = self.declared + CANDIDATES_MAX;
        let (unknown, mut guess) = (&self.unknown, 0);
        extract.columns(value, &mut |name, cell| {
            // Rows mostly show their columns in the same order.
            let at = match columns.get(guess) {
                Some(column) if column.name == name => Some(guess),
                _ => columns.iter().position(|column| column.name == name),
            };
            let at = match at {
                Some(at) => at,
                None if columns.len() < columns_max => {
                    columns.push(Column::new(name, unknown, row - 1));
                    columns.len() - 1
                }
                None => return,
            };
            guess = at + 1;
            columns[at].add(cell, row);
        })
    }

    /// Blocks that passed without a row of the table's are blocks without its columns: a delete is
    /// no row.
    fn fill_to(&mut self, block: usize) {
        while self.first_block + self.unknown.len() < block {
            self.unknown.push(false);
            self.columns.iter_mut().for_each(|column| column.zones.push(Zone::default()));
        }
    }

    fn end_block(&mut self, block: usize) {
        if !std::mem::take(&mut self.touched) {
            return;
        }
        self.fill_to(block);
        let unknown = std::mem::take(&mut self.open_unknown);
        let rows = std::mem::take(&mut self.rows);
        for column in &mut self.columns {
            column.end_block(rows, unknown);
        }
        self.unknown.push(unknown);
    }

    fn finish(mut self) -> TableZones {
        if let Some(others) = self.columns.get_mut(self.declared..) {
            others.sort_by_key(|column| std::cmp::Reverse(column.all_rows));
        }
        self.columns.truncate(COLUMNS_MAX);
        let columns = self.columns.into_iter().map(Column::finish).collect();
        let (table, first_block, blocks) = (self.table, self.first_block, self.unknown.len());
        TableZones { table, first_block, blocks, columns }
    }
}

impl Column {
    /// A column that was not seen before: not in the blocks so far, and not in `rows` rows of the
    /// open one.
    fn new(name: &[u8], unknown: &[bool], rows: u64) -> Column {
        let absent = Zone { kinds: Zone::ABSENT, min: 0, max: 0 };
        let zones = unknown.iter().map(|unknown| if *unknown { Zone::ANY } else { absent });
        let open = if rows > 0 { absent } else { Zone::default() };
        Column { name: name.to_vec(), all_rows: 0, rows: 0, open, zones: zones.collect() }
    }

    /// Adds the value of the block's `row`th row.
    fn add(&mut self, cell: Cell, row: u64) {
        // Rows before this one that lacked it; a name that comes twice hides none of them.
        if self.rows + 1 < row {
            self.open.kinds |= Zone::ABSENT;
        }
        self.rows = row;
        self.all_rows += 1;
        self.open = self.open.with(cell);
    }

    fn end_block(&mut self, rows: u64, unknown: bool) {
        let lacks = std::mem::take(&mut self.rows) < rows;
        let zone = std::mem::take(&mut self.open);
        let absent = Zone { kinds: if lacks { Zone::ABSENT } else { 0 }, min: 0, max: 0 };
        self.zones.push(if unknown { Zone::ANY } else { zone.joined(absent) });
    }

    fn finish(self) -> ColumnZones {
        let total = self.zones.iter().fold(Zone::default(), |total, zone| total.joined(*zone));
        let zones = if says_more(&total, &self.zones) { self.zones } else { Vec::new() };
        ColumnZones { name: self.name, total, zones }
    }
}

/// Whether the zones of the blocks rule out what that of the whole does not.
fn says_more(total: &Zone, zones: &[Zone]) -> bool {
    if zones.iter().all(|zone| zone == total) {
        return false;
    }
    let whole = (total.max - total.min) as f64;
    if !total.is_ordered() || whole == 0.0 || zones.iter().any(|zone| !zone.is_ordered()) {
        return true;
    }
    let spans: f64 = zones.iter().map(|zone| (zone.max - zone.min) as f64 / whole).sum();
    spans / (zones.len() as f64) < SPAN_MAX
}
