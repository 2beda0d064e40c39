//! What is done with the files of a folder: `check`, `salvage`, `inspect`, `shape`, `compact`,
//! `checkpoint`.

use crate::args::output::Output;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// What to check.
#[derive(Args, Clone, Debug)]
#[command(before_help = "Example:\n  tabulith check tabulith-data")]
pub(crate) struct CheckArgs {
    /// A data folder; a server may have it open.
    #[arg(value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
}

/// What to salvage, and where to.
#[derive(Args, Clone, Debug)]
#[command(before_help = "Example:\n  tabulith salvage tabulith-data rescued > lost.txt")]
pub(crate) struct SalvageArgs {
    /// A data folder that no server has open. Nothing in it is changed.
    #[arg(value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// The folder to make: empty or absent, and not below DIR.
    #[arg(value_name = "NEWDIR")]
    pub(crate) new_dir: PathBuf,
}

/// What to look at.
#[derive(Args, Clone, Debug)]
#[command(before_help = "Examples:\n  \
    tabulith inspect all tabulith-data\n  \
    tabulith inspect manifest tabulith-data\n  \
    tabulith inspect sst tabulith-data/000003.sst --blocks\n  \
    tabulith inspect block tabulith-data/000003.sst --offset 0")]
pub(crate) struct InspectArgs {
    /// Which kind of files, or what of one.
    #[arg(value_enum)]
    pub(crate) what: Part,
    /// The data folder: its files of that kind are listed; or one of them, which is printed. A
    /// server may have it open.
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    /// Of a table file also a line for each block.
    #[arg(long)]
    pub(crate) blocks: bool,
    /// Of a table file or a blob file also a line for each row or value.
    #[arg(long)]
    pub(crate) rows: bool,
    /// Where the block begins, of `block`.
    #[arg(long, value_name = "BYTES", required_if_eq("what", "block"))]
    pub(crate) offset: Option<u64>,
    /// Form of a list of files, else `table`. What is in a file is text.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Output>,
}

/// A kind of files, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Every file.
    All,
    /// The log: its segments, or the frames of one.
    Wal,
    /// The manifest: what exists.
    Manifest,
    /// Table files: sections, properties, blocks, rows.
    Sst,
    /// One block of a table file, with its rows.
    Block,
    /// How the filters of table files are filled, and how many absent keys pass them.
    Filter,
    /// Files of large values.
    Blob,
}

/// Which folder to draw.
#[derive(Args, Clone, Debug)]
#[command(before_help = "Example:\n  tabulith shape tabulith-data")]
pub(crate) struct ShapeArgs {
    /// A data folder; a server may have it open.
    #[arg(value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// Form of the output; `table` also draws.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
}

/// Which folder to compact.
#[derive(Args, Clone, Debug)]
#[command(before_help = "Example:\n  tabulith compact tabulith-data")]
pub(crate) struct CompactArgs {
    /// A data folder that no server has open.
    #[arg(value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
}

/// What to copy, and where to.
#[derive(Args, Clone, Debug)]
#[command(before_help = "Example:\n  tabulith checkpoint tabulith-data before-the-upgrade")]
pub(crate) struct CheckpointArgs {
    /// A data folder that no server has open.
    #[arg(value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// The folder to make, on the same disk: it shares the files, so that it takes no room until
    /// either of them changes.
    #[arg(value_name = "NEWDIR")]
    pub(crate) new_dir: PathBuf,
}
