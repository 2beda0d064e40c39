//! ETags: the commit that wrote an entity, as Azure writes it, and the condition that a caller
//! puts on one.

use crate::ids::CommitTs;
use crate::table::time;
use crate::table::value::DateTime;
use std::fmt;

/// An entity's ETag: the commit that wrote it. Printed as
/// `W/"datetime'2021-01-06T01%3A01%3A30.9296707Z'"`, purely from its Timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ETag(pub CommitTs);

impl ETag {
    /// The Timestamp that it is made of.
    pub fn timestamp(self) -> DateTime {
        DateTime::from(self.0)
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("W/\"datetime'")?;
        for (at, part) in self.timestamp().text().as_str().split(':').enumerate() {
            f.write_str(if at > 0 { "%3A" } else { "" })?;
            f.write_str(part)?;
        }
        f.write_str("'\"")
    }
}

/// The state that an entity must be in for a change to happen, as a header `If-Match` says it.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMatch {
    /// Any, as long as it exists.
    Any,
    /// As the commit of this ETag left it.
    Match(ETag),
    /// None: the caller's tag is well-formed, but no entity ever has it.
    Never,
}

impl IfMatch {
    /// What an If-Match header asks for: `*` or one weak tag. A well-formed tag that is not one of
    /// ours is [`IfMatch::Never`], which every existing entity fails.
    pub fn parse(header: &str) -> Result<IfMatch, ETagInvalid> {
        let header = header.trim();
        if header == "*" {
            return Ok(IfMatch::Any);
        }
        let opaque = header
            .strip_prefix("W/\"")
            .or_else(|| header.strip_prefix("w/\""))
            .and_then(|rest| rest.strip_suffix('"'))
            .filter(|opaque| !opaque.contains('"'))
            .ok_or(ETagInvalid)?;
        Ok(our_tag(opaque).map_or(IfMatch::Never, IfMatch::Match))
    }

    /// Whether an entity written by `ts` is in that state.
    pub fn allows(self, ts: CommitTs) -> bool {
        match self {
            IfMatch::Any => true,
            IfMatch::Match(tag) => tag.0 == ts,
            IfMatch::Never => false,
        }
    }
}

/// The ETag of that opaque text, if one of ours prints so. Colons may come encoded or not;
/// everything else must be letter for letter what we print.
fn our_tag(opaque: &str) -> Option<ETag> {
    let text = opaque.strip_prefix("datetime'")?.strip_suffix('\'')?;
    let text = text.replace("%3A", ":").replace("%3a", ":");
    let moment = time::parse(&text).ok().filter(|moment| moment.to_string() == text)?;
    moment.commit().map(ETag)
}

/// An If-Match value that is neither `*` nor one weak tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ETagInvalid;

impl fmt::Display for ETagInvalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an ETag is * or one weak tag: W/\"…\"")
    }
}

impl std::error::Error for ETagInvalid {}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(text: &str) -> ETag {
        let moment = time::parse(text).expect("a moment");
        ETag(moment.commit().expect("after 1970"))
    }

    #[test]
    fn texts_recorded_from_azure() {
        for (timestamp, etag) in [
            ("2017-11-10T02:44:47.6221962Z", "W/\"datetime'2017-11-10T02%3A44%3A47.6221962Z'\""),
            ("2017-11-10T02:50:14.387626Z", "W/\"datetime'2017-11-10T02%3A50%3A14.387626Z'\""),
            ("2017-11-10T02:44:58.31814Z", "W/\"datetime'2017-11-10T02%3A44%3A58.31814Z'\""),
            ("2020-01-01T01:02:00Z", "W/\"datetime'2020-01-01T01%3A02%3A00Z'\""),
        ] {
            assert_eq!(tag(timestamp).to_string(), etag);
            assert_eq!(IfMatch::parse(etag), Ok(IfMatch::Match(tag(timestamp))));
        }
    }

    #[test]
    fn colons_and_the_prefix_may_be_written_otherwise() {
        let ours = IfMatch::Match(tag("2020-01-01T01:02:00.5Z"));
        for text in [
            "W/\"datetime'2020-01-01T01:02:00.5Z'\"",
            "w/\"datetime'2020-01-01T01%3a02%3A00.5Z'\"",
            " W/\"datetime'2020-01-01T01%3A02%3A00.5Z'\" ",
        ] {
            assert_eq!(IfMatch::parse(text), Ok(ours), "{text}");
        }
        assert_eq!(IfMatch::parse("*"), Ok(IfMatch::Any));
    }

    #[test]
    fn a_weak_tag_of_another_kind_never_matches() {
        for text in [
            "W/\"bogus\"",
            "W/\"\"",
            "W/\"datetime'2020-01-01T01:02:00.50Z'\"",
            "W/\"datetime'1969-12-31T23:59:59Z'\"",
        ] {
            assert_eq!(IfMatch::parse(text), Ok(IfMatch::Never), "{text}");
        }
        assert!(!IfMatch::Never.allows(CommitTs(1)));
    }

    #[test]
    fn what_is_no_weak_tag_is_refused() {
        for text in ["", "\"strong\"", "W/bogus", "W/\"a\", W/\"b\"", "W/\"", "bogus"] {
            assert_eq!(IfMatch::parse(text), Err(ETagInvalid), "{text}");
        }
    }
}
