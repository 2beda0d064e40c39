//! What a row may be, and what messages call it.

use crate::error::{Error, Result};
use crate::expiry;
use crate::limits::{KEY_PART_BYTES_MAX, VALUE_BYTES_MAX};

/// Of a RowKey messages have so much.
const ROW_KEY_BYTES_SHOWN: usize = 64;

/// Refuses a key part that is too long.
pub(crate) fn check_key_part(which: &str, part: &[u8]) -> Result<()> {
    if part.len() <= KEY_PART_BYTES_MAX {
        return Ok(());
    }
    let len = part.len();
    Err(Error::invalid(format!(
        "{which} has {len} bytes; at most {KEY_PART_BYTES_MAX} are allowed"
    )))
}

/// Refuses a value that is too long, its expiry included.
pub(crate) fn check_value(value: &[u8], expires: bool) -> Result<()> {
    let max = if expires { VALUE_BYTES_MAX - expiry::LEN } else { VALUE_BYTES_MAX };
    if value.len() <= max {
        return Ok(());
    }
    let (which, len) = (if expires { " that expires" } else { "" }, value.len());
    Err(Error::invalid(format!("a value{which} has {len} bytes; at most {max} are allowed")))
}

/// A row as messages call it: by the first bytes of its RowKey.
pub(crate) fn name_of(rk: &[u8]) -> String {
    let shown = rk.get(..ROW_KEY_BYTES_SHOWN).unwrap_or(rk);
    let more = if shown.len() < rk.len() { "…" } else { "" };
    format!("row '{}{more}'", shown.escape_ascii())
}
