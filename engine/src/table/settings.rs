//! Settings of accounts and tables: small pieces of bytes that live and die with them, such as a
//! table's stored access policies.
//!
//! They are rows of one table of the catalogue, `$settings`, whose name no account's table can
//! have: the account is the PartitionKey, the table's number and the setting's name the RowKey.
//! A table's number is never reused, so that a new table never finds an old one's settings; those
//! stay behind as a few bytes that nobody reads.

use crate::error::Kind;
use crate::ids::TableId;
use crate::limits::VALUE_BYTES_MAX;
use crate::options::Reach;
use crate::rows::{Catalog, RowStore};
use crate::table::error::{TableError, TableResult};
use crate::table::name::AccountName;
use bytes::Bytes;

const SETTINGS_TABLE: &str = "$settings";
const _: () = assert!(SETTING_BYTES_MAX <= VALUE_BYTES_MAX);

/// Most bytes of a setting.
pub const SETTING_BYTES_MAX: usize = 1 << 20;

/// The RowKey of a setting of a table; of the account itself where there is none, under the number
/// of the catalogue.
pub(crate) fn row_key(of: Option<TableId>, name: &str) -> Vec<u8> {
    let mut key = of.unwrap_or(TableId::CATALOG).0.to_be_bytes().to_vec();
    key.extend_from_slice(name.as_bytes());
    key
}

/// The setting's bytes, if it is set.
pub(crate) fn read<S: RowStore + Catalog>(
    store: &S,
    account: &AccountName,
    row_key: &[u8],
    reach: Reach,
) -> TableResult<Option<Bytes>> {
    let Some(settings) = store.find_table(SETTINGS_TABLE)? else {
        return Ok(None);
    };
    let row = store.get(settings.id, account.as_str().as_bytes(), row_key, reach)?;
    Ok(row.map(|row| row.value))
}

/// Sets a setting, or with `None` takes it back, and returns once that is durable.
pub(crate) fn write<S: RowStore + Catalog>(
    store: &S,
    account: &AccountName,
    row_key: &[u8],
    value: Option<&[u8]>,
) -> TableResult<()> {
    let bytes = value.map_or(0, <[u8]>::len);
    if bytes > SETTING_BYTES_MAX {
        return Err(TableError::SettingTooLarge { bytes });
    }
    let settings = settings_table(store)?;
    let ticket =
        store.update(settings, account.as_str().as_bytes(), None, Reach::Disk, &mut |rows| {
            match value {
                Some(value) => rows.put(row_key, value),
                None => rows.delete(row_key),
            }
        })?;
    Ok(ticket.wait()?)
}

/// The table of settings, made with the first one.
fn settings_table(store: &impl Catalog) -> TableResult<TableId> {
    loop {
        if let Some(table) = store.find_table(SETTINGS_TABLE)? {
            return Ok(table.id);
        }
        match store.create_table(SETTINGS_TABLE, &[]) {
            Ok(table) => return Ok(table.id),
            // Another thread was first; it is found now.
            Err(error) if error.kind() == Kind::Exists => {}
            Err(error) => return Err(error.into()),
        }
    }
}
