//! The ways in which a call of the disk fails.

#![allow(dead_code, reason = "each test uses its part")]

use tabulith::vfs::fault::{Errno, Rule};

/// Turns a rule into one that fails in this way.
pub(crate) type Turn = fn(Rule) -> Rule;

/// What a call may answer in place of doing what it should.
pub(crate) const KINDS: [(&str, Turn); 14] = [
    ("EIO", |rule| rule),
    ("EIO, half of the write landed", Rule::half_done),
    ("EIO, all of it landed", Rule::done),
    ("ENOSPC", |rule| rule.with(Errno::NoSpace)),
    ("ENOSPC, half of the write landed", |rule| rule.with(Errno::NoSpace).half_done()),
    ("EDQUOT", |rule| rule.with(Errno::Quota)),
    ("EMFILE", |rule| rule.with(Errno::TooManyFiles)),
    ("ENFILE", |rule| rule.with(Errno::TooManyFilesOfAll)),
    ("EINTR", |rule| rule.with(Errno::Interrupted)),
    ("EAGAIN", |rule| rule.with(Errno::Again)),
    ("ENOENT", |rule| rule.with(Errno::NotFound)),
    ("EEXIST", |rule| rule.with(Errno::Exists)),
    ("EOPNOTSUPP", |rule| rule.with(Errno::NotSupported)),
    ("a short read", |rule| rule.with(Errno::EndOfFile)),
];

/// How often a call fails in its way.
const TIMES: [(&str, u64); 2] = [("once", 1), ("for ever", u64::MAX)];

/// Each of so many calls fails in each way, once and for ever: how, and the rule.
pub(crate) fn failures(calls: u64) -> impl Iterator<Item = (String, Rule)> {
    let ways = move |n| {
        KINDS.into_iter().flat_map(move |(what, turn)| {
            TIMES.into_iter().map(move |(how_often, times)| {
                let how = format!("call {n} of {calls}, {what} {how_often}");
                (how, turn(Rule::any().skip(n).times(times)))
            })
        })
    };
    (0..calls).flat_map(ways)
}
