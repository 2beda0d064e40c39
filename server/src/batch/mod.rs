//! Bodies of `$batch`: text into parts and results into text.

pub mod multipart;
pub mod changeset;
