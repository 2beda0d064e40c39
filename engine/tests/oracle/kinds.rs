//! The kinds of operations, as they are counted.

use crate::ops::{Also, Op, Then};
use tabulith_testkit::oracle::Change;

impl Op {
    /// Which kind it is of, as it is counted.
    pub(crate) fn kind(&self) -> &'static str {
        let removes_range =
            |changes: &[Change]| changes.iter().any(|c| matches!(c, Change::DeleteRange(..)));
        let expires =
            |changes: &[Change]| changes.iter().any(|c| matches!(c, Change::PutUntil(..)));
        match self {
            Op::Update { refuse: true, .. } => "update, refused",
            Op::Update { changes, .. } if changes.len() >= 100 => "update, large",
            Op::Update { changes, .. } if changes.is_empty() => "update, empty",
            Op::Update { level: Some(_), .. } => "update, own durability",
            Op::Update { changes, .. } if removes_range(changes) => "update, range removed",
            Op::Update { changes, .. } if expires(changes) => "update, expiring",
            Op::Update { wait: false, .. } => "update, not waited for",
            Op::Update { .. } => "update",
            Op::Transact { also: Also::Ingest(_), .. } => "transaction beside an ingest",
            Op::Transact { also: Also::Truncate | Also::Drop, .. } => {
                "transaction beside the end of its table"
            }
            Op::Transact { part: Some(_), .. } => "transaction with a scan of a part",
            Op::Transact { scan: true, .. } => "transaction with a scan",
            Op::Transact { .. } => "transaction",
            Op::Batch { then: Then::Wait, .. } => "batch, waited for",
            Op::Batch { then: Then::Later, .. } => "batch, waited for later",
            Op::Batch { then: Then::Poll, .. } => "batch, polled",
            Op::Batch { then: Then::Notify, .. } => "batch, with a callback",
            Op::Batch { then: Then::Forget, .. } => "batch, forgotten",
            Op::Count { .. } => "row counted up",
            Op::Get { .. } => "get",
            Op::GetFromMemory { .. } => "get from memory",
            Op::GetAt { .. } => "get of a snapshot",
            Op::GetMany { snapshot: None, .. } => "get many",
            Op::GetMany { .. } => "get many of a snapshot",
            Op::Scan { .. } => "scan",
            Op::ScanAt { .. } => "scan of a snapshot",
            Op::Iterate { .. } => "iterate from both ends",
            Op::Point { .. } => "cursor opened",
            Op::Move { .. } => "cursor moved",
            Op::Split { .. } => "split",
            Op::ScanParallel { .. } => "parallel scan",
            Op::Remember { quiet: true, .. } => "moment of a quiet time noted",
            Op::Remember { .. } => "moment noted",
            Op::GetPast { .. } => "get of the past",
            Op::ScanPast { .. } => "scan of the past",
            Op::EntitiesPast { .. } => "entities of the past",
            Op::Wait { .. } => "time passes",
            Op::Step => "background step",
            Op::Hold { .. } => "snapshot",
            Op::Truncate { .. } => "truncate",
            Op::Create { .. } => "create table",
            Op::Drop { .. } => "drop table",
            Op::SetTtl { .. } => "time to live",
            Op::Declare { .. } => "columns declared",
            Op::Entities(deed) => deed.kind(),
            Op::Ingest { .. } => "ingest",
            Op::CompactRange { .. } => "compact a range",
            Op::ListTables => "list tables",
            Op::Weigh { .. } => "sizes asked",
            Op::Flush => "flush",
            Op::Compact => "compact",
            Op::Settle => "settle",
            Op::Checkpoint { stay: true, .. } => "checkpoint, gone on with",
            Op::Checkpoint { .. } => "checkpoint",
            Op::Export { .. } => "snapshot exported",
            Op::Reopen { .. } => "reopen",
            Op::Kill { .. } => "kill",
        }
    }
}
