//! Durabilities by their names, in operations that are written into files.

#![allow(dead_code, reason = "each test uses its part")]

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};
use tabulith::options::Durability;

const NAMES: [(&str, Durability); 3] = [
    ("synced", Durability::Synced),
    ("flushed", Durability::Flushed),
    ("buffered", Durability::Buffered),
];

fn name_of(level: Durability) -> &'static str {
    NAMES.iter().find(|(_, own)| *own == level).map_or("", |(name, _)| name)
}

fn level_of(name: &str) -> Option<Durability> {
    NAMES.iter().find(|(own, _)| *own == name).map(|(_, level)| *level)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
pub(crate) fn serialize<S: Serializer>(level: &Durability, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(name_of(*level))
}

pub(crate) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Durability, D::Error> {
    let name = String::deserialize(from)?;
    level_of(&name).ok_or_else(|| D::Error::custom(format!("no durability: {name}")))
}

/// The same where there may be none.
pub(crate) mod maybe {
    use super::{level_of, name_of};
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};
    use tabulith::options::Durability;

    #[allow(clippy::ref_option, reason = "serde asks for it")]
    pub(crate) fn serialize<S: Serializer>(
        level: &Option<Durability>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        match level {
            Some(level) => out.serialize_some(name_of(*level)),
            None => out.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(
        from: D,
    ) -> Result<Option<Durability>, D::Error> {
        let Some(name) = Option::<String>::deserialize(from)? else { return Ok(None) };
        let level = level_of(&name);
        level.map(Some).ok_or_else(|| D::Error::custom(format!("no durability: {name}")))
    }
}
