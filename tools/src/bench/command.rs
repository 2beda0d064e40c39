//! `tabulith bench`: picks what to do.

use crate::args::bench::{BenchArgs, BenchCommand};
use crate::bench::{compare, files, keys, partition, run};
use crate::exit::Exit;
use anyhow::Result;

/// Does it.
pub(crate) fn command(args: &BenchArgs) -> Result<Exit> {
    match &args.what {
        BenchCommand::Run(args) => run::run(args),
        BenchCommand::Partition(args) => partition::run(args),
        BenchCommand::Keys(args) => keys::run(args),
        BenchCommand::Report(args) => files::report(args),
        BenchCommand::Compare(args) => compare::run(args),
    }
}
