//! A typed client of Azure Table Storage, and of Tabulith, which speaks the same protocol.
//!
//! An [`Account`] comes from a connection string, a [`Table`] from an account; both are cheap to
//! clone and share their connections. Calls are asynchronous and run on tokio.
//!
//! ```no_run
//! use tabulith_client::{Account, Entity, Query, Transaction, property};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let account = Account::connect("UseDevelopmentStorage=true")?;
//! account.create_table("orders").await?;
//! let orders = account.table("orders");
//!
//! // One entity: insert, read, replace if nobody else has.
//! orders.insert(&Entity::new("tenant-7", "order-1").with("Total", 12.5)).await?;
//! let mut order = orders.get("tenant-7", "order-1").await?.ok_or("it was just inserted")?;
//! order.set("Paid", true);
//! let version = order.etag.clone().ok_or("what was read has a version")?;
//! orders.replace(&order, version).await?;
//!
//! // Many of one partition, together or not at all.
//! let mut transaction = Transaction::new();
//! transaction
//!     .insert(Entity::new("tenant-7", "order-2").with("Total", 3.0))
//!     .upsert(Entity::new("tenant-7", "latest").with("Order", "order-2"));
//! orders.submit(&transaction).await?;
//!
//! // A query, as many pages as there are.
//! let mut large = orders.query(Query::new().filter(property("Total").gt(10.0)));
//! while let Some(order) = large.next().await? {
//!     println!("{}: {:?}", order.row_key, order.get("Total"));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Errors and retries
//!
//! An [`Error`] says whether nobody answered, the service refused (with its status, code, message
//! and, in a transaction, the operation), or the answer made no sense. What may pass is tried again
//! by the rule of [`Retry`]: by default five times with growing waits, and a service's Retry-After
//! is honoured. A retried write may meet what it did itself, when its first answer was lost: an
//! insert that finds the entity there, a delete that finds nothing, a replacement whose version is
//! gone. Such a refusal is looked up, and where the table holds what the write wanted, the write
//! counts as done. One limit is left: if somebody else has written exactly the same meanwhile,
//! nobody can tell. Where the table holds something else, or the look-up fails, the write may be
//! done all the same: [`Error::maybe_done`] says so, as it does after any other failure. Where it
//! is false, nothing was done.
//!
//! A merge is not looked up: that its properties are there does not tell who set them, nor that
//! nobody has written since, and the entity's ETag could be another's. It fails with its refusal,
//! as a 412, and with [`Error::maybe_done`]. So does a transaction that has one, but for this:
//! where it inserts an entity with properties, and what its merges wrote to is of the same ETag as
//! that entity, both are of one commit, and it counts as done. Commits of Tabulith have one ETag;
//! where a service gives each entity another, as Azure does, the transaction stays in doubt.
//!
//! # HTTPS
//!
//! An endpoint that begins with `https://` is spoken to over TLS, and believed where its
//! certificate leads to an authority that the machine trusts or that [`Trust`] names, and bears the
//! endpoint's name. Otherwise the call fails before anything is sent, and is not made again.
//!
//! # Secrets
//!
//! Keys and signatures do not print themselves, and no error repeats them. [`TableSas`] and
//! [`AccountSas`] make signatures for others; [`Connection::with_signature`] uses one. [`Bearer`]
//! asks a source of the program's for tokens, which go over HTTPS only.
//!
//! # Layout
//!
//! The `mod` lines of this file stand in dependency order: a file uses only what is listed before
//! it.

// Floor 0: words.
pub mod value;
pub mod entity;
mod json;
mod address;
pub mod filter;
mod xml;
pub mod error;
pub mod sign;
pub mod sas;
pub mod bearer;
pub mod connection;
pub mod settings;

// Floor 1: calls.
pub mod world;
pub mod retry;
pub mod batch;
pub mod trust;
pub mod http;

// Floor 2: what is called.
pub mod pages;
pub mod table;
pub mod account;

pub use account::{Account, TableNames};
pub use batch::{Operation, Transaction};
pub use bearer::{Bearer, Tokens};
pub use connection::{Connection, Credential};
pub use entity::{Condition, ETag, Entity};
pub use error::{Error, Refusal};
pub use filter::{Filter, Property, property};
pub use http::Options;
pub use pages::{Continuation, Explained, Page, Pages, Query};
pub use retry::{Backoff, Retry};
pub use sas::{AccountPermissions, AccountSas, Permissions, Protocols, Resources, TableSas};
pub use settings::{CorsRule, Logging, Metrics, ServiceProperties, ServiceStats, StoredPolicy};
pub use sign::{Key, Scheme};
pub use table::Table;
pub use trust::Trust;
pub use value::{DateTime, Value};
