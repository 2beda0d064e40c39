//! What is done with the files of a folder: `check`, `salvage`.

use clap::Args;
use std::path::PathBuf;

/// What to check.
#[derive(Args, Clone, Debug)]
pub(crate) struct CheckArgs {
    /// A data folder that no server has open.
    #[arg(value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
}

/// What to salvage, and where to.
#[derive(Args, Clone, Debug)]
pub(crate) struct SalvageArgs {
    /// A data folder that no server has open. Nothing in it is changed.
    #[arg(value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// The folder to make: empty or absent, and not below DIR.
    #[arg(value_name = "NEWDIR")]
    pub(crate) new_dir: PathBuf,
}
