//! A table file in text, for people: its sections, its blocks, its rows. Used by the tools.
//!
//! Promise: damage is printed where it lies and the rest goes on, so that a broken file can be
//! looked at.

use crate::blob::format::{Link, Use};
use crate::compress::Codec;
use crate::error::{Error, Result};
use crate::expiry;
use crate::ids::RowKind;
use crate::key::order;
use crate::sstable::block::{Block, Unpack};
use crate::sstable::index::{EntryAt, Handle};
use crate::sstable::reader::TableFile;
use crate::zone::Zone;

/// Bytes of a value that are shown.
const VALUE_BYTES_SHOWN: usize = 40;

/// How much of a table file or a blob file is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Its sections and properties.
    Sections,
    /// Also a line per block.
    Blocks,
    /// Also a line per row, or per value.
    Rows,
    /// Only the block that begins at this offset of a table file, with its rows.
    Block(u64),
    /// Only how the filters of a table file are filled.
    Filters,
}

impl TableFile {
    /// Gives the file to `line`, line by line; ends early with the error of `line`.
    pub(crate) fn dump(
        &self,
        depth: Depth,
        line: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<()> {
        match depth {
            Depth::Filters => return self.dump_filters(line),
            Depth::Block(_) => {}
            Depth::Sections => return self.dump_sections(line),
            Depth::Blocks | Depth::Rows => self.dump_sections(line)?,
        }
        let (mut entry, mut any) = (Some(self.index().first()), false);
        while let Some(at) = entry {
            entry = self.index().next(at);
            let handle = self.index().handle(at);
            if matches!(depth, Depth::Block(offset) if offset != handle.offset) {
                continue;
            }
            any = true;
            match self.raw().read_block(handle, Unpack::Later) {
                Ok(block) => {
                    line(&self.block_line(at, handle, &block))?;
                    if depth != Depth::Blocks {
                        (0..block.rows()).try_for_each(|row| line(&row_line(&block, row)))?;
                    }
                }
                Err(error) => line(&format!("block at {}: {error}", handle.offset))?,
            }
        }
        match depth {
            Depth::Block(offset) if !any => {
                let path = self.path().display();
                Err(Error::invalid(format!("no block of {path} begins at {offset}")))
            }
            _ => Ok(()),
        }
    }

    fn dump_filters(&self, line: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        line(&format!("table file {} ({})", self.no(), self.path().display()))?;
        let props = self.props();
        for (name, filter) in self.filters() {
            let keys = if name == "row filter" { props.rows } else { props.partitions };
            let bits = filter.bytes() as f64 * 8.0 / (keys.max(1) as f64);
            let (probes, set, passed) = filter.fill();
            line(&format!(
                "{name:<17} {:>10} bytes, {bits:.1} bits for each of {keys}, {probes} of them set a key; \
                 {:.1} % set, {:.3} % of absent keys pass",
                filter.bytes(),
                set * 100.0,
                passed * 100.0,
            ))?;
        }
        line(&format!("filters damaged   {:>10}", self.filters_ignored()))
    }

    fn dump_sections(&self, line: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        let (footer, props) = (self.footer(), self.props());
        line(&format!("table file {} ({})", self.no(), self.path().display()))?;
        let sections = [
            ("data", 0, footer.data_len),
            ("index", footer.index().offset, footer.index_len),
            ("row filter", footer.row_filter().offset, footer.row_filter_len),
            ("partition filter", footer.partition_filter().offset, footer.partition_filter_len),
            ("zones", footer.zones().offset, footer.zones_len),
            ("properties", footer.props().offset, footer.props_len),
        ];
        for (name, offset, len) in sections {
            line(&format!("{name:<17} {len:>12} bytes at {offset}"))?;
        }
        self.dump_zones(line)?;
        line(&format!("filters damaged   {:>12}", self.filters_ignored()))?;
        line(&format!("bytes in memory   {:>12}", self.resident_bytes()))?;
        line(&format!("blocks            {:>12}", props.blocks))?;
        line(&format!("partitions        {:>12}", props.partitions))?;
        line(&format!("rows              {:>12}  deletes {}", props.rows, props.deletes))?;
        line(&format!("value bytes       {:>12}", props.values_len))?;
        for (no, used) in &props.blobs {
            let Use { values, bytes } = used;
            line(&format!("blob file {no}  {values:>10} values  {bytes} bytes"))?;
        }
        line(&format!("timestamps        {} to {}", props.min_ts, props.max_ts))?;
        line(&format!("first key         {}", key_text(&props.smallest)))?;
        line(&format!("last key          {}", key_text(&props.largest)))
    }

    /// One line per table and column, the zones of all blocks in it.
    fn dump_zones(&self, line: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        let Some(zones) = self.zones()? else { return Ok(()) };
        for table in &zones.tables {
            let blocks = (0..table.blocks).map(|at| at + table.first_block);
            for column in &table.columns {
                let text = |block: usize| {
                    let Zone { kinds, min, max } = column.zone(block - table.first_block);
                    format!(" {kinds:x}:{min:x}-{max:x}")
                };
                let all: String = blocks.clone().map(text).collect();
                let (table, name) = (table.table.0, column.name.escape_ascii());
                line(&format!("zones             table {table} {name}:{all}"))?;
            }
        }
        Ok(())
    }

    fn block_line(&self, at: EntryAt, handle: Handle, block: &Block) -> String {
        let (separator, ts) = self.index().separator(at);
        let layout = block.layout();
        format!(
            "block at {}: {} bytes, {} rows, {} plain, {} partitions, keys {}, values {} stored as {}{}, up to {} @{ts}",
            handle.offset,
            handle.len,
            layout.rows,
            self.index().plain_rows(at),
            layout.runs,
            layout.keys_len(),
            layout.values_len,
            layout.stored_len,
            match layout.codec {
                Codec::None => "",
                Codec::Lz4 => " lz4",
                Codec::Zstd => " zstd",
            },
            key_text(&separator),
        )
    }
}

fn row_line(block: &Block, row: usize) -> String {
    let mut key = Vec::new();
    block.put_key(row, &mut key);
    let place = format!("  {} @{}", key_text(&key), block.ts(row));
    if block.kind(row) == RowKind::Delete {
        return format!("{place} delete");
    }
    let kind = block.kind(row);
    let start = expiry::value_start(kind);
    let stored = block.value(row);
    let place = match &stored {
        Ok(stored) if kind.expires() => format!("{place} until {}", expiry::of(kind, stored)),
        _ => place,
    };
    match stored.map(|mut stored| stored.split_off(start.min(stored.len()))) {
        Ok(value) if kind.is_link() => format!("{place} {}", link_text(&value)),
        Ok(value) => {
            let shown = value.get(..VALUE_BYTES_SHOWN).unwrap_or(&value);
            let more = if shown.len() < value.len() { "…" } else { "" };
            format!("{place} put {} bytes {}{more}", value.len(), shown.escape_ascii())
        }
        Err(damage) => format!("{place} put, {}", damage.0),
    }
}

fn link_text(value: &[u8]) -> String {
    match Link::read(value) {
        Some(Link { file, offset, stored_len, raw_len, codec, .. }) => {
            format!("link {raw_len} bytes in blob file {file} at {offset}: {stored_len} {codec:?}")
        }
        None => format!("link that is none: {}", value.escape_ascii()),
    }
}

/// `table/PartitionKey/RowKey` with unprintable bytes escaped; the bare bytes of what is no key.
fn key_text(key: &[u8]) -> String {
    match order::split(key) {
        Some((table, pk, rk)) => {
            format!("{}/{}/{}", table.0, pk.escape_ascii(), rk.escape_ascii())
        }
        None => key.escape_ascii().to_string(),
    }
}
