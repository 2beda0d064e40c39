//! What is done with backups: `backup`, `restore`.

use crate::args::output::Output;
use clap::{Args, Subcommand};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// What to do with backups.
#[derive(Args, Clone, Debug)]
#[command(arg_required_else_help = true)]
pub(crate) struct BackupArgs {
    /// What.
    #[command(subcommand)]
    pub(crate) what: BackupCommand,
}

/// The commands of `backup`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum BackupCommand {
    /// Make a backup of a data folder, also while a server has it open.
    ///
    /// Files that earlier backups of DEST have are not copied again; the others are shared by hard
    /// links where both folders are on one file system, else copied.
    #[command(before_help = "Examples:\n  \
        tabulith backup create tabulith-data /mnt/backups\n  \
        tabulith backup create tabulith-data backups --copy -o json")]
    Create(CreateBackupArgs),
    /// Print the backups of a folder, and the moments that each can be restored to.
    #[command(before_help = "Example:\n  tabulith backup list /mnt/backups")]
    List(ListBackupsArgs),
    /// Read every byte of all backups and hold it against its digest; exit code 8 where one
    /// differs, 3 where there is no backup.
    #[command(before_help = "Example:\n  tabulith backup verify /mnt/backups")]
    Verify(VerifyBackupsArgs),
    /// Delete all backups but the newest ones, and the files that only they need.
    #[command(before_help = "Example:\n  tabulith backup prune /mnt/backups --keep 30")]
    Prune(PruneBackupsArgs),
}

/// What to back up, and where to.
#[derive(Args, Clone, Debug)]
pub(crate) struct CreateBackupArgs {
    /// A data folder; a server may have it open. It is only read.
    #[arg(value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// The folder of backups; made where it does not exist.
    #[arg(value_name = "DEST")]
    pub(crate) dest: PathBuf,
    /// Copy every new file, also where a hard link would do: links do not outlive the disk.
    #[arg(long)]
    pub(crate) copy: bool,
    /// Form of the output; `none` prints a line for people alone.
    #[arg(short, long, value_enum, default_value_t = Output::None)]
    pub(crate) output: Output,
}

/// Whose backups to list.
#[derive(Args, Clone, Debug)]
pub(crate) struct ListBackupsArgs {
    /// The folder of backups.
    #[arg(value_name = "DEST")]
    pub(crate) dest: PathBuf,
    /// Form of the output.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
}

/// Whose backups to prove.
#[derive(Args, Clone, Debug)]
pub(crate) struct VerifyBackupsArgs {
    /// The folder of backups.
    #[arg(value_name = "DEST")]
    pub(crate) dest: PathBuf,
}

/// Which backups to keep.
#[derive(Args, Clone, Debug)]
pub(crate) struct PruneBackupsArgs {
    /// The folder of backups.
    #[arg(value_name = "DEST")]
    pub(crate) dest: PathBuf,
    /// How many to keep, the newest ones.
    #[arg(long, value_name = "N")]
    pub(crate) keep: NonZeroUsize,
}

/// What to restore, and where to.
#[derive(Args, Clone, Debug)]
#[command(before_help = "Examples:\n  \
    tabulith restore /mnt/backups tabulith-data\n  \
    tabulith restore /mnt/backups yesterday --at 2026-11-21T23:59:59Z\n  \
    tabulith restore /mnt/backups drill --backup 12 --copy && tabulith check drill")]
pub(crate) struct RestoreArgs {
    /// The folder of backups.
    #[arg(value_name = "DEST")]
    pub(crate) dest: PathBuf,
    /// The data folder to make: empty or absent.
    #[arg(value_name = "NEWDIR")]
    pub(crate) new_dir: PathBuf,
    /// The moment to go back to, such as 2026-11-22T14:05:00Z, to the tick of 100 ns: all that was
    /// committed by then and nothing later. `backup list` shows which moments there are. Where
    /// several databases have backups of it, or the one that is taken is damaged, say which with
    /// --backup.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// The backup to restore; the newest if nothing is said.
    #[arg(long, value_name = "N")]
    pub(crate) backup: Option<u64>,
    /// Copy every file, also where a hard link would do.
    #[arg(long)]
    pub(crate) copy: bool,
}
