//! Which server to ask whether it is ready.

use clap::Args;

/// Which server to ask.
#[derive(Args, Clone, Debug)]
#[command(before_help = "Examples:\n  tabulith health\n  \
    tabulith health http://127.0.0.1:10003/_/live --timeout 2")]
pub(crate) struct HealthArgs {
    /// Its address, with the path of what is asked: /_/ready if it has none.
    #[arg(
        value_name = "URL",
        default_value = "http://127.0.0.1:10002",
        env = "TABULITH_HEALTH_URL"
    )]
    pub(crate) url: String,
    /// How long to wait for it.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) timeout: u64,
}
