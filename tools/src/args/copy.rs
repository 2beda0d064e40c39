//! What is copied, and where to: `copy`.

use clap::Args;
use std::path::PathBuf;

/// From where to where.
#[derive(Args, Clone, Debug)]
#[command(before_help = COPY_EXAMPLES, after_help = COPY_HELP)]
pub(crate) struct CopyArgs {
    /// Where the tables are read.
    #[arg(value_name = "FROM")]
    pub(crate) from: String,
    /// Where they are written.
    #[arg(value_name = "TO")]
    pub(crate) to: String,
    /// Only this table. May be repeated.
    #[arg(short, long, value_name = "NAME")]
    pub(crate) table: Vec<String>,
    /// Most rows a second.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: Option<u32>,
    /// Copy all rows, also those that a copy before has written already.
    #[arg(long)]
    pub(crate) restart: bool,
    /// Write nothing: only compare what is there.
    #[arg(long)]
    pub(crate) verify_only: bool,
    /// Do not read both sides again in the end.
    #[arg(long, conflicts_with = "verify_only")]
    pub(crate) no_verify: bool,
    /// How long to wait for a server that went away.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) patience: u64,
    /// Certificates to trust beside the machine's authorities, in PEM.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

const COPY_EXAMPLES: &str = "Examples:
  tabulith copy profile:azure dir:tabulith-data
  tabulith copy azurite:azurite/__azurite_db_table__.json dev
  tabulith copy dev jsonl:backup -t orders -t customers
  tabulith copy dir:tabulith-data profile:azure --rate 500 --verify-only";

const COPY_HELP: &str = "Places:
  dev             the development account on 127.0.0.1:10002
  profile:NAME    a section of profiles.toml
  dir:PATH        a data folder that no server has open; to read, one may. dir:PATH#ACCOUNT names
                  another account than that of development
  jsonl:DIR       a folder with a file NAME.jsonl, or NAME.jsonl.gz, for each table, as `export`
                  prints and `import` reads them
  azurite:FILE    Azurite's database, __azurite_db_table__.json, to read; azurite:FILE#ACCOUNT
  anything else   a connection string, or an address with a shared access signature

Rows are inserted or replaced with their types; a file of JSON lines is replaced as a whole.
Timestamps, policies and settings, how long rows of a table live among them, are not copied. When
a row expires goes from one data folder to another only; rows that expire while both sides are
read count as differences. In the end both sides are read and the rows of each partition compared
by a digest, so that what says that it has copied has seen it. A copy that was interrupted goes on
behind the last page that was written, and one whose comparison failed compares again, or with
--no-verify copies again; how far it came is kept in $XDG_STATE_HOME/tabulith/copies, else in
~/.local/state.";
