//! The zones of a table file: per block the oldest and newest commit, and per table and column what
//! values its rows have in each block that holds rows of the table.
//!
//! ```text
//! size    field    (varints, unless a size is given)
//!         blocks; oldest commit of all
//!         per block: oldest commit above that of all, newest above oldest
//!         tables
//!         per table, ascending:
//!    4      number, u32 little-endian
//!           first block with rows of it; blocks with rows of it; columns
//!           per column:
//!             length of the name, name
//!             zone of all its blocks, against 0
//!    1        1: a zone per block follows, against the lowest value of all; 0: all are as the whole
//! a zone:   kinds; where they are of one type: lowest prefix above that of the whole, highest above it
//! ```
//!
//! Read when the first scan with a filter wants them, and then kept: 24 bytes per block and column.

use crate::codec::{Reader, put_slice, put_varint};
use crate::ids::{CommitTs, TableId};
use crate::limits::VALUE_BYTES_MAX;
use crate::sstable::format::Damage;
use crate::zone::Zone;

/// Columns of one table that a file keeps zones of.
pub(crate) const COLUMNS_MAX: usize = 8;

/// The oldest and the newest commit of some rows.
pub(crate) type Times = (CommitTs, CommitTs);

/// The zones of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zones {
    /// One for each block.
    pub(crate) times: Vec<Times>,
    pub(crate) tables: Vec<TableZones>,
}

/// The zones of one table's rows in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableZones {
    pub(crate) table: TableId,
    pub(crate) first_block: usize,
    pub(crate) blocks: usize,
    pub(crate) columns: Vec<ColumnZones>,
}

/// The zones of one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnZones {
    pub(crate) name: Vec<u8>,
    pub(crate) total: Zone,
    /// One for each block with rows of the table, or none where `total` says it all.
    pub(crate) zones: Vec<Zone>,
}

impl ColumnZones {
    /// What is in the block that is `at`th of the table.
    pub(crate) fn zone(&self, at: usize) -> Zone {
        self.zones.get(at).copied().unwrap_or(self.total)
    }
}

impl Zones {
    /// Which of `tables` is that of `table`'s rows, if there are any.
    pub(crate) fn place_of(&self, table: TableId) -> Option<usize> {
        self.tables.binary_search_by_key(&table, |zones| zones.table).ok()
    }

    /// Bytes of memory they take, about.
    pub(crate) fn bytes(&self) -> usize {
        let columns = self.tables.iter().flat_map(|table| &table.columns);
        let zones: usize = columns.map(|column| column.zones.len() + 2).sum();
        zones * size_of::<Zone>() + self.times.len() * size_of::<Times>()
    }

    /// Appends the stored form.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.times.len() as u64);
        let first = self.times.iter().map(|(oldest, _)| oldest.0).min().unwrap_or(0);
        put_varint(out, first);
        for (oldest, newest) in &self.times {
            put_varint(out, oldest.0 - first);
            put_varint(out, newest.0 - oldest.0);
        }
        put_varint(out, self.tables.len() as u64);
        for table in &self.tables {
            out.extend_from_slice(&table.table.0.to_le_bytes());
            put_varint(out, table.first_block as u64);
            put_varint(out, table.blocks as u64);
            put_varint(out, table.columns.len() as u64);
            for column in &table.columns {
                put_slice(out, &column.name);
                put_zone(out, &column.total, 0);
                out.push(u8::from(!column.zones.is_empty()));
                column.zones.iter().for_each(|zone| put_zone(out, zone, column.total.min));
            }
        }
    }

    /// Reads the zones of a file of `blocks` blocks.
    pub(crate) fn decode(bytes: &[u8], blocks: u64) -> Result<Zones, Damage> {
        let mut reader = Reader::new(bytes);
        let zones = read_zones(&mut reader).filter(|_| reader.is_empty());
        let zones = zones.ok_or(Damage("zones do not read as such"))?;
        if zones.times.len() as u64 != blocks {
            return Err(Damage("zones are of another number of blocks"));
        }
        Ok(zones)
    }
}

