//! Parquet, where this build has it: the cargo feature `parquet`.

pub(crate) mod column;
#[cfg(any(feature = "parquet", test))]
pub(crate) mod moment;
#[cfg(any(feature = "parquet", test))]
pub(crate) mod footer;
#[cfg(feature = "parquet")]
pub(crate) mod kind;
#[cfg(feature = "parquet")]
pub(crate) mod guard;
#[cfg(feature = "parquet")]
pub(crate) mod source;
#[cfg(feature = "parquet")]
pub(crate) mod read;
#[cfg(feature = "parquet")]
pub(crate) mod write;
pub(crate) mod door;
