//! What a handler may touch: the tables, behind grants, and the clock.
//!
//! Every call takes the [`Grant`](crate::auth::verify::Grant) that allows it and uses the account
//! and the table that the grant names, so that no handler can reach another. Refusals of the table
//! layer become the service's by [`refusal`](crate::refusal::refusal) and nowhere else.

pub mod base;
pub mod account;
pub mod tables;
pub mod entities;