fn put_zone(out: &mut Vec<u8>, zone: &Zone, base: u64) {
    put_varint(out, zone.kinds.into());
    if zone.is_ordered() {
        put_varint(out, zone.min - base);
        put_varint(out, zone.max - zone.min);
    }
}

fn read_zones(reader: &mut Reader<'_>) -> Option<Zones> {
    // Each entry takes a byte at least, so no count above what is left is believed.
    let blocks = reader.varint_max(reader.rest().len())?;
    let first = reader.varint()?;
    let mut times = Vec::with_capacity(blocks);
    for _ in 0..blocks {
        let oldest = first.checked_add(reader.varint()?)?;
        times.push((CommitTs(oldest), CommitTs(oldest.checked_add(reader.varint()?)?)));
    }
    let count = reader.varint_max(reader.rest().len())?;
    let tables = (0..count).map(|_| read_table(reader, times.len())).collect::<Option<_>>()?;
    Some(Zones { times, tables })
}

fn read_table(reader: &mut Reader<'_>, file_blocks: usize) -> Option<TableZones> {
    let table = TableId(reader.u32()?);
    let first_block = reader.varint_max(file_blocks)?;
    let blocks = reader.varint_max(file_blocks - first_block)?;
    let count = reader.varint_max(COLUMNS_MAX)?;
    let columns = (0..count).map(|_| read_column(reader, blocks)).collect::<Option<_>>()?;
    Some(TableZones { table, first_block, blocks, columns })
}

fn read_column(reader: &mut Reader<'_>, blocks: usize) -> Option<ColumnZones> {
    let name = reader.slice(VALUE_BYTES_MAX)?.to_vec();
    let total = read_zone(reader, 0)?;
    let zones = match reader.u8()? {
        0 => Vec::new(),
        1 => (0..blocks).map(|_| read_zone(reader, total.min)).collect::<Option<_>>()?,
        _ => return None,
    };
    Some(ColumnZones { name, total, zones })
}

fn read_zone(reader: &mut Reader<'_>, base: u64) -> Option<Zone> {
    let kinds = u16::try_from(reader.varint()?).ok()?;
    let mut zone = Zone { kinds, min: 0, max: u64::MAX };
    if zone.is_ordered() {
        zone.min = base.checked_add(reader.varint()?)?;
        zone.max = zone.min.checked_add(reader.varint()?)?;
    } else if kinds & !Zone::ABSENT == 0 {
        zone.max = 0;
    }
    Some(zone)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    fn sample() -> Zones {
        let zone = |kinds, min, max| Zone { kinds, min, max };
        let zones = vec![zone(4, 10, 20), zone(5, 12, 12), zone(1, 0, 0)];
        let total = zone(5, 10, 20);
        let mixed = Zone { kinds: 12, min: 0, max: u64::MAX };
        let columns = vec![
            ColumnZones { name: b"Age".to_vec(), total, zones },
            ColumnZones { name: b"Mixed".to_vec(), total: mixed, zones: Vec::new() },
        ];
        let table = TableZones { table: TableId(7), first_block: 1, blocks: 3, columns };
        let times = (1..5).map(|i| (CommitTs(i), CommitTs(i * 100))).collect();
        Zones { times, tables: vec![table] }
    }

    #[test]
    fn the_stored_form_comes_back_and_nothing_else_does() {
        let mut bytes = Vec::new();
        sample().encode(&mut bytes);
        assert_eq!(Zones::decode(&bytes, 4).unwrap(), sample());
        assert!(Zones::decode(&bytes, 5).is_err(), "of another file");
        for cut in 0..bytes.len() {
            assert!(Zones::decode(&bytes[..cut], 4).is_err(), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                let _ = Zones::decode(&flipped, 4); // No panic; the checksum is what refuses it.
            }
        }
    }
}
