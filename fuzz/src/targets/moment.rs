//! Texts of moments and ETags: what reads prints, and what prints reads.

use crate::input::{Input, text};
use tabulith::ids::CommitTs;
use tabulith::table::etag::{ETag, IfMatch};
use tabulith::table::time;
use tabulith::table::value::DateTime;

/// Reads the input as a moment and as an If-Match header, and prints the moment in its first bytes.
pub fn moment(data: &[u8]) {
    let given = text(data);
    if let Ok(moment) = time::parse(&given) {
        assert!(moment <= DateTime::MAX, "{given} is {moment}");
        comes_back(moment);
    }
    if let Ok(IfMatch::Match(tag)) = IfMatch::parse(&given) {
        assert_eq!(IfMatch::parse(&tag.to_string()), Ok(IfMatch::Match(tag)), "{given}");
    }
    let mut input = Input::new(data);
    let ticks = u64::from(input.u32()) << 32 | u64::from(input.u32());
    comes_back(DateTime(ticks % (DateTime::MAX.0 + 1)));
    let tag = ETag(CommitTs(ticks >> 4));
    if tag.timestamp() < DateTime::MAX {
        assert_eq!(IfMatch::parse(&tag.to_string()), Ok(IfMatch::Match(tag)), "{tag}");
    }
}

fn comes_back(moment: DateTime) {
    assert_eq!(time::parse(&moment.to_string()), Ok(moment), "{moment}");
}
