//! The ways in which a call of the disk fails.

use tabulith::vfs::fault::{Errno, Rule};

/// Turns a rule into one that fails in this way.
pub(crate) type Turn = fn(Rule) -> Rule;

/// What a call may answer in place of doing what it should.
pub(crate) const KINDS: [(&str, Turn); 13] = [
    ("EIO", |rule| rule),
    ("EIO, half of the write landed", Rule::half_done),
    ("EIO, all of it landed", Rule::done),
    ("ENOSPC", |rule| rule.with(Errno::NoSpace)),
    ("ENOSPC, half of the write landed", |rule| rule.with(Errno::NoSpace).half_done()),
    ("EDQUOT", |rule| rule.with(Errno::Quota)),
    ("EMFILE", |rule| rule.with(Errno::TooManyFiles)),
    ("EINTR", |rule| rule.with(Errno::Interrupted)),
    ("EAGAIN", |rule| rule.with(Errno::Again)),
    ("ENOENT", |rule| rule.with(Errno::NotFound)),
    ("EEXIST", |rule| rule.with(Errno::Exists)),
    ("EOPNOTSUPP", |rule| rule.with(Errno::NotSupported)),
    ("a short read", |rule| rule.with(Errno::EndOfFile)),
];
