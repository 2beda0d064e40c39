//! What is measured, how, and what is made of the results: `bench`.

use crate::args::output::Output;
use crate::args::target::TargetArgs;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// What to do.
#[derive(Args, Clone, Debug)]
#[command(arg_required_else_help = true)]
pub(crate) struct BenchArgs {
    /// What.
    #[command(subcommand)]
    pub(crate) what: BenchCommand,
}

/// The commands of `bench`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure workloads in a folder or through a server.
    #[command(before_help = RUN_EXAMPLES, after_help = RUN_HELP)]
    Run(Box<RunArgs>),
    /// Load one partition, drive it at a rising rate, and say how much it takes.
    #[command(before_help = PARTITION_EXAMPLES, after_help = PARTITION_HELP)]
    Partition(Box<PartitionArgs>),
    /// Say which partitions keys make hot, and what other keys would do.
    #[command(before_help = KEYS_EXAMPLES, after_help = KEYS_HELP)]
    Keys(KeysArgs),
    /// Make the report of results: one page of HTML, and Markdown.
    #[command(before_help = "Examples:\n  tabulith bench report results/result.jsonl\n  \
        tabulith bench report ours.jsonl azurite.jsonl --out both.html\n  \
        tabulith bench report peers.jsonl --markdown > peers.md")]
    Report(ReportArgs),
    /// Compare two results; the exit code says whether the second one is worse.
    #[command(before_help = "Examples:\n  tabulith bench compare before/result.jsonl after/result.jsonl\n  \
        tabulith bench compare main.jsonl change.jsonl --tolerance 3", after_help = COMPARE_HELP)]
    Compare(CompareArgs),
}

/// What a commit promises when it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Promise {
    /// It survives the loss of power.
    Synced,
    /// It survives the process: the operating system has it.
    Flushed,
    /// It is lost with the process for some milliseconds.
    Buffered,
}

impl Promise {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Promise::Synced => "synced",
            Promise::Flushed => "flushed",
            Promise::Buffered => "buffered",
        }
    }
}

/// How rows are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Choice {
    /// Each as likely as any other.
    Uniform,
    /// A few rows get most of it, spread over all partitions.
    Zipfian,
    /// The newest rows get most of it.
    Latest,
}

impl Choice {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Choice::Uniform => "uniform",
            Choice::Zipfian => "zipfian",
            Choice::Latest => "latest",
        }
    }
}

/// Largest value; an entity holds a mebibyte.
pub(crate) const VALUE_BYTES_MAX: u32 = 900_000;

