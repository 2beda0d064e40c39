//! Whom `conformance` asks, and what.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Whom to ask, and what.
#[derive(Args, Clone, Debug)]
#[command(before_help = "Examples:\n  \
    tabulith conformance http://127.0.0.1:10002/devstoreaccount1\n  \
    tabulith conformance --list http://127.0.0.1:10002/devstoreaccount1 | wc -l")]
pub(crate) struct ConformanceArgs {
    /// Address of an account, such as http://127.0.0.1:10002/devstoreaccount1, or a connection
    /// string. Tables of fresh names are made and removed there.
    #[arg(value_name = "ENDPOINT")]
    pub(crate) endpoint: String,
    /// The account, where the address does not name it.
    #[arg(long, value_name = "NAME")]
    pub(crate) account: Option<String>,
    /// Its key. Other users of the machine can see it: the variable AZURE_STORAGE_KEY is better,
    /// which counts without it. For the development account it is the published one that counts
    /// without it.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Its second key, for the rows about it. Other users of the machine can see it.
    #[arg(long, value_name = "KEY")]
    pub(crate) second_key: Option<String>,
    /// Certificates to trust beside the machine's authorities, in PEM.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Only rows whose id begins so. May be repeated.
    #[arg(long, value_name = "ID")]
    pub(crate) only: Vec<String>,
    /// Only rows that are known so: R, T, D, C, S, A, I, K, DECISION.
    #[arg(long, value_name = "MARK,…", value_delimiter = ',')]
    pub(crate) provenance: Vec<String>,
    /// Ask also the rows that change the properties of the service; they are put back.
    #[arg(long)]
    pub(crate) allow_service_changes: bool,
    /// Rows asked at once.
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) jobs: u16,
    /// Print the rows (id, provenance, section, what it says, test) and ask nothing.
    #[arg(long)]
    pub(crate) list: bool,
    /// Form of the report.
    #[arg(short, long, value_enum, default_value_t = ReportForm::Text)]
    pub(crate) output: ReportForm,
}

/// A form of the report on an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportForm {
    /// Each failure with request, expected and got; then the score.
    Text,
    /// One JSON object with the score and every row.
    Json,
}
