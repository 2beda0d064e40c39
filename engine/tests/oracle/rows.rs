//! The model's rows of a range, as a list, and a comparison of one row with the store's.

use crate::entity::end_of;
use crate::ops::{Keys, Range};
use std::ops::Bound;
use tabulith::error::Error;
use tabulith::ids::CommitTs;
use tabulith_testkit::oracle::{Oracle, Place, Stored};

/// What differed, in words.
pub(crate) type Difference = String;

/// Rows in their order.
pub(crate) type Listed = Vec<(Keys, Stored)>;

/// The rows of `range` of a table.
pub(crate) fn listed(model: &Oracle, table: u32, range: &Range) -> Listed {
    let listed =
        |(place, stored): (&Place, &Stored)| ((place.pk.clone(), place.rk.clone()), stored.clone());
    match range {
        Range::Table => model.table(table).map(listed).collect(),
        Range::Between(from, to) => {
            model.between(table, slices(from), slices(to)).map(listed).collect()
        }
        Range::Rows(pk, from, to) => {
            let rows = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
            model.rows(table, pk, rows.0, rows.1).map(listed).collect()
        }
    }
}

/// Bounds of keys, borrowed.
pub(crate) fn slices(bound: &Bound<Keys>) -> Bound<(&[u8], &[u8])> {
    bound.as_ref().map(|(pk, rk)| (pk.as_slice(), rk.as_slice()))
}

/// Whether the store's row is the model's.
pub(crate) fn same_row(
    (pk, rk): (&[u8], &[u8]),
    (ts, expires, value): (CommitTs, Option<CommitTs>, &[u8]),
    expected: Option<&(Keys, Stored)>,
) -> Result<(), Difference> {
    let Some(((own_pk, own_rk), stored)) = expected else {
        return Err(format!("row {pk:02x?} {rk:02x?} past the end"));
    };
    if (pk, rk) != (own_pk.as_slice(), own_rk.as_slice()) {
        return Err(format!("row {pk:02x?} {rk:02x?}, expected {own_pk:02x?} {own_rk:02x?}"));
    }
    match ts.0 == stored.ts && end_of(expires) == stored.expires && value == stored.value {
        true => Ok(()),
        false => Err(format!(
            "row {pk:02x?} {rk:02x?} is of {ts} and expires {expires:?}, expected {} and {}",
            stored.ts, stored.expires
        )),
    }
}

/// An error of the store where there must be none.
pub(crate) fn said(error: Error) -> Difference {
    format!("error: {error:?}")
}