/// What every measurement is told.
#[derive(Args, Clone, Debug)]
pub(crate) struct LoadArgs {
    /// What a commit promises when it is acknowledged. Of a folder it is so; of a server it is what
    /// you state, for nobody can see it from outside. There is no default: figures without it say
    /// nothing.
    #[arg(long, value_enum)]
    pub(crate) durability: Promise,
    /// Threads that call at once.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pub(crate) threads: u16,
    /// Bytes of a value, half of them compressible.
    #[arg(long, value_name = "BYTES", default_value_t = 400)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(VALUE_BYTES_MAX)))]
    pub(crate) value_size: u32,
    /// Where random choices start from.
    #[arg(long, value_name = "N", default_value_t = 1, env = "TABULITH_SEED")]
    pub(crate) seed: u64,
    /// A folder to make for result.jsonl, the HDR logs, report.md and report.html.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What the report calls what is measured, such as `azurite 3.37`.
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// Measure the syncs of the disk below this folder, where a server on this machine has its
    /// data.
    #[arg(long, value_name = "DIR", conflicts_with = "data_dir")]
    pub(crate) floor_dir: Option<PathBuf>,
    /// The table; it must not exist, and is deleted in the end where a server has it.
    #[arg(long, value_name = "NAME", default_value = "tabulithbench")]
    pub(crate) table: String,
    /// Memory that an embedded database may take, in MiB.
    #[arg(long, value_name = "MIB")]
    #[arg(value_parser = clap::value_parser!(u32).range(32..=1_048_576))]
    pub(crate) memory: Option<u32>,
    /// Where it is measured.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Which workloads to run.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunArgs {
    /// The workloads, one after the other.
    #[arg(value_name = "WORKLOAD", required = true)]
    pub(crate) workloads: Vec<String>,
    /// Rows.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub(crate) rows: u64,
    /// Rows of a partition.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) partition_rows: u64,
    /// Operations of each workload.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) ops: Option<u64>,
    /// Seconds of each workload. Without --ops: 10; what inserts or deletes each row once ends with
    /// the rows.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=604_800))]
    pub(crate) duration: Option<u32>,
    /// Seconds before, which do not count; not where each row comes once.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) warmup: u32,
    /// Operations a second that are due, whether earlier ones have ended or not. Latencies count
    /// from the moment at which each was due. Without it threads go as fast as they can.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: Option<u32>,
    /// Which rows are read and replaced, where a workload leaves that open.
    #[arg(long, value_enum, value_name = "CHOICE")]
    pub(crate) keys: Option<Choice>,
    /// Rows of a transaction.
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) batch: u16,
    /// Rows of a scan of `seekrandom`.
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) scan_rows: u32,
    /// How often the whole list is run: the spread over runs is what `compare` needs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) runs: u32,
    /// What is the same for all measurements.
    #[command(flatten)]
    pub(crate) load: LoadArgs,
}

/// How to drive one partition.
#[derive(Args, Clone, Debug)]
pub(crate) struct PartitionArgs {
    /// The PartitionKey.
    #[arg(long, value_name = "TEXT", default_value = "one")]
    pub(crate) partition_key: String,
    /// The RowKeys that you mean to use, as a pattern: see `bench keys`.
    #[arg(long, value_name = "PATTERN", default_value = "{seq}")]
    pub(crate) row_key: String,
    /// Rows that are there before.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) rows: u64,
    /// Percent of operations that are PUTs; the others are GETs.
    #[arg(long, value_name = "PERCENT", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) puts: u8,
    /// Operations a second of the first step.
    #[arg(long, value_name = "N", default_value_t = 250)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) from: u32,
    /// Operations a second that are enough.
    #[arg(long, value_name = "N", default_value_t = 64_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) to: u32,
    /// Seconds of a step.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub(crate) step: u32,
    /// What is the same for all measurements.
    #[command(flatten)]
    pub(crate) load: LoadArgs,
}

/// Which keys to look at.
#[derive(Args, Clone, Debug)]
pub(crate) struct KeysArgs {
    /// The PartitionKeys, as a pattern.
    #[arg(long, value_name = "PATTERN", required_unless_present = "file", conflicts_with = "file")]
    pub(crate) partition_key: Option<String>,
    /// The RowKeys, as a pattern.
    #[arg(long, value_name = "PATTERN", default_value = "{uuid}", conflicts_with = "file")]
    pub(crate) row_key: String,
    /// Keys as they were written, a line each: PartitionKey, a tab, RowKey. `-` is the standard
    /// input.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Writes to look at; of a file, the first so many.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=20_000_000))]
    pub(crate) writes: u64,
    /// Writes a second that are expected.
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: u32,
    /// Buckets of the candidate that puts a hash before the PartitionKey.
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pub(crate) buckets: u32,
    /// Where random choices start from.
    #[arg(long, value_name = "N", default_value_t = 1, env = "TABULITH_SEED")]
    pub(crate) seed: u64,
    /// Form of the output.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
}

/// What to make a report of.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReportArgs {
    /// Files as `bench run --out` writes them, or as `peers --json` does.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The page to write; report.html beside the first file without it.
    #[arg(long, value_name = "FILE", conflicts_with = "markdown")]
    pub(crate) out: Option<PathBuf>,
    /// Print Markdown instead.
    #[arg(long)]
    pub(crate) markdown: bool,
}

