//! How a disk is tried: `torture`.

use crate::args::bench::Promise;
use clap::Args;
use std::path::PathBuf;

/// How to try it.
#[derive(Args, Clone, Debug)]
#[command(before_help = EXAMPLES, after_help = HELP)]
pub(crate) struct TortureArgs {
    /// A folder on the disk to try: empty or absent. Nothing is ever deleted from it.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// How long.
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    pub(crate) minutes: f64,
    /// No more kills than this.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) kills: Option<u64>,
    /// Threads that write.
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) writers: u16,
    /// What a commit promises when it is acknowledged. A killed process takes nothing that was
    /// synced or flushed.
    #[arg(long, value_enum, default_value_t = Promise::Synced)]
    pub(crate) durability: Promise,
    /// Where random choices start from.
    #[arg(long, value_name = "N", default_value_t = 1, env = "TABULITH_SEED")]
    pub(crate) seed: u64,
    /// Write nothing: hold what is in the folder against the ledger that an earlier run left there.
    #[arg(long, conflicts_with_all = ["kills", "writer"])]
    pub(crate) verify: bool,
    /// Writes until it is killed; the program starts itself so.
    #[arg(long, hide = true, value_name = "TABLE")]
    pub(crate) writer: Option<String>,
    /// The first number of each writer's commits.
    #[arg(long, hide = true, value_delimiter = ',', value_name = "NUMBERS")]
    pub(crate) first: Vec<u64>,
}

const EXAMPLES: &str = "Examples:
  tabulith torture --minutes 10 --data-dir /mnt/disk/torture
  tabulith torture --kills 5 --data-dir torture --durability flushed
  tabulith torture --verify --data-dir torture";

const HELP: &str = "Processes write and are killed with SIGKILL in the middle of it, or while they open the folder.
After each kill every acknowledged commit must be there with its content, every other one whole or
not at all, and nothing else. In the end the folder is read whole, as by `check`.

A kill takes nothing from the kernel, so this tries the program and its file system, not whether
the disk keeps what it has synced. For that, pull the plug while it runs, start the machine again
and run it with --verify. Of flushed commits, which do not promise to outlive that, each writer may
then miss the last ones.

DIR holds in the end: data, the database; ledger, what was acknowledged; report.json and report.txt.

Exit codes: 0 nothing is lost, 8 something is lost or damaged.";
