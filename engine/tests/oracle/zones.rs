//! Scans with a filter that zones are asked for: what they leave out must be rows that do not pass.
//! A row here has one column, its value's first byte; the filter asks for that and for the commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tabulith::error::Error;
use tabulith::ids::CommitTs;
use tabulith::key::range::KeyRange;
use tabulith::rows::RowSnapshot;
use tabulith::zone::{Cell, Extract, Zone, ZoneFilter, ZoneScan};
use tabulith_testkit::oracle::Stored;

/// Blocks passed over in all scans of the process, so that a run which spares none cannot pass.
pub(crate) static SKIPPED: AtomicU64 = AtomicU64::new(0);

/// Blocks that queries of entities passed over, alike.
pub(crate) static SKIPPED_FOR_ENTITIES: AtomicU64 = AtomicU64::new(0);

/// Takes the first byte of a value; an empty value has no column.
#[derive(Debug)]
pub(crate) struct FirstByte;

const NAME: &str = "first byte";

/// What tables declare: nothing, the column that there is, or others and so less room for it.
pub(crate) const COLUMNS: [&[&str]; 4] =
    [&[], &[NAME], &["none", NAME], &["a", "b", "c", "d", "e", "f", "g", "h"]];

impl Extract for FirstByte {
    fn columns(&self, value: &[u8], each: &mut dyn FnMut(&[u8], Cell)) -> bool {
        if let Some(byte) = value.first() {
            each(NAME.as_bytes(), Cell { kind: 1, prefix: u64::from(*byte) });
        }
        true
    }
}

/// Rows whose first byte lies between two, both included, and that were written at `since` or
/// later.
#[derive(Clone)]
struct Wanted {
    from: u8,
    to: u8,
    since: u64,
    columns: Vec<String>,
}

impl Wanted {
    fn passes(&self, stored: &Stored) -> bool {
        let first = stored.value.first().copied();
        stored.ts >= self.since && first.is_some_and(|byte| (self.from..=self.to).contains(&byte))
    }
}

impl ZoneFilter for Wanted {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn may_pass(&self, written: (CommitTs, CommitTs), zones: &[Option<Zone>]) -> bool {
        let may_hold =
            |zone: &Zone| zone.has(1) && zone.min <= self.to.into() && zone.max >= self.from.into();
        written.1.0 >= self.since && zones[0].as_ref().is_none_or(may_hold)
    }
}

/// Walks `range` in both directions with a filter that `choice` picks.
pub(crate) fn scan(
    snapshot: &dyn RowSnapshot,
    range: &KeyRange,
    expected: &[(Vec<u8>, &Stored)],
    choice: usize,
) -> Result<(), String> {
    let from = (choice * 37) as u8;
    let since = match expected.get(expected.len() / 2) {
        Some((_, stored)) if choice.is_multiple_of(3) => stored.ts,
        _ => 0,
    };
    let columns = vec![NAME.to_owned()];
    let wanted = Wanted { from, to: from.saturating_add(12), since, columns };
    let zones = Arc::new(ZoneScan::new(wanted.clone()));
    for down in [false, true] {
        let mut cursor = snapshot.scan_where(range.clone(), Arc::clone(&zones)).map_err(said)?;
        let mut rest = match down {
            false => expected.iter().collect::<Vec<_>>(),
            true => expected.iter().rev().collect(),
        }
        .into_iter();
        while if down { cursor.prev() } else { cursor.next() }.map_err(said)? {
            let row = rest.find(|(key, stored)| {
                // What is left out on the way must not pass; it is found here if it does.
                key == cursor.key() || wanted.passes(stored)
            });
            let Some((key, stored)) = row.filter(|(key, _)| key == cursor.key()) else {
                return Err(format!("with zones, row {:02x?} comes too early", cursor.key()));
            };
            if cursor.ts().0 != stored.ts {
                return Err(format!("with zones, another version of {key:02x?}"));
            }
            if cursor.is_ruled_out() && wanted.passes(stored) {
                return Err(format!("row {key:02x?} passes and is ruled out"));
            }
            if !cursor.is_ruled_out() && cursor.value().map_err(said)? != stored.value {
                return Err(format!("with zones, another value of {key:02x?}"));
            }
        }
        if let Some((key, _)) = rest.find(|(_, stored)| wanted.passes(stored)) {
            return Err(format!("with zones, row {key:02x?} does not come"));
        }
    }
    SKIPPED.fetch_add(zones.skipped(), Ordering::Relaxed);
    Ok(())
}

fn said(error: Error) -> String {
    format!("error: {error:?}")
}