/// What to compare.
#[derive(Args, Clone, Debug)]
pub(crate) struct CompareArgs {
    /// The result that counts as given.
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,
    /// The result that may be worse.
    #[arg(value_name = "B")]
    pub(crate) b: PathBuf,
    /// Percent that count as nothing, whatever the spread says.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub(crate) tolerance: f64,
    /// Form of the output.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
}

const RUN_EXAMPLES: &str = "Examples:
  tabulith bench run fillrandom readrandom --data-dir bench-data --durability synced \\
    --rows 10000 --duration 2
  tabulith bench run ycsba --durability synced --threads 8 --rate 500 --duration 5 --rows 10000 \\
    --out results
  tabulith bench run fillseq overwrite readrandom --data-dir /mnt/disk/bench --durability synced \\
    --rows 1000000 --value-size 1000 --runs 5 --out before";

/// What stands below the flags of `bench run`.
pub(crate) const RUN_HELP: &str = "Workloads:
  fillseq           insert every row, in the order of keys
  fillrandom        insert every row, in no order
  fillsync          as fillrandom, each commit synced whatever --durability says
  overwrite         replace rows
  readrandom        read rows
  readmissing       ask for rows that are not there
  seekrandom        read --scan-rows rows from a key on
  readwhilewriting  read rows while one thread more replaces some
  deleterandom      delete every row, in no order
  ycsba             YCSB A: half reads, half updates
  ycsbb             YCSB B: 95 % reads, 5 % updates
  ycsbc             YCSB C: reads
  ycsbd             YCSB D: 95 % reads of the latest rows, 5 % inserts
  ycsbe             YCSB E: 95 % scans of up to 100 rows, 5 % inserts
  ycsbf             YCSB F: half reads, half reads with a write of the same row
  transactions      replace --batch rows of one partition in one transaction
  scanpartition     read all rows of a partition

A folder must be empty or absent; what is made in it stays. At a server a table is made, and
deleted again. Rows that a workload needs are loaded before it and do not count. docs/bench.md
says how to read the figures, and how not to.";

const PARTITION_EXAMPLES: &str = "Examples:
  tabulith bench partition --durability synced --threads 16
  tabulith bench partition --durability synced --row-key '{date}-{uuid}' --puts 90 \\
    --from 500 --to 1000 --step 2 --out stress
  tabulith bench partition --data-dir bench-data --durability synced --from 1000 --to 500000";

const PARTITION_HELP: &str =
    "Azure serves up to 2,000 entities a second of one partition. The rate \
rises by half until latencies,
failures or the backlog say that the partition takes no more, and is then narrowed down. Every
latency counts from the moment at which its operation was due.";

const KEYS_EXAMPLES: &str = "Examples:
  tabulith bench keys --partition-key '{date}' --rate 5000
  tabulith bench keys --partition-key 'tenant{zipf:1000}' --row-key '{time}' --buckets 32
  tabulith bench keys --file written-keys.tsv -o json";

const KEYS_HELP: &str = "Patterns are text with parts in braces:
  {seq}      0000000000, 0000000001, ...      {date}     2026-01-31, as time goes on by --rate
  {time}     2026-01-31T10:20:30.123          {back}     a number that falls with time
  {uuid}     a random UUID                    {int:N}    a number below N, each as likely
  {zipf:N}   a number below N, few of them most of the time

Shown for the keys as they are and for candidates: the share of writes that the hottest partition
has in all, and at any one time (of 1,000 writes in a row); how many writes a second fit before the
hottest partition is at 2,000; whether keys only grow or only fall; and in how many places a range
of the keys as they are has to be read.";

const COMPARE_HELP: &str = "\
Compared are the medians of all runs of the same workload under the same conditions: operations a
second and p99. B is worse where its median is beyond the spread of both sides and beyond the
tolerance. With one run on a side nothing is known of the spread; 10 % counts as nothing then.

Exit codes: 0 nothing is worse, 1 something is, 2 nothing can be compared.";
