//! Settings of an account and of its table of entities, set and read as a server does.
//!
//! To the model they are rows of one more table, which the first of them makes.

use crate::entities::{self, ACCOUNT};
use crate::model::{Place, Stored};
use crate::ops::Owner;
use crate::stop::Stop;
use bytes::Bytes;
use std::collections::BTreeMap;
use tabulith::db::Db;
use tabulith::ids::TableId;
use tabulith::rows::Catalog;

/// The name in the catalogue of the table that they are rows of.
pub(crate) const CATALOG_NAME: &str = "$settings";

/// How many settings there are of either owner.
pub(crate) const NAMES: u8 = 3;

/// Sets a setting, or takes it back, and returns once that is durable.
pub(crate) fn set(db: &Db, owner: Owner, name: u8, value: Option<&[u8]>) -> Result<(), Stop> {
    let ((account, table), store, name) = (entities::names()?, entities::store(db), name_of(name));
    match owner {
        Owner::Account => store.set_account_setting(&account, &name, value)?,
        Owner::Table => store.set_table_setting(&account, &table, &name, value)?,
    }
    Ok(())
}

/// Where the setting of the owner with that number is: under that of the catalogue for an account.
pub(crate) fn place(owner: TableId, name: u8) -> Place {
    let mut row_key = owner.0.to_be_bytes().to_vec();
    row_key.extend_from_slice(name_of(name).as_bytes());
    (Bytes::from_static(ACCOUNT.as_bytes()), row_key.into())
}

/// The number of an owner; `None` for a table that is not there.
pub(crate) fn number_of(db: &Db, owner: Owner) -> Result<Option<TableId>, Stop> {
    match owner {
        Owner::Account => Ok(Some(TableId::CATALOG)),
        Owner::Table => Ok(db.find_table(entities::CATALOG_NAME)?.map(|info| info.id)),
    }
}

/// What is said of each setting is what the `rows` of all of them have.
pub(crate) fn compare(db: &Db, rows: &BTreeMap<Place, Stored>) -> Result<(), Stop> {
    for owner in [Owner::Account, Owner::Table] {
        let Some(number) = number_of(db, owner)? else { continue };
        for name in 0..NAMES {
            let (found, row) = (get(db, owner, name)?, rows.get(&place(number, name)));
            if found.as_ref() != row.map(|row| &row.value) {
                let (found, row) = (found.map(|value| value.len()), row.map(|row| row.ts));
                let what = format!("setting {name} of the {owner:?}");
                return Err(Stop::Wrong(format!("{what}: {found:?} bytes of commit {row:?}")));
            }
        }
    }
    Ok(())
}

fn get(db: &Db, owner: Owner, name: u8) -> Result<Option<Bytes>, Stop> {
    let ((account, table), store, name) = (entities::names()?, entities::store(db), name_of(name));
    Ok(match owner {
        Owner::Account => store.account_setting(&account, &name)?,
        Owner::Table => store.table_setting(&account, &table, &name)?,
    })
}

fn name_of(name: u8) -> String {
    format!("setting-{name}")
}
