//! `tabulith torture`: writers killed again and again on the user's own disk, and every
//! acknowledged commit looked for.

pub(crate) mod ledger;
pub(crate) mod writer;
pub(crate) mod trial;
pub(crate) mod report;
pub(crate) mod run;
